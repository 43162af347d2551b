"""Times libraries made of bench/programs/attention_library.cu beside PyTorch's cuDNN attention.

attention_speed.py RESULT.json forward-d128-full-NAME.so ...

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


def load(path, tensors):
    function = ctypes.CDLL(path, mode=os.RTLD_NOW).attention
    function.argtypes = [ctypes.c_void_p] * tensors + [ctypes.c_int64] * 4
    function.restype = None
    return function


def relative_error(found, truth):
    return (torch.linalg.vector_norm(found.float() - truth.float()) / torch.linalg.vector_norm(truth.float())).item()


def reference_head(q, k, v, causal):
    scores = q.float() @ k.float().T / math.sqrt(q.shape[-1])
    if causal:
        scores.masked_fill_(torch.ones(S, S, dtype=torch.bool, device="cuda").triu(1), -math.inf)
    return torch.softmax(scores, -1) @ v.float(), torch.logsumexp(scores, -1)


def forward(dim, causal, libraries):
    """Calls by name, how far they are from the truth, and names of what is wrong."""
    q, k, v = (torch.randn(B, H, S, dim, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def cudnn():
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    reference = cudnn()
    heads = [(0, 0), (B - 1, H - 1)]
    truth = [reference_head(q[i], k[i], v[i], causal) for i in heads]
    runs, errors, wrong = {"cuDNN": cudnn}, {}, []
    errors["cuDNN"] = max(relative_error(reference[i], t[0]) for i, t in zip(heads, truth))
    for name, path in libraries:
        function = load(path, 5)
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
            wrong.append(f"{name} (O {error:.2e}, LSE {lse_error:.2e})")
    return runs, errors, wrong


def backward(dim, causal, libraries):
    q, k, v, d_o = (torch.randn(B, H, S, dim, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    inputs = [t.detach().requires_grad_() for t in (q, k, v)]
    o = F.scaled_dot_product_attention(*inputs, is_causal=causal)

    def cudnn():
        return torch.autograd.grad(o, inputs, d_o, retain_graph=True)

    reference = cudnn()
    o_data = o.detach().contiguous()
    lse = torch.stack([reference_head(q[i, j], k[i, j], v[i, j], causal)[1] for i in range(B) for j in range(H)])
    heads = [(0, 0), (B - 1, H - 1)]
    truth = []
    for i in heads:
        leaves = [t[i].float().requires_grad_() for t in (q, k, v)]
        truth.append(torch.autograd.grad(reference_head(*leaves, causal)[0], leaves, d_o[i].float()))
    runs, errors, wrong = {"cuDNN": cudnn}, {}, []

    def error_of(found):
        return max(relative_error(found[n][i], t[n]) for i, t in zip(heads, truth) for n in range(3))

    errors["cuDNN"] = error_of(reference)
    outputs = [torch.empty_like(q) for _ in range(3)]
    for name, path in libraries:
        function = load(path, 9)

        def run(function=function):
            function(*(t.data_ptr() for t in (q, k, v, o_data, d_o, lse, *outputs)), B, H, S, dim)

        for output in outputs:
            output.fill_(math.nan)
        run()
        torch.cuda.synchronize()
        error = error_of(outputs)
        if error < 0.006 and all(relative_error(x, y) < 0.01 for x, y in zip(outputs, reference)):
            runs[name], errors[name] = run, error
        else:
            wrong.append(f"{name} ({error:.2e})")
    return runs, errors, wrong


def measure(direction, dim, causal, libraries):
    torch.manual_seed(dim + causal)
    runs, errors, wrong = (forward if direction == "forward" else backward)(dim, causal, libraries)
    # Big enough to keep the GPU busy until the launch that follows has been prepared.
    flush = torch.empty(256 << 20, dtype=torch.int32, device="cuda")
    flop = (4 if direction == "forward" else 10) * S * S * dim * B * H / (2 if causal else 1)
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
        rows.append({"direction": direction, "d": dim, "causal": causal, "name": name, "ms": ms,
                     "fastest_ms": min(times[name]), "tflops": flop / ms * 1e-9, "error": errors[name]})
    for row in rows:
        row["of_cudnn"] = rows[0]["ms"] / row["ms"]
    return rows, wrong


def main():
    groups, failed = {}, False
    for path in sys.argv[2:]:
        direction, dim, mask, name = os.path.basename(path).removesuffix(".so").split("-", 3)
        group = groups.setdefault((direction, int(dim[1:]), mask == "causal"), [])
        if os.path.exists(path):
            group.append((name, os.path.abspath(path)))
        else:
            failed = True
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"B={B} H={H} S={S}, median of {ROUNDS}")
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
              "cudnn": torch.backends.cudnn.version(), "b": B, "h": H, "s": S, "rounds": ROUNDS, "rows": []}
    for (direction, dim, causal), libraries in groups.items():
        mask = "causal" if causal else "full"
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            rows, wrong = measure(direction, dim, causal, libraries)
        print(f"\n{'':8} {'D':>4} {'mask':6} {'variant':28} {'ms':>8} {'TFLOP/s':>8} {'of cuDNN':>8} {'error':>8}")
        for row in sorted(rows, key=lambda r: r["ms"]):
            print(f"{direction:8} {dim:4} {mask:6} {row['name']:28} {row['ms']:8.4f} {row['tflops']:8.1f} "
                  f"{row['of_cudnn']:8.3f} {row['error']:8.1e}", flush=True)
        for text in wrong:
            failed = True
            print(f"{direction:8} {dim:4} {mask:6} WRONG: {text}", flush=True)
        result["rows"] += rows
        with open(sys.argv[1], "w", encoding="utf-8") as file:  # after each group: a time limit may come
            json.dump(result, file, indent=1)
        torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
