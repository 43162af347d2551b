#!/usr/bin/env python3
"""What the service does with GPUs: evaluations a second on one and on all, and what screening saves.

  service_gpu.py PTXBENCH --devices cuda:0[,cuda:1,...] [--evaluations N] [--mixed] [--kill-gpu] > result.json

Correct candidates only: the throughput of each set of devices (first alone, all together). With --mixed: correct and faulty
candidates, with screening and without, and the GPU's seconds in both. With --kill-gpu (two devices or more): the worker of the
last device is killed again and again while tasks run; none may be lost.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROBLEM, AXES = "gemm_n7168_k5120", {"M": 256}


def call(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.loads(reply.read())


class Service:
    def __init__(self, program, devices, *options):
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", "--devices", devices, "--state-dir", self.folder.name, *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.url = re.search(r"http://\S+", line).group(0).rstrip("/")
        self.log = []
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.folder.cleanup()

    def submit(self, source, backend, axes=AXES, problem=PROBLEM, options=None):
        body = {"source": source, "problem": problem, "axes": axes, "backend": backend, "timeout": 120}
        if options:
            body["options"] = options
        return call(self.url + "/v1/evaluate", body)

    def wait(self, task):
        while True:
            got = call(f"{self.url}/v1/tasks/{task}?timeout=30")
            if got["status"] in ("completed", "failed", "cancelled"):
                return got


def run(program, devices, candidates, backend, *options, during=None):
    service = Service(program, devices, *options)
    try:
        # Inputs, truth and artifacts are there afterwards, on every worker.
        warm = [service.submit(candidates[0], backend)["task_id"] for _ in range(4 * len(devices.split(",")))]
        for task in warm:
            service.wait(task)
        started = time.time()
        tasks = [service.submit(source, backend)["task_id"] for source in candidates]
        if during:
            threading.Thread(target=during, args=(service,), daemon=True).start()
        results = [service.wait(task) for task in tasks]
        wall = time.time() - started
        metrics = urllib.request.urlopen(service.url + "/metrics").read().decode()
    finally:
        service.stop()
    verdicts, gpu_seconds, reached, infrastructure = {}, 0.0, 0, 0
    for result in results:
        evaluations = result.get("evaluations") or [unit.get("evaluation") for unit in result.get("units", [])]
        for evaluation in evaluations:
            if not evaluation:
                infrastructure += 1
                continue
            status = evaluation["verdict"]["status"]
            verdicts[status] = verdicts.get(status, 0) + 1
            on_gpu = [one for one in evaluation["runs"] if one.get("backend") == "gpu"]
            reached += 1 if on_gpu else 0
            gpu_seconds += sum(launch["seconds"] for one in on_gpu for launch in one["launches"])
            gpu_seconds += sum(one["gpu_seconds"] for one in evaluation["performance"])
        if result["status"] != "completed":
            infrastructure += 1
    return {"devices": devices, "candidates": len(candidates), "wall_seconds": wall, "evaluations_per_second": len(candidates) / wall,
            "verdicts": verdicts, "not_judged": infrastructure, "reached_gpu": reached, "gpu_seconds": gpu_seconds,
            "gpu_seconds_per_candidate": gpu_seconds / len(candidates),
            "metrics": [line for line in metrics.splitlines() if "screen" in line and not line.startswith("#")]}


def kill_workers(service):
    """kill -9 for the worker of the last device, every two seconds."""
    for _ in range(5):
        time.sleep(2)
        found = subprocess.run(["pgrep", "-P", str(service.process.pid)], capture_output=True, text=True).stdout.split()
        victims = []
        for pid in found:
            try:
                victims.append((pid, open(f"/proc/{pid}/cmdline").read()))
            except OSError:
                pass
        if victims:
            try:
                os.kill(int(victims[-1][0]), signal.SIGKILL)
            except OSError:
                pass


def mutants(source):
    """Faulty versions of a correct GEMM: each breaks something that a model breaks."""
    changes = [("kStages = ", "kStages = 1 + "), ("fence.proxy.async", "fence.proxy.alias"), ("wait_group", "commit_group"),
               ("* sizeof(__nv_bfloat16)", "* sizeof(float)"), ("CU_TENSOR_MAP_SWIZZLE_128B", "CU_TENSOR_MAP_SWIZZLE_64B"),
               ("SWIZZLE_128B", "SWIZZLE_NONE"), ("expect_tx", "expect_txx"), ("kTileM = 128", "kTileM = 64"), ("^ 1", "^ 0"),
               ("__syncthreads();", ""), ("mbarrier.init", "mbarrier.inval"), ("k / ", "k / 2 / "), ("+ kTileK", "+ kTileK + 8"),
               ("return;", ""), (";\n}", "\n}"), ("float acc", "half acc"), ("grid(", "grid(1 + "), ("kThreads", "kThreads + 32")]
    return [source.replace(old, new, 1) for old, new in changes if old in source]


def main():
    program = sys.argv[1]
    options = sys.argv[2:]
    value = lambda name, default: options[options.index(name) + 1] if name in options else default
    devices = value("--devices", "cuda:0")
    count = int(value("--evaluations", "32"))
    kernels = [(ROOT / "examples/kernels" / name).read_text() for name in ("gemm_persistent_cluster.cu", "gemm_warp_specialized.cu")
               if '#include "' not in (ROOT / "examples/kernels" / name).read_text()]
    good = [kernels[i % len(kernels)] for i in range(count)]
    result = {"problem": PROBLEM, "axes": AXES, "throughput": []}
    sets = [devices.split(",")[0]] + ([devices] if "," in devices else [])
    for one in sets:
        result["throughput"].append(run(program, one, good, "gpu", "--no-screen"))
    if "--kill-gpu" in options and "," in devices:
        result["killed"] = run(program, devices, good, "gpu", "--no-screen", during=kill_workers)
    if "--mixed" in options:
        mixed = []
        for name in ("gemm_simt.cu", "gemm_mma_cp_async.cu", "gemm_tma_wgmma.cu", "gemm_warp_specialized.cu", "gemm_persistent_cluster.cu"):
            source = (ROOT / "examples/kernels" / name).read_text()
            if '#include "' in source:
                continue
            mixed += [source] + mutants(source)
        result["mixed"] = {"with_screening": run(program, sets[0], mixed, "gpu"),
                           "without": run(program, sets[0], mixed, "gpu", "--no-screen")}
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
