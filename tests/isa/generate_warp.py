#!/usr/bin/env python3
"""Cases for instructions across the lanes of a warp. Run in tests/isa: ./generate_warp.py

Expected values follow the ISA's description lane by lane; cases with branches make lanes arrive separately.
"""

import random

from case_writer import Writer

LANES = range(32)
FULL = 0xFFFFFFFF


def shuffle_source(mode, lane, b, c):
    """Source lane and predicate as the pseudo code of shfl.sync."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    last = lane & segment | clamp & ~segment & 31
    first = lane & segment
    if mode == "up":
        j, inside = lane - b, lane - b >= last
    elif mode == "down":
        j, inside = lane + b, lane + b <= last
    elif mode == "bfly":
        j, inside = lane ^ b, (lane ^ b) <= last
    else:
        j = first | b & ~segment & 31
        inside = j <= last
    return (j if inside else lane), inside


def shuffles(w, rng):
    values = [rng.getrandbits(32) for _ in LANES]
    for mode, c in (("up", 0), ("down", 31), ("bfly", 31), ("idx", 31)):
        for b in (0, 1, 5, 16, 31):
            for width in (32, 16, 8, 4):
                control = c | (32 - width) << 8
                moved = [shuffle_source(mode, l, b, control) for l in LANES]
                w.case(f"shfl.sync.{mode}.b32/{b}/{width}", f"shfl.sync.{mode}.b32 %d|%q, %a, {b}, {control:#x}, 0xffffffff;", [("b32", values)],
                       [("b32", [values[j] for j, _ in moved]), ("pred", [p for _, p in moved])], warp=True)
        offsets = [rng.randrange(32) for _ in LANES]
        moved = [shuffle_source(mode, l, o, c) for l, o in zip(LANES, offsets)]
        w.case(f"shfl.sync.{mode}.b32/per-lane", f"shfl.sync.{mode}.b32 %d|%q, %a, %b, {c}, -1;", [("b32", values), ("b32", offsets)],
               [("b32", [values[j] for j, _ in moved]), ("pred", [p for _, p in moved])], warp=True)
    w.case("shfl.sync.idx.b32/no-predicate", "shfl.sync.idx.b32 %d, %a, 3, 31, -1;", [("b32", values)], [("b32", [values[3]] * 32)], warp=True)
    half = [0xFFFF if l < 16 else 0xFFFF0000 for l in LANES]
    w.case("shfl.sync.bfly.b32/two-groups", "shfl.sync.bfly.b32 %d, %a, 1, 31, %b;", [("b32", values), ("b32", half)],
           [("b32", [values[l ^ 1] for l in LANES])], warp=True)
    odd = [".reg .pred %odd;", "and.b32 %c, %lane, 1;", "setp.eq.u32 %odd, %c, 1;", "mov.u32 %d, 0;", "@!%odd bra EVEN;"]
    w.case("shfl.sync.down.b32/diverged", odd + ["shfl.sync.down.b32 %d, %a, 2, 31, 0xaaaaaaaa;", "EVEN:"], [("b32", values), ("b32", [0] * 32), ("b32", [0] * 32)],
           [("b32", [(values[l + 2] if l + 2 < 32 else values[l]) if l & 1 else 0 for l in LANES])], warp=True)


def votes(w, rng):
    patterns = {"all": [1] * 32, "none": [0] * 32, "mixed": [rng.getrandbits(1) for _ in LANES], "low": [int(l < 8) for l in LANES]}
    for name, p in patterns.items():
        for mode, member in (("full", FULL), ("low", 0xFF)):
            chosen = [p[l] for l in LANES if member >> l & 1]
            results = {"all": all(chosen), "any": any(chosen), "uni": all(chosen) or not any(chosen)}
            if member != FULL:
                # The lanes outside the mask stay away: a lane must be in its own mask.
                before = [".reg .pred %in_mask;", "setp.lt.u32 %in_mask, %lane, 8;"]
                for kind, value in results.items():
                    w.case(f"vote.sync.{kind}.pred/{name}/{mode}", before + ["setp.ne.u32 %d, %lane, %lane;", "@!%in_mask bra OUT;", f"vote.sync.{kind}.pred %d, %a, {member:#x};", "OUT:"],
                           [("pred", p)], [("pred", [value if l < 8 else 0 for l in LANES])], warp=True)
                continue
            for kind, value in results.items():
                w.case(f"vote.sync.{kind}.pred/{name}", f"vote.sync.{kind}.pred %d, %a, {member:#x};", [("pred", p)], [("pred", [value] * 32)], warp=True)
            ballot = sum(v << l for l, v in enumerate(p))
            w.case(f"vote.sync.ballot.b32/{name}", f"vote.sync.ballot.b32 %d, %a, {member:#x};", [("pred", p)], [("b32", [ballot] * 32)], warp=True)
            w.case(f"vote.sync.ballot.b32/{name}/negated", f"vote.sync.ballot.b32 %d, !%a, {member:#x};", [("pred", p)], [("b32", [ballot ^ FULL] * 32)], warp=True)
    p = patterns["mixed"]
    w.case("vote.sync.ballot.b32/groups-by-lane", "vote.sync.ballot.b32 %d, %a, %b;", [("pred", p), ("b32", [0x33333333 if l & 2 == 0 else 0xCCCCCCCC for l in LANES])],
           [("b32", [sum(p[k] << k for k in LANES if k & 2 == l & 2) for l in LANES])], warp=True)


def matches(w, rng):
    for t, bits in (("b32", 32), ("b64", 64)):
        pool = [rng.getrandbits(bits) for _ in range(5)]
        values = [rng.choice(pool) for _ in LANES]
        w.case(f"match.any.sync.{t}", f"match.any.sync.{t} %d, %a, -1;", [(t, values)],
               [("b32", [sum(1 << k for k in LANES if values[k] == values[l]) for l in LANES])], warp=True)
        w.case(f"match.all.sync.{t}/different", f"match.all.sync.{t} %d|%q, %a, -1;", [(t, values)], [("b32", [0] * 32), ("pred", [0] * 32)], warp=True)
        w.case(f"match.all.sync.{t}/same", f"match.all.sync.{t} %d|%q, %a, -1;", [(t, [pool[2]] * 32)], [("b32", [FULL] * 32), ("pred", [1] * 32)], warp=True)
    groups = [0x0F0F0F0F if l & 4 == 0 else 0xF0F0F0F0 for l in LANES]
    values = [l & 4 for l in LANES]
    w.case("match.all.sync.b32/groups", "match.all.sync.b32 %d|%q, %a, %b;", [("b32", values), ("b32", groups)], [("b32", groups), ("pred", [1] * 32)], warp=True)


def reductions(w, rng):
    def signed(v):
        return v - (1 << 32) if v >> 31 else v

    values = [rng.getrandbits(32) for _ in LANES]
    total_and, total_or, total_xor = FULL, 0, 0
    for v in values:
        total_and, total_or, total_xor = total_and & v, total_or | v, total_xor ^ v
    operations = {"add.u32": sum(values), "add.s32": sum(values), "min.u32": min(values), "max.u32": max(values),
                  "min.s32": min(map(signed, values)), "max.s32": max(map(signed, values)), "and.b32": total_and, "or.b32": total_or, "xor.b32": total_xor}
    for name, value in operations.items():
        t = name.split(".")[1]
        w.case(f"redux.sync.{name}", f"redux.sync.{name} %d, %a, -1;", [(t, values)], [(t, [value] * 32)], warp=True)
    groups = [0xFF << (l & 24) for l in LANES]
    w.case("redux.sync.add.s32/groups", "redux.sync.add.s32 %d, %a, %b;", [("s32", values), ("b32", groups)],
           [("s32", [sum(values[l & 24:(l & 24) + 8]) for l in LANES])], warp=True)
    split = [".reg .pred %high;", "setp.ge.u32 %high, %lane, 20;", "@%high bra HIGH;", "redux.sync.max.u32 %d, %a, 0x000fffff;", "bra.uni MEET;",
             "HIGH:", "redux.sync.min.u32 %d, %a, 0xfff00000;", "MEET:"]
    w.case("redux.sync/two-branches", split, [("u32", values)], [("u32", [max(values[:20]) if l < 20 else min(values[20:]) for l in LANES])], warp=True)


def others(w, rng):
    w.case("elect.sync", "elect.sync %d|%q, -1;", [], [("b32", [0] * 32), ("pred", [int(l == 0) for l in LANES])], warp=True)
    w.case("elect.sync/high-lanes", [".reg .pred %high;", "mov.b32 %d, 99;", "setp.ne.u32 %q, %lane, %lane;", "setp.ge.u32 %high, %lane, 12;", "@!%high bra LOW;",
                                     "elect.sync %d|%q, 0xfffff000;", "LOW:"], [],
           [("b32", [12 if l >= 12 else 99 for l in LANES]), ("pred", [int(l == 12) for l in LANES])], warp=True)
    w.case("activemask.b32", "activemask.b32 %d;", [], [("b32", [FULL] * 32)], warp=True)
    # Lanes reach one instruction from both sides of a branch that only it joins.
    values = [rng.getrandbits(32) for _ in LANES]
    w.case("bar.warp.sync/exchange", [".shared .align 4 .b8 buffer[128];", ".reg .u32 %base, %mine, %other;", "mov.u32 %base, buffer;", "mad.lo.u32 %mine, %lane, 4, %base;",
                                      "xor.b32 %other, %lane, 31;", "mad.lo.u32 %other, %other, 4, %base;", "st.shared.u32 [%mine], %a;", "bar.warp.sync 0xffffffff;",
                                      "ld.shared.u32 %d, [%other];"], [("u32", values)], [("u32", list(reversed(values)))], warp=True)
    w.case("bar.warp.sync/after-divergence", [".shared .align 4 .b8 buffer[128];", ".reg .u32 %base, %mine, %other;", ".reg .pred %low;", "mov.u32 %base, buffer;",
                                              "mad.lo.u32 %mine, %lane, 4, %base;", "xor.b32 %other, %lane, 16;", "mad.lo.u32 %other, %other, 4, %base;", "setp.lt.u32 %low, %lane, 16;",
                                              "@!%low bra JOIN;", "st.shared.u32 [%mine], %a;", "JOIN:", "@!%low st.shared.u32 [%mine], %b;", "bar.warp.sync -1;", "ld.shared.u32 %d, [%other];"],
           [("u32", values), ("u32", [v ^ FULL for v in values])], [("u32", [values[l ^ 16] ^ (FULL if l < 16 else 0) for l in LANES])], warp=True)
    w.case("vote.sync.any/guarded", [".reg .pred %low;", "setp.lt.u32 %low, %lane, 10;", "mov.b32 %d, 7;", "@%low vote.sync.ballot.b32 %d, %a, 0x3ff;"],
           [("pred", [l % 3 == 0 for l in LANES])], [("b32", [0x249 if l < 10 else 7 for l in LANES])], warp=True)
    # A loop whose trip count differs between lanes; the sum is taken when all are out.
    w.case("shfl.sync/after-loop", [".reg .u32 %n;", ".reg .pred %more;", "mov.u32 %n, %lane;", "mov.u32 %d, 0;", "LOOP:", "add.u32 %d, %d, %n;", "setp.gt.u32 %more, %n, 0;",
                                    "@%more sub.u32 %n, %n, 1;", "@%more bra LOOP;", "shfl.sync.bfly.b32 %d, %d, 31, 31, -1;"], [],
           [("u32", [(31 - l) * (32 - l) // 2 for l in LANES])], warp=True)


def main():
    rng = random.Random(2024)
    w = Writer("alu/warp.txt", "Warp-wide instructions", "generate_warp.py")
    shuffles(w, rng)
    votes(w, rng)
    matches(w, rng)
    reductions(w, rng)
    others(w, rng)
    w.write()


if __name__ == "__main__":
    main()
