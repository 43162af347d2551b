#!/usr/bin/env python3
"""Modelled cycles of timelines beside measured ones: bench/timeline.py build/ptxbench [--out FILE.json]

Kernels of examples/kernels at sizes that fill one wave of an H200 with one CTA on each SM, so that what the model leaves
out (other CTAs on the SM) plays no part. Measured: the call's time on a GPU times the SM's clock; launching takes about 2 us
of it. Without a GPU only the modelled cycles are printed.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = [
    ("gemm_tma_wgmma", "gemm_n7168_k5120", ["M=256"]),
    ("gemm_warp_specialized", "gemm_n7168_k5120", ["M=256"]),
    ("gemm_warp_specialized", "gemm_n7168_k5120", ["M=512"]),
    ("gemm_persistent_cluster", "gemm_n7168_k5120", ["M=512"]),
    ("gemm_persistent_cluster", "gemm_n7168_k5120", ["M=2048"]),
    ("gemm_mma_cp_async", "gemm_n7168_k5120", ["M=256"]),
    ("gemm_simt", "gemm_n7168_k5120", ["M=256"]),
    ("gemm_warp_specialized", "gemm_n2048_k4096", ["M=2048"]),
    ("attention_forward", "mha_with_lse_d128", ["B=1", "H=8", "S=2048"]),
    ("attention_forward", "mha_with_lse_d128", ["B=1", "H=4", "S=4096"]),
    ("attention_forward_causal", "mha_with_lse_d128_causal", ["B=1", "H=8", "S=2048"]),
    ("attention_forward", "mha_with_lse_d64", ["B=1", "H=8", "S=3072"]),
]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode > 1:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--out")
    parser.add_argument("--calls", default="50")
    options = parser.parse_args()
    gpu = os.path.exists("/dev/nvidiactl")
    gpu_name = None
    rows = []
    for kernel, problem, axes in CASES:
        command = [options.program, "eval", f"examples/kernels/{kernel}.cu", "-p", problem, "--json"]
        for axis in axes:
            command += ["--axis", axis]
        row = {"kernel": kernel, "problem": problem, "axes": axes}
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "t.json")
            run(command + ["--backend", "emulator", "--seeds", "1", "--sample-clusters", "0", "--timeline", trace])
            clusters = json.load(open(trace))["otherData"]["clusters"]
        row["modelled_cycles"] = sum(max(one["cycles"] for one in clusters if one["launch"] == launch) for launch in {one["launch"] for one in clusters})
        row["launches"] = len({one["launch"] for one in clusters})
        if gpu:
            result = run(command + ["--backend", "gpu", "--timed-calls", options.calls])
            one = result["performance"][0]
            row["latency_ms"] = one["latency_ms"]
            row["sm_mhz"] = sum(one["clocks"]["sm_mhz"]) / 2
            row["measured_cycles"] = round(one["latency_ms"]["value"] * 1e3 * row["sm_mhz"])
            row["modelled_over_measured"] = round(row["modelled_cycles"] / row["measured_cycles"], 2)
            gpu_name = one["device"]["name"]
        rows.append(row)
        print(json.dumps(row), flush=True)
    if options.out:
        result = {"command": "bench/timeline.py PROGRAM --out FILE", "gpu": gpu_name, "date": datetime.date.today().isoformat(), "kernels": rows}
        pathlib.Path(options.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
