#!/usr/bin/env python3
"""Compares the truth of attention with NumPy in float64, which shares nothing with it but the inputs.

Usage: attention_numpy.py PTXBENCH
"""
import itertools
import sys

from problem_tensors import DISTRIBUTIONS, Program, Tally, numpy, softmax


def backward(t, scores):
    q, k, v, o, d_o = (t[name] for name in ("Q", "K", "V", "O", "dO"))
    p = numpy.exp(scores - t["L"][..., None])
    d_p = d_o @ v.swapaxes(-1, -2)
    d_s = p * (d_p - (d_o * o).sum(axis=-1, keepdims=True)) / numpy.sqrt(q.shape[-1])
    return d_s @ k, d_s.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ d_o


def main():
    program, tally = Program(sys.argv[1]), Tally()
    cases = itertools.product(DISTRIBUTIONS, ("", "_causal"), (64, 96, 128))
    for number, (distribution, mask, depth) in enumerate(cases):
        what = f"d{depth}{mask}, {distribution} inputs"
        axes = ["B=2", "H=2", "S=77" if number % 2 == 0 else "S=192"]
        t = program.of_axes(f"mha_bwd_d{depth}{mask}", distribution, axes)
        truth = program.of_axes(f"mha_with_lse_d{depth}{mask}", distribution, axes)
        tally.expect(all(numpy.array_equal(t[name], truth[name]) for name in "QKV"), f"{what}: two sets of Q, K and V")
        o, lse, scores = softmax(t["Q"], t["K"], t["V"], 1 / numpy.sqrt(depth), mask != "")
        tally.rows(truth["O"], o, f"{what}, O")
        tally.rows(truth["LSE"], lse, f"{what}, LSE")
        for name, right in zip(("dQ", "dK", "dV"), backward(t, scores)):
            tally.rows(t[name], right, f"{what}, {name}")
        derived_o = numpy.abs(t["O"] - o).max() / numpy.abs(o).max()
        tally.expect(derived_o < 2**-8 and numpy.abs(t["L"] - lse).max() < 1e-4,
                     f"{what}: the inputs O and L are not the forward pass's results")
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
