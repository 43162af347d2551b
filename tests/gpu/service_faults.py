#!/usr/bin/env python3
"""Faults of all kinds under a service with a GPU: nothing may be lost, and what comes next must be right.

  service_faults.py PTXBENCH [--device cuda:0] > result.json

Starts `ptxbench serve`, gives it right and faulty candidates, and kills its processes. One line a case on standard
error; the JSON has the times. Exit code 1 if a task was lost or judged wrongly.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOOD = (ROOT / "tests/gpu/candidates/sanitizer_faults.cu").read_text()
ENDLESS = GOOD.replace("nowhere[threadIdx.x] = 1;", "while (*reinterpret_cast<volatile int*>(nowhere) == 0) {}").replace(
    "writes_to_null<<<1, 32, 0, stream>>>(nullptr)", "{ cudaMemsetAsync(scratch, 0, 4096, stream); writes_to_null<<<1, 32, 0, stream>>>(scratch); }")
GREEDY = GOOD.replace("cudaMalloc(&scratch, 4096)", "cudaMalloc(&scratch, size_t{1} << 42)").replace(
    "!= cudaSuccess) return;", "!= cudaSuccess) writes_to_null<<<1, 32, 0, stream>>>(nullptr);")


def call(url, body=None, timeout=120):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return json.loads(reply.read())


class Service:
    def __init__(self, program, device, state):
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", "--devices", device, "--state-dir", state, "--no-screen", "--data",
             str(ROOT / "tests/evaluation/data")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log = []
        line = self.process.stdout.readline()
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()
        found = re.search(r"http://\S+", line)
        if not found:
            time.sleep(1)
            sys.exit("the service did not start: " + "".join(self.log))
        self.url = found.group(0).rstrip("/")

    def submit(self, source=GOOD, rows=5):
        return call(self.url + "/v1/evaluate", {"source": source, "problem": "gemm_small", "axes": {"M": rows}, "backend": "gpu",
                                                "timeout": 120, "options": {"timed_calls": 12}})["task_id"]

    def wait(self, task, limit=240):
        until = time.time() + limit
        while time.time() < until:
            try:
                got = call(f"{self.url}/v1/tasks/{task}?timeout=10")
            except (urllib.error.URLError, ConnectionError):
                return {"status": "service gone"}
            if got["status"] in ("completed", "failed", "cancelled"):
                return got
        return {"status": "never ended"}

    def descendants(self, name):
        found, fresh = [], [self.process.pid]
        while fresh:
            children = subprocess.run(["pgrep", "-P", ",".join(map(str, fresh))], capture_output=True, text=True).stdout.split()
            fresh = [int(pid) for pid in children]
            for pid in fresh:
                try:
                    words = open(f"/proc/{pid}/cmdline").read().split("\0")
                except OSError:
                    continue
                if words[0].endswith(name) or (name == "worker" and len(words) > 1 and words[1] == "worker"):
                    found.append(pid)
        return found

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def outcome(result):
    evaluations = result.get("evaluations") or []
    if not evaluations:
        return result["status"] + ": " + str((result.get("error") or {}).get("message", ""))[:200], []
    rules = [one["rule"] for one in evaluations[0]["findings"] if one["severity"] != "note"]
    return evaluations[0]["verdict"]["status"], rules


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    service = Service(options.program, options.device, folder.name)
    cases, bad = [], 0

    def case(name, results, accept, started, **more):
        nonlocal bad
        outcomes = [outcome(one) for one in results]
        wrong = [one for one in outcomes if not accept(*one)]
        bad += len(wrong)
        row = {"case": name, "tasks": len(results), "wrong_or_lost": len(wrong), "seconds": round(time.time() - started, 2), **more,
               "outcomes": {text: sum(1 for one in outcomes if one[0] == text) for text in {one[0] for one in outcomes}},
               "rules": sorted({rule for one in outcomes for rule in one[1]})}
        cases.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)

    def passed(verdict, _):
        return verdict == "passed"

    started = time.time()
    case("one alone, everything cold", [service.wait(service.submit())], passed, started)
    started = time.time()
    case("12 at once", [service.wait(task) for task in [service.submit() for _ in range(12)]], passed, started)

    for name, source, rows, rules in (("illegal access", GOOD, 1, {"memory.illegal-address"}),
                                      ("a kernel that never ends", ENDLESS, 1, {"sync.timeout"}),
                                      ("4 TiB asked for, the refusal ignored", GREEDY, 5, None)):
        started = time.time()
        faulty, good = [], []
        for _ in range(3):
            faulty.append(service.submit(source, rows))
            good.append(service.submit())
        case(name, [service.wait(task) for task in faulty],
             lambda verdict, found, rules=rules: verdict == "failed" and (rules is None or rules & set(found)), started)
        case("right ones between them", [service.wait(task) for task in good], passed, started)

    for name, victim, accept in (("kill -9 of executors", "ptxbench-executor", passed),
                                 ("kill -9 of workers", "worker", passed),
                                 # From outside and by itself look alike: a candidate whose process is killed has failed.
                                 ("kill -9 of candidates' processes", "ptxbench-runner",
                                  lambda verdict, found: verdict == "passed" or (verdict == "failed" and any(
                                      rule.startswith("host.") for rule in found)))):
        started = time.time()
        tasks = [service.submit() for _ in range(12)]
        kills = 0
        chooser = random.Random(7)
        while kills < 4 and time.time() - started < 20:
            time.sleep(0.4)
            pids = service.descendants(victim)
            if pids:
                try:
                    os.kill(chooser.choice(pids), signal.SIGKILL)
                    kills += 1
                except OSError:
                    pass
        case(name, [service.wait(task) for task in tasks], accept, started, kills=kills)
        started = time.time()
        case("the next one", [service.wait(service.submit())], passed, started)

    started = time.time()
    tasks = [service.submit() for _ in range(8)]
    latencies = []

    def poll(task):
        asked = time.time()
        got = call(f"{service.url}/v1/tasks/{task}?timeout=60")
        latencies.append(time.time() - asked)
        return got

    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        polls = [pool.submit(poll, tasks[i % len(tasks)]) for i in range(200)]
        time.sleep(0.2)
        asked = time.time()
        call(service.url + "/health")
        health = time.time() - asked
        results = [one.result() for one in polls]
    case("200 long polls at once", results, passed, started, health_seconds=round(health, 3))

    started = time.time()
    tasks = [service.submit() for _ in range(12)]
    time.sleep(1.0)
    service.process.kill()
    service.process.wait()
    restarted = time.time()
    service = Service(options.program, options.device, folder.name)
    up = time.time() - restarted
    case("kill -9 of the service with 12 tasks, restart", [service.wait(task) for task in tasks], passed, started,
         restart_seconds=round(up, 2))
    service.stop()
    json.dump({"device": options.device, "cases": cases, "wrong_or_lost": bad}, sys.stdout, indent=1)
    print()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
