#!/usr/bin/env python3
"""Feedback on kernels with one planted fault each: makes them, judges them with `ptxbench eval --feedback`, and writes
docs/feedback-examples.md. The cases are in tests/feedback_cases/cases.toml.

  bench/feedback_table.py                      the table
  bench/feedback_table.py --fixtures           the evaluations that the tests of the texts read (tests/agent/golden)
  bench/feedback_table.py --only parity,swizzle --print
  bench/feedback_table.py --blind DIR          text and numbered kernel per case, answers apart
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "feedback_cases" / "cases.toml"
GOLDEN = ROOT / "tests" / "agent" / "golden"
PROBLEM = "gemm_n256_k7168"
AXES = ["M=256"]

# What the public benchmark's published rules give (tests/feedback_cases/README.md): constructed, not measured.
PUBLIC = {
    "nvcc": "nvcc's own text, as it is.",
    "ptxas": "ptxas's own text, which names lines of a PTX file that the model never sees.",
    "host": "`RUNTIME_ERROR` with the host program's log: the error code or message that the candidate itself printed.",
    "hang": "`TIMEOUT`, and the back trace of a core dump: the function and line at which warps stand. Not who should have arrived.",
    "numbers": "`Evaluation FAILED:` `[M=...] INCORRECT_NUMERICAL max_abs_error=... max_rel_error=...`: two maxima, no place and no pattern.",
    "numbers-or-pass": "Where the run happens to go wrong: `INCORRECT_NUMERICAL` with two maxima, or a time-out. Where it does not: `PASSED`. memcheck has no rule for it; racecheck, synccheck and initcheck are not run.",
    "numbers-stale": "`INCORRECT_NUMERICAL` with two maxima, or `PASSED`: outputs start uninitialised, and may hold an earlier result.",
    "memcheck": "memcheck's report: invalid write of 4 bytes, with kernel and line, if the bytes behind the output are unmapped or another allocation's padding.",
    "pass": "`PASSED`, with speed-up and latencies.",
}


def without_comments(source: str) -> str:
    """Lines that are comments, and comments at the ends of lines."""
    lines = []
    for line in source.splitlines():
        if line.lstrip().startswith("//"):
            continue
        lines.append(re.sub(r"\s+//(?![^\"]*\"[^\"]*$).*$", "", line))
    text = "\n".join(lines) + "\n"
    return re.sub(r"^\n+", "", re.sub(r"\n{3,}", "\n\n", text))


def source_of(case: dict) -> str:
    text = without_comments((ROOT / "examples" / "kernels" / f"{case['base']}.cu").read_text())
    for edit in case.get("edit", []):
        if text.count(edit["find"]) != 1:
            sys.exit(f"{CASES}: {case['id']}: found {text.count(edit['find'])} times: {edit['find']}")
        text = text.replace(edit["find"], edit["replace"])
    return text


def command_of(case: dict, kernel: pathlib.Path, program: str, *more: str) -> list[str]:
    axes = case.get("axes", AXES)
    command = [program, "eval", str(kernel), "--problem", case.get("problem", PROBLEM), "--backend", "emulator"]
    for axis in axes:
        command += ["--axis", axis]
    for one in case.get("require", []):
        command += ["--require", one]
    return command + list(more)


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def shortened(evaluation: dict) -> dict:
    """Without what differs from machine to machine and what no text shows."""
    for stage in evaluation["stages"]:
        stage["seconds"] = 0
    evaluation["timings"] = {}
    evaluation["artifact"] = None
    evaluation["hazards"]["seconds"] = 0
    evaluation["backend"]["threads"] = 1
    compile_report = evaluation["compile"]
    for key in ("flags", "log", "header_note"):
        compile_report[key] = [] if key == "flags" else ""
    compile_report["seconds"] = 0
    compile_report["cached"] = False
    # A dozen of each rule shows how they are folded.
    kept, seen = [], {}
    for finding in evaluation["findings"]:
        seen[finding["rule"]] = seen.get(finding["rule"], 0) + 1
        if seen[finding["rule"]] <= 12:
            kept.append(finding)
    evaluation["findings"] = kept
    for one in evaluation["runs"]:
        for launch in one["launches"]:
            launch["seconds"] = 0
    return evaluation


def write_table(cases: list[dict], texts: dict[str, str]) -> None:
    out = [
        "# What a model is told of typical failures",
        "",
        "Made by `bench/feedback_table.py`: kernels that work, with one fault planted in each "
        "([the cases](../tests/feedback_cases/cases.toml)), and what `ptxbench eval --feedback standard` says of them. "
        "[feedback.md](feedback.md) explains the text.",
        "",
        "These are not a held-out sample: the texts were improved while looking at them. Remedies of overwritten buffers and of hangs, the explanation `k_step` and the pattern of unwritten elements were added because a first version of the text did not lead to the fix. How a fresh reader fared with the texts alone: [feedback.md](feedback.md#can-somebody-name-the-fix).",
        "",
        "The column for the public benchmark is **constructed from its published rules, not measured**: it shows compiler text as it is, "
        "runs memcheck alone of compute-sanitizer's tools, adds the back trace of a core dump to a time-out, and says two maxima of wrong numbers.",
        "",
        "| case | class | planted | first line of the text | public benchmark (constructed) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for case in cases:
        lines = texts[case["id"]].splitlines()
        first = next((line for line in lines[1:] if line.startswith("Do first: ")), lines[0]).removeprefix("Do first: ")
        first = first.replace("|", "\\|")
        out.append(f"| [{case['id']}](#{case['id']}) | {case['class']} | {case['fault']} | {first} | {PUBLIC[case['public']]} |")
    for case in cases:
        out += ["", f"## {case['id']}", "", f"Planted in `{case['base']}.cu`: {case['fault']}. The fix: {case['fix']}.", "", "```text",
                texts[case["id"]].rstrip().replace("```", "'''"), "```", "", f"Public benchmark (constructed, not measured): {PUBLIC[case['public']]}"]
    (ROOT / "docs" / "feedback-examples.md").write_text("\n".join(out) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build" / "ptxbench"))
    parser.add_argument("--only", default="", help="ids, separated by commas")
    parser.add_argument("--level", default="standard")
    parser.add_argument("--print", action="store_true", help="print the texts, write nothing")
    parser.add_argument("--fixtures", action="store_true")
    parser.add_argument("--blind", type=pathlib.Path)
    options = parser.parse_args()
    cases = tomllib.loads(CASES.read_text())["case"]
    chosen = [case for case in cases if not options.only or case["id"] in options.only.split(",")]
    texts = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in chosen:
            if not options.fixtures and not options.print and not case.get("table", True):
                continue
            kernel = pathlib.Path(folder) / f"{case['id']}.cu"
            kernel.write_text(source_of(case))
            if options.fixtures:
                GOLDEN.mkdir(exist_ok=True)
                evaluation = json.loads(run(command_of(case, kernel, options.program, "--json", "--hazards", "always")))
                (GOLDEN / f"{case['id']}.json").write_text(json.dumps(shortened(evaluation), indent=1) + "\n")
                (GOLDEN / f"{case['id']}.cu").write_text(kernel.read_text())
                print(case["id"], evaluation["verdict"]["summary"], flush=True)
                continue
            texts[case["id"]] = run(command_of(case, kernel, options.program, "--feedback", options.level))
            if options.print:
                print(f"==== {case['id']}: {case['fault']}\n{texts[case['id']]}", flush=True)
    if options.blind:
        options.blind.mkdir(parents=True, exist_ok=True)
        answers = ["# Answers", ""]
        for number, case in enumerate((one for one in chosen if one["id"] in texts), 1):
            numbered = "\n".join(f"{n:4} | {line}" for n, line in enumerate(source_of(case).splitlines(), 1))
            (options.blind / f"{number:02}.txt").write_text(f"FEEDBACK\n\n{texts[case['id']]}\nKERNEL (kernel.cu)\n\n{numbered}\n")
            answers.append(f"{number:02}. {case['id']} (class {case['class']}): {case['fault']}. Fix: {case['fix']}.")
        (options.blind / "answers.md").write_text("\n".join(answers) + "\n")
    if not options.print and not options.fixtures and not options.only:
        write_table([case for case in cases if case["id"] in texts], texts)


if __name__ == "__main__":
    main()
