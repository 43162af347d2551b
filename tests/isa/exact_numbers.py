"""Exact arithmetic for the generators of ISA cases: binary floating-point formats over fractions.

Nothing here shares code or method with the emulator: values are rationals, every result is rounded once from the exact
value. Special cases follow IEEE 754 and the PTX ISA.
"""

from fractions import Fraction
from math import isqrt


class Format:
    def __init__(self, name, exponent_bits, fraction_bits, has_infinity=True):
        self.name = name
        self.exponent_bits = exponent_bits
        self.fraction_bits = fraction_bits
        self.width = 1 + exponent_bits + fraction_bits
        self.bias = (1 << (exponent_bits - 1)) - 1
        self.has_infinity = has_infinity
        top = (1 << exponent_bits) - 1
        if has_infinity:
            self.infinity = top << fraction_bits
            self.largest = self.infinity - 1
        else:  # e4m3: only the pattern of all ones is NaN
            self.infinity = None
            self.largest = (1 << (exponent_bits + fraction_bits)) - 2
        self.sign_bit = 1 << (self.width - 1)
        self.smallest_normal = 1 << fraction_bits

    def canonical_nan(self):
        return self.sign_bit - 1

    def decode(self, bits):
        """-> (kind, sign, value): kind is 'nan', 'inf' or 'num'."""
        sign = (bits >> (self.width - 1)) & 1
        magnitude = bits & (self.sign_bit - 1)
        if magnitude > self.largest:
            if magnitude == self.infinity:
                return "inf", sign, None
            return "nan", sign, None
        exponent = magnitude >> self.fraction_bits
        fraction = magnitude & ((1 << self.fraction_bits) - 1)
        if exponent:
            fraction |= 1 << self.fraction_bits
        else:
            exponent = 1
        value = Fraction(fraction) * Fraction(2) ** (exponent - self.bias - self.fraction_bits)
        return "num", sign, -value if sign else value

    def is_subnormal(self, bits):
        magnitude = bits & (self.sign_bit - 1)
        return 0 < magnitude < self.smallest_normal

    def flush(self, bits):
        return bits & self.sign_bit if self.is_subnormal(bits) else bits

    def encode(self, value, mode="rn", sign=None, satfinite=False):
        """Rounds an exact value; `sign` is the sign of an exact zero."""
        if value == 0:
            return self.sign_bit if sign else 0
        negative = value < 0
        magnitude = -value if negative else value
        exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
        if Fraction(2) ** exponent > magnitude:
            exponent -= 1
        exponent = max(exponent, 1 - self.bias)
        scaled = magnitude / Fraction(2) ** (exponent - self.fraction_bits)
        return self._finish(scaled, exponent, negative, mode, satfinite)

    def _finish(self, scaled, exponent, negative, mode, satfinite):
        kept = scaled.numerator // scaled.denominator
        rest = scaled - kept
        half = Fraction(1, 2)
        if mode == "rn":
            up = rest > half or (rest == half and kept & 1)
        elif mode == "rna":
            up = rest >= half
        elif mode == "rz":
            up = False
        elif mode == "rm":
            up = negative and rest != 0
        elif mode == "rp":
            up = not negative and rest != 0
        else:
            raise ValueError(mode)
        kept += 1 if up else 0
        sign = self.sign_bit if negative else 0
        bits = ((exponent + self.bias - 1) << self.fraction_bits) + kept
        if bits > self.largest:
            toward_zero = mode == "rz" or (mode == "rm" and not negative) or (mode == "rp" and negative)
            if satfinite or toward_zero:
                return sign | self.largest
            return sign | (self.infinity if self.has_infinity else self.canonical_nan())
        return sign | bits


F16 = Format("f16", 5, 10)
BF16 = Format("bf16", 8, 7)
F32 = Format("f32", 8, 23)
F64 = Format("f64", 11, 52)
TF32 = Format("tf32", 8, 10)
E4M3 = Format("e4m3", 4, 3, has_infinity=False)
E5M2 = Format("e5m2", 5, 2)

NAN = "nan"  # any NaN: payloads are not specified


F64_INVALID = 0xFFF8 << 48
F64_QUIET = 1 << 51


def nan_of(fmt, *operands):
    """f32, f16 and bf16 instructions return one NaN. f64 ones return the first NaN of `operands`, quieted, or the NaN of
    an invalid operation: the ISA says that payloads are supported; which operand wins was seen on an H200."""
    if fmt is not F64:
        return fmt.canonical_nan()
    for bits in operands:
        if F64.decode(bits)[0] == "nan":
            return bits | F64_QUIET
    return F64_INVALID


def narrow_nan(source, target, bits):
    """A NaN converted to another format keeps its sign and the upper part of its payload where f64 takes part (H200)."""
    if F64 not in (source, target):
        return target.canonical_nan()
    payload = bits & ((1 << source.fraction_bits) - 1)
    shift = target.fraction_bits - source.fraction_bits
    payload = payload << shift if shift >= 0 else payload >> -shift
    sign = target.sign_bit if bits & source.sign_bit else 0
    return sign | target.infinity | 1 << (target.fraction_bits - 1) | payload


def _zero_sign(mode, sign_a, sign_b):
    if sign_a == sign_b:
        return sign_a
    return 1 if mode == "rm" else 0


def add(fmt, a, b, mode="rn"):
    ka, sa, va = fmt.decode(a)
    kb, sb, vb = fmt.decode(b)
    if ka == "nan" or kb == "nan":
        return nan_of(fmt, b, a)
    if ka == "inf" or kb == "inf":
        if ka == kb and sa != sb:
            return nan_of(fmt, b, a)
        sign = sa if ka == "inf" else sb
        return fmt.infinity | (fmt.sign_bit if sign else 0)
    total = va + vb
    return fmt.encode(total, mode, sign=_zero_sign(mode, sa, sb))


def negate(fmt, a):
    return a ^ fmt.sign_bit


def sub(fmt, a, b, mode="rn"):
    if "nan" in (fmt.decode(a)[0], fmt.decode(b)[0]):
        return nan_of(fmt, b, a)
    return add(fmt, a, negate(fmt, b), mode)


def mul(fmt, a, b, mode="rn"):
    ka, sa, va = fmt.decode(a)
    kb, sb, vb = fmt.decode(b)
    if ka == "nan" or kb == "nan":
        return nan_of(fmt, b, a)
    sign = sa ^ sb
    if ka == "inf" or kb == "inf":
        if va == 0 or vb == 0:
            return nan_of(fmt, b, a)
        return fmt.infinity | (fmt.sign_bit if sign else 0)
    return fmt.encode(va * vb, mode, sign=sign)


def fma(fmt, a, b, c, mode="rn"):
    ka, sa, va = fmt.decode(a)
    kb, sb, vb = fmt.decode(b)
    kc, sc, vc = fmt.decode(c)
    if "nan" in (ka, kb, kc):
        return nan_of(fmt, b, c, a)
    sign = sa ^ sb
    if ka == "inf" or kb == "inf":
        if va == 0 or vb == 0 or (kc == "inf" and sc != sign):
            return nan_of(fmt, b, c, a)
        return fmt.infinity | (fmt.sign_bit if sign else 0)
    if kc == "inf":
        return c
    return fmt.encode(va * vb + vc, mode, sign=_zero_sign(mode, sign, sc))


def div(fmt, a, b, mode="rn"):
    ka, sa, va = fmt.decode(a)
    kb, sb, vb = fmt.decode(b)
    if ka == "nan" or kb == "nan" or (ka == "inf" and kb == "inf"):
        return nan_of(fmt, a, b)
    sign = sa ^ sb
    signed = fmt.sign_bit if sign else 0
    if ka == "inf":
        return fmt.infinity | signed
    if kb == "inf":
        return signed
    if vb == 0:
        return nan_of(fmt, a, b) if va == 0 else fmt.infinity | signed
    return fmt.encode(va / vb, mode, sign=sign)


def sqrt(fmt, a, mode="rn"):
    kind, sign, value = fmt.decode(a)
    if kind == "nan":
        return nan_of(fmt, a)
    if kind == "num" and value == 0:
        return a
    if sign:
        return nan_of(fmt, a)
    if kind == "inf":
        return a
    # 2 * (fraction bits + 4) extra bits, then a sticky bit: rounds like the exact root.
    shift = 2 * (fmt.fraction_bits + 8)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    scale = shift - exponent
    scale += scale & 1
    scaled = value * Fraction(2) ** scale
    whole = scaled.numerator // scaled.denominator
    root = isqrt(whole)
    exact = root * root == scaled
    approximate = Fraction(2 * root + (0 if exact else 1), 2) / Fraction(2) ** (scale // 2)
    return fmt.encode(approximate, mode)


def is_tiny(fmt, value, mode="rn"):
    """Below the normal range after rounding with an unbounded exponent: what `.ftz` flushes (seen on an H200)."""
    wide = Format("unbounded", fmt.exponent_bits + 4, fmt.fraction_bits)
    rounded = abs(wide.decode(wide.encode(value, mode))[2])
    return rounded < Fraction(2) ** (1 - fmt.bias)


def saturate(fmt, bits):
    """.sat: [0, 1], NaN and -0 become +0."""
    if bits == NAN:
        return 0
    kind, sign, value = fmt.decode(bits)
    if kind == "nan" or sign or value == 0:
        return 0
    one = fmt.encode(Fraction(1))
    return one if kind == "inf" or value > 1 else bits


def relu(fmt, bits):
    kind, sign, _ = fmt.decode(bits)
    return bits if kind == "nan" or not sign else 0


def minmax(fmt, a, b, maximum, propagate_nan=False, xorsign=False):
    ka, sa, va = fmt.decode(a)
    kb, sb, vb = fmt.decode(b)
    if (ka == "nan" and kb == "nan") or (propagate_nan and "nan" in (ka, kb)):
        return nan_of(fmt, b, a)
    if xorsign:
        sign = fmt.sign_bit if sa ^ sb else 0
        result = minmax(fmt, a & ~fmt.sign_bit, b & ~fmt.sign_bit, maximum)
        return (result & ~fmt.sign_bit) | sign
    if ka == "nan":
        return b
    if kb == "nan":
        return a

    def key(kind, sign, value):
        infinite = kind == "inf"
        return ((-1 if sign else 1) if infinite else 0, 0 if infinite else value, 0 if sign else 1)

    first, second = key(ka, sa, va), key(kb, sb, vb)
    if first == second:
        return a
    return a if (first > second) == maximum else b


def compare(fmt, op, a, b):
    ka, sa, va = fmt.decode(a)
    kb, sb, vb = fmt.decode(b)
    unordered = "nan" in (ka, kb)
    if op == "num":
        return not unordered
    if op == "nan":
        return unordered
    if unordered:
        return op.endswith("u")

    def key(kind, sign, value):
        return ((-1 if sign else 1) if kind == "inf" else 0, 0 if kind == "inf" else value)

    x, y = key(ka, sa, va), key(kb, sb, vb)
    base = op[:-1] if op.endswith("u") and op != "nu" else op
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[base]


def round_to_integer(value, mode):
    whole = value.numerator // value.denominator  # floor
    rest = value - whole
    if mode == "rmi":
        return whole
    if mode == "rpi":
        return whole + (1 if rest else 0)
    if mode == "rzi":
        return whole + (1 if rest and value < 0 else 0)
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1):
        return whole + 1
    return whole
