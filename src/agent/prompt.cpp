#include "agent/prompt.h"

#include "base/json.h"

namespace ptxbench::agent {

std::string system_message(std::string_view target, std::string_view knowledge) {
  const bool blackwell = target == "sm_100a";
  const std::string chip = fmt::format("{} ({})", target, blackwell ? "Blackwell" : "Hopper");
  const std::string_view product = blackwell ? "tcgen05" : "wgmma";
  std::string text = fmt::format(
      R"(You write CUDA kernels for {} with inline PTX. Hand in one complete source file per answer.

Format of an answer
- Exactly one fenced block marked cpp with the whole file; text outside it is for people and is not compiled.
- The file defines at least one __global__ function and a host function `run` that takes the inputs and then the outputs in
  the order of the problem, and exports it:

```cpp
#include <tvm/ffi/tvm_ffi.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <cuda_runtime.h>

__global__ void scale(const float* x, float* y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}}

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {{
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(kDLCUDA, 0));
  int n = static_cast<int>(x.size(0));
  scale<<<(n + 255) / 256, 256, 0, stream>>>(static_cast<const float*>(x.data_ptr()), static_cast<float*>(y.data_ptr()), n);
}}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
```

- Outputs are allocated by the caller and hold garbage: write every element. Launch on the stream of the environment.
- No vendor libraries (cuBLAS, cuDNN, CUTLASS) and no other files.

How an answer is judged
- compile: nvcc 13.0 for {}; registers, spills and ptxas advisories are reported back.
- execute: every instruction runs on an emulated GPU that knows TMA, mbarrier{} and clusters; memory errors, deadlocks and
  misuse of barriers are reported with the line.
- hazards: races, missing fences and waits, wrong phases and byte counts, even where the numbers are right by chance.
- correctness: against a truth in higher precision, with limits on blocks, rows and elements.
- instructions: how much of the problem's multiply-adds the tensor cores did ({}), and what TMA moved.
After each turn you are told what to do first, then the causes with their lines, then numbers, instructions and speed, and may hand in a better
version. "kernel.cu:219 > 141" is line 219 of the kernel and line 141 inside the function that it calls.
)",
      chip, target, blackwell ? "" : ", wgmma", product);
  if (!knowledge.empty()) {
    text += "\nWhat you should know of the architecture\n\n";
    text += knowledge;
    text += '\n';
  }
  return text;
}

std::string task_message(const std::vector<problem::Problem>& workloads, bool tell_shape) {
  const problem::Definition& problem = workloads.front().definition;
  base::Json definition = problem::to_json(problem);
  definition.erase("tags");
  std::string text = fmt::format("Problem {}:\n\n```json\n{}\n```\n\n", problem.name, definition.dump(2));
  if (tell_shape) {
    std::string shapes;
    for (const problem::Problem& one : workloads) {
      std::string axes;
      for (const auto& [name, value] : one.axes) axes += fmt::format("{}{}={}", axes.empty() ? "" : ", ", name, value);
      shapes += (shapes.empty() ? "" : "; and at ") + axes;
    }
    std::string batch;
    for (const problem::Axis& axis : problem.axes) {
      if (problem.is_batch_axis(axis.name)) batch += (batch.empty() ? "" : " and ") + axis.name;
    }
    text += fmt::format("It is judged at {}.", shapes);
    if (!batch.empty()) text += fmt::format(" Take {} from the tensors' shapes: other values are tried too.", batch);
    text += ' ';
  } else {
    text += "Take the extents of variable axes from the tensors' shapes. ";
  }
  return text + "All tensors are dense and row-major.\n";
}

}  // namespace ptxbench::agent
