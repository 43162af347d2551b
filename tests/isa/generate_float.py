#!/usr/bin/env python3
"""Cases for floating-point arithmetic, f16 and bf16 included. Run in tests/isa: ./generate_float.py"""

import math
import random
import struct
from fractions import Fraction

import exact_numbers as x
from case_writer import Writer, lanes
from exact_numbers import BF16, F16, F32, F64

MODES = ["rn", "rz", "rm", "rp"]
ZERO = Fraction(0)


def edges(fmt, seed=0, count=14):
    """Zeros, subnormals, the ends of the normal range, ones, infinities, NaNs, and random values of every size."""
    rng = random.Random(fmt.width * 77 + fmt.exponent_bits + seed)
    one = fmt.encode(Fraction(1))
    sign = fmt.sign_bit
    fixed = [0, sign, 1, sign | 1, fmt.smallest_normal - 1, fmt.smallest_normal, fmt.smallest_normal + 1, sign | fmt.smallest_normal,
             one, one + 1, one - 1, sign | one, fmt.encode(Fraction(3, 2)), fmt.encode(Fraction(2)), fmt.encode(Fraction(-3)),
             fmt.largest, fmt.largest - 1, sign | fmt.largest, fmt.infinity, sign | fmt.infinity, fmt.canonical_nan(), fmt.infinity + 1,
             sign | fmt.canonical_nan()]
    near_one = [one + rng.getrandbits(fmt.fraction_bits) for _ in range(count // 2)]
    return fixed + near_one + [rng.getrandbits(fmt.width) for _ in range(count - count // 2)]


def pairs(fmt, seed=0, count=32):
    return lanes(edges(fmt), edges(fmt, 1), seed=seed + 3, count=count)


def numbers(fmt, seed):
    """Finite normal values whose sums and products stay finite: rounding is what differs."""
    rng = random.Random(seed)
    middle = fmt.bias << fmt.fraction_bits
    span = min(fmt.bias // 2, 6) << fmt.fraction_bits
    return [(rng.getrandbits(1) << (fmt.width - 1)) | (middle + rng.randrange(-span, span)) for _ in range(32)]


def flush_result(fmt, function, operands, result):
    """Flushes what is tiny after rounding: recomputed in a format whose exponent does not end."""
    kind, sign, _ = fmt.decode(result)
    unbounded = x.Format("unbounded", fmt.exponent_bits + 4, fmt.fraction_bits)
    if kind != "num" or any(fmt.decode(o)[0] != "num" for o in operands):
        return fmt.flush(result)
    widened = [unbounded.encode(fmt.decode(o)[2], sign=fmt.decode(o)[1]) for o in operands]
    kind, _, value = unbounded.decode(function(*widened, fmt=unbounded))
    tiny = kind == "num" and value != 0 and abs(value) < Fraction(2) ** (1 - fmt.bias)
    return (fmt.sign_bit if sign else 0) if tiny else result


def modified(fmt, function, ftz=False, sat=False, relu=False):
    """Adds .ftz, .sat, .relu to a function on encodings."""

    def apply(*operands):
        if ftz:
            operands = [fmt.flush(o) for o in operands]
        result = function(*operands)
        if ftz:
            result = flush_result(fmt, function, operands, result)
        if sat:
            result = x.saturate(fmt, result)
        if relu:
            result = x.relu(fmt, result)
        return result

    return apply


def case(w, name, ptx, type_, columns, function, **extra):
    names = ["%a", "%b", "%c"][:len(columns)]
    w.case(name, f"{ptx} %d, {', '.join(names)};", [(type_, c) for c in columns],
           [(type_, [function(*row) for row in zip(*columns)])], **extra)


def operand_shapes(w, name, ptx, type_, columns, function):
    """The same with uniform and immediate operands."""
    for which in range(len(columns)):
        varied = list(columns)
        varied[which] = [columns[which][25]] * 32
        inputs = [(type_, c, "uniform") if i == which else (type_, c) for i, c in enumerate(varied)]
        names = ["%a", "%b", "%c"][:len(columns)]
        w.case(f"{name}/{'abc'[which]}-uniform", f"{ptx} %d, {', '.join(names)};", inputs,
               [(type_, [function(*row) for row in zip(*varied)])])
    varied = list(columns)
    varied[-1] = [columns[-1][24]] * 32
    inputs = [(type_, c, "immediate") if i == len(columns) - 1 else (type_, c) for i, c in enumerate(varied)]
    w.case(f"{name}/immediate", f"{ptx} %d, {', '.join(['%a', '%b', '%c'][:len(columns)])};", inputs,
           [(type_, [function(*row) for row in zip(*varied)])])


def basic(w):
    for fmt, t in ((F32, "f32"), (F64, "f64")):
        for op, function in (("add", x.add), ("sub", x.sub), ("mul", x.mul)):
            case(w, f"{op}.{t}", f"{op}.{t}", t, pairs(fmt), lambda a, b, f=function: f(fmt, a, b))
            operand_shapes(w, f"{op}.{t}", f"{op}.{t}", t, pairs(fmt, 5), lambda a, b, f=function: f(fmt, a, b))
            for mode in MODES:
                case(w, f"{op}.{mode}.{t}", f"{op}.{mode}.{t}", t, [numbers(fmt, 1), numbers(fmt, 2)],
                     lambda a, b, f=function, m=mode: f(fmt, a, b, m))
                case(w, f"{op}.{mode}.{t}/edges", f"{op}.{mode}.{t}", t, pairs(fmt, 9), lambda a, b, f=function, m=mode: f(fmt, a, b, m))
        for mode in MODES:
            triple = [numbers(fmt, 1), numbers(fmt, 2), numbers(fmt, 3)]
            for op in ("fma", "mad"):
                case(w, f"{op}.{mode}.{t}", f"{op}.{mode}.{t}", t, triple, lambda a, b, c, m=mode: x.fma(fmt, a, b, c, m))
            case(w, f"fma.{mode}.{t}/edges", f"fma.{mode}.{t}", t, lanes(edges(fmt), edges(fmt, 1), edges(fmt, 2), seed=4),
                 lambda a, b, c, m=mode: x.fma(fmt, a, b, c, m))
            case(w, f"div.{mode}.{t}", f"div.{mode}.{t}", t, [numbers(fmt, 1), numbers(fmt, 2)], lambda a, b, m=mode: x.div(fmt, a, b, m))
            case(w, f"div.{mode}.{t}/edges", f"div.{mode}.{t}", t, pairs(fmt, 6), lambda a, b, m=mode: x.div(fmt, a, b, m))
            case(w, f"rcp.{mode}.{t}", f"rcp.{mode}.{t}", t, [edges(fmt, 7)[:32]],
                 lambda a, m=mode: x.div(fmt, fmt.encode(Fraction(1)), a, m))
            case(w, f"sqrt.{mode}.{t}", f"sqrt.{mode}.{t}", t, [edges(fmt, 8)[:32]], lambda a, m=mode: x.sqrt(fmt, a, m))
        cancelling = [numbers(fmt, 1), numbers(fmt, 2)]
        cancelling.append([x.negate(fmt, x.mul(fmt, a, b)) for a, b in zip(*cancelling)])
        case(w, f"fma.rn.{t}/cancel", f"fma.rn.{t}", t, cancelling, lambda a, b, c: x.fma(fmt, a, b, c))
    operand_shapes(w, "fma.rn.f32", "fma.rn.f32", "f32", lanes(edges(F32), edges(F32, 1), edges(F32, 2), seed=14),
                   lambda a, b, c: x.fma(F32, a, b, c))


def modifiers(w):
    # Operands around the subnormal range and around [0, 1].
    rng = random.Random(5)
    small = [0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x807FFFFF, 0x800000, 0x80800000, 0x800001, 0xFFFFFF, 0x1000000, 0x3F800000,
             0xBF800000, 0x3F000000, 0x3F7FFFFF, 0x40000000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FFFFFFF, 0x20000000, 0x1FFFFFFF,
             0x5F000000, 0x3E99999A] + [rng.getrandbits(31) for _ in range(8)]
    for op, function, count in (("add", x.add, 2), ("sub", x.sub, 2), ("mul", x.mul, 2), ("fma.rn", x.fma, 3)):
        columns = lanes(*[small] * count, seed=count)
        for name, ftz, sat in ((".ftz", True, False), (".sat", False, True), (".ftz.sat", True, True)):
            def apply(*o, f=function, fmt=F32):
                return f(fmt, *o)
            case(w, f"{op}{name}.f32", f"{op}{name}.f32", "f32", columns, modified(F32, apply, ftz, sat))
        for mode in ("rz", "rp"):
            base = op.split(".")[0]
            case(w, f"{base}.{mode}.ftz.f32", f"{base}.{mode}.ftz.f32", "f32", columns,
                 modified(F32, lambda *o, f=function, m=mode, fmt=F32: f(fmt, *o, m), True))
    for op in ("add", "mul"):
        columns = lanes(small, small, seed=8)
        columns[1] = [columns[1][15]] * 32
        function = modified(F32, lambda a, b, f=getattr(x, op), fmt=F32: f(fmt, a, b), True)
        w.case(f"{op}.ftz.f32/b-uniform", f"{op}.ftz.f32 %d, %a, %b;", [("f32", columns[0]), ("f32", columns[1], "uniform")],
               [("f32", [function(*row) for row in zip(*columns)])])
    columns = lanes(small, small, seed=3)
    for mode in MODES:
        case(w, f"div.{mode}.ftz.f32", f"div.{mode}.ftz.f32", "f32", columns, modified(F32, lambda a, b, m=mode, fmt=F32: x.div(fmt, a, b, m), True))
        case(w, f"rcp.{mode}.ftz.f32", f"rcp.{mode}.ftz.f32", "f32", [small],
             modified(F32, lambda a, m=mode, fmt=F32: x.div(fmt, fmt.encode(Fraction(1)), a, m), True))
        case(w, f"sqrt.{mode}.ftz.f32", f"sqrt.{mode}.ftz.f32", "f32", [small], modified(F32, lambda a, m=mode, fmt=F32: x.sqrt(fmt, a, m), True))


    # Results that round to the smallest normal number from below: tiny only if they stay below with 24 bits.
    border = [(0x00800001, 0x3F7FFFFE), (0x00800000, 0x3F7FFFFF), (0x00FFFFFF, 0x3F000000), (0x00800003, 0x3F7FFFFA), (0x80800001, 0x3F7FFFFE)]
    for mode in MODES:
        case(w, f"mul.{mode}.ftz.f32/border", f"mul.{mode}.ftz.f32", "f32", [list(c) for c in zip(*border)],
             modified(F32, lambda a, b, m=mode, fmt=F32: x.mul(fmt, a, b, m), True))
        sums = [(0x00800000, c, s) for c, s in ((0xB0800000, 0x00800000), (0xB3800000, 0x00800000), (0xB3000000, 0x00800000), (0xB3400000, 0x00800000), (0x30800000, 0x80800000))]
        case(w, f"fma.{mode}.ftz.f32/border", f"fma.{mode}.ftz.f32", "f32", [list(c) for c in zip(*sums)],
             modified(F32, lambda a, b, c, m=mode, fmt=F32: x.fma(fmt, a, b, c, m), True))
        quotients = [(0x00FFFFFF, 0x40000000), (0x00800000, 0x3F800001), (0x00FFFFFF, 0x3FFFFFFF), (0x00800001, 0x3F800002)]
        case(w, f"div.{mode}.ftz.f32/border", f"div.{mode}.ftz.f32", "f32", [list(c) for c in zip(*quotients)],
             modified(F32, lambda a, b, m=mode, fmt=F32: x.div(fmt, a, b, m), True))
    border = [(0x0400, 0x3BFF), (0x0401, 0x3BFE), (0x07FF, 0x3800), (0x0403, 0x3BFA), (0x8401, 0x3BFE)]
    case(w, "mul.ftz.f16/border", "mul.ftz.f16", "f16", [list(c) for c in zip(*border)], modified(F16, lambda a, b, fmt=F16: x.mul(fmt, a, b), True))
    sums = [(0x0400, 0x8C00, 0x0400), (0x0400, 0x9000, 0x0400), (0x0400, 0x8FFF, 0x0400), (0x0401, 0x3BFE, 0)]
    case(w, "fma.rn.ftz.f16/border", "fma.rn.ftz.f16", "f16", [list(c) for c in zip(*sums)], modified(F16, lambda a, b, c, fmt=F16: x.fma(fmt, a, b, c), True))


def nan_payloads(w):
    """f64: which of several NaNs becomes the result."""
    n1, n2, n3, one, infinity = 0x7FF0000000000011, 0xFFF8000000000022, 0x7FF8000000000033, 0x3FF << 52, 0x7FF << 52
    rows = [(n1, n2), (n2, n1), (n3, n1), (n1, n3), (one, n1), (n2, one), (infinity, n1)]
    columns = [list(c) for c in zip(*rows)]
    for op, function in (("add", x.add), ("sub", x.sub), ("mul", x.mul), ("div.rn", x.div)):
        case(w, f"{op}.f64/nans", f"{op}.f64", "f64", columns, lambda a, b, f=function: f(F64, a, b))
    rows = [(n1, n2, n3), (n2, n1, n3), (n1, 0, n3), (one, n2, n3), (n1, n2, 0), (infinity, 0, n1), (0, infinity, n2), (n1, infinity, 0), (infinity, 0, one)]
    case(w, "fma.rn.f64/nans", "fma.rn.f64", "f64", [list(c) for c in zip(*rows)], lambda a, b, c: x.fma(F64, a, b, c))


def extremes(w):
    for fmt, t in ((F32, "f32"), (F64, "f64"), (F16, "f16"), (BF16, "bf16")):
        columns = pairs(fmt, 12)
        columns[0][:6] = [0, fmt.sign_bit, 0, fmt.canonical_nan(), fmt.canonical_nan(), fmt.encode(Fraction(1))]
        columns[1][:6] = [fmt.sign_bit, 0, 0, fmt.encode(Fraction(1)), fmt.canonical_nan(), fmt.canonical_nan()]
        for op, maximum in (("min", True), ("max", True)):
            maximum = op == "max"
            forms = [("", {})]
            if t != "f64":
                forms += [(".NaN", {"propagate_nan": True}), (".xorsign.abs", {"xorsign": True}),
                          (".NaN.xorsign.abs", {"propagate_nan": True, "xorsign": True})]
            for name, options in forms:
                def apply(a, b, m=maximum, o=options, fmt=fmt):
                    return x.minmax(fmt, a, b, m, **o)
                case(w, f"{op}{name}.{t}", f"{op}{name}.{t}", t, columns, apply)
                if t in ("f32", "f16"):
                    case(w, f"{op}.ftz{name}.{t}", f"{op}.ftz{name}.{t}", t, columns, modified(fmt, apply, True))


def signs(w):
    for fmt, t in ((F32, "f32"), (F64, "f64"), (F16, "f16"), (BF16, "bf16")):
        column = edges(fmt, 4)[:32]

        def neg(a, fmt=fmt):
            return x.nan_of(fmt, a) if fmt.decode(a)[0] == "nan" else a ^ fmt.sign_bit

        def absolute(a, fmt=fmt):
            return x.nan_of(fmt, a) if fmt.decode(a)[0] == "nan" else a & ~fmt.sign_bit

        for op, function in (("neg", neg), ("abs", absolute)):
            case(w, f"{op}.{t}", f"{op}.{t}", t, [column], function)
            if t in ("f32", "f16"):
                case(w, f"{op}.ftz.{t}", f"{op}.ftz.{t}", t, [column], modified(fmt, function, True))
    for fmt, t in ((F32, "f32"), (F64, "f64")):
        case(w, f"copysign.{t}", f"copysign.{t}", t, pairs(fmt, 21), lambda a, b, f=fmt: (b & ~f.sign_bit) | (a & f.sign_bit))
        for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            column = edges(fmt, 5)[:32]

            def holds(a, f=fmt, which=test):
                kind, _, _ = f.decode(a)
                return {"finite": kind == "num", "infinite": kind == "inf", "number": kind != "nan", "notanumber": kind == "nan",
                        "normal": kind == "num" and not f.is_subnormal(a), "subnormal": f.is_subnormal(a)}[which]

            w.case(f"testp.{test}.{t}", f"testp.{test}.{t} %d, %a;", [(t, column)], [("pred", [holds(a) for a in column])])


def half_arithmetic(w):
    functions = [("add", x.add, 2), ("sub", x.sub, 2), ("mul", x.mul, 2), ("fma.rn", x.fma, 3)]
    for fmt, t in ((F16, "f16"), (BF16, "bf16")):
        for op, function, count in functions:
            variants = [("", {})]
            if t == "f16":
                variants += [(".ftz", {"ftz": True}), (".sat", {"sat": True}), (".ftz.sat", {"ftz": True, "sat": True})]
            if count == 3:
                variants.append((".relu", {"relu": True}))
            for name, options in variants:
                def apply(*o, f=function, fmt=fmt):
                    return f(fmt, *o)
                scalar = modified(fmt, apply, **options)
                columns = lanes(*[edges(fmt, i) for i in range(count)], seed=count)
                case(w, f"{op}{name}.{t}", f"{op}{name}.{t}", t, columns, scalar)
                low = [numbers(fmt, i + 30) for i in range(count)]
                high = lanes(*[edges(fmt, i + 7) for i in range(count)], seed=count + 1)
                packed = [[a | b << 16 for a, b in zip(*pair)] for pair in zip(low, high)]
                expected = [scalar(*(v & 0xFFFF for v in row)) | scalar(*(v >> 16 for v in row)) << 16 for row in zip(*packed)]
                names = ", ".join(["%a", "%b", "%c"][:count])
                w.case(f"{op}{name}.{t}x2", f"{op}{name}.{t}x2 %d, {names};", [(f"{t}x2", c) for c in packed], [(f"{t}x2", expected)])
        # Sums that round differently if they pass through a wider format first.
        rng = random.Random(99)
        rows = []
        while len(rows) < 32:
            a, b = (rng.getrandbits(fmt.width) for _ in range(2))
            if fmt.decode(a)[0] != "num" or fmt.decode(b)[0] != "num":
                continue
            product = fmt.decode(a)[2] * fmt.decode(b)[2]
            near = fmt.encode(product * Fraction(rng.choice([1, 3, 1 << 9, 1 << 12]), rng.choice([1, 1 << 9, 1 << 13, 1 << 20])))
            if fmt.decode(near)[0] == "num":
                rows.append((a, b, near ^ (fmt.sign_bit if rng.getrandbits(1) else 0)))
        case(w, f"fma.rn.{t}/single-rounding", f"fma.rn.{t}", t, [list(c) for c in zip(*rows)], lambda a, b, c, f=fmt: x.fma(f, a, b, c))
        ones = [fmt.encode(Fraction(1)) + i for i in range(8)]
        tiny = [1, fmt.sign_bit | 1, fmt.smallest_normal, fmt.sign_bit | fmt.smallest_normal]
        half_step = fmt.encode(Fraction(1, 2 ** (fmt.fraction_bits + 1)))
        columns = lanes([half_step], ones, tiny + ones, seed=7)
        case(w, f"fma.rn.{t}/ties", f"fma.rn.{t}", t, columns, lambda a, b, c, f=fmt: x.fma(f, a, b, c))
        for op in ("neg", "abs"):
            column = edges(fmt, 4)[:32]
            flip = (lambda v: v ^ fmt.sign_bit) if op == "neg" else (lambda v: v & ~fmt.sign_bit)

            def scalar(v, f=fmt, g=flip):
                return f.canonical_nan() if f.decode(v)[0] == "nan" else g(v)

            packed = [a | b << 16 for a, b in zip(column, reversed(column))]
            w.case(f"{op}.{t}x2", f"{op}.{t}x2 %d, %a;", [(f"{t}x2", packed)],
                   [(f"{t}x2", [scalar(v & 0xFFFF) | scalar(v >> 16) << 16 for v in packed])])
        for op in ("min", "max"):
            columns = pairs(fmt, 15)
            packed = [[a | b << 16 for a, b in zip(c, reversed(c))] for c in columns]
            for name, options in (("", {}), (".NaN", {"propagate_nan": True}), (".xorsign.abs", {"xorsign": True})):
                def scalar(a, b, f=fmt, m=op == "max", o=options):
                    return x.minmax(f, a, b, m, **o)
                w.case(f"{op}{name}.{t}x2", f"{op}{name}.{t}x2 %d, %a, %b;", [(f"{t}x2", c) for c in packed],
                       [(f"{t}x2", [scalar(a & 0xFFFF, b & 0xFFFF) | scalar(a >> 16, b >> 16) << 16 for a, b in zip(*packed)])])


def f32(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def approximations(w):
    """Expected: the correctly rounded value; the tolerance is the error that the ISA documents."""
    rng = random.Random(17)
    positive = [rng.uniform(0.001, 8) for _ in range(16)] + [2.0 ** k for k in (-126, -100, -20, -1, 0, 1, 20, 100, 127)] + [3e38, 1.5e-38, 1.25]
    positive = [f32(v) for v in positive]
    special = [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FFFFFFF]

    def number(bits):
        return struct.unpack("<f", struct.pack("<I", bits))[0]

    def rounded(value):
        return F32.encode(Fraction(value)) if value else 0

    nan = F32.canonical_nan()
    inputs = positive[:27]
    w.case("rcp.approx.f32", "rcp.approx.f32 %d, %a;", [("f32", inputs + special)],
           [("f32", [F32.encode(1 / F32.decode(v)[2]) for v in inputs] + [0x7F800000, 0xFF800000, 0, 0x80000000, nan])], tolerance="ulp 1")
    w.case("rcp.approx.ftz.f32", "rcp.approx.ftz.f32 %d, %a;", [("f32", inputs + special)],
           [("f32", [F32.flush(F32.encode(1 / F32.decode(v)[2])) for v in inputs] + [0x7F800000, 0xFF800000, 0, 0x80000000, nan])], tolerance="ulp 1")
    w.case("sqrt.approx.f32", "sqrt.approx.f32 %d, %a;", [("f32", inputs + special)],
           [("f32", [x.sqrt(F32, v) for v in inputs] + [0, 0x80000000, 0x7F800000, nan, nan])], tolerance="rel 2.4e-7")
    w.case("rsqrt.approx.f32", "rsqrt.approx.f32 %d, %a;", [("f32", inputs + special)],
           [("f32", [rounded(1 / math.sqrt(number(v))) for v in inputs] + [0x7F800000, 0xFF800000, 0, nan, nan])], tolerance="rel 3e-7")
    w.case("lg2.approx.f32", "lg2.approx.f32 %d, %a;", [("f32", inputs[:16])], [("f32", [rounded(math.log2(number(v))) for v in inputs[:16]])],
           tolerance="abs 5e-7")
    w.case("lg2.approx.f32/special", "lg2.approx.f32 %d, %a;", [("f32", special + [f32(2.0 ** k) for k in (-126, -3, 0, 5, 127)])],
           [("f32", [0xFF800000, 0xFF800000, 0x7F800000, nan, nan] + [f32(float(k)) for k in (-126, -3, 0, 5, 127)])],
           tolerance="ulp 1")
    exponents = [f32(rng.uniform(-20, 20)) for _ in range(14)] + [f32(float(k)) for k in (-126, -20, -1, 0, 1, 2, 20, 127)] + [f32(-125.5), f32(0.5)]
    for ftz in ("", ".ftz"):
        w.case(f"ex2.approx{ftz}.f32", f"ex2.approx{ftz}.f32 %d, %a;", [("f32", exponents + [0, 0x80000000, 0x7F800000, 0xFF800000, f32(128.0), f32(-200.0)])],
               [("f32", [rounded(2.0 ** number(v)) for v in exponents] + [0x3F800000, 0x3F800000, 0x7F800000, 0, 0x7F800000, 0])], tolerance="rel 3e-7")
    w.case("ex2.approx.f32/nan", "ex2.approx.f32 %d, %a;", [("f32", [nan, 0xFFC00001])], [("f32", [nan, nan])])
    w.case("ex2.approx.f32/subnormal", "ex2.approx.f32 %d, %a;", [("f32", [f32(-127.0), f32(-140.0), f32(-148.0)])],
           [("f32", [1 << 22, 1 << 9, 2])], tolerance="rel 3e-7")
    w.case("ex2.approx.ftz.f32/subnormal", "ex2.approx.ftz.f32 %d, %a;", [("f32", [f32(-127.0), f32(-140.0), 0x00400000])],
           [("f32", [0, 0, 0x3F800000])])
    angles = [f32(rng.uniform(-math.pi, math.pi)) for _ in range(24)] + [0, 0x80000000, f32(math.pi / 2), f32(-1.0)]
    for name, function in (("sin", math.sin), ("cos", math.cos)):
        w.case(f"{name}.approx.f32", f"{name}.approx.f32 %d, %a;", [("f32", angles)], [("f32", [rounded(function(number(v))) for v in angles])],
               tolerance="abs 7e-7")
        w.case(f"{name}.approx.f32/special", f"{name}.approx.f32 %d, %a;", [("f32", [0x7F800000, 0xFF800000, nan])], [("f32", [nan] * 3)])
    w.case("tanh.approx.f32", "tanh.approx.f32 %d, %a;", [("f32", angles)], [("f32", [rounded(math.tanh(number(v))) for v in angles])], tolerance="rel 5e-4")
    w.case("tanh.approx.f32/special", "tanh.approx.f32 %d, %a;", [("f32", special)], [("f32", [0, 0x80000000, 0x3F800000, 0xBF800000, nan])])
    columns = lanes(positive, list(reversed(positive)), seed=2)
    safe = [(a, b) for a, b in zip(*columns) if 2.0 ** -126 <= number(b) <= 2.0 ** 126 and 1e-30 < number(a) / number(b) < 1e30]
    for kind in ("approx", "full", "approx.ftz", "full.ftz"):
        w.case(f"div.{kind}.f32", f"div.{kind}.f32 %d, %a, %b;", [("f32", [a for a, _ in safe]), ("f32", [b for _, b in safe])],
               [("f32", [x.div(F32, a, b) for a, b in safe])], tolerance="ulp 2")
    w.case("div.approx.f32/huge-divisor", "div.approx.f32 %d, %a, %b;", [("f32", [f32(1.0), f32(-2.0), 0x7F800000]), ("f32", [0x7F000001] * 3)],
           [("f32", [0, 0x80000000, nan])])
    wide = [struct.unpack("<Q", struct.pack("<d", rng.uniform(0.001, 1000)))[0] for _ in range(20)]

    def double(bits):
        return struct.unpack("<d", struct.pack("<Q", bits))[0]

    w.case("rcp.approx.ftz.f64", "rcp.approx.ftz.f64 %d, %a;", [("f64", wide)], [("f64", [x.div(F64, F64.encode(Fraction(1)), v) for v in wide])], tolerance="rel 2e-6")
    w.case("rcp.approx.ftz.f64/special", "rcp.approx.ftz.f64 %d, %a;", [("f64", [0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 1, 0x7FF8 << 48])],
           [("f64", [0x7FF << 52, 0xFFF << 52, 0, 1 << 63, 0x7FF << 52, 0x7FFFFFFF << 32])])
    w.case("rsqrt.approx.ftz.f64", "rsqrt.approx.ftz.f64 %d, %a;", [("f64", wide)], [("f64", [F64.encode(Fraction(1 / math.sqrt(double(v)))) for v in wide])], tolerance="rel 2e-6")
    w.case("rsqrt.approx.f64", "rsqrt.approx.f64 %d, %a;", [("f64", wide)], [("f64", [F64.encode(Fraction(1 / math.sqrt(double(v)))) for v in wide])], tolerance="rel 2e-6")
    for fmt, t, name in ((F16, "f16", "ex2.approx.f16"), (BF16, "bf16", "ex2.approx.ftz.bf16")):
        values = [fmt.encode(Fraction(rng.uniform(-8, 8))) for _ in range(24)] + [0, fmt.sign_bit, fmt.infinity, fmt.sign_bit | fmt.infinity]
        results = [fmt.encode(Fraction(2.0 ** float(fmt.decode(v)[2]))) for v in values[:24]] + [fmt.encode(Fraction(1))] * 2 + [fmt.infinity, 0]
        error = "rel 9.8e-4" if t == "f16" else "rel 7.9e-3"
        w.case(name, f"{name} %d, %a;", [(t, values)], [(t, results)], tolerance=error)
        values = values[:24]
        results = [fmt.encode(Fraction(math.tanh(float(fmt.decode(v)[2])))) for v in values]
        w.case(f"tanh.approx.{t}", f"tanh.approx.{t} %d, %a;", [(t, values)], [(t, results)], tolerance="abs 9.8e-4" if t == "f16" else "abs 7.9e-3")
        zero_one = [fmt.encode(Fraction(k)) for k in (0, 1, 2, 3, -1, -2)]
        two = [fmt.encode(Fraction(2) ** k) for k in (0, 1, 2, 3, -1, -2)]
        w.case(name + "x2", f"{name}x2 %d, %a;", [(f"{t}x2", [a | b << 16 for a, b in zip(zero_one, reversed(zero_one))])],
               [(f"{t}x2", [a | b << 16 for a, b in zip(two, reversed(two))])])
        big = [fmt.encode(Fraction(k)) for k in (0, 30, -30, 100)]
        limit = [fmt.encode(Fraction(k)) for k in (0, 1, -1, 1)]
        w.case(f"tanh.approx.{t}x2", f"tanh.approx.{t}x2 %d, %a;", [(f"{t}x2", [a | b << 16 for a, b in zip(big, reversed(big))])],
               [(f"{t}x2", [a | b << 16 for a, b in zip(limit, reversed(limit))])])


def main():
    w = Writer("alu/float.txt", "f32 and f64 arithmetic", "generate_float.py")
    basic(w)
    modifiers(w)
    nan_payloads(w)
    extremes(w)
    signs(w)
    w.write()
    w = Writer("alu/half.txt", "f16 and bf16 arithmetic", "generate_float.py")
    half_arithmetic(w)
    w.write()
    w = Writer("alu/approximate.txt", "Approximate functions", "generate_float.py")
    approximations(w)
    w.write()


if __name__ == "__main__":
    main()
