#!/usr/bin/env python3
"""Compares the truth of grouped-query and latent attention with NumPy in float64, which shares nothing with it but the inputs.

Usage: gqa_numpy.py DUMP_PROGRAM. The program writes the inputs and the truth of small problems to a folder (see
operation_dump.cpp). Exit code 77, which the test suite reports as skipped, when NumPy is not installed.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
except ImportError:
    print("SKIPPED: NumPy is not installed (apt-get install python3-numpy), so no third party checks the truth",
          file=sys.stderr)
    sys.exit(77)


def load(folder, name, dtype, shape):
    if dtype == "bfloat16":  # the upper half of float32
        bits = numpy.fromfile(folder / name, dtype=numpy.uint16).astype(numpy.uint32) << 16
        return bits.view(numpy.float32).astype(numpy.float64).reshape(shape)
    kinds = {"float32": numpy.float32, "int32": numpy.int32, "int64": numpy.int64}
    values = numpy.fromfile(folder / name, dtype=kinds[dtype]).reshape(shape)
    return values.astype(numpy.float64) if dtype == "float32" else values


def latent_cache(t, name):
    keys = t["ckv_cache"] if name == "v" else numpy.concatenate([t["ckv_cache"], t["kpe_cache"]], axis=-1)
    return keys[:, :, numpy.newaxis]


def keys_of(t, request, name):
    """The rows [tokens, KV heads, D] of K or V that belong to a request. Latent ones have one head."""
    begin, end = t["kv_indptr"][request:request + 2]
    if name in t:
        return t[name][begin:end]
    pages = latent_cache(t, name) if "ckv_cache" in t else t[name + "_cache"]
    pages = pages[t["kv_indices"][begin:end]]
    tokens = pages.reshape(-1, *pages.shape[2:])
    if "kv_last_page_len" in t and end > begin:
        tokens = tokens[:(end - begin - 1) * pages.shape[1] + t["kv_last_page_len"][request]]
    return tokens


def attention(t, causal):
    q = t["q"] if "q" in t else numpy.concatenate([t["q_nope"], t["q_pe"]], axis=-1)
    queries, heads, _ = q.shape
    output = numpy.zeros_like(t["output"])
    lse = numpy.full((queries, heads), -numpy.inf)
    for request in range(len(t["kv_indptr"]) - 1):
        first, last = t["qo_indptr"][request:request + 2] if "qo_indptr" in t else (request, request + 1)
        keys, values = keys_of(t, request, "k"), keys_of(t, request, "v")
        for query in range(first, last):
            seen = len(keys) - (last - 1 - query) if causal else len(keys)
            for head in range(heads if seen > 0 else 0):
                kv_head = head * keys.shape[1] // heads
                scores = keys[:seen, kv_head] @ q[query, head] * t["sm_scale"]
                lse[query, head] = numpy.logaddexp2.reduce(scores / numpy.log(2))
                output[query, head] = numpy.exp2(scores / numpy.log(2) - lse[query, head]) @ values[:seen, kv_head]
    return output, lse


def main():
    failures = 0
    compared = 0
    hidden = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([sys.argv[1], name, "gqa", "mla"], check=True)
        for case in json.loads((folder / "cases.json").read_text()):
            t = {name: load(folder / case["folder"], name, one["dtype"], one["shape"])
                 for name, one in case["tensors"].items()}
            output, lse = attention(t, case["causal"])
            error = numpy.linalg.norm(t["output"] - output) / max(numpy.linalg.norm(output), 1e-30)
            rows = numpy.linalg.norm(output, axis=-1)
            row_errors = numpy.linalg.norm(t["output"] - output, axis=-1)
            worst = (row_errors / numpy.maximum(rows, 0.1 * numpy.sqrt((rows**2).mean()))).max()
            seen = numpy.isfinite(lse)
            hidden += (~seen).sum()
            worst_lse = numpy.abs(t["lse"][seen] - lse[seen]).max()
            compared += 2
            # fp32 scores of hundreds cost 1e-5 of a weight; the tightest limit of the rule is 0.005 of a norm.
            if not (error < 1e-5 and worst < 1e-4 and worst_lse < 1.5e-4 and (t["lse"][~seen] == -numpy.inf).all()
                    and (t["output"][~seen] == 0).all()):
                failures += 1
                print(f"{case['what']}: relative error {error:.2g}, worst row {worst:.2g}, lse {worst_lse:.2g}")
    print(f"{compared} outputs compared with NumPy {numpy.__version__}, {hidden} queries and heads see no key, "
          f"{failures} failures")
    return 1 if failures or compared == 0 or hidden == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
