"""Times libraries made of bench/programs/attention_library.cu beside PyTorch's cuDNN attention.

attention_speed.py RESULT.json d128-full-NAME.so ...

B=4 H=48 S=4096. Every round launches the baseline and all variants of one problem once each, in an order that rotates,
with L2 overwritten before each launch; a time is the median of 50 rounds after 10. Each variant is first compared with
sums in fp32 (two heads) and with cuDNN (everything).
"""
import ctypes
import json
import math
import os
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

B, H, S = 4, 48, 4096
WARM_UP, ROUNDS = 10, 50


def load(path):
    function = ctypes.CDLL(path, mode=os.RTLD_NOW).attention
    function.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int64] * 4
    function.restype = None
    return function


def relative_error(found, truth):
    return (torch.linalg.vector_norm(found.float() - truth.float()) / torch.linalg.vector_norm(truth.float())).item()


def reference_head(q, k, v, causal):
    scores = q.float() @ k.float().T / math.sqrt(q.shape[-1])
    if causal:
        scores.masked_fill_(torch.ones(S, S, dtype=torch.bool, device="cuda").triu(1), -math.inf)
    return torch.softmax(scores, -1) @ v.float(), torch.logsumexp(scores, -1)


def measure(dim, causal, libraries):
    torch.manual_seed(dim + causal)
    q, k, v = (torch.randn(B, H, S, dim, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    # Big enough to keep the GPU busy until the launch that follows has been prepared.
    flush = torch.empty(256 << 20, dtype=torch.int32, device="cuda")
    flop = 4 * S * S * dim * B * H / (2 if causal else 1)

    def cudnn():
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    reference = cudnn()
    heads = [(0, 0), (B - 1, H - 1)]
    truth = [reference_head(q[i], k[i], v[i], causal) for i in heads]
    runs, errors = {"cuDNN": cudnn}, {"cuDNN": max(relative_error(reference[i], t[0]) for i, t in zip(heads, truth))}
    wrong = []
    for name, path in libraries:
        function = load(path)
        o = torch.full_like(q, math.nan)
        lse = torch.full((B, H, S), math.nan, device="cuda")

        def run(function=function, o=o, lse=lse):
            function(*(t.data_ptr() for t in (q, k, v, o, lse)), B, H, S, dim)

        for _ in range(2):  # the second finds what the first leaves behind
            o.fill_(math.nan)
            lse.fill_(math.nan)
            run()
            torch.cuda.synchronize()
        error = max(relative_error(o[i], t[0]) for i, t in zip(heads, truth))
        lse_error = max((lse[i] - t[1]).abs().max().item() for i, t in zip(heads, truth))
        if error < 0.004 and lse_error < 1e-3 and relative_error(o, reference) < 0.006 and not lse.isnan().any():
            runs[name], errors[name] = run, error
        else:
            wrong.append(name)
            print(f"d{dim} {'causal' if causal else 'full'} {name}: WRONG (O {error:.2e}, LSE {lse_error:.2e})")

    names, times = list(runs), {name: [] for name in runs}
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for round_number in range(-WARM_UP, ROUNDS):
        shift = (round_number + WARM_UP) % len(names)
        for name in names[shift:] + names[:shift]:
            flush.zero_()
            begin.record()
            runs[name]()
            end.record()
            end.synchronize()
            if round_number >= 0:
                times[name].append(begin.elapsed_time(end))
    rows = []
    for name in names:
        ms = statistics.median(times[name])
        rows.append({"d": dim, "causal": causal, "name": name, "ms": ms, "fastest_ms": min(times[name]),
                     "tflops": flop / ms * 1e-9, "error": errors[name]})
    for row in rows:
        row["of_cudnn"] = rows[0]["ms"] / row["ms"]
    return rows, wrong


def main():
    groups, failed = {}, False
    for path in sys.argv[2:]:
        dim, mask, name = os.path.basename(path).removesuffix(".so").split("-", 2)
        groups.setdefault((int(dim[1:]), mask == "causal"), [])
        if os.path.exists(path):
            groups[int(dim[1:]), mask == "causal"].append((name, os.path.abspath(path)))
        else:
            failed = True
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"B={B} H={H} S={S}, median of {ROUNDS}")
    all_rows = []
    for (dim, causal), libraries in groups.items():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            rows, wrong = measure(dim, causal, libraries)
        failed = failed or bool(wrong)
        all_rows += rows
        print(f"\n{'D':>4} {'mask':6} {'variant':28} {'ms':>8} {'TFLOP/s':>8} {'of cuDNN':>8} {'O error':>8}")
        for row in sorted(rows, key=lambda r: r["ms"]):
            print(f"{dim:4} {'causal' if causal else 'full':6} {row['name']:28} {row['ms']:8.4f} {row['tflops']:8.1f} "
                  f"{row['of_cudnn']:8.3f} {row['error']:8.1e}", flush=True)
        torch.cuda.empty_cache()
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                   "cudnn": torch.backends.cudnn.version(), "b": B, "h": H, "s": S, "rounds": ROUNDS,
                   "rows": all_rows}, file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
