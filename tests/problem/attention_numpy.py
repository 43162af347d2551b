#!/usr/bin/env python3
"""Compares the truth of attention with NumPy in float64, which shares nothing with it but the inputs.

Usage: attention_numpy.py DUMP_PROGRAM. The program writes the inputs and the truth of small problems to a folder (see
attention_dump.cpp). Exit code 77, which the test suite reports as skipped, when NumPy is not installed.
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


def widen(bits):
    """bfloat16 is the upper half of float32."""
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)


def load(folder, name, kind, shape):
    values = numpy.fromfile(folder / name, dtype=numpy.uint16 if kind == "bf16" else numpy.float32)
    values = widen(values) if kind == "bf16" else values.astype(numpy.float64)
    return values.reshape(shape)


def forward(q, k, v, causal):
    scores = q @ k.swapaxes(-1, -2) / numpy.sqrt(q.shape[-1])
    if causal:
        rows = numpy.arange(scores.shape[-1])
        scores = numpy.where(rows[None, :] > rows[:, None], -numpy.inf, scores)
    top = scores.max(axis=-1, keepdims=True)
    weights = numpy.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    return weights @ v / total, (top + numpy.log(total))[..., 0], scores


def backward(q, k, v, o, d_o, lse, scores):
    p = numpy.exp(scores - lse[..., None])
    d_p = d_o @ v.swapaxes(-1, -2)
    d_s = p * (d_p - (d_o * o).sum(axis=-1, keepdims=True)) / numpy.sqrt(q.shape[-1])
    return d_s @ k, d_s.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ d_o


def main():
    failures = 0
    compared = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([sys.argv[1], name], check=True)
        for case in json.loads((folder / "cases.json").read_text()):
            here = folder / case["folder"]
            full = (case["B"], case["H"], case["S"], case["D"])
            q, k, v, d_o, o = (load(here, name, "bf16", full) for name in ("Q", "K", "V", "dO", "O"))
            lse = load(here, "L", "f32", full[:3])
            expected_o, expected_lse, scores = forward(q, k, v, case["causal"])
            expected = {"O_truth": expected_o, "LSE_truth": expected_lse}
            expected.update(zip(("dQ_truth", "dK_truth", "dV_truth"), backward(q, k, v, o, d_o, lse, scores)))
            for output, right in expected.items():
                got = load(here, output, "f32", right.shape)
                # fp32 scores of hundreds cost 1e-5 of a weight; the tightest limit of the rule is 0.005 of a norm.
                error = numpy.linalg.norm(got - right) / max(numpy.linalg.norm(right), 1e-30)
                rows = numpy.linalg.norm(right.reshape(-1, right.shape[-1]), axis=-1)
                row_errors = numpy.linalg.norm((got - right).reshape(-1, right.shape[-1]), axis=-1)
                worst = (row_errors / numpy.maximum(rows, 0.1 * numpy.sqrt((rows**2).mean()))).max()
                compared += 1
                if not (error < 1e-5 and worst < 1e-4):
                    failures += 1
                    print(f"{case['folder']} {output}: relative error {error:.2g}, worst row {worst:.2g}")
            derived_o = numpy.abs(o - expected_o).max() / numpy.abs(expected_o).max()
            if not (derived_o < 2**-8 and numpy.abs(lse - expected_lse).max() < 1e-4):
                failures += 1
                print(f"{case['folder']}: the inputs O and L are not the forward pass's results")
    print(f"{compared} outputs compared with NumPy {numpy.__version__}, {failures} failures")
    return 1 if failures or compared == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
