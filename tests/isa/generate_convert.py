#!/usr/bin/env python3
"""Cases for comparison, selection, conversion, moves and warp-wide instructions. Run in tests/isa: ./generate_convert.py"""

import random
import struct
from fractions import Fraction

import exact_numbers as x
from case_writer import Writer, lanes
from exact_numbers import BF16, E4M3, E5M2, F16, F32, F64, TF32
from generate_float import edges as float_edges
from generate_integer import clamp, edges as int_edges, limits, mask, value

FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
FLOAT_OPS = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
BOOLEANS = {"and": lambda p, q: p & q, "or": lambda p, q: p | q, "xor": lambda p, q: p ^ q}


def integer_compare(op, a, b):
    op = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(op, op)
    return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[op]


def close_pairs(column, seed):
    """A second column that often equals the first."""
    rng = random.Random(seed)
    return [v if rng.random() < 0.4 else rng.choice(column) for v in column]


def comparisons(w):
    for t in ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"):
        bits = int(t[1:])
        a = (int_edges(bits) + int_edges(bits, 5))[:32]
        b = close_pairs(a, bits)
        kind = t if t[0] != "b" else f"u{bits}"
        ops = {"b": ["eq", "ne"], "s": ["eq", "ne", "lt", "le", "gt", "ge"],
               "u": ["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"]}[t[0]]
        for op in ops:
            result = [integer_compare(op, value(kind, p), value(kind, q)) for p, q in zip(a, b)]
            w.case(f"setp.{op}.{t}", f"setp.{op}.{t} %d, %a, %b;", [(t, a), (t, b)], [("pred", result)])
        if bits == 32:
            k = [b[6]] * 32
            op = ops[-1]
            result = [integer_compare(op, value(kind, p), value(kind, k[0])) for p in a]
            w.case(f"setp.{op}.{t}/b-immediate", f"setp.{op}.{t} %d, %a, %b;", [(t, a), (t, k, "immediate")], [("pred", result)])
            result = [integer_compare(op, value(kind, k[0]), value(kind, p)) for p in a]
            w.case(f"setp.{op}.{t}/a-uniform", f"setp.{op}.{t} %d, %a, %b;", [(t, k, "uniform"), (t, a)], [("pred", result)])
    for t, fmt in FORMATS.items():
        a = float_edges(fmt)[:32]
        b = close_pairs(a, 3)
        b[:4] = [fmt.sign_bit, 0, 1, fmt.canonical_nan()]
        for op in FLOAT_OPS:
            result = [x.compare(fmt, op, p, q) for p, q in zip(a, b)]
            w.case(f"setp.{op}.{t}", f"setp.{op}.{t} %d, %a, %b;", [(t, a), (t, b)], [("pred", result)])
            if t in ("f32", "f16"):
                result = [x.compare(fmt, op, fmt.flush(p), fmt.flush(q)) for p, q in zip(a, b)]
                w.case(f"setp.{op}.ftz.{t}", f"setp.{op}.ftz.{t} %d, %a, %b;", [(t, a), (t, b)], [("pred", result)])
        if t in ("f16", "bf16"):
            pa = [p | q << 16 for p, q in zip(a, reversed(a))]
            pb = [p | q << 16 for p, q in zip(b, reversed(b))]
            for op in ("eq", "ltu", "ge", "neu"):
                low = [x.compare(fmt, op, p & 0xFFFF, q & 0xFFFF) for p, q in zip(pa, pb)]
                high = [x.compare(fmt, op, p >> 16, q >> 16) for p, q in zip(pa, pb)]
                w.case(f"setp.{op}.{t}x2", f"setp.{op}.{t}x2 %d|%q, %a, %b;", [(f"{t}x2", pa), (f"{t}x2", pb)], [("pred", low), ("pred", high)])
                ones = fmt.encode(Fraction(1))
                w.case(f"set.{op}.{t}x2.{t}x2", f"set.{op}.{t}x2.{t}x2 %d, %a, %b;", [(f"{t}x2", pa), (f"{t}x2", pb)],
                       [(f"{t}x2", [p * ones | q * ones << 16 for p, q in zip(low, high)])])
                w.case(f"set.{op}.u32.{t}x2", f"set.{op}.u32.{t}x2 %d, %a, %b;", [(f"{t}x2", pa), (f"{t}x2", pb)],
                       [("u32", [p * 0xFFFF | q * 0xFFFF << 16 for p, q in zip(low, high)])])
    a = int_edges(32)
    b = close_pairs(a, 8)
    c = [i & 1 for i in range(len(a))]
    for name, function in BOOLEANS.items():
        less = [int(value("s32", p) < value("s32", q)) for p, q in zip(a, b)]
        for text, other in (("%c", c), ("!%c", [1 - v for v in c])):
            label = "" if text == "%c" else "/negated"
            w.case(f"setp.lt.{name}.s32{label}", f"setp.lt.{name}.s32 %d|%q, %a, %b, {text};", [("s32", a), ("s32", b), ("pred", c)],
                   [("pred", [function(p, q) for p, q in zip(less, other)]), ("pred", [function(1 - p, q) for p, q in zip(less, other)])])
        fa = float_edges(F32)[:32]
        fb = close_pairs(fa, 9)
        fc = [i >> 1 & 1 for i in range(32)]
        w.case(f"setp.gtu.{name}.f32", f"setp.gtu.{name}.f32 %d, %a, %b, %c;", [("f32", fa), ("f32", fb), ("pred", fc)],
               [("pred", [function(int(x.compare(F32, "gtu", p, q)), r) for p, q, r in zip(fa, fb, fc)])])
        w.case(f"set.ge.{name}.u32.s32", f"set.ge.{name}.u32.s32 %d, %a, %b, %c;", [("s32", a), ("s32", b), ("pred", c)],
               [("u32", [-function(1 - p, q) for p, q in zip(less, c)])])
    w.case("setp.eq.u32/p|_", "setp.eq.u32 %d|_, %a, %b;", [("u32", a), ("u32", b)], [("pred", [p == q for p, q in zip(a, b)])])


def selection(w):
    for result, true in (("u32", 0xFFFFFFFF), ("s32", 0xFFFFFFFF), ("f32", 0x3F800000)):
        for t in ("u16", "s32", "u64", "f32", "f64"):
            if t[0] == "f":
                fmt = FORMATS[t]
                a = float_edges(fmt)[:32]
                b = close_pairs(a, 2)
                outcome = [x.compare(fmt, "le", p, q) for p, q in zip(a, b)]
            else:
                a = int_edges(int(t[1:]))
                b = close_pairs(a, 2)
                outcome = [value(t, p) <= value(t, q) for p, q in zip(a, b)]
            w.case(f"set.le.{result}.{t}", f"set.le.{result}.{t} %d, %a, %b;", [(t, a), (t, b)], [(result, [true * v for v in outcome])])
    for t, fmt in (("f16", F16), ("bf16", BF16)):
        a = float_edges(fmt)[:32]
        b = close_pairs(a, 2)
        outcome = [x.compare(fmt, "lt", p, q) for p, q in zip(a, b)]
        w.case(f"set.lt.{t}.{t}", f"set.lt.{t}.{t} %d, %a, %b;", [(t, a), (t, b)], [(t, [fmt.encode(Fraction(1)) * v for v in outcome])])
        w.case(f"set.lt.u32.{t}", f"set.lt.u32.{t} %d, %a, %b;", [(t, a), (t, b)], [("u32", [0xFFFFFFFF * v for v in outcome])])
    for t in ("b16", "b32", "b64", "u16", "s32", "u64", "f32", "f64"):
        bits = int(t[1:])
        a, b = lanes(int_edges(bits), int_edges(bits, 1), seed=bits)
        p = [i * 7 >> 2 & 1 for i in range(32)]
        chosen = [u if r else v for u, v, r in zip(a, b, p)]
        w.case(f"selp.{t}", f"selp.{t} %d, %a, %b, %c;", [(t, a), (t, b), ("pred", p)], [(t, chosen)])
        w.case(f"selp.{t}/a-uniform", f"selp.{t} %d, %a, %b, %c;", [(t, a[:1] * 32, "uniform"), (t, b), ("pred", p)],
               [(t, [a[0] if r else v for v, r in zip(b, p)])])
        w.case(f"selp.{t}/immediate", f"selp.{t} %d, %a, %b, %c;", [(t, a), (t, b[3:4] * 32, "immediate"), ("pred", p)],
               [(t, [u if r else b[3] for u, r in zip(a, p)])])
        c = int_edges(32)
        c = (c + c)[:32]
        w.case(f"slct.{t}.s32", f"slct.{t}.s32 %d, %a, %b, %c;", [(t, a), (t, b), ("s32", c)],
               [(t, [u if value("s32", r) >= 0 else v for u, v, r in zip(a, b, c)])])
        c = float_edges(F32)[:32]
        w.case(f"slct.{t}.f32", f"slct.{t}.f32 %d, %a, %b, %c;", [(t, a), (t, b), ("f32", c)],
               [(t, [u if x.compare(F32, "ge", r, 0) else v for u, v, r in zip(a, b, c)])])
    w.case("slct.ftz.b32.f32", "slct.ftz.b32.f32 %d, %a, %b, %c;", [("b32", [1, 2, 3]), ("b32", [4, 5, 6]), ("f32", [0x80000001, 0x80000000, 0xBF800000])],
           [("b32", [1, 2, 6])])


def register_of(t, other=None):
    """Values of 8-bit types live in 16-bit registers, except where bf16 is the other type: there ptxas wants 8 bits."""
    if t in ("u8", "s8"):
        return "b8" if other == "bf16" else "b16"
    return t


def integer_conversions(w):
    for source in INTEGERS:
        bits = int(source[1:])
        column = int_edges(bits)
        for target in INTEGERS:
            width = int(target[1:])
            register = register_of(target)
            plain = [value(target, value(source, v)) for v in column]
            low, high = limits(target)
            saturated = [clamp(value(source, v), low, high) for v in column]
            w.case(f"cvt.{target}.{source}", f"cvt.{target}.{source} %d, %a;", [(register_of(source), column)], [(register, plain)])
            # ptxas refuses .sat where nothing can overflow.
            fits = width >= bits if source[0] == target[0] else source[0] == "u" and width > bits
            if not fits:
                w.case(f"cvt.sat.{target}.{source}", f"cvt.sat.{target}.{source} %d, %a;", [(register_of(source), column)], [(register, saturated)])
    # Registers wider than the types: the upper bits of the source do not count, results are extended to the register.
    column = int_edges(64)
    for target, source, register in (("u8", "u32", "b32"), ("s8", "u32", "b32"), ("s16", "u32", "b32"), ("u16", "s64", "b64"), ("s8", "s64", "b64"), ("u16", "s8", "b32")):
        width = {"b32": 32, "b64": 64}[register]
        result = [value(target, value(source, v)) & mask(width) for v in column]
        w.case(f"cvt.{target}.{source}/wide-destination", f"cvt.{target}.{source} %d, %a;", [("b64" if source == "s64" else "b32", column)], [(register, result)])
    for target, source, register in (("u32", "u8", "b32"), ("s32", "s8", "b32"), ("s64", "s16", "b32"), ("u64", "u8", "b64"), ("s32", "s16", "b64")):
        w.case(f"cvt.{target}.{source}/wide-source", f"cvt.{target}.{source} %d, %a;", [(register, column)], [(target, [value(source, v) for v in column])])


def float_to_integer(w):
    for source, fmt in FORMATS.items():
        rng = random.Random(fmt.width + fmt.exponent_bits)
        values = [fmt.encode(Fraction(v)) for v in (0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.25, -0.75, 3, -3, 127, 128, 255, 256, -128, -129)]
        if source in ("f32", "f64", "bf16"):
            values += [fmt.encode(Fraction(2) ** k * s) for k in (15, 16, 31, 32, 63, 64) for s in (1, -1)]
            values += [fmt.encode(Fraction(2) ** 31 - 1), fmt.encode(Fraction(2) ** 32 - 1), fmt.encode(Fraction(-(2 ** 31) - 1))]
        values += [0, fmt.sign_bit, 1, fmt.sign_bit | 1, fmt.largest, fmt.sign_bit | fmt.largest, fmt.infinity, fmt.sign_bit | fmt.infinity, fmt.canonical_nan()]
        values += [fmt.encode(Fraction(rng.uniform(-3e5, 3e5))) for _ in range(10)]
        values = values[:16] + values[-19:] if len(values) > 32 and source == "f16" else values
        for target in INTEGERS:
            low, high = limits(target)
            bits = int(target[1:])
            for mode in ("rni", "rzi", "rmi", "rpi"):
                for ftz in ("", ".ftz") if source == "f32" else ("",):
                    if ftz and target not in ("s32", "u32", "s64"):
                        continue

                    def convert(v):
                        v = fmt.flush(v) if ftz else v
                        kind, sign, number = fmt.decode(v)
                        if kind == "nan":
                            return 0 if source != "f64" and bits != 64 else 1 << (bits - 1)
                        if kind == "inf":
                            return low if sign else high
                        return clamp(x.round_to_integer(number, mode), low, high)

                    for part, chunk in enumerate([values[:32], values[32:]]):
                        if not chunk:
                            continue
                        label = "/2" if part else ""
                        results = [value(target, convert(v)) for v in chunk]
                        w.case(f"cvt.{mode}{ftz}.{target}.{source}{label}", f"cvt.{mode}{ftz}.{target}.{source} %d, %a;", [(source, chunk)],
                               [(register_of(target, source), results)])


def integer_to_float(w):
    for source in INTEGERS:
        bits = int(source[1:])
        rng = random.Random(bits)
        column = int_edges(bits)[:22] + [rng.getrandbits(rng.randrange(1, bits + 1)) for _ in range(6)]
        if bits == 64:
            column += [0x8000000000000400, 0x8000000000000401, 0x7FFFFFBFFFFFFFFF, 0x20000000000001]
        if bits >= 32:
            column[3:6] = [0x1000001, 0x1000003, mask(bits) - 127]
        for target, fmt in FORMATS.items():
            for mode in ("rn", "rz", "rm", "rp"):
                w.case(f"cvt.{mode}.{target}.{source}", f"cvt.{mode}.{target}.{source} %d, %a;", [(register_of(source, target), column)],
                       [(target, [fmt.encode(Fraction(value(source, v)), mode, sign=0) for v in column])])


def between_floats(w):
    def convert(source, target, bits, mode, **options):
        kind, sign, number = source.decode(bits)
        if kind == "nan":
            return x.narrow_nan(source, target, bits)
        if kind == "inf":
            limit = target.largest if options.get("satfinite") else target.infinity
            return limit | (target.sign_bit if sign else 0)
        return target.encode(number, mode, sign=sign, **options)

    def wide_edges(fmt, target, seed):
        """Values around the target's limits and midpoints."""
        rng = random.Random(seed)
        column = float_edges(fmt)[:23]
        for k in range(9):
            base = target.decode(rng.randrange(1, target.largest))[2]
            step = target.decode(target.encode(base) + 1)
            half = (step[2] - base) / 2 if step[0] == "num" else Fraction(0)
            column.append(fmt.encode((base + half * (k % 3)) * (-1 if k & 1 else 1), "rz"))
        return column[:32]

    for source, target, modes in (("f64", "f32", True), ("f32", "f16", True), ("f64", "f16", True), ("f16", "bf16", True), ("f64", "bf16", True),
                                  ("bf16", "f16", True), ("f32", "bf16", False)):
        column = wide_edges(FORMATS[source], FORMATS[target], len(source))
        for mode in ("rn", "rz", "rm", "rp") if modes else ("rn", "rz"):
            w.case(f"cvt.{mode}.{target}.{source}", f"cvt.{mode}.{target}.{source} %d, %a;", [(source, column)],
                   [(target, [convert(FORMATS[source], FORMATS[target], v, mode) for v in column])])
    for source, target in (("f16", "f32"), ("f16", "f64"), ("f32", "f64"), ("bf16", "f32"), ("bf16", "f64")):
        column = float_edges(FORMATS[source])[:32]

        def widen(v):
            if (source, target) == ("bf16", "f32"):
                return v << 16  # the upper half of an f32, NaNs included
            return convert(FORMATS[source], FORMATS[target], v, "rn")

        w.case(f"cvt.{target}.{source}", f"cvt.{target}.{source} %d, %a;", [(source, column)], [(target, [widen(v) for v in column])])
    for mode in ("rni", "rzi", "rmi", "rpi"):
        for t, fmt in FORMATS.items():
            column = (float_edges(fmt)[:20] + [fmt.encode(Fraction(v)) for v in (0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.25, -0.25, -0.75, 99.5, -100.25, 7.999)])[:32]

            def whole(v):
                kind, sign, number = fmt.decode(v)
                if kind != "num":
                    return x.nan_of(fmt, v) if kind == "nan" else v
                return fmt.encode(Fraction(x.round_to_integer(number, mode)), "rn", sign=sign)

            w.case(f"cvt.{mode}.{t}.{t}", f"cvt.{mode}.{t}.{t} %d, %a;", [(t, column)], [(t, [whole(v) for v in column])])
            if t == "f32":
                w.case(f"cvt.{mode}.ftz.f32.f32", f"cvt.{mode}.ftz.f32.f32 %d, %a;", [(t, column)], [(t, [whole(fmt.flush(v)) for v in column])])
    column = float_edges(F32)[:32]
    w.case("cvt.sat.f32.f32", "cvt.sat.f32.f32 %d, %a;", [("f32", column)], [("f32", [x.saturate(F32, v) for v in column])])
    w.case("cvt.ftz.f32.f32", "cvt.ftz.f32.f32 %d, %a;", [("f32", column)],
           [("f32", [x.nan_of(F32) if F32.decode(v)[0] == "nan" else F32.flush(v) for v in column])])
    column = wide_edges(F64, F32, 4)
    w.case("cvt.rn.ftz.f32.f64", "cvt.rn.ftz.f32.f64 %d, %a;", [("f64", column)], [("f32", [F32.flush(convert(F64, F32, v, "rn")) for v in column])])
    tiny = [F64.encode(Fraction(2) ** -126 * (1 - Fraction(1, 2 ** k)) * s) for k in (23, 24, 25, 26, 40) for s in (1, -1)]
    for mode in ("rn", "rz", "rm", "rp"):
        w.case(f"cvt.{mode}.ftz.f32.f64/border", f"cvt.{mode}.ftz.f32.f64 %d, %a;", [("f64", tiny)],
               [("f32", [F32.sign_bit * (v >> 63) if x.is_tiny(F32, F64.decode(v)[2], mode) else F32.encode(F64.decode(v)[2], mode) for v in tiny])])
    w.case("cvt.rn.sat.f32.f64", "cvt.rn.sat.f32.f64 %d, %a;", [("f64", column)], [("f32", [x.saturate(F32, convert(F64, F32, v, "rn")) for v in column])])

    for target in ("f16", "bf16"):
        fmt = FORMATS[target]
        a, b = wide_edges(F32, fmt, 5), list(reversed(wide_edges(F32, fmt, 6)))
        for mode in ("rn", "rz"):
            for relu in ("", ".relu"):
                for satfinite in ("", ".satfinite"):
                    def one(v):
                        result = convert(F32, fmt, v, mode, satfinite=bool(satfinite))
                        return x.relu(fmt, result) if relu else result
                    name = f"cvt.{mode}{relu}{satfinite}"
                    if relu or satfinite:
                        w.case(f"{name}.{target}.f32", f"{name}.{target}.f32 %d, %a;", [("f32", a)], [(target, [one(v) for v in a])])
                    w.case(f"{name}.{target}x2.f32", f"{name}.{target}x2.f32 %d, %a, %b;", [("f32", a), ("f32", b)],
                           [(f"{target}x2", [one(p) << 16 | one(q) for p, q in zip(a, b)])])
        w.case(f"cvt.rn.{target}x2.f32/immediate", f"cvt.rn.{target}x2.f32 %d, %a, %b;", [("f32", a), ("f32", [0x40490FDB] * 32, "immediate")],
               [(f"{target}x2", [convert(F32, fmt, p, "rn") << 16 | convert(F32, fmt, 0x40490FDB, "rn") for p in a])])
    column = wide_edges(F32, TF32, 8)

    def tf32(v, mode, relu=False):
        kind, sign, number = F32.decode(v)
        if kind == "nan":
            return v & 0xFFFFE000 if mode == "rna" else 0x7FFFE000
        if kind == "inf":
            result = v
        else:
            result = TF32.encode(number, mode, sign=sign) << 13
        return 0 if relu and sign else result

    for mode in ("rna", "rn", "rz"):
        w.case(f"cvt.{mode}.tf32.f32", f"cvt.{mode}.tf32.f32 %d, %a;", [("f32", column)], [("b32", [tf32(v, mode) for v in column])])
        if mode != "rna":
            w.case(f"cvt.{mode}.relu.tf32.f32", f"cvt.{mode}.relu.tf32.f32 %d, %a;", [("f32", column)], [("b32", [tf32(v, mode, True) for v in column])])
    for target, fmt in (("e4m3", E4M3), ("e5m2", E5M2)):
        def narrow(source, v, relu):
            kind, sign, number = source.decode(v)
            if kind == "nan":
                return fmt.canonical_nan()
            if relu and sign:
                return 0
            if kind == "inf":
                return fmt.largest | (fmt.sign_bit if sign else 0)
            return fmt.encode(number, "rn", sign=sign, satfinite=True)

        a, b = wide_edges(F32, fmt, 9), list(reversed(wide_edges(F32, fmt, 10)))
        h = [p | q << 16 for p, q in zip(wide_edges(F16, fmt, 11), reversed(float_edges(F16)[:32]))]
        every = [(8 * i) % 256 | ((8 * i + 3) % 256) << 8 for i in range(32)]
        for relu in ("", ".relu"):
            w.case(f"cvt.rn.satfinite{relu}.{target}x2.f32", f"cvt.rn.satfinite{relu}.{target}x2.f32 %d, %a, %b;", [("f32", a), ("f32", b)],
                   [("b16", [narrow(F32, p, relu) << 8 | narrow(F32, q, relu) for p, q in zip(a, b)])])
            w.case(f"cvt.rn.satfinite{relu}.{target}x2.f16x2", f"cvt.rn.satfinite{relu}.{target}x2.f16x2 %d, %a;", [("f16x2", h)],
                   [("b16", [narrow(F16, v >> 16, relu) << 8 | narrow(F16, v & 0xFFFF, relu) for v in h])])
            for part in range(4):
                column = [(v + 2 * part + 0x0200 * part) & 0xFFFF for v in every]
                halves = []
                for v in column:
                    pair = [convert(fmt, F16, byte, "rn") for byte in (v & 0xFF, v >> 8)]
                    pair = [x.relu(F16, p) for p in pair] if relu else pair
                    halves.append(pair[0] | pair[1] << 16)
                w.case(f"cvt.rn{relu}.f16x2.{target}x2/{part}", f"cvt.rn{relu}.f16x2.{target}x2 %d, %a;", [("b16", column)], [("f16x2", halves)])


def packing(w):
    a, b, c = lanes(int_edges(32), int_edges(32, 1), int_edges(32, 2), seed=3)
    for t in ("u16", "s16", "u8", "s8", "u4", "s4"):
        bits = int(t[1:])
        low, high = limits(t)
        pair = [(clamp(value("s32", p), low, high) & mask(bits)) << bits | clamp(value("s32", q), low, high) & mask(bits) for p, q in zip(a, b)]
        if bits == 16:
            w.case(f"cvt.pack.sat.{t}.s32", f"cvt.pack.sat.{t}.s32 %d, %a, %b;", [("s32", a), ("s32", b)], [("b32", pair)])
        else:
            w.case(f"cvt.pack.sat.{t}.s32.b32", f"cvt.pack.sat.{t}.s32.b32 %d, %a, %b, %c;", [("s32", a), ("s32", b), ("b32", c)],
                   [("b32", [p | (r << (2 * bits)) for p, r in zip(pair, c)])])


def moves(w):
    for t in ("b16", "b32", "b64", "u16", "s32", "u64", "f32", "f64"):
        column = int_edges(int(t[1:]))
        w.case(f"mov.{t}", f"mov.{t} %d, %a;", [(t, column)], [(t, column)])
        w.case(f"mov.{t}/immediate", f"mov.{t} %d, %a;", [(t, column[12:13] * 8, "immediate")], [(t, column[12:13] * 8)])
    words = int_edges(64)
    w.case("mov.b64/unpack-b32", "mov.b64 {%d, %q}, %a;", [("b64", words)], [("b32", [v & mask(32) for v in words]), ("b32", [v >> 32 for v in words])])
    a, b = lanes(int_edges(32), int_edges(32, 1), seed=1)
    w.case("mov.b64/pack-b32", "mov.b64 %d, {%a, %b};", [("b32", a), ("b32", b)], [("b64", [(p & mask(32)) | (q & mask(32)) << 32 for p, q in zip(a, b)])])
    w.case("mov.b32/unpack-b16", "mov.b32 {%d, %q}, %a;", [("b32", a)], [("b16", [v & 0xFFFF for v in a]), ("b16", [v >> 16 for v in a])])
    w.case("mov.b32/unpack-sink", "mov.b32 {_, %d}, %a;", [("b32", a)], [("b16", [v >> 16 for v in a])])
    h = [int_edges(16, k) for k in range(4)]
    w.case("mov.b32/pack-b16", "mov.b32 %d, {%a, %b};", [("b16", h[0]), ("b16", h[1])], [("b32", [(p & 0xFFFF) | (q & 0xFFFF) << 16 for p, q in zip(h[0], h[1])])])
    w.case("mov.b64/pack-b16", "mov.b64 %d, {%a, %b, %c, %e};", [("b16", c) for c in h],
           [("b64", [sum((v & 0xFFFF) << (16 * i) for i, v in enumerate(row)) for row in zip(*h)])])
    w.case("mov.b64/unpack-b16", [".reg .b16 %x, %y;", "mov.b64 {%x, %d, %y, %q}, %a;"], [("b64", words)],
           [("b16", [v >> 16 & 0xFFFF for v in words]), ("b16", [v >> 48 & 0xFFFF for v in words])])
    w.case("mov.b32/b8", [".reg .b8 %w, %x, %y, %z;", "mov.b32 {%w, %x, %y, %z}, %a;", "mov.b32 %d, {%z, %y, %x, %w};"], [("b32", a)],
           [("b32", [int.from_bytes((v & mask(32)).to_bytes(4, "little"), "big") for v in a])])
    w.case("mov.b128", [".reg .b128 %x, %y;", "mov.b128 %x, {%a, %b};", "mov.b128 %y, %x;", "mov.b128 {%q, %d}, %y;"],
           [("b64", words), ("b64", list(reversed(words)))], [("b64", list(reversed(words))), ("b64", words)])
    every = list(range(32))
    w.case("mov.u32/tid.x", "mov.u32 %d, %tid.x;", [], [("u32", every)], warp=True)
    w.case("mov.u32/laneid", "mov.u32 %d, %laneid;", [], [("u32", every)], warp=True)
    w.case("mov.u32/ntid.x", "mov.u32 %d, %ntid.x;", [], [("u32", [32] * 32)])
    w.case("mov.u16/tid.x", "mov.u16 %d, %tid.x;", [], [("u16", every)], warp=True)
    w.case("cvt.u64.u32/tid.x", "cvt.u64.u32 %d, %tid.x;", [], [("u64", every)], warp=True)
    w.case("mov.u32/lanemask", ["mov.u32 %d, %lanemask_lt;", "mov.u32 %q, %lanemask_ge;"], [],
           [("u32", [mask(i) for i in every]), ("u32", [mask(32) & ~mask(i) for i in every])], warp=True)
    w.case("mov.u32/clock-grows", [".reg .u32 %x, %y;", "mov.u32 %x, %clock;", "mov.u32 %y, %clock;", "sub.u32 %x, %y, %x;",
                                   "setp.gt.s32 %d, %x, 0;"], [], [("pred", [1] * 32)])
    w.case("mov.u64/clock64-grows", [".reg .u64 %x, %y;", "mov.u64 %x, %clock64;", "mov.u64 %y, %clock64;", "setp.gt.u64 %d, %y, %x;"],
           [], [("pred", [1] * 32)])


def addresses(w):
    shared = [".shared .align 16 .b8 buffer[64];", ".reg .u64 %x, %y;", ".reg .u32 %z;"]
    w.case("cvta.shared+cvta.to.shared", shared + ["cvta.shared.u64 %x, buffer;", "cvta.to.shared.u64 %y, %x;", "cvt.u32.u64 %z, %y;", "st.u32 [%x], %a;", "ld.shared.u32 %d, [%z];"],
           [("u32", [77] * 32)], [("u32", [77] * 32)])
    w.case("isspacep.shared", shared + ["cvta.shared.u64 %x, buffer;", "isspacep.shared %d, %x;", "isspacep.global %q, %x;", "isspacep.shared %r, %from;"], [],
           [("pred", [1] * 32), ("pred", [0] * 32), ("pred", [0] * 32)], warp=True)
    w.case("isspacep.global", ["isspacep.global %d, %in;", "isspacep.local %q, %in;"], [], [("pred", [1] * 32), ("pred", [0] * 32)])
    w.case("isspacep.local", [".local .align 8 .b8 here[16];", ".reg .u64 %x;", "cvta.local.u64 %x, here;", "isspacep.local %d, %x;", "isspacep.shared %q, %x;"], [],
           [("pred", [1] * 32), ("pred", [0] * 32)])
    w.case("mapa+getctarank", shared + ["mov.u64 %x, buffer;", "mapa.shared::cluster.u64 %y, %x, 0;", "getctarank.shared::cluster.u64 %d, %y;", "sub.u64 %x, %y, %x;", "cvt.u32.u64 %q, %x;"], [],
           [("u32", [0] * 32), ("u32", [0] * 32)])


def main():
    w = Writer("alu/compare.txt", "Comparison and selection", "generate_convert.py")
    comparisons(w)
    selection(w)
    w.write()
    w = Writer("alu/convert.txt", "Conversions", "generate_convert.py")
    integer_conversions(w)
    float_to_integer(w)
    integer_to_float(w)
    between_floats(w)
    packing(w)
    w.write()
    w = Writer("alu/move.txt", "Moves and address conversions", "generate_convert.py")
    moves(w)
    addresses(w)
    w.write()


if __name__ == "__main__":
    main()
