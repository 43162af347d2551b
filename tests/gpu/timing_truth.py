#!/usr/bin/env python3
"""Are times measured right? On a machine with a Hopper GPU, PyTorch and nvcc:

  timing_truth.py PTXBENCH [--quick] > result.json

With the folder of PyTorch's own cuDNN first in LD_LIBRARY_PATH both sides use the same release of it.

Three comparisons, each printed with its ratio:
  spin       kernels that end after a known time by the GPU's own clock, against what `eval` measures
  copy       a device-to-device copy of known size inside a candidate, against the same copy timed by PyTorch
  baseline   the baselines of `eval`, against PyTorch's timing of the same calls (cuBLAS, cuDNN attention)
  repeat     ten evaluations of one kernel, spread of their latencies and speed-ups
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CANDIDATE = r"""
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>
// A small product, then whatever takes the time.
__global__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= m * n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += __bfloat162float(a[at / n * k + i]) * __bfloat162float(b[at % n * k + i]);
  c[at] = __float2bfloat16_rn(sum);
}
__global__ void spin(unsigned long long nanoseconds) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start)::"memory");
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory"); while (now - start < nanoseconds);
}
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  const int m = a.size(0), k = a.size(1), n = b.size(0);
  auto pointer = [](tvm::ffi::TensorView& t) { return static_cast<__nv_bfloat16*>(t.data_ptr()); };
  product<<<(m * n + 255) / 256, 256, 0, stream>>>(pointer(a), pointer(b), pointer(c), m, n, k);
  WORK
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
SMALL = {
    "name": "timing_gemm", "op_type": "gemm",
    "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 32}, "K": {"type": "const", "value": 32}},
    "inputs": {"A": {"shape": ["M", "K"], "dtype": "bfloat16"}, "B": {"shape": ["N", "K"], "dtype": "bfloat16"}},
    "outputs": {"C": {"shape": ["M", "N"], "dtype": "bfloat16"}},
    "reference": "import torch\n\ndef run(A, B):\n    return torch.matmul(A, B.T)\n",
}


def evaluate(program, kernel, problem, *options, data=None):
    command = [program, "eval", str(kernel), "--problem", problem, "--backend", "gpu", "--json", *options]
    if data:
        command += ["--data", str(data)]
    ran = subprocess.run(command, capture_output=True, text=True)
    try:
        result = json.loads(ran.stdout)
    except ValueError:
        sys.exit(f"{' '.join(command)}: exit {ran.returncode}: {ran.stderr[-800:]}")
    if not result["performance"]:
        sys.exit(f"{' '.join(command)}: {result['verdict']['summary']}: {json.dumps(result['findings'])[:800]}")
    return result


def torch_times():
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    flush = torch.zeros(256 << 20, dtype=torch.int8, device="cuda")
    clean = torch.zeros(32 << 20, dtype=torch.int32, device="cuda")

    def median_ms(call, count=60):
        for _ in range(8):
            call()
        times = []
        for _ in range(count):
            # Hides the time that the host takes.
            torch.cuda._sleep(1_000_000)
            # Nothing of the inputs in the cache, and nothing that has to be written back.
            flush.zero_()
            clean.max()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        return statistics.median(times)

    out = {}
    for m in (256, 8192):
        a = torch.randn(m, 5120, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(7168, 5120, device="cuda", dtype=torch.bfloat16)
        c = torch.empty(m, 7168, device="cuda", dtype=torch.bfloat16)
        out[f"gemm_n7168_k5120 M={m}"] = median_ms(lambda: torch.mm(a, b.T, out=c))
        del a, b, c
    for causal in (False, True):
        shape = (4, 48, 4096, 128)
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        name = "mha_with_lse_d128" + ("_causal" if causal else "")
        # The statistics are an output, as in the problem: what the backward pass would need.
        run = lambda: torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal)
        out[name] = median_ms(run, 20)
        result = run()
        o, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = result
        d_o = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        back = lambda: torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
            d_o, q, k, v, o, lse, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, causal)
        out["mha_bwd_d128" + ("_causal" if causal else "")] = median_ms(back, 20)
    copy = torch.empty(512 << 20, dtype=torch.int8, device="cuda"), torch.empty(512 << 20, dtype=torch.int8, device="cuda")
    out["copy 512 MiB"] = median_ms(lambda: copy[1].copy_(copy[0]))
    out["torch"] = torch.__version__
    out["cudnn"] = torch.backends.cudnn.version()
    return out


def main():
    program = sys.argv[1]
    quick = "--quick" in sys.argv
    result = {"spin": [], "baseline": [], "device": None}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        data = folder / "data"
        (data / "definitions" / "gemm").mkdir(parents=True)
        (data / "workloads" / "gemm").mkdir(parents=True)
        (data / "definitions/gemm/timing_gemm.json").write_text(json.dumps(SMALL))
        (data / "workloads/gemm/timing_gemm.jsonl").write_text(json.dumps({
            "definition": "timing_gemm", "solution": None, "evaluation": None,
            "workload": {"uuid": "00000000-0000-4000-8000-000000000001", "axes": {"M": 32}, "inputs": {}}}) + "\n")

        def small(work):
            kernel = folder / "kernel.cu"
            kernel.write_text(CANDIDATE.replace("WORK", work))
            return evaluate(program, kernel, "timing_gemm", data=data)["performance"][0]

        empty = small("")["latency_ms"]["value"]
        result["product_only_ms"] = empty
        for microseconds in (100, 300, 1000, 3000):
            measured = small(f"spin<<<1, 1, 0, stream>>>({microseconds * 1000}ull);")
            value = measured["latency_ms"]["value"]
            result["spin"].append({"wanted_ms": microseconds / 1e3, "measured_ms": value,
                                   "ratio": (value - empty) / (microseconds / 1e3)})
        theirs = torch_times()
        result["torch"] = theirs
        copied = small("""
  static void* from = nullptr; static void* to = nullptr;
  if (from == nullptr) { cudaMalloc(&from, 512 << 20); cudaMalloc(&to, 512 << 20); }
  cudaMemcpyAsync(to, from, 512 << 20, cudaMemcpyDeviceToDevice, stream);""")
        value = copied["latency_ms"]["value"]
        result["copy"] = {"torch_ms": theirs["copy 512 MiB"], "measured_ms": value,
                          "ratio": (value - empty) / theirs["copy 512 MiB"]}
        result["device"] = copied["device"]

    cases = [("gemm_n7168_k5120 M=256", "gemm_warp_specialized", "--axis", "M=256"),
             ("gemm_n7168_k5120 M=8192", "gemm_persistent_cluster", "--axis", "M=8192")]
    for causal in ("", "_causal"):
        cases.append(("mha_with_lse_d128" + causal, "attention_forward" + causal, "--axis", "B=4", "--axis", "H=48", "--axis", "S=4096"))
        if not quick:
            cases.append(("mha_bwd_d128" + causal, "attention_backward" + causal, "--axis", "B=4", "--axis", "H=48", "--axis", "S=4096"))
    for name, kernel, *options in cases:
        judged = evaluate(program, ROOT / "examples" / "kernels" / f"{kernel}.cu", name.split()[0], *options)
        one = judged["performance"][0]
        entry = {"case": name, "kernel": kernel, "verdict": judged["verdict"]["summary"], "latency_ms": one["latency_ms"],
                 "speedup": one["speedup"], "floor_ms": one["floor_ms"], "inputs": one["inputs"], "verified": one["verified"],
                 "timer_disagreement": one["timer_disagreement"], "clocks": one["clocks"], "timings": judged["timings"],
                 "stages": {stage["name"]: stage["seconds"] for stage in judged["stages"]}}
        if one["baseline"]:
            entry["baseline"] = one["baseline"]
            entry["torch_ms"] = theirs[name]
            entry["ratio"] = one["baseline"]["latency_ms"]["value"] / theirs[name]
        else:
            entry["baseline_missing"] = one["baseline_missing"]
        result["baseline"].append(entry)

    repeats = []
    for _ in range(3 if quick else 10):
        one = evaluate(program, ROOT / "examples/kernels/gemm_persistent_cluster.cu", "gemm_n7168_k5120", "--axis", "M=8192")["performance"][0]
        repeats.append((one["latency_ms"]["value"], one["speedup"]["value"]))
    spread = lambda values: (max(values) - min(values)) / statistics.median(values)
    result["repeat"] = {"latency_spread": spread([one[0] for one in repeats]), "speedup_spread": spread([one[1] for one in repeats]),
                        "values": repeats}
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
