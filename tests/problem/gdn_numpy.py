#!/usr/bin/env python3
"""Compares the truth of the gated delta rule with NumPy in float64, which shares nothing with it but the inputs.

Usage: gdn_numpy.py PTXBENCH
"""
import sys

from problem_tensors import Program, Tally, numpy


def delta_rule(t):
    """Output and states, all heads of a token at once. The change of a state is one matrix product: S (g - g beta k k^T)
    + beta v k^T."""
    pool = "initial_state" in t
    states = t["initial_state" if pool else "state"]
    heads, _, depth = states.shape[1:]
    flat = {name: t[name].reshape(-1, *t[name].shape[-tail:]) for name, tail in
            (("q", 2), ("k", 2), ("v", 2), ("a", 1), ("b", 1))}
    output = numpy.zeros(flat["v"].shape)
    final = states.copy() if pool else numpy.zeros(states.shape)
    if "cu_seqlens" in t:
        bounds = t["cu_seqlens"]
    else:
        bounds = numpy.arange(t["q"].shape[0] + 1) * t["q"].shape[1]
    for sequence in range(len(bounds) - 1):
        matrix = states[t["initial_state_indices"][sequence] if pool else sequence]
        for token in range(bounds[sequence], bounds[sequence + 1]):
            share = numpy.arange(heads) * flat["k"].shape[1] // heads
            key, query = flat["k"][token][share], flat["q"][token][share]
            g = numpy.exp(-numpy.exp(t["A_log"]) * numpy.logaddexp(0, flat["a"][token] + t["dt_bias"]))
            beta = 1 / (1 + numpy.exp(-flat["b"][token]))
            keep = numpy.eye(depth) - beta[:, None, None] * key[:, :, None] * key[:, None, :]
            fresh = (beta[:, None] * flat["v"][token])[:, :, None] * key[:, None, :]
            matrix = g[:, None, None] * (matrix @ keep) + fresh
            output[token] = t["scale"] * (matrix @ query[:, :, None])[:, :, 0]
        if not pool and bounds[sequence] < bounds[sequence + 1]:
            final[sequence] = matrix
    return output.reshape(t["output"].shape), final


def main():
    program, tally = Program(sys.argv[1]), Tally()
    for what, _, t in program.checks("gdn"):
        output, state = delta_rule(t)
        for got, want in ((t["output"], output), (t.get("new_state", t.get("final_state")), state)):
            error = numpy.linalg.norm(got - want) / numpy.linalg.norm(want)
            worst = numpy.abs(got - want).max() / numpy.abs(want).max()
            tally.compared += 1
            # The truth is fp64 rounded to fp32.
            tally.expect(error < 1e-6 and worst < 1e-6, f"{what}: relative error {error:.2g}, largest {worst:.2g}")
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
