#!/usr/bin/env python3
"""Every attack of attacks.json through the command line, for a machine with a GPU (attacks_test does the same by itself).

    run_attacks.py PTXBENCH --backend gpu|emulator [--json OUT] [--only NAME ...] [--jobs N]

Prints one line per attack: as expected or not, the verdict, and what caught it. Exit code 0: all as expected; 1: not all; 3: an attack
could not be judged. Compiles with PTXBENCH_CACHE, so a cache filled elsewhere needs no compiler's time here.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def judge(program, attack, backend):
    command = [program, "eval", os.path.join(HERE, "candidates", attack["file"]), "--problem", "gemm_small",
               "--data", os.path.join(HERE, "..", "evaluation", "data"), "--axis", f"M={attack['m']}", "--seeds", "1",
               "--backend", backend, "--json", "--host-seconds", str(attack.get("host_seconds", 5 if backend == "gpu" else 1.5))]
    if backend == "emulator":
        command += ["--budget", "20000000"]
    if attack.get("require_target"):
        command += ["--require", "target"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return {"name": attack["name"], "outcome": "not judged", "why": "no answer within 300 s"}
    if done.returncode not in (0, 1):
        return {"name": attack["name"], "outcome": "not judged", "why": (done.stderr or done.stdout).strip()[-400:]}
    result = json.loads(done.stdout)
    status = result["verdict"]["status"]
    findings = [one for one in result.get("findings", []) if one.get("severity") != "note"]
    expected = attack[backend]
    if isinstance(expected, list):
        good = status == "failed" and any(fnmatch.fnmatchcase(one["rule"], rule) for one in findings for rule in expected)
    else:
        good = expected == status
    out = {"name": attack["name"], "tries": attack["tries"], "verdict": status, "expected": expected,
           "findings": [{"stage": one.get("stage", ""), "rule": one["rule"], "message": one.get("message", "")[:300]} for one in findings]}
    if "prints" in attack:
        printed = "".join(run.get("host_output", "") for run in result.get("runs", []))
        out["printed"] = printed[:2000]
        good = good and "blocked: " in printed and "OPEN: " not in printed
    out["outcome"] = "as expected" if good else "NOT as expected"
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--backend", choices=("gpu", "emulator"), required=True)
    parser.add_argument("--json")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--jobs", type=int, default=1, help="on a GPU more than one would disturb each other's times")
    options = parser.parse_args()
    with open(os.path.join(HERE, "attacks.json"), encoding="utf-8") as file:
        attacks = [one for one in json.load(file) if not options.only or one["name"] in options.only]
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for one in pool.map(lambda attack: judge(options.program, attack, options.backend), attacks):
            results.append(one)
            caught = "; ".join(f"{f['stage']}: {f['rule']}" for f in one.get("findings", [])[:2])
            print(f"{one['outcome']:16} {one['name']:30} {one.get('verdict', ''):8} {caught or one.get('why', '')}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"backend": options.backend, "attacks": results}, file, indent=1)
    outcomes = {one["outcome"] for one in results}
    return 3 if "not judged" in outcomes else 1 if "NOT as expected" in outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
