"""Inputs and truth of problems for the *_numpy.py tests, as `ptxbench problems tensors --truth` writes them, and how two
results are compared. Importing it ends the script with exit code 77, which the test suite reports as skipped, where
NumPy is not installed.
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

DISTRIBUTIONS = ("normal", "scaled", "spiky", "ties", "flat", "tiny")
SEED = "5"


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


def decode(code, raw):
    """Floating types become float64, integers stay."""
    if code == "BF16":  # the upper half of float32
        return (raw.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)
    if code == "F8_E4M3":
        return TABLE[raw]
    if code == "F32":
        return raw.view(numpy.float32).astype(numpy.float64)
    return raw.view({"I32": numpy.int32, "I64": numpy.int64}[code])


def read(path):
    """The tensors of a safetensors file, by name."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        raw = numpy.frombuffer(data, numpy.uint8, end - first, begin + first)
        tensors[name] = decode(entry["dtype"], raw.copy()).reshape(entry["shape"])
    return tensors


class Program:
    """ptxbench, which makes everything the way an evaluation does: definition, workload, inputs, reference."""

    def __init__(self, path):
        self.path = path

    def json(self, *arguments):
        return json.loads(subprocess.run([self.path, "problems", *arguments, "--json"], check=True,
                                         capture_output=True).stdout)

    def tensors(self, name, distribution, *arguments):
        """Inputs and outputs; `arguments` choose the workload."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "tensors"
            subprocess.run([self.path, "problems", "tensors", name, file, "--truth", "--seed", SEED, "--distribution",
                            distribution, *arguments], check=True, stdout=subprocess.DEVNULL)
            return read(file)

    def of_axes(self, name, distribution, axes):
        return self.tensors(name, distribution, *(word for axis in axes for word in ("--axis", axis)))

    def checks(self, *kinds, also=lambda problem: []):
        """The checks of all problems whose op_type begins with one of `kinds`, and the lists of axes that `also` gives
        for a problem, each with the next distribution: what it is, the problem's name, its tensors."""
        number = 0
        for problem in self.json("list")["problems"]:
            if not problem["op_type"].startswith(kinds):
                continue
            name = problem["name"]
            choices = [["--workload", check["uuid"]] for check in self.json("show", name)["checks"]]
            choices += [[word for axis in axes for word in ("--axis", axis)] for axes in also(problem)]
            for choice in choices:
                distribution = DISTRIBUTIONS[number % len(DISTRIBUTIONS)]
                number += 1
                yield f"{name} {' '.join(choice)}, {distribution} inputs", name, self.tensors(name, distribution, *choice)


class Tally:
    """Outputs compared, and failures, each of which it prints."""

    def __init__(self):
        self.compared = self.failures = 0

    def expect(self, holds, what):
        if not holds:
            self.failures += 1
            print(what)

    def rows(self, got, right, what, limit=1e-5, row_limit=1e-4):
        """Relative errors of the whole and of the worst row. fp32 scores of hundreds cost 1e-5 of a weight; the tightest
        limits of the rule are 0.0006 of a norm for FP8 products and 0.005 for attention."""
        error = numpy.linalg.norm(got - right) / max(numpy.linalg.norm(right), 1e-30)
        rows = numpy.linalg.norm(right.reshape(-1, right.shape[-1]), axis=-1)
        row_errors = numpy.linalg.norm((got - right).reshape(-1, right.shape[-1]), axis=-1)
        worst = (row_errors / numpy.maximum(rows, 0.1 * numpy.sqrt((rows**2).mean()))).max()
        self.compared += 1
        # Written so that NaN fails.
        self.expect(error < limit and worst < row_limit, f"{what}: relative error {error:.2g}, worst row {worst:.2g}")

    def end(self, more="", sound=True):
        """Prints the sum and gives the exit code."""
        print(f"{self.compared} outputs compared with NumPy {numpy.__version__}{more}, {self.failures} failures")
        return 1 if self.failures or self.compared == 0 or not sound else 0


def softmax(q, k, v, scale, causal):
    """Output, natural logarithm of the row sums, and scores of dense attention."""
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        rows = numpy.arange(scores.shape[-1])
        scores = numpy.where(rows[None, :] > rows[:, None], -numpy.inf, scores)
    top = scores.max(axis=-1, keepdims=True)
    weights = numpy.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    return weights @ v / total, (top + numpy.log(total))[..., 0], scores
