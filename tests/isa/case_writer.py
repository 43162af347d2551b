"""Writes ISA case files (format: tests/isa/case_file.h)."""

import random

WIDTH = {"b8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32, "u32": 32, "s32": 32, "f32": 32,
         "f16x2": 32, "bf16x2": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64, "pred": 1}


class Writer:
    def __init__(self, path, title, generator):
        self.path, self.cases, self.names = path, [], set()
        self.header = [f"# {title}", "#",
                       f"# Written by {generator}: expected values come from exact integer and rational arithmetic in",
                       "# Python, never from the emulator. Do not edit; change the generator.", ""]

    def case(self, name, ptx, inputs, outputs, *, tolerance=None, warp=False, note=None):
        """inputs: list of (type, values) or (type, values, 'uniform' | 'immediate'); outputs: list of (type, values).

        Values are bit patterns, one per lane; 'nan' in outputs accepts any NaN, 'any' accepts anything.
        """
        assert name not in self.names, name
        self.names.add(name)
        lines = [f"case {name}"]
        if note:
            lines.append(f"note {note}")
        for line in ptx if isinstance(ptx, list) else [ptx]:
            lines.append(f"ptx {line}")
        if tolerance:
            lines.append(f"tolerance {tolerance}")
        if warp:
            lines.append("warp")
        for entry in inputs:
            kind = entry[2] if len(entry) > 2 else "lanes"
            values = entry[1] if kind == "lanes" else entry[1][:1]
            lines.append(f"in {entry[0]} {kind} " + " ".join(self._hex(entry[0], v) for v in values))
        for type_, values in outputs:
            lines.append(f"out {type_} " + " ".join(self._hex(type_, v) for v in values))
        lines.append("end")
        self.cases.append("\n".join(lines) + "\n")

    @staticmethod
    def _hex(type_, value):
        if isinstance(value, str):
            return value
        return f"{int(value) & ((1 << WIDTH[type_]) - 1):x}"

    def write(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("\n".join(self.header))
            file.write("\n".join(self.cases))
        print(f"{self.path}: {len(self.cases)} cases")


def lanes(*columns, count=32, seed=1):
    """Picks `count` tuples from the product of the columns: every value of each column occurs, the rest is drawn."""
    rng = random.Random(seed)
    rows = []
    longest = max(len(c) for c in columns)
    for i in range(min(count, longest)):
        rows.append(tuple(c[i % len(c)] if k == 0 else c[(i * (2 * k + 1) + k) % len(c)] for k, c in enumerate(columns)))
    while len(rows) < count:
        rows.append(tuple(rng.choice(c) for c in columns))
    return [list(column) for column in zip(*rows)]
