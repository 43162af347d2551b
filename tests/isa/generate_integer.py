#!/usr/bin/env python3
"""Cases for integer, logic, shift, bit-field and video instructions. Run in tests/isa: ./generate_integer.py"""

import random

from case_writer import Writer, lanes

INTS = ["u16", "s16", "u32", "s32", "u64", "s64"]


def bits_of(type_):
    return int(type_[1:])


def signed(type_):
    return type_[0] == "s"


def mask(bits):
    return (1 << bits) - 1


def value(type_, pattern):
    bits = bits_of(type_)
    pattern &= mask(bits)
    return pattern - (1 << bits) if signed(type_) and pattern >> (bits - 1) else pattern


def edges(bits, seed=0):
    rng = random.Random(bits * 1000 + seed)
    top = mask(bits)
    fixed = [0, 1, 2, 3, 7, top, top - 1, top >> 1, (top >> 1) + 1, (top >> 1) - 1, 0x55 * (top // 0xFF), 0xAA * (top // 0xFF),
             1 << (bits // 2), mask(bits // 2), top ^ mask(bits // 2)]
    return fixed + [rng.getrandbits(bits) for _ in range(9)] + [rng.getrandbits(bits // 2) for _ in range(4)]


def clamp(v, low, high):
    return max(low, min(high, v))


def limits(type_):
    bits = bits_of(type_)
    return (-(1 << (bits - 1)), mask(bits - 1)) if signed(type_) else (0, mask(bits))


def binary(w, name, ptx, type_, function, *, result=None, register=None, hot=False, a=None, b=None):
    """A case of two sources; hot operations also get uniform and immediate operands."""
    bits = bits_of(type_)
    xs, ys = lanes(a or edges(bits), b or edges(bits, 1), seed=bits)
    result = register or result or type_
    source = register or type_

    def results(left, right):
        return [function(value(type_, x), value(type_, y)) for x, y in zip(left, right)]

    w.case(name, f"{ptx} %d, %a, %b;", [(source, xs), (source, ys)], [(result, results(xs, ys))])
    if hot:
        k = [ys[5]] * 32
        w.case(name + "/b-uniform", f"{ptx} %d, %a, %b;", [(type_, xs), (type_, k, "uniform")], [(result, results(xs, k))])
        w.case(name + "/b-immediate", f"{ptx} %d, %a, %b;", [(type_, xs), (type_, k, "immediate")], [(result, results(xs, k))])
        k = [xs[9]] * 32
        w.case(name + "/a-uniform", f"{ptx} %d, %a, %b;", [(type_, k, "uniform"), (type_, ys)], [(result, results(k, ys))])


def ternary(w, name, ptx, types, function, *, result=None, hot=False, columns=None):
    columns = columns or [edges(bits_of(t), i) for i, t in enumerate(types)]
    rows = lanes(*columns, seed=len(name))
    result = result or types[0]

    def results(rows_):
        return [function(*(value(t, v) for t, v in zip(types, row))) for row in zip(*rows_)]

    w.case(name, f"{ptx} %d, %a, %b, %c;", list(zip(types, rows)), [(result, results(rows))])
    if hot:
        for which in range(3):
            varied = list(rows)
            varied[which] = [rows[which][7]] * 32
            inputs = [(t, c, "uniform") if i == which else (t, c) for i, (t, c) in enumerate(zip(types, varied))]
            w.case(f"{name}/{'abc'[which]}-uniform", f"{ptx} %d, %a, %b, %c;", inputs, [(result, results(varied))])
        varied = [rows[0], [rows[1][3]] * 32, [rows[2][11]] * 32]
        w.case(name + "/bc-immediate", f"{ptx} %d, %a, %b, %c;",
               [(types[0], varied[0]), (types[1], varied[1], "immediate"), (types[2], varied[2], "immediate")],
               [(result, results(varied))])


def unary(w, name, ptx, type_, function, *, result=None):
    (xs,) = lanes(edges(bits_of(type_)), seed=bits_of(type_))
    w.case(name, f"{ptx} %d, %a;", [(type_, xs)], [(result or type_, [function(value(type_, x)) for x in xs])])


def halves(function, sign):
    kind = "s16" if sign else "u16"

    def packed(a, b):
        low = function(value(kind, a), value(kind, b)) & 0xFFFF
        high = function(value(kind, a >> 16), value(kind, b >> 16)) & 0xFFFF
        return low | high << 16

    return packed


def truncating_div(a, b):
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def arithmetic(w):
    for t in INTS:
        hot = t in ("s32", "u32", "s64", "u64")
        bits = bits_of(t)
        binary(w, f"add.{t}", f"add.{t}", t, lambda a, b: a + b, hot=hot)
        binary(w, f"sub.{t}", f"sub.{t}", t, lambda a, b: a - b, hot=hot)
        binary(w, f"mul.lo.{t}", f"mul.lo.{t}", t, lambda a, b: a * b, hot=hot)
        binary(w, f"mul.hi.{t}", f"mul.hi.{t}", t, lambda a, b, n=bits: (a * b) >> n)
        ternary(w, f"mad.lo.{t}", f"mad.lo.{t}", [t] * 3, lambda a, b, c: a * b + c, hot=bits == 32)
        ternary(w, f"mad.hi.{t}", f"mad.hi.{t}", [t] * 3, lambda a, b, c, n=bits: ((a * b) >> n) + c)
        ternary(w, f"sad.{t}", f"sad.{t}", [t] * 3, lambda a, b, c: c + abs(a - b))
        nonzero = [v for v in edges(bits, 1) if v & mask(bits)]
        binary(w, f"div.{t}", f"div.{t}", t, truncating_div, b=nonzero)
        binary(w, f"rem.{t}", f"rem.{t}", t, lambda a, b: a - b * truncating_div(a, b), b=nonzero)
        binary(w, f"min.{t}", f"min.{t}", t, min, hot=bits == 32)
        binary(w, f"max.{t}", f"max.{t}", t, max, hot=bits == 32)
        if bits < 64:
            wide = f"{t[0]}{2 * bits}"
            binary(w, f"mul.wide.{t}", f"mul.wide.{t}", t, lambda a, b: a * b, result=wide, hot=bits == 32)
            ternary(w, f"mad.wide.{t}", f"mad.wide.{t}", [t, t, wide], lambda a, b, c: a * b + c, result=wide, hot=bits == 32)
        if signed(t):
            unary(w, f"abs.{t}", f"abs.{t}", t, abs)
            unary(w, f"neg.{t}", f"neg.{t}", t, lambda a: -a)
    for t in INTS:
        values = edges(bits_of(t))[:16]
        note = "unspecified by the ISA; what the instruction sequence of ptxas gives"
        for op in ("div", "rem"):
            w.case(f"{op}.{t}/by-zero", f"{op}.{t} %d, %a, %b;", [(t, values), (t, [0] * 16)], [(t, [-1] * 16)], note=note)
    low, high = limits("s32")
    binary(w, "add.sat.s32", "add.sat.s32", "s32", lambda a, b: clamp(a + b, low, high))
    binary(w, "sub.sat.s32", "sub.sat.s32", "s32", lambda a, b: clamp(a - b, low, high))
    ternary(w, "mad.hi.sat.s32", "mad.hi.sat.s32", ["s32"] * 3, lambda a, b, c: clamp(((a * b) >> 32) + c, low, high))
    for kind in ("u16x2", "s16x2"):
        sign = kind[0] == "s"
        for op, function in (("add", lambda a, b: a + b), ("min", min), ("max", max)):
            binary(w, f"{op}.{kind}", f"{op}.{kind}", "u32", halves(function, sign), register="b32")
    for op, function in (("min", min), ("max", max)):
        binary(w, f"{op}.relu.s32", f"{op}.relu.s32", "s32", lambda a, b, f=function: max(f(a, b), 0))
        binary(w, f"{op}.relu.s16x2", f"{op}.relu.s16x2", "u32", halves(lambda a, b, f=function: max(f(a, b), 0), True), register="b32")


def value24(t, v):
    v &= 0xFFFFFF
    return v - (1 << 24) if t == "s32" and v >> 23 else v


def mul24(w):
    low, high = limits("s32")
    for t in ("u32", "s32"):
        for part, shift in (("lo", 0), ("hi", 16)):
            def product(a, b, t=t, shift=shift):
                return (value24(t, a) * value24(t, b)) >> shift
            binary(w, f"mul24.{part}.{t}", f"mul24.{part}.{t}", t, product)
            ternary(w, f"mad24.{part}.{t}", f"mad24.{part}.{t}", [t] * 3, lambda a, b, c, p=product: p(a, b) + c)
    ternary(w, "mad24.hi.sat.s32", "mad24.hi.sat.s32", ["s32"] * 3,
            lambda a, b, c: clamp(value("s32", (value24("s32", a) * value24("s32", b)) >> 16) + c, low, high))


def counting(w):
    for bits in (32, 64):
        t = f"b{bits}"
        xs = (edges(bits) + [1 << i for i in range(bits)])[:32]
        w.case(f"popc.{t}", f"popc.{t} %d, %a;", [(t, xs)], [("u32", [bin(x & mask(bits)).count("1") for x in xs])])
        w.case(f"clz.{t}", f"clz.{t} %d, %a;", [(t, xs)], [("u32", [bits - (x & mask(bits)).bit_length() for x in xs])])
        w.case(f"brev.{t}", f"brev.{t} %d, %a;", [(t, xs)], [(t, [int(f"{x & mask(bits):0{bits}b}"[::-1], 2) for x in xs])])
        for sign in "us":
            kind = f"{sign}{bits}"

            def position(x, kind=kind, bits=bits):
                v = value(kind, x)
                v = ~v if v < 0 else v
                return v.bit_length() - 1 if v else 0xFFFFFFFF

            positions = [position(x) for x in xs]
            w.case(f"bfind.{kind}", f"bfind.{kind} %d, %a;", [(kind, xs)], [("u32", positions)])
            w.case(f"bfind.shiftamt.{kind}", f"bfind.shiftamt.{kind} %d, %a;", [(kind, xs)],
                   [("u32", [p if p == 0xFFFFFFFF else bits - 1 - p for p in positions])])

    def fns(m, base, offset):
        """Walks the bits in the direction of `offset`'s sign, counting set ones from `base` on."""
        if base > 31:
            return 0xFFFFFFFF
        if offset == 0:
            return base if m >> base & 1 else 0xFFFFFFFF
        found = [p for p in (range(base, 32) if offset > 0 else range(base, -1, -1)) if m >> p & 1]
        return found[abs(offset) - 1] if len(found) >= abs(offset) else 0xFFFFFFFF

    rows = lanes(edges(32), [0, 1, 5, 16, 30, 31], [0, 1, 2, 3, 5, -1, -2, -3, -8, 17], seed=9)
    w.case("fns.b32", "fns.b32 %d, %a, %b, %c;", [("b32", rows[0]), ("b32", rows[1]), ("s32", rows[2])],
           [("b32", [fns(a & mask(32), b, c) for a, b, c in zip(*rows)])])


def bit_fields(w):
    positions = [0, 1, 4, 7, 8, 15, 16, 24, 30, 31, 32, 33, 47, 60, 63, 64, 100, 200, 255]
    for bits in (32, 64):
        for sign in "us":
            t = f"{sign}{bits}"

            def bfe(a, pos, length, t=t, bits=bits):
                a &= mask(bits)
                if length == 0:
                    return 0
                fill = a >> min(pos + length - 1, bits - 1) & 1 if t[0] == "s" else 0
                result = 0
                for i in range(bits):
                    inside = i < length and pos + i < bits
                    result |= (a >> (pos + i) & 1 if inside else fill) << i
                return result

            rows = lanes(edges(bits), positions, positions, seed=bits + 1)
            w.case(f"bfe.{t}", f"bfe.{t} %d, %a, %b, %c;", [(t, rows[0]), ("u32", rows[1]), ("u32", rows[2])],
                   [(t, [bfe(a, b, c) for a, b, c in zip(*rows)])])
        t = f"b{bits}"

        def bfi(a, b, pos, length, bits=bits):
            for i in range(length):
                if pos + i < bits:
                    b = b & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i) if i < bits else b
            return b

        rows = lanes(edges(bits), edges(bits, 3), positions, positions, seed=bits + 2)
        w.case(f"bfi.{t}", f"bfi.{t} %d, %a, %b, %c, %e;",
               [(t, rows[0]), (t, rows[1]), ("u32", rows[2]), ("u32", rows[3])], [(t, [bfi(*row) for row in zip(*rows)])])
    amounts = [0, 1, 5, 8, 16, 30, 31, 32, 33, 63, 64, 0xFFFFFFFF]
    for mode in ("clamp", "wrap"):
        rows = lanes(amounts, list(reversed(amounts)), seed=5)

        def bmsk(a, b, mode=mode):
            if mode == "wrap":
                a, b = a & 31, b & 31
            if a > 31:
                return 0
            return mask(min(b, 32)) << a

        w.case(f"bmsk.{mode}.b32", f"bmsk.{mode}.b32 %d, %a, %b;", [("b32", rows[0]), ("u32", rows[1])],
               [("b32", [bmsk(*row) for row in zip(*rows)])])
        for t in ("u32", "s32"):
            rows = lanes(edges(32), amounts, seed=6)

            def szext(a, n, mode=mode, t=t):
                n = n & 31 if mode == "wrap" else min(n, 32)
                if n == 0:
                    return 0
                low = a & mask(n)
                return low - (1 << n) if t == "s32" and low >> (n - 1) else low

            w.case(f"szext.{mode}.{t}", f"szext.{mode}.{t} %d, %a, %b;", [(t, rows[0]), ("u32", rows[1])],
                   [(t, [szext(*row) for row in zip(*rows)])])


def dot_products(w):
    def part(word, index, width, sign):
        v = word >> (index * width) & mask(width)
        return v - (1 << width) if sign and v >> (width - 1) else v

    for ta in ("u32", "s32"):
        for tb in ("u32", "s32"):
            sa, sb = ta == "s32", tb == "s32"
            rows = lanes(edges(32), edges(32, 1), edges(32, 2), seed=11)
            result = "s32" if sa or sb else "u32"
            w.case(f"dp4a.{ta}.{tb}", f"dp4a.{ta}.{tb} %d, %a, %b, %c;", [("b32", r) for r in rows],
                   [(result, [c + sum(part(a, i, 8, sa) * part(b, i, 8, sb) for i in range(4)) for a, b, c in zip(*rows)])])
            for half in ("lo", "hi"):
                base = 0 if half == "lo" else 2
                w.case(f"dp2a.{half}.{ta}.{tb}", f"dp2a.{half}.{ta}.{tb} %d, %a, %b, %c;", [("b32", r) for r in rows],
                       [(result, [c + sum(part(a, i, 16, sa) * part(b, base + i, 8, sb) for i in range(2))
                                  for a, b, c in zip(*rows)])])


def carries(w):
    for bits in (32, 64):
        t = f"u{bits}"
        rows = lanes(edges(bits), edges(bits, 1), edges(bits, 2), edges(bits, 3), seed=21)
        full = 1 << (2 * bits)
        totals, differences, products = [], [], []
        for a, b, c, e in zip(*(r for r in rows)):
            a, b, c, e = (v & mask(bits) for v in (a, b, c, e))
            totals.append(((a | b << bits) + (c | e << bits)) % full)
            differences.append(((a | b << bits) - (c | e << bits)) % full)
            products.append((a * b + (c | e << bits)) % full)
        inputs = [(t, r) for r in rows]

        def split(values):
            return [(t, [v & mask(bits) for v in values]), (t, [v >> bits for v in values])]

        w.case(f"add.cc+addc.{t}", [f"add.cc.{t} %d, %a, %c;", f"addc.{t} %q, %b, %e;"], inputs, split(totals))
        w.case(f"sub.cc+subc.{t}", [f"sub.cc.{t} %d, %a, %c;", f"subc.{t} %q, %b, %e;"], inputs, split(differences))
        w.case(f"mad.lo.cc+madc.hi.{t}", [f"mad.lo.cc.{t} %d, %a, %b, %c;", f"madc.hi.{t} %q, %a, %b, %e;"], inputs, split(products))
        w.case(f"add.cc+addc.cc+addc.{t}",
               [f"add.cc.{t} %d, %a, %c;", f"addc.cc.{t} %q, %b, %e;", f"addc.{t} %r, 0, 0;"], inputs,
               split(totals) + [(t, [((a & mask(bits)) + ((b & mask(bits)) << bits) + (c & mask(bits)) + ((e & mask(bits)) << bits)) >> (2 * bits)
                                     for a, b, c, e in zip(*rows)])])


def logic(w):
    operations = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}
    for name, function in operations.items():
        for bits in (16, 32, 64):
            rows = lanes(edges(bits), edges(bits, 1), seed=31)
            w.case(f"{name}.b{bits}", f"{name}.b{bits} %d, %a, %b;", [(f"b{bits}", r) for r in rows],
                   [(f"b{bits}", [function(*row) for row in zip(*rows)])])
            if bits >= 32:
                k = [edges(bits)[10]] * 32
                w.case(f"{name}.b{bits}/b-immediate", f"{name}.b{bits} %d, %a, %b;", [(f"b{bits}", rows[0]), (f"b{bits}", k, "immediate")],
                       [(f"b{bits}", [function(a, k[0]) for a in rows[0]])])
                w.case(f"{name}.b{bits}/a-uniform", f"{name}.b{bits} %d, %a, %b;", [(f"b{bits}", k, "uniform"), (f"b{bits}", rows[0])],
                       [(f"b{bits}", [function(k[0], a) for a in rows[0]])])
        rows = [[i & 1 for i in range(32)], [i >> 1 & 1 for i in range(32)]]
        w.case(f"{name}.pred", f"{name}.pred %d, %a, %b;", [("pred", r) for r in rows], [("pred", [function(*row) for row in zip(*rows)])])
    w.case("not.pred", "not.pred %d, %a;", [("pred", [i & 1 for i in range(32)])], [("pred", [1 - (i & 1) for i in range(32)])])
    w.case("mov.pred", "mov.pred %d, %a;", [("pred", [i & 1 for i in range(32)])], [("pred", [i & 1 for i in range(32)])])
    for bits in (16, 32, 64):
        t = f"b{bits}"
        xs = edges(bits)
        w.case(f"not.{t}", f"not.{t} %d, %a;", [(t, xs)], [(t, [~x for x in xs])])
        w.case(f"cnot.{t}", f"cnot.{t} %d, %a;", [(t, xs)], [(t, [int(x & mask(bits) == 0) for x in xs])])

    def lut(table, a, b, c):
        return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i for i in range(32))

    rows = lanes(edges(32), edges(32, 1), edges(32, 2), seed=33)
    for table in (0x00, 0x1B, 0x40, 0x78, 0x80, 0x96, 0xCA, 0xD8, 0xE8, 0xEA, 0xF8, 0xFE, 0xFF):
        w.case(f"lop3.b32/{table:02x}", f"lop3.b32 %d, %a, %b, %c, {table:#x};", [("b32", r) for r in rows],
               [("b32", [lut(table, *row) for row in zip(*rows)])])
    k = [rows[1][4]] * 32
    for table in (0xEA, 0x1B):
        w.case(f"lop3.b32/{table:02x}/b-immediate", f"lop3.b32 %d, %a, %b, %c, {table:#x};",
               [("b32", rows[0]), ("b32", k, "immediate"), ("b32", rows[2])],
               [("b32", [lut(table, a, k[0], c) for a, c in zip(rows[0], rows[2])])])
    for mode, function in (("or", lambda p, q: p | q), ("and", lambda p, q: p & q)):
        q = [i >> 2 & 1 for i in range(32)]
        values = [lut(0xC0, *row) for row in zip(*rows)]
        w.case(f"lop3.{mode}.b32", f"lop3.{mode}.b32 %d|%q, %a, %b, %c, 0xc0, %e;", [("b32", r) for r in rows] + [("pred", q)],
               [("b32", values), ("pred", [function(int(v != 0), p) for v, p in zip(values, q)])])


def shifts(w):
    for bits in (16, 32, 64):
        amounts = [0, 1, 3, 7, 8, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 1000, 0x80000000, 0xFFFFFFFF]
        rows = lanes(edges(bits), amounts, seed=41)
        t = f"b{bits}"

        def shl(a, n, bits=bits):
            return a << n if n < bits else 0

        def case(name, ptx, kind, function):
            w.case(name, f"{ptx} %d, %a, %b;", [(kind, rows[0]), ("u32", rows[1])], [(kind, [function(*row) for row in zip(*rows)])])
            for n in (4, bits - 1, bits):
                w.case(f"{name}/by-{n}", f"{ptx} %d, %a, %b;", [(kind, rows[0]), ("u32", [n] * 32, "immediate")],
                       [(kind, [function(a, n) for a in rows[0]])])

        case(f"shl.{t}", f"shl.{t}", t, shl)
        for kind in (f"u{bits}", f"s{bits}"):
            case(f"shr.{kind}", f"shr.{kind}", kind, lambda a, n, k=kind, m=bits: value(k, a) >> min(n, m))
    amounts = [0, 1, 5, 16, 31, 32, 33, 63, 64, 255]
    rows = lanes(edges(32), edges(32, 1), amounts, seed=42)
    for mode in ("clamp", "wrap"):
        def amount(n, mode=mode):
            return n & 31 if mode == "wrap" else min(n, 32)
        inputs = [("b32", rows[0]), ("b32", rows[1]), ("u32", rows[2])]
        w.case(f"shf.l.{mode}.b32", f"shf.l.{mode}.b32 %d, %a, %b, %c;", inputs,
               [("b32", [((b << 32 | a) << amount(n)) >> 32 for a, b, n in zip(*rows)])])
        w.case(f"shf.r.{mode}.b32", f"shf.r.{mode}.b32 %d, %a, %b, %c;", inputs,
               [("b32", [(b << 32 | a) >> amount(n) for a, b, n in zip(*rows)])])

    def prmt(a, b, selectors):
        source = [(b << 32 | a) >> (8 * i) & 0xFF for i in range(8)]
        result = 0
        for i, s in enumerate(selectors):
            byte = source[s & 7]
            result |= ((0xFF if byte & 0x80 else 0) if s & 8 else byte) << (8 * i)
        return result

    selectors = [0x3210, 0x7654, 0x0123, 0x5410, 0x7632, 0x0000, 0x7777, 0x89AB, 0xCDEF, 0xFEDC, 0x8888, 0x9180, 0x4440, 0x12345678]
    rows = lanes(edges(32), edges(32, 1), selectors, seed=43)
    w.case("prmt.b32", "prmt.b32 %d, %a, %b, %c;", [("b32", r) for r in rows],
           [("b32", [prmt(a, b, [c >> (4 * i) & 15 for i in range(4)]) for a, b, c in zip(*rows)])])
    for s in (0x5410, 0x7632, 0xBA98):
        w.case(f"prmt.b32/{s:04x}", "prmt.b32 %d, %a, %b, %c;", [("b32", rows[0]), ("b32", rows[1]), ("b32", [s] * 32, "immediate")],
               [("b32", [prmt(a, b, [s >> (4 * i) & 15 for i in range(4)]) for a, b in zip(rows[0], rows[1])])])
    modes = {  # bytes b3 b2 b1 b0 for c[1:0] = 0..3, as in the table of the ISA
        "f4e": ["3210", "4321", "5432", "6543"], "b4e": ["5670", "6701", "7012", "0123"],
        "rc8": ["0000", "1111", "2222", "3333"], "ecl": ["3210", "3211", "3222", "3333"],
        "ecr": ["0000", "1110", "2210", "3210"], "rc16": ["1010", "3232", "1010", "3232"]}
    for mode, table in modes.items():
        c = [i & 3 for i in range(32)]
        w.case(f"prmt.b32.{mode}", f"prmt.b32.{mode} %d, %a, %b, %c;", [("b32", rows[0]), ("b32", rows[1]), ("b32", c)],
               [("b32", [prmt(a, b, [int(x) for x in reversed(table[n])]) for a, b, n in zip(rows[0], rows[1], c)])])


def video(w):
    rows = lanes(edges(32), edges(32, 1), edges(32, 2), seed=51)
    functions = {"vadd": lambda a, b: a + b, "vsub": lambda a, b: a - b, "vabsdiff": lambda a, b: abs(a - b), "vmin": min, "vmax": max}

    def lane(word, index, width, sign):
        v = word >> (index * width) & mask(width)
        return v - (1 << width) if sign and v >> (width - 1) else v

    for name, function in functions.items():
        for d, a, b in (("u32", "u32", "u32"), ("s32", "s32", "s32"), ("s32", "u32", "s32")):
            sa, sb = a == "s32", b == "s32"
            w.case(f"{name}.{d}.{a}.{b}.b1.h1", f"{name}.{d}.{a}.{b} %d, %a.b1, %b.h1;", [("b32", rows[0]), ("b32", rows[1])],
                   [("b32", [function(lane(x, 1, 8, sa), lane(y, 1, 16, sb)) for x, y in zip(rows[0], rows[1])])])
            low, high = limits(d)
            if name == "vadd" and d == "u32":
                continue  # the sequence of ptxas wraps where the ISA saturates
            w.case(f"{name}.{d}.{a}.{b}.sat.add", f"{name}.{d}.{a}.{b}.sat.add %d, %a, %b, %c;", [("b32", r) for r in rows],
                   [("b32", [clamp(function(value(a, x), value(b, y)), low, high) + z for x, y, z in zip(*rows)])])
        for width, count in ((8, 4), (16, 2)):
            for t in ("u32", "s32"):
                sign = t == "s32"

                def simd(x, y, width=width, count=count, sign=sign, f=function):
                    return sum((f(lane(x, i, width, sign), lane(y, i, width, sign)) & mask(width)) << (i * width) for i in range(count))

                w.case(f"{name}{count}.{t}", f"{name}{count}.{t}.{t}.{t} %d, %a, %b, %c;", [("b32", r) for r in rows],
                       [("b32", [simd(x, y) for x, y in zip(rows[0], rows[1])])])
        w.case(f"{name}4.u32.add", f"{name}4.u32.u32.u32.add %d, %a, %b, %c;", [("b32", r) for r in rows],
               [("b32", [z + sum(function(lane(x, i, 8, False), lane(y, i, 8, False)) for i in range(4)) for x, y, z in zip(*rows)])])


def main():
    w = Writer("alu/integer.txt", "Integer arithmetic, bit fields, dot products, carries", "generate_integer.py")
    arithmetic(w)
    mul24(w)
    counting(w)
    bit_fields(w)
    dot_products(w)
    carries(w)
    w.write()
    w = Writer("alu/logic.txt", "Logic, shifts, lop3, prmt", "generate_integer.py")
    logic(w)
    shifts(w)
    w.write()
    w = Writer("alu/video.txt", "Video instructions", "generate_integer.py")
    video(w)
    w.write()


if __name__ == "__main__":
    main()
