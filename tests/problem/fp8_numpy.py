#!/usr/bin/env python3
"""Compares the truth of the FP8 problems with NumPy in float64, which shares nothing with it but the inputs' bytes.
problem_tensors.py decodes e4m3 by a table made there, which is compared with ml_dtypes where that is installed.

Usage: fp8_numpy.py PTXBENCH
"""
import sys

from problem_tensors import DISTRIBUTIONS, TABLE, Program, Tally, numpy, softmax


def attention(t, causal):
    q, k, v = t["Q"] * t["descale_q"], t["K"] * t["descale_k"], t["V"] * t["descale_v"]
    o, lse, _ = softmax(q, k, v, 1 / numpy.sqrt(q.shape[-1]), causal)
    return {"O": o * t["descale_s"], "LSE": lse}


def gemm(t):
    """SF_B has a row for each row of B, or for each 128."""
    sf_a = numpy.repeat(t["SF_A"], 128, axis=1)
    sf_b = numpy.repeat(t["SF_B"], 128, axis=1)
    columns = t["B"].shape[0]
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
    program, tally, decoder = Program(sys.argv[1]), Tally(), check_table()
    for distribution in DISTRIBUTIONS:
        cases = [(f"mha_fp8_with_lse_d{depth}{mask}", ["B=2", "H=2", "S=77"])
                 for mask in ("", "_causal") for depth in (64, 96, 128, 256)]
        # Megabytes of B each, whose last block of 128 rows is partial.
        if distribution in ("normal", "spiky"):
            cases += [(f"fp8_gemm_nt_{kind}_n2112_k7168", ["M=9"]) for kind in ("1d2d", "1d1d")]
        for name, axes in cases:
            t = program.of_axes(name, distribution, axes)
            expected = gemm(t) if "SF_A" in t else attention(t, name.endswith("_causal"))
            for output, right in expected.items():
                tally.rows(t[output], right, f"{name}, {distribution} inputs, {output}")
    return tally.end(f" and {decoder}")


if __name__ == "__main__":
    sys.exit(main())
