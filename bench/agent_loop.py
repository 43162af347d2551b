#!/usr/bin/env python3
"""Measures the loop around models and judges, with stand-ins for both that cost next to nothing.

  throughput   2,000 replayed trajectories of 8 turns, 64 questions under way: turns per second, processor time, memory
  latency      8 trajectories side by side, an answer takes 200 ms and a judgement 1 ms: what a turn takes beyond those
  kills        an experiment that is killed (SIGKILL) at random moments and resumed, against one that ran undisturbed:
               the records must be the same but for the members `timestamp` and `*seconds`, and no answer that was
               stored may be asked for again

Usage: bench/agent_loop.py [--build build] [--trajectories 2000] [--kills 20] [--json FILE]
Needs the target agent_loop_program.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TURNS = 8


def run(program, folder, trajectories, *options, turns=TURNS, timeout=None):
    command = [program, str(folder), str(trajectories), str(turns), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None
    if process.returncode != 0:
        sys.exit(f"{command}: exit code {process.returncode}: {err}")
    return json.loads(out)


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k != "timestamp" and not k.endswith("seconds")}
    if isinstance(value, list):
        return [without_times(v) for v in value]
    return value


def records(folder):
    return {file.name: [without_times(json.loads(line)) for line in file.read_text().splitlines()]
            for file in sorted((folder / "trajectories").glob("*.jsonl"))}


def stored_answers(folder):
    found = set()
    for file in (folder / "trajectories").glob("*.jsonl"):
        for line in file.read_text().split("\n")[:-1]:  # a torn last line does not count
            record = json.loads(line)
            if record["record"] == "answer":
                found.add(f"{file.stem} {record['turn']}")
    return found


def measure_throughput(program, scratch, trajectories):
    answers = scratch / "answers"
    answers.mkdir()
    for turn in range(1, TURNS + 1):
        kernel = f"__global__ void k{turn}() {{}}\nvoid run() {{}}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n"
        (answers / f"{turn}.md").write_text(f"Version {turn}.\n```cpp\n{kernel}// {'x' * 16000}\n```\n")
    report = run(program, scratch / "throughput", trajectories, "bytes=16000", f"answers={answers}")
    turns = report["turns"]
    return {"trajectories": trajectories, "turns": turns, "seconds": report["seconds"],
            "turns_per_second": turns / report["seconds"],
            "milliseconds_per_turn": 1000 * report["seconds"] / turns,
            "processor_milliseconds_per_turn": 1000 * report["cpu_seconds"] / turns,
            "peak_megabytes": report["peak_bytes"] / 1e6}


def sync_milliseconds(scratch, times=100):
    """What the disk takes for what each answer needs once: appending 16 KB and syncing."""
    with open(scratch / "sync", "ab", buffering=0) as file:
        started = time.time()
        for _ in range(times):
            file.write(b"x" * 16000)
            os.fsync(file.fileno())
    return 1000 * (time.time() - started) / times


def measure_latency(program, scratch):
    side_by_side, turns = 8, 50
    sync = sync_milliseconds(scratch)
    report = run(program, scratch / "latency", side_by_side, "bytes=16000", "model_ms=200", "judge_us=1000",
                 f"in_flight={side_by_side}", turns=turns)
    beyond = report["seconds"] * side_by_side - report["model_seconds"] - report["judge_seconds"]
    return {"trajectories": side_by_side, "turns": report["turns"], "seconds": report["seconds"],
            "milliseconds_per_turn_beyond_model_and_judge": 1000 * beyond / report["turns"],
            "milliseconds_of_a_sync_before_and_after": [sync, sync_milliseconds(scratch)],
            "load_average": os.getloadavg()[0]}


def measure_kills(program, scratch, trajectories, kills, seed):
    random.seed(seed)
    options = ["bytes=4000", "model_ms=20", "judge_us=200"]
    started = time.time()
    run(program, scratch / "whole", trajectories, *options)
    whole_seconds = time.time() - started
    expected = records(scratch / "whole")
    folder, asked = scratch / "killed", scratch / "asked"
    done, twice, torn, pending = 0, 0, 0, 0
    position = 0
    while done < kills:
        before = stored_answers(folder) if folder.exists() else set()
        ended = run(program, folder, trajectories, *options, f"asked={asked}",
                    timeout=random.uniform(0.01, 1.6 * whole_seconds / kills))
        questions = asked.read_text()[position:].splitlines() if asked.exists() else []
        position += sum(len(q) + 1 for q in questions)
        twice += sum(q in before for q in questions)
        if ended:
            break
        done += 1
        for file in (folder / "trajectories").glob("*.jsonl"):
            text = file.read_bytes()
            torn += not text.endswith(b"\n")
            lines = text.split(b"\n")[:-1]
            pending += bool(lines) and json.loads(lines[-1])["record"] == "answer"
    run(program, folder, trajectories, *options, f"asked={asked}")
    found = records(folder)
    counts = collections.Counter(asked.read_text().splitlines())
    return {"trajectories": trajectories, "kills": done, "seed": seed, "undisturbed_seconds": whole_seconds,
            "records": sum(map(len, expected.values())), "identical": found == expected,
            "different_trajectories": sum(found.get(name) != one for name, one in expected.items()),
            "stored_answers_asked_again": twice,
            "questions_lost_to_a_kill_and_asked_again": sum(n - 1 for n in counts.values()),
            "answers_waiting_to_be_judged_at_a_kill": pending, "torn_lines_at_a_kill": torn}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--trajectories", default=2000, type=int)
    parser.add_argument("--kills", default=20, type=int)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    program = options.build / "agent_loop_program"
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="agent-loop-", dir=options.build))
    try:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        model = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
        report = {"date": datetime.date.today().isoformat(), "commit": commit.stdout.strip(),
                  "machine": {"processor": model[0] if model else platform.machine(), "cores": os.cpu_count()},
                  "throughput": measure_throughput(program, scratch, options.trajectories),
                  "latency": measure_latency(program, scratch),
                  "kills": measure_kills(program, scratch, options.trajectories, options.kills, options.seed)}
    finally:
        shutil.rmtree(scratch)
    text = json.dumps(report, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
    sys.exit(0 if report["kills"]["identical"] and not report["kills"]["stored_answers_asked_again"] else 1)


if __name__ == "__main__":
    main()
