#!/usr/bin/env python3
"""The truth of every kind of problem three times on one machine with a GPU and PyTorch: the CPU's (ptxbench problems
tensors --truth), the GPU's (src/gpu/truth.cu) and PyTorch's in float64; and what the vendor's libraries make of the same
inputs, in the quantities of docs/problems.md.

  nvcc -std=c++20 -O3 -shared -Xcompiler -fPIC -gencode arch=compute_90,code=sm_90 -I src src/gpu/truth.cu -o libtruth.so
  compare_truth.py PTXBENCH libtruth.so OUT [--full]

Writes OUT/truth.csv (row errors: the largest relative error of a row; logarithms: the largest absolute error) and
OUT/libraries.csv (the quantities without the budget for gradients, and the verdict of `ptxbench problems compare`). --full
adds the primary problems at full size, whose truth is the GPU's alone. Exit code 1 if any two truths disagree or a
library's result is rejected.
"""
import csv
import ctypes
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch

TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn,
         "I32": torch.int32, "I64": torch.int64}
CODES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2, torch.float8_e4m3fn: 3}
ROW_LIMIT, LOG_LIMIT = 2e-4, 2e-4


class Head(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("queries", "keys", "depth", "q_row", "k_row", "v_row", "o_row")] + [
        ("scale", ctypes.c_double), ("causal", ctypes.c_int32), ("o_factor", ctypes.c_double)]


class Truth:
    """The GPU's truth."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)

    def call(self, name, *arguments):
        converted = []
        for argument in arguments:
            if argument is None:
                converted.append(ctypes.c_void_p(0))
            elif isinstance(argument, torch.Tensor):
                converted.append(ctypes.c_void_p(argument.data_ptr()))
            elif isinstance(argument, float):
                converted.append(ctypes.c_double(argument))
            elif isinstance(argument, int):
                converted.append(ctypes.c_int64(argument))
            else:
                converted.append(argument)
        code = getattr(self.library, "ptxbench_truth_" + name)(*converted, ctypes.c_void_p(0))
        assert code == 0, f"{name}: CUDA error {code}"
        torch.cuda.synchronize()

    def widen(self, tensor, factors=None, rows=1, columns=1):
        tensor = tensor.contiguous()
        out = torch.empty(tensor.shape, dtype=torch.float64, device="cuda")
        width = tensor.shape[-1]
        self.call("widen", out, tensor, ctypes.c_int32(CODES[tensor.dtype]), tensor.numel() // width, width, factors,
                  rows, columns)
        return out

    def product(self, a, b):
        c = torch.empty(a.shape[0], b.shape[0], dtype=torch.float32, device="cuda")
        self.call("product", c, b.shape[0], a, a.shape[1], 1, b, b.shape[1], 1, a.shape[0], b.shape[0], a.shape[1], 1.0)
        return c

    def attention(self, q, k, v, scale, causal, factor=1.0):
        """One head: q [queries, D], k and v [keys, D], any row stride."""
        head = Head(q.shape[0], k.shape[0], q.shape[1], q.stride(0), k.stride(0), v.stride(0), q.shape[1], scale,
                    int(causal), factor)
        o = torch.empty(q.shape, dtype=torch.float32, device="cuda")
        lse = torch.empty(q.shape[0], dtype=torch.float32, device="cuda")
        scratch = torch.empty(max(q.shape[0] * k.shape[0], 1), dtype=torch.float64, device="cuda")
        self.call("attention", ctypes.byref(head), q, k, v, o, lse, 1, scratch)
        return o, lse

    def backward(self, q, k, v, o, d_o, lse, scale, causal):
        size, depth = q.shape
        head = Head(size, size, depth, depth, depth, depth, depth, scale, int(causal), 1.0)
        results = [torch.empty(size, depth, dtype=torch.float32, device="cuda") for _ in range(3)]
        scratch = torch.empty(2 * size * size + size, dtype=torch.float64, device="cuda")
        self.call("attention_backward", ctypes.byref(head), q, k, v, o, d_o, lse, *results, scratch)
        return results


def read(path):
    """A safetensors file: tensors by name on the GPU, and the metadata."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        raw = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8)
        tensors[name] = raw.view(TYPES[entry["dtype"]]).reshape(entry["shape"]).cuda()
    return tensors, metadata


def write(path, tensors):
    """The same the other way."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().cpu().view(torch.uint8).numpy().tobytes()
        code = next(code for code, dtype in TYPES.items() if dtype == tensor.dtype)
        header[name] = {"dtype": code, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def heads_first(tensor):
    return tensor.reshape(-1, *tensor.shape[-2:])


def torch_attention(q, k, v, scale, causal):
    scores = q @ k.T * scale
    if causal:
        rows, keys = scores.shape
        hidden = torch.arange(keys, device="cuda")[None, :] > torch.arange(rows, device="cuda")[:, None] + keys - rows
        scores = scores.masked_fill(hidden, -math.inf)
    lse = torch.logsumexp(scores, dim=-1)
    p = torch.exp(scores - torch.where(torch.isinf(lse), torch.zeros_like(lse), lse)[:, None])
    return p @ v, lse, scores


def gemm(truth, t, _):
    if "SF_A" in t:
        # [rows, K / 128] factors; of B for each row or for 128 of them.
        rows = 1 if t["SF_B"].shape[0] == t["B"].shape[0] else 128
        a, b = truth.widen(t["A"], t["SF_A"], 1, 128), truth.widen(t["B"], t["SF_B"], rows, 128)
        sf_a = t["SF_A"].double().repeat_interleave(128, 1)
        sf_b = t["SF_B"].double().repeat_interleave(rows, 0)[:b.shape[0]].repeat_interleave(128, 1)
        return {"D": (truth.product(a, b), (t["A"].float().double() * sf_a) @ (t["B"].float().double() * sf_b).T)}
    return {"C": (truth.product(truth.widen(t["A"]), truth.widen(t["B"])), t["A"].double() @ t["B"].double().T)}


def forward(truth, t, name):
    causal = name.endswith("_causal")
    scale, factor = 1 / math.sqrt(t["Q"].shape[-1]), 1.0
    if "descale_q" in t:
        scale *= t["descale_q"].double().item() * t["descale_k"].double().item()
        factor = t["descale_v"].double().item() * t["descale_s"].double().item()
    q, k, v = (truth.widen(heads_first(t[part])) for part in "QKV")
    mine, theirs = [], []
    for i in range(q.shape[0]):
        mine.append(truth.attention(q[i], k[i], v[i], scale, causal, factor))
        o, lse, _ = torch_attention(q[i], k[i], v[i], scale, causal)
        theirs.append((o * factor, lse))
    stack = lambda pairs, part, shape: torch.stack([pair[part] for pair in pairs]).reshape(shape)
    return {"O": (stack(mine, 0, t["Q"].shape), stack(theirs, 0, t["Q"].shape)),
            "LSE": (stack(mine, 1, t["Q"].shape[:3]), stack(theirs, 1, t["Q"].shape[:3]))}


def backward(truth, t, name):
    causal = name.endswith("_causal")
    scale = 1 / math.sqrt(t["Q"].shape[-1])
    q, k, v, o, d_o = (truth.widen(heads_first(t[part])) for part in ("Q", "K", "V", "O", "dO"))
    lse = t["L"].double().reshape(q.shape[0], -1)
    mine, theirs = [], []
    for i in range(q.shape[0]):
        mine.append(truth.backward(q[i], k[i], v[i], o[i], d_o[i], lse[i].contiguous(), scale, causal))
        _, _, scores = torch_attention(q[i], k[i], v[i], scale, causal)
        p = torch.exp(scores - lse[i][:, None])
        d_s = p * (d_o[i] @ v[i].T - (d_o[i] * o[i]).sum(-1)[:, None]) * scale
        theirs.append((d_s @ k[i], d_s.T @ q[i], p.T @ d_o[i]))
    return {name: tuple(torch.stack([three[part] for three in both]).reshape(t["Q"].shape) for both in (mine, theirs))
            for part, name in enumerate(("dQ", "dK", "dV"))}


def gqa(truth, t, name):
    causal = "causal" in name
    cache = [truth.widen(t["k_cache" if "k_cache" in t else "k"]), truth.widen(t["v_cache" if "v_cache" in t else "v"])]
    page = t["k_cache"].shape[1] if "k_cache" in t else 1
    heads, depth = cache[0].shape[-2:]
    k, v = (tensor.reshape(-1, heads, depth) for tensor in cache)
    q = truth.widen(t["q"])
    kv = t["kv_indptr"].tolist()
    qo = t["qo_indptr"].tolist() if "qo_indptr" in t else list(range(len(kv)))
    scale = t["sm_scale"].double().item()
    o, lse = torch.zeros(q.shape, device="cuda"), torch.full(q.shape[:2], -math.inf, device="cuda")
    o_torch, lse_torch = torch.zeros_like(q), torch.full(q.shape[:2], -math.inf, dtype=torch.float64, device="cuda")
    for request in range(len(kv) - 1):
        tokens = torch.arange(kv[request], kv[request + 1], device="cuda")
        if "kv_indices" in t:
            pages = t["kv_indices"][kv[request]:kv[request + 1]].long()
            tokens = (pages[:, None] * page + torch.arange(page, device="cuda")).reshape(-1)
            if "kv_last_page_len" in t and len(pages) > 0:
                tokens = tokens[:(len(pages) - 1) * page + t["kv_last_page_len"][request].item()]
        rows = slice(qo[request], qo[request + 1])
        if len(tokens) == 0 or rows.start == rows.stop:
            continue
        index = tokens.int()
        gathered = [torch.empty(len(tokens), heads, depth, dtype=torch.float64, device="cuda") for _ in range(2)]
        for out, tensor in zip(gathered, (k, v)):
            truth.call("gather", out, tensor.contiguous(), index, len(tokens), heads * depth)
        for head in range(q.shape[1]):
            of = head // (q.shape[1] // heads)
            o[rows, head], lse[rows, head] = truth.attention(q[rows, head], gathered[0][:, of], gathered[1][:, of], scale,
                                                             causal)
            o_torch[rows, head], lse_torch[rows, head], _ = torch_attention(q[rows, head], k[tokens, of], v[tokens, of],
                                                                            scale, causal)
    return {"output": (o, o_torch.nan_to_num(0.0)), "lse": (lse / math.log(2), lse_torch / math.log(2))}


def kind_of(name):
    return gqa if name.startswith("gqa") else backward if "bwd" in name else forward if "mha" in name else gemm


def difference(a, b, is_log):
    """Largest absolute error of logarithms; else largest error of a row, relative to it or to a tenth of the tensor."""
    a, b = a.double(), b.double()
    if is_log:
        same = a == b  # infinities
        return torch.where(same, torch.zeros_like(a), (a - b).abs()).max().item()
    norms = torch.linalg.vector_norm(b, dim=-1)
    floor = 0.1 * (b.square().mean().sqrt() * math.sqrt(b.shape[-1]))
    return (torch.linalg.vector_norm(a - b, dim=-1) / torch.clamp(norms, min=floor)).max().item()


def quantities(y, t, roundoff):
    """What docs/problems.md limits, of a library's output."""
    t = t.double().reshape(-1, t.shape[-1])
    y = y.double().reshape(t.shape)
    error2, truth2 = (y - t).square().sum(-1), t.square().sum(-1)
    rms2 = t.square().mean()
    floor = 0.01 * rms2 * t.shape[1]
    blocks = lambda rows: torch.nn.functional.pad(rows, (0, -len(rows) % 64)).reshape(-1, 64)
    block = (blocks(error2).sum(-1) / blocks(torch.maximum(truth2, floor)).sum(-1)).max().sqrt()
    row = (error2 / torch.maximum(truth2, floor)).max().sqrt()
    row_rms = torch.sqrt(torch.maximum(truth2 / t.shape[1], 0.01 * rms2))
    element = (((y - t).abs() - roundoff * t.abs()).clamp(min=0) / row_rms[:, None]).max()
    gain = (y * t).sum() / t.square().sum() - 1
    return [(error2.sum() / truth2.sum()).sqrt().item(), block.item(), row.item(), element.item(), abs(gain.item())]


def libraries(name, t):
    """The vendor's results for the same inputs, by output."""
    sdpa = torch.nn.functional.scaled_dot_product_attention
    if name.startswith("gemm"):
        return {"C": t["A"] @ t["B"].T}
    if name.startswith("mha_with_lse"):
        return {"O": sdpa(t["Q"], t["K"], t["V"], is_causal=name.endswith("_causal"))}
    if name.startswith("mha_bwd"):
        # The operator itself, as the O and L of the problem are to be used, not those of a forward pass of its own.
        aten, causal = torch.ops.aten, name.endswith("_causal")
        q, k, v = (t[part] for part in "QKV")
        _, _, *rest = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False)
        sequences, random = rest[:4], rest[4:6]
        grads = aten._scaled_dot_product_flash_attention_backward(t["dO"], q, k, v, t["O"], t["L"], *sequences, 0.0,
                                                                  causal, *random)
        return dict(zip(("dQ", "dK", "dV"), grads))
    if name.startswith("fp8_gemm") and t["SF_B"].shape[0] != t["B"].shape[0]:
        try:  # block-wise scaling is young in PyTorch, and its layout rules change
            return {"D": torch._scaled_mm(t["A"], t["B"].T, scale_a=t["SF_A"].T.contiguous().T, scale_b=t["SF_B"].T,
                                          out_dtype=torch.bfloat16)}
        except (RuntimeError, ValueError) as error:
            print(f"{name}: PyTorch {torch.__version__} has no block-wise fp8 product here: {str(error)[:200]}",
                  file=sys.stderr)
    return {}


def cases():
    for name in ("gemm_n256_k7168", "gemm_n4096_k4096"):
        yield name, ["M=200"]
    for depth in (64, 96, 128, 256):
        for mask in ("", "_causal"):
            yield f"mha_with_lse_d{depth}{mask}", ["B=2", "H=2", "S=333"]
            if depth != 256:
                yield f"mha_bwd_d{depth}{mask}", ["B=2", "H=2", "S=333"]
            yield f"mha_fp8_with_lse_d{depth}{mask}", ["B=2", "H=2", "S=333"]
    yield "fp8_gemm_nt_1d2d_n4096_k7168", ["M=200"]
    yield "fp8_gemm_nt_1d1d_n4096_k7168", ["M=200"]


def main():
    program, library, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    full = "--full" in sys.argv[4:]
    out.mkdir(parents=True, exist_ok=True)
    truth = Truth(str(pathlib.Path(library).resolve()))
    listed = {problem["name"] for problem in
              json.loads(subprocess.run([program, "problems", "--json"], check=True, capture_output=True).stdout)["problems"]}
    disagree, rejected = 0, 0
    rows, library_rows = [], []

    def compare_libraries(name, axes, distribution, t, results, judge=None):
        nonlocal rejected
        made = libraries(name, t)
        verdicts = {}
        if judge and made:
            # What a library does not return is taken from the truth.
            verdicts = judge(name, {output: made.get(output, truth) for output, truth in results.items()})
        for output, values in made.items():
            verdict = verdicts.get(output, "not judged")
            rejected += verdict == "failed"
            library_rows.append([name, axes, distribution, output] + [f"{value:.3g}" for value in
                                                                      quantities(values, results[output], 2.0**-8)] +
                                [verdict])

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "x.safetensors"

        def one(name, arguments, distribution):
            nonlocal disagree
            subprocess.run([program, "problems", "tensors", name, str(file), "--truth", "--seed", "3", "--distribution",
                            distribution, *arguments], check=True, capture_output=True)
            t, metadata = read(file)
            results = kind_of(name)(truth, t, name)
            for output, (gpu, reference) in results.items():
                is_log = output.lower() == "lse"
                with_cpu, with_torch = difference(gpu, t[output], is_log), difference(gpu, reference, is_log)
                limit = LOG_LIMIT if is_log else ROW_LIMIT
                # Written so that NaN disagrees.
                agree = with_cpu <= limit and with_torch <= limit
                disagree += not agree
                rows.append([name, metadata["axes"], distribution, output, f"{with_cpu:.3g}", f"{with_torch:.3g}",
                             "agree" if agree else "DISAGREE"])
            def judge(name, outputs):
                write(file, outputs)
                answer = subprocess.run([program, "problems", "compare", name, str(file), "--json", "--seed", "3",
                                         "--distribution", distribution, *arguments], capture_output=True, text=True)
                return {output["name"]: output["verdict"] for output in json.loads(answer.stdout)["outputs"]}

            compare_libraries(name, metadata["axes"], distribution, t,
                              {output: pair[0] for output, pair in results.items()}, judge)

        for name, axes in cases():
            if name not in listed:
                print(f"{name}: not among the problems of this program", file=sys.stderr)
                continue
            for distribution in ("normal", "scaled", "spiky", "ties"):
                one(name, [word for axis in axes for word in ("--axis", axis)], distribution)
        for name in sorted(problem for problem in listed if problem.startswith("gqa")):
            shown = json.loads(subprocess.run([program, "problems", "show", name, "--json"], check=True,
                                              capture_output=True).stdout)
            for check in shown["checks"]:
                one(name, ["--workload", check["uuid"]], "normal")

    if full:
        def normal(*shape):
            return torch.randn(*shape, device="cuda", dtype=torch.float32).bfloat16()

        torch.manual_seed(1)
        t = {"A": normal(8192, 5120), "B": normal(7168, 5120)}
        compare_libraries("gemm_n7168_k5120", "M=8192", "normal", t,
                          {"C": truth.product(truth.widen(t["A"]), truth.widen(t["B"]))})
        for mask in ("", "_causal"):
            causal = mask != ""
            # One batch of the four: heads are independent.
            t = {part: normal(1, 48, 4096, 128) for part in ("Q", "K", "V", "dO")}
            q, k, v, d_o = (truth.widen(heads_first(t[part])) for part in ("Q", "K", "V", "dO"))
            scale = 1 / math.sqrt(128)
            made = [truth.attention(q[i], k[i], v[i], scale, causal) for i in range(48)]
            o = torch.stack([pair[0] for pair in made])
            compare_libraries("mha_with_lse_d128" + mask, "B=1 H=48 S=4096", "normal", t, {"O": o})
            t["O"] = o.bfloat16().reshape(1, 48, 4096, 128)
            t["L"] = torch.stack([pair[1] for pair in made]).reshape(1, 48, 4096)
            wide = truth.widen(heads_first(t["O"]))
            grads = [truth.backward(q[i], k[i], v[i], wide[i], d_o[i], made[i][1].double(), scale, causal)
                     for i in range(48)]
            compare_libraries("mha_bwd_d128" + mask, "B=1 H=48 S=4096", "normal", t,
                              {name: torch.stack([three[part] for three in grads])
                               for part, name in enumerate(("dQ", "dK", "dV"))})

    for path, header, lines in (
            (out / "truth.csv", ["problem", "axes", "distribution", "output", "cpu_against_gpu", "pytorch_against_gpu",
                                 "verdict"], rows),
            (out / "libraries.csv", ["problem", "axes", "distribution", "output", "tensor_l2", "block_l2", "row_l2",
                                     "element", "gain", "verdict"], library_rows)):
        with open(path, "w", newline="") as stream:
            csv.writer(stream).writerows([header] + lines)
    print(f"{len(rows)} outputs compared three ways, {disagree} disagree; {len(library_rows)} of libraries, "
          f"{rejected} of them rejected by the rule")
    return 1 if disagree or rejected or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
