#!/usr/bin/env python3
"""Compares two outputs of approx_sweep: largest distance in units of the last place, per instruction.

usage: approx_compare.py HARDWARE.bin EMULATOR.bin [inputs per function]
"""
import array
import sys

NAMES = ["ex2.approx.f32", "ex2.approx.ftz.f32", "lg2.approx.f32", "lg2.approx.ftz.f32", "sin.approx.f32", "cos.approx.f32",
         "rcp.approx.f32", "rcp.approx.ftz.f32", "rsqrt.approx.f32", "sqrt.approx.f32", "tanh.approx.f32", "div.approx.f32",
         "div.full.f32"]


def ordered(word):
    """Maps float bits to integers so that neighbours differ by one."""
    return -(word & 0x7FFFFFFF) if word & 0x80000000 else word


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    files = []
    for path in sys.argv[1:3]:
        words = array.array("I")
        with open(path, "rb") as file:
            words.frombytes(file.read())
        files.append(words)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else len(files[0]) // len(NAMES)
    print(f"{'instruction':20s} {'bit-equal':>10s} {'max ulp distance':>17s}")
    for index, name in enumerate(NAMES):
        pairs = list(zip(*(f[index * count:(index + 1) * count] for f in files)))
        distances = [abs(ordered(a) - ordered(b)) for a, b in pairs]
        equal = sum(1 for d in distances if d == 0) / max(1, len(distances))
        print(f"{name:20s} {equal:10.4f} {max(distances):17d}")


if __name__ == "__main__":
    main()
