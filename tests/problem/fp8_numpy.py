#!/usr/bin/env python3
"""Compares the truth of the FP8 problems with NumPy in float64, which shares nothing with it but the inputs' bytes.

Usage: fp8_numpy.py DUMP_PROGRAM. The program writes the inputs and the truth of small problems to a folder (see
fp8_dump.cpp). e4m3 is decoded by a table made here, which is compared with ml_dtypes where that is installed. Exit code
77, which the test suite reports as skipped, when NumPy is not installed.
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


def e4m3_table():
    """The 256 values: sign, four bits of exponent with bias 7, three of significand; no infinities, 0x7f is NaN."""
    values = numpy.empty(256)
    for byte in range(256):
        exponent, significand = byte >> 3 & 15, byte & 7
        value = (8 + significand) * 2.0 ** (exponent - 10) if exponent else significand * 2.0**-9
        if byte & 127 == 127:
            value = numpy.nan
        values[byte] = -value if byte & 128 else value
    return values


TABLE = e4m3_table()


def load(folder, name, tensor):
    kinds = {"float8_e4m3fn": numpy.uint8, "float32": numpy.float32}
    values = numpy.fromfile(folder / name, dtype=kinds[tensor["dtype"]])
    values = TABLE[values] if tensor["dtype"] == "float8_e4m3fn" else values.astype(numpy.float64)
    return values.reshape(tensor["shape"])


def attention(t, causal):
    q, k, v = t["Q"] * t["descale_q"], t["K"] * t["descale_k"], t["V"] * t["descale_v"]
    scores = q @ k.swapaxes(-1, -2) / numpy.sqrt(q.shape[-1])
    if causal:
        rows = numpy.arange(scores.shape[-1])
        scores = numpy.where(rows[None, :] > rows[:, None], -numpy.inf, scores)
    top = scores.max(axis=-1, keepdims=True)
    weights = numpy.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    return {"O": weights @ v / total * t["descale_s"], "LSE": (top + numpy.log(total))[..., 0]}


def gemm(t, columns):
    """SF_B has a row for each row of B, or for each 128."""
    sf_a = numpy.repeat(t["SF_A"], 128, axis=1)
    sf_b = numpy.repeat(t["SF_B"], 128, axis=1)
    if len(sf_b) != columns:
        sf_b = numpy.repeat(sf_b, 128, axis=0)[:columns]
    return {"D": (t["A"] * sf_a) @ (t["B"] * sf_b).T}


def check_table():
    try:
        import ml_dtypes
    except ImportError:
        return "its own table of e4m3"
    theirs = numpy.arange(256, dtype=numpy.uint8).view(ml_dtypes.float8_e4m3fn).astype(numpy.float64)
    assert numpy.array_equal(theirs, TABLE, equal_nan=True), "the table of e4m3 is wrong"
    return f"ml_dtypes {ml_dtypes.__version__}"


def main():
    failures = 0
    compared = 0
    decoder = check_table()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([sys.argv[1], name], check=True)
        for case in json.loads((folder / "cases.json").read_text()):
            tensors = {key: load(folder / case["folder"], key, tensor) for key, tensor in case["tensors"].items()}
            if case["op_type"] == "attention":
                expected = attention(tensors, case["causal"])
            else:
                expected = gemm(tensors, tensors["B"].shape[0])
            for output, right in expected.items():
                got = tensors[output + "_truth"]
                # The tightest limit of the rule is 0.0006 of a norm.
                error = numpy.linalg.norm(got - right) / max(numpy.linalg.norm(right), 1e-30)
                rows = numpy.linalg.norm(right.reshape(-1, right.shape[-1]), axis=-1)
                row_errors = numpy.linalg.norm((got - right).reshape(-1, right.shape[-1]), axis=-1)
                worst = (row_errors / numpy.maximum(rows, 0.1 * numpy.sqrt((rows**2).mean()))).max()
                compared += 1
                if not (error < 1e-5 and worst < 1e-4):
                    failures += 1
                    print(f"{case['definition']}, {case['distribution']} inputs, {output}: relative error {error:.2g}, "
                          f"worst row {worst:.2g}")
    print(f"{compared} outputs compared with NumPy {numpy.__version__} and {decoder}, {failures} failures")
    return 1 if failures or compared == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
