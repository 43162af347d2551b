#!/usr/bin/env python3
"""The truth of every kind of problem three times on one machine with a GPU and PyTorch: the CPU's (ptxbench problems
tensors --truth), the GPU's (src/gpu/truth.cu; not of the gated delta rule) and PyTorch's in float64; and, judged by the
rule, what the vendor's libraries make of the same inputs and what careful kernels do where no library has the
operation (careful_kernels.py).

  nvcc -std=c++20 -O3 -shared -Xcompiler -fPIC -gencode arch=compute_90,code=sm_90 -I src src/gpu/truth.cu -o libtruth.so
  compare_truth.py PTXBENCH libtruth.so OUT [--full] [--only BEGINNING[,BEGINNING...]]

To calibrate the limits of latent attention, the gated delta rule and the FP8 problems, in one call, with the margins at the
end of what it prints:

  compare_truth.py PTXBENCH libtruth.so OUT --only mla,gdn,mha_fp8,fp8

With - for the library it needs no GPU: PyTorch computes on the CPU, and neither the GPU's truth nor libraries take part.

Writes OUT/truth.csv (row errors: the largest relative error of a row; logarithms: the largest absolute error),
OUT/libraries.csv (the quantities without the budget for gradients, and the verdict of `ptxbench problems compare`) and
OUT/careful.csv (the rule's own quantities and limits). --full adds the primary problems at full size, whose truth is the
GPU's alone; --only leaves out problems whose names begin otherwise. Exit code 1 if any two truths disagree or a
library's or a careful kernel's result is rejected.
"""
import argparse
import csv
import ctypes
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch

import careful_kernels

TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I32": torch.int32, "I64": torch.int64}
CODES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
if hasattr(torch, "float8_e4m3fn"):
    TYPES["F8_E4M3"] = torch.float8_e4m3fn
    CODES[torch.float8_e4m3fn] = 3
ROW_LIMIT, LOG_LIMIT = 2e-4, 2e-4
DISTRIBUTIONS = ("normal", "scaled", "spiky", "ties", "flat", "tiny")
DEVICE = "cuda"


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
        out = torch.empty(tensor.shape, dtype=torch.float64, device=DEVICE)
        width = tensor.shape[-1]
        self.call("widen", out, tensor, ctypes.c_int32(CODES[tensor.dtype]), tensor.numel() // width, width, factors,
                  rows, columns)
        return out

    def product(self, a, b):
        c = torch.empty(a.shape[0], b.shape[0], dtype=torch.float32, device=DEVICE)
        self.call("product", c, b.shape[0], a, a.shape[1], 1, b, b.shape[1], 1, a.shape[0], b.shape[0], a.shape[1], 1.0)
        return c

    def attention(self, q, k, v, scale, causal, factor=1.0):
        """One head: q [queries, D], k and v [keys, D], any row stride."""
        head = Head(q.shape[0], k.shape[0], q.shape[1], q.stride(0), k.stride(0), v.stride(0), q.shape[1], scale,
                    int(causal), factor)
        o = torch.empty(q.shape, dtype=torch.float32, device=DEVICE)
        lse = torch.empty(q.shape[0], dtype=torch.float32, device=DEVICE)
        scratch = torch.empty(max(q.shape[0] * k.shape[0], 1), dtype=torch.float64, device=DEVICE)
        self.call("attention", ctypes.byref(head), q, k, v, o, lse, 1, scratch)
        return o, lse

    def backward(self, q, k, v, o, d_o, lse, scale, causal):
        size, depth = q.shape
        head = Head(size, size, depth, depth, depth, depth, depth, scale, int(causal), 1.0)
        results = [torch.empty(size, depth, dtype=torch.float32, device=DEVICE) for _ in range(3)]
        scratch = torch.empty(2 * size * size + size, dtype=torch.float64, device=DEVICE)
        self.call("attention_backward", ctypes.byref(head), q, k, v, o, d_o, lse, *results, scratch)
        return results


class NoTruth:
    """Stands in for it where there is no GPU."""

    def widen(self, tensor, factors=None, rows=1, columns=1):
        wide = tensor.float().double()
        if factors is not None:
            factors = factors.double().repeat_interleave(rows, 0)[:tensor.shape[0]]
            wide = wide * factors.repeat_interleave(columns, 1)[:, :tensor.shape[1]]
        return wide

    def product(self, a, b):
        return None

    def attention(self, q, k, v, scale, causal, factor=1.0):
        return None, None

    def backward(self, *arguments):
        return None, None, None


def read(path):
    """A safetensors file: tensors by name on the GPU, and the metadata."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        if begin == end:
            tensors[name] = torch.empty(entry["shape"], dtype=TYPES[entry["dtype"]], device=DEVICE)
            continue
        raw = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8)
        tensors[name] = raw.view(TYPES[entry["dtype"]]).reshape(entry["shape"]).to(DEVICE)
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
        hidden = torch.arange(keys, device=DEVICE)[None, :] > torch.arange(rows, device=DEVICE)[:, None] + keys - rows
        scores = scores.masked_fill(hidden, -math.inf)
    lse = torch.logsumexp(scores, dim=-1)
    p = torch.exp(scores - torch.where(torch.isinf(lse), torch.zeros_like(lse), lse)[:, None])
    return p @ v, lse, scores


def stacked(heads, part, shape):
    """That part of all heads' results, where there are any."""
    return None if heads[0][part] is None else torch.stack([head[part] for head in heads]).reshape(shape)


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
    return {"O": (stacked(mine, 0, t["Q"].shape), stacked(theirs, 0, t["Q"].shape)),
            "LSE": (stacked(mine, 1, t["Q"].shape[:3]), stacked(theirs, 1, t["Q"].shape[:3]))}


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
    return {name: tuple(stacked(both, part, t["Q"].shape) for both in (mine, theirs))
            for part, name in enumerate(("dQ", "dK", "dV"))}


def operands(t):
    """q, k and v of attention over requests: [queries, heads, D], [tokens, KV heads, D] and [tokens, KV heads, E]."""
    if "ckv_cache" in t:  # one latent head, whose first columns are the values
        k = torch.cat([t["ckv_cache"], t["kpe_cache"]], -1).flatten(0, 1)[:, None]
        return torch.cat([t["q_nope"], t["q_pe"]], -1), k, t["ckv_cache"].flatten(0, 1)[:, None]
    if "k_cache" in t:
        return t["q"], t["k_cache"].flatten(0, 1), t["v_cache"].flatten(0, 1)
    return t["q"], t["k"], t["v"]


def requests(t):
    """Of each request that has queries and keys: its queries, and where its keys are."""
    kv = t["kv_indptr"].tolist()
    qo = t["qo_indptr"].tolist() if "qo_indptr" in t else list(range(len(kv)))
    cache = t.get("k_cache", t.get("ckv_cache"))
    for request in range(len(kv) - 1):
        tokens = torch.arange(kv[request], kv[request + 1], device=DEVICE)
        if cache is not None:
            pages, page = t["kv_indices"][kv[request]:kv[request + 1]].long(), cache.shape[1]
            tokens = (pages[:, None] * page + torch.arange(page, device=DEVICE)).reshape(-1)
            if "kv_last_page_len" in t and len(pages) > 0:
                tokens = tokens[:(len(pages) - 1) * page + t["kv_last_page_len"][request].item()]
        if len(tokens) > 0 and qo[request] < qo[request + 1]:
            yield slice(qo[request], qo[request + 1]), tokens


def over_requests(truth, t, name):
    """Grouped-query and latent attention."""
    causal = "causal" in name
    q, k, v = (truth.widen(part) for part in operands(t))
    scale = t["sm_scale"].double().item()
    heads, depth, columns = k.shape[1], k.shape[2], v.shape[2]
    # The GPU's truth knows one depth only.
    padded = torch.nn.functional.pad(v, (0, depth - columns))
    shape = (*q.shape[:2], columns)
    o, lse = torch.zeros(shape, device=DEVICE), torch.full(q.shape[:2], -math.inf, device=DEVICE)
    o_torch, lse_torch = torch.zeros_like(o, dtype=torch.float64), torch.full_like(lse, -math.inf, dtype=torch.float64)
    has_gpu = isinstance(truth, Truth)
    for rows, tokens in requests(t):
        gathered = [k[tokens], padded[tokens]]
        if has_gpu:
            gathered = [torch.empty(len(tokens), heads, depth, dtype=torch.float64, device=DEVICE) for _ in range(2)]
            for out, tensor in zip(gathered, (k, padded)):
                truth.call("gather", out, tensor.contiguous(), tokens.int(), len(tokens), heads * depth)
        for head in range(q.shape[1]):
            of = head // (q.shape[1] // heads)
            if has_gpu:
                made, lse[rows, head] = truth.attention(q[rows, head], gathered[0][:, of], gathered[1][:, of], scale, causal)
                o[rows, head] = made[:, :columns]
            o_torch[rows, head], lse_torch[rows, head], _ = torch_attention(q[rows, head], k[tokens, of], v[tokens, of],
                                                                            scale, causal)
    mine = (o, lse / math.log(2)) if has_gpu else (None, None)
    return {"output": (mine[0], o_torch.nan_to_num(0.0)), "lse": (mine[1], lse_torch / math.log(2))}


def delta_rule(_, t, name):
    """The gated delta rule as its definition has it, token by token; there is none on the GPU."""
    outputs = careful_kernels.delta_rule(t, torch.float64)
    return {output: (None, values) for output, values in outputs.items()}


def kind_of(name):
    if name.startswith(("gqa", "mla")):
        return over_requests
    return delta_rule if name.startswith("gdn") else backward if "bwd" in name else forward if "mha" in name else gemm


def careful(name, t):
    """What careful kernels give, by how they go about it; where no library has the operation."""
    if name.startswith(("gqa", "mla")):
        parts, scale, found = operands(t), t["sm_scale"].float().item(), list(requests(t))
        return {what: careful_kernels.attention(*parts, scale, "causal" in name, found, **how)
                for what, how in careful_kernels.ATTENTION.items()}
    if name.startswith("fp8_gemm"):
        dtype = torch.bfloat16 if "1d2d" in name else torch.float32
        return {what: careful_kernels.fp8_gemm(t, dtype, **how) for what, how in careful_kernels.FP8_GEMM.items()}
    if name.startswith("mha_fp8"):
        return {what: careful_kernels.fp8_attention(t, name.endswith("_causal"), **how)
                for what, how in careful_kernels.FP8_ATTENTION.items()}
    if name.startswith("gdn"):
        return {what: how(t) for what, how in careful_kernels.DELTA_RULE.items() if ("cu_seqlens" in t) == ("blocks" in what)}
    return {}


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
    if DEVICE == "cpu":
        return {}
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


def larger(name):
    """Axes beside those of the checks, for problems whose limits are not calibrated."""
    of_64 = name.endswith("ps64")
    if name.startswith("mla_paged_decode"):
        yield ["batch_size=3", "len_indptr=4"] + (["num_pages=50", "num_kv_indices=32"] if of_64 else
                                                  ["num_pages=3000", "num_kv_indices=2000"])
    elif name.startswith("mla_paged_prefill"):
        yield ["total_q=100", "len_indptr=3"] + (["num_pages=20", "num_kv_indices=10"] if of_64 else
                                                 ["num_pages=700", "num_kv_indices=600"])
    elif name.startswith("mla_ragged"):
        yield ["total_q=200", "total_kv=700", "len_indptr=3"]
    elif name.startswith("gdn_prefill"):
        yield ["total_seq_len=700", "num_seqs=2", "len_cu_seqlens=3"]
        yield ["total_seq_len=1000", "num_seqs=1", "len_cu_seqlens=2"]


def print_margins(rows):
    """By family, output and quantity: the limit, the largest value and where, and the room between them."""
    worst = {}
    for name, axes, distribution, kernel, output, quantity, value, limit, verdict in rows:
        family = "_".join(name.split("_")[:3 if name.startswith("mla") else 2])
        value = float(value)  # NaN and infinity come as text
        key = (family, output, quantity, limit)
        if key not in worst or not value <= worst[key][0]:
            worst[key] = (value, f"{distribution}, {kernel}, {name} {axes}")
    for (family, output, quantity, limit), (value, where) in sorted(worst.items()):
        room = limit / value if value else math.inf
        print(f"{family:<18} {output:<11} {quantity:<12} limit {limit:<8.3g} largest {value:<9.3g} room {room:<6.3g} {where}")


def main():
    global DEVICE
    parser = argparse.ArgumentParser(description="see the beginning of this file")
    parser.add_argument("program")
    parser.add_argument("library")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="", help="beginnings of names, separated by commas")
    options = parser.parse_args()
    program, out, only = options.program, options.out, tuple(options.only.split(","))
    if options.full and options.library == "-":
        parser.error("--full needs a GPU")
    out.mkdir(parents=True, exist_ok=True)
    if options.library == "-":
        DEVICE, truth = "cpu", NoTruth()
    else:
        truth = Truth(str(pathlib.Path(options.library).resolve()))
    listed = {problem["name"] for problem in
              json.loads(subprocess.run([program, "problems", "--json"], check=True, capture_output=True).stdout)["problems"]}
    listed = {name for name in listed if name.startswith(only)}
    disagree, rejected = 0, 0
    rows, library_rows, careful_rows = [], [], []

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
            nonlocal disagree, rejected
            subprocess.run([program, "problems", "tensors", name, str(file), "--truth", "--seed", "3", "--distribution",
                            distribution, *arguments], check=True, capture_output=True)
            t, metadata = read(file)
            results = kind_of(name)(truth, t, name)
            for output, (gpu, reference) in results.items():
                is_log = output.lower() == "lse"
                limit = LOG_LIMIT if is_log else ROW_LIMIT
                pairs = ([(gpu, t[output]), (gpu, reference)] if gpu is not None else []) + [(reference, t[output])]
                found = [difference(one, other, is_log) for one, other in pairs]
                # Written so that NaN disagrees.
                agree = all(value <= limit for value in found)
                disagree += not agree
                rows.append([name, metadata["axes"], distribution, output] + [""] * (3 - len(found)) +
                            [f"{value:.3g}" for value in found] + ["agree" if agree else "DISAGREE"])

            def judge(name, outputs):
                write(file, outputs)
                answer = subprocess.run([program, "problems", "compare", name, str(file), "--json", "--seed", "3",
                                         "--distribution", distribution, *arguments], capture_output=True, text=True)
                return {output["name"]: output for output in json.loads(answer.stdout)["outputs"]}

            for what, outputs in careful(name, t).items():
                for output, judged in judge(name, outputs).items():
                    rejected += judged["verdict"] == "failed"
                    for quantity, values in judged["limits"].items():
                        careful_rows.append([name, metadata["axes"], distribution, what, output, quantity,
                                             values["value"], values["limit"], judged["verdict"]])
            compare_libraries(name, metadata["axes"], distribution, t,
                              {output: pair[1] if pair[0] is None else pair[0] for output, pair in results.items()},
                              lambda name, outputs: {output: judged["verdict"] for output, judged in
                                                     judge(name, outputs).items()})

        for name, axes in cases():
            if not name.startswith(only) or ("fp8" in name and "F8_E4M3" not in TYPES):
                continue
            if name not in listed:
                print(f"{name}: not among the problems of this program", file=sys.stderr)
                continue
            for distribution in ("normal", "scaled", "spiky", "ties"):
                one(name, [word for axis in axes for word in ("--axis", axis)], distribution)
        for name in sorted(problem for problem in listed if problem.startswith(("gqa", "mla", "gdn"))):
            shown = json.loads(subprocess.run([program, "problems", "show", name, "--json"], check=True,
                                              capture_output=True).stdout)
            choices = [["--workload", check["uuid"]] for check in shown["checks"]]
            choices += [[word for axis in axes for word in ("--axis", axis)] for axes in larger(name)]
            for choice in choices:
                for distribution in DISTRIBUTIONS[:1] if name.startswith("gqa") else DISTRIBUTIONS:
                    one(name, choice, distribution)

    if options.full:
        def normal(*shape):
            return torch.randn(*shape, device=DEVICE, dtype=torch.float32).bfloat16()

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
                                 "cpu_against_pytorch", "verdict"], rows),
            (out / "careful.csv", ["problem", "axes", "distribution", "kernel", "output", "quantity", "value", "limit",
                                   "verdict"], careful_rows),
            (out / "libraries.csv", ["problem", "axes", "distribution", "output", "tensor_l2", "block_l2", "row_l2",
                                     "element", "gain", "verdict"], library_rows)):
        with open(path, "w", newline="") as stream:
            csv.writer(stream).writerows([header] + lines)
    print_margins(careful_rows)
    judged = len({tuple(row[:5]) for row in careful_rows})
    print(f"{len(rows)} outputs compared, {disagree} disagree; {len(library_rows)} of libraries and {judged} of careful "
          f"kernels, {rejected} of them rejected by the rule")
    return 1 if disagree or rejected or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
