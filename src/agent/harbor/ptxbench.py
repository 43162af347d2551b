#!/usr/bin/env python3
"""ptxbench eval KERNEL: has a kernel judged by the evaluation service and prints what was found.

Options: --task-config FILE (default $PTXBENCH_TASK_CONFIG or /opt/ptxbench/task.json), --service-url URL (default
$PTXBENCH_SERVICE_URL or http://localhost:10000), --json (one object of schema ptxbench.eval.v1). Exit code 0: judged,
whatever the verdict; 2: it could not be judged. $PTXBENCH_SERVICE_TOKEN is shown to the service if it is set.
"""
import argparse
import hashlib
import json
import math
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

PAUSE, POLL, CONNECT = 1.0, 30, 40


class Infrastructure(Exception):
    """The kernel could not be judged: not its fault."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status  # of the service's answer, if it gave one


def ask(url, path, body=None):
    headers = {"Content-Type": "application/json"}
    if os.environ.get("PTXBENCH_SERVICE_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["PTXBENCH_SERVICE_TOKEN"]
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url.rstrip("/") + path, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=CONNECT) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        detail = error.read().decode(errors="replace")
        raise Infrastructure(f"{url}{path}: status {error.code}: {detail[:600]}", error.code) from error
    except (OSError, ValueError) as error:
        raise Infrastructure(f"{url}{path}: {error}") from error


def evaluate(url, task, source):
    cuda = {"language": "cuda", "binding": "tvm-ffi", "target_hardware": task["target_hardware"],
            "entry_point": "kernel.cu::run", "dependencies": [], "destination_passing_style": True}
    solution = {"name": "eval_kernel", "definition": task["definition"], "author": "eval", "spec": cuda,
                "sources": [{"path": "kernel.cu", "content": source}]}
    end = time.monotonic() + float(task.get("queue_timeout_sec", 240))
    while True:
        try:
            accepted = ask(url, "/evaluate", {"solution": solution, "workload_uuids": task["workload_uuids"]})
            break
        except Infrastructure as error:
            if error.status != 429 or time.monotonic() > end:
                raise
            time.sleep(PAUSE)
    last = None
    path = f"/tasks/{accepted['task_id']}?timeout={POLL}"
    while time.monotonic() < end:
        try:
            state = ask(url, path)
        except Infrastructure as error:
            if error.status is not None and error.status < 500:
                raise  # the service answers, and knows no such task
            last = error  # tasks outlive a connection, and a service's restart
            time.sleep(PAUSE)
            continue
        if state.get("status") == "completed":
            return state.get("traces") or []
        if state.get("status") == "failed":
            raise Infrastructure(f"the service failed: {state.get('error')}")
    raise Infrastructure(f"no verdict within {task.get('queue_timeout_sec', 240)} seconds (queue_timeout_sec)"
                         + (f"; last: {last}" if last else ""))


def status_of(trace):
    return (trace.get("evaluation") or {}).get("status", "UNKNOWN")


def speedup_of(trace):
    value = ((trace.get("evaluation") or {}).get("performance") or {}).get("speedup_factor")
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


def envelope(task, source, traces):
    wrong = [status_of(trace) for trace in traces if status_of(trace) != "PASSED"]
    passed = bool(traces) and not wrong and len(traces) == len(task["workload_uuids"])
    speedups = [speedup_of(trace) for trace in traces]
    # One that was not measured makes the smallest unknown.
    least = min(speedups) if passed and None not in speedups else None
    return {"schema": "ptxbench.eval.v1", "evaluation_id": "ev_" + uuid.uuid4().hex, "task_id": task.get("task_id"),
            "definition": task["definition"], "workload_uuids": task["workload_uuids"],
            "kernel_sha256": hashlib.sha256(source.encode()).hexdigest(),
            "status": "PASSED" if passed else (wrong[0] if wrong else "FAILED"), "all_passed": passed,
            "min_speedup": least, "target_met": least is not None and least >= float(task.get("target_speedup", 1.0)),
            "traces": traces}


def show(result):
    print(("Evaluation results: " if result["all_passed"] else "Evaluation FAILED: ") + result["status"])
    for trace in result["traces"]:
        evaluation = trace.get("evaluation") or {}
        axes = " ".join(f"{k}={v}" for k, v in ((trace.get("workload") or {}).get("axes") or {}).items())
        speedup = speedup_of(trace)
        print(f"[{axes}] {status_of(trace)}" + ("" if speedup is None else f" speed-up {speedup:.3f}"))
        correctness = evaluation.get("correctness") or {}
        if correctness:
            print(f"  max_abs_error={correctness.get('max_absolute_error')} "
                  f"max_rel_error={correctness.get('max_relative_error')}")
        log = (evaluation.get("log") or "").rstrip()
        if log:
            print(log)


def main():
    parser = argparse.ArgumentParser(prog="ptxbench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("eval", help="have a kernel judged")
    one.add_argument("kernel")
    one.add_argument("--task-config", default=os.environ.get("PTXBENCH_TASK_CONFIG", "/opt/ptxbench/task.json"))
    one.add_argument("--service-url", default=os.environ.get("PTXBENCH_SERVICE_URL", "http://localhost:10000"))
    one.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        try:
            with open(given.task_config, encoding="utf-8") as file:
                task = json.load(file)
            with open(given.kernel, encoding="utf-8") as file:
                source = file.read()
        except (OSError, ValueError) as error:
            raise Infrastructure(str(error)) from error
        missing = [key for key in ("definition", "workload_uuids", "target_hardware") if not task.get(key)]
        if missing:
            raise Infrastructure(f"{given.task_config}: {', '.join(missing)} missing")
        result = envelope(task, source, evaluate(given.service_url, task, source))
    except Infrastructure as error:
        failed = {"schema": "ptxbench.eval.v1", "evaluation_id": "ev_" + uuid.uuid4().hex, "status": "INFRA_ERROR",
                  "all_passed": False, "min_speedup": None, "target_met": False, "error": str(error), "traces": []}
        print(json.dumps(failed, indent=1) if given.json else f"could not be judged: {error}",
              file=sys.stdout if given.json else sys.stderr)
        return 2
    print(json.dumps(result, indent=1)) if given.json else show(result)
    return 0


sys.exit(main())
