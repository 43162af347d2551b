#!/usr/bin/env python3
"""Compares the truth of grouped-query and latent attention with NumPy in float64, which shares nothing with it but the inputs.

Usage: gqa_numpy.py PTXBENCH
"""
import sys

from problem_tensors import Program, Tally, numpy


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


def scarce(problem):
    """Queries that see nothing."""
    return [["len_indptr=4", "total_q=60", "total_kv=25"]] if problem["op_type"].endswith("_ragged") else []


def main():
    program, tally, hidden = Program(sys.argv[1]), Tally(), 0
    for what, name, t in program.checks("gqa", "mla", also=scarce):
        output, lse = attention(t, "causal" in name.split("_"))
        tally.rows(t["output"], output, f"{what}, output")
        seen = numpy.isfinite(lse)
        hidden += (~seen).sum()
        worst = numpy.abs(t["lse"][seen] - lse[seen]).max()
        tally.compared += 1
        tally.expect(worst < 1.5e-4, f"{what}, lse: {worst:.2g}")
        tally.expect((t["lse"][~seen] == -numpy.inf).all() and (t["output"][~seen] == 0).all(),
                     f"{what}: results of queries that see nothing")
    return tally.end(f", {hidden} queries and heads see no key", hidden > 0)


if __name__ == "__main__":
    sys.exit(main())
