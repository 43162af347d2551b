#include "agent/prompt.h"

#include "base/json.h"

namespace ptxbench::agent {

namespace {

std::string with_knowledge(std::string text, std::string_view knowledge) {
  if (!knowledge.empty()) {
    text += "\nWhat you should know of the architecture\n\n";
    text += knowledge;
    text += '\n';
  }
  return text;
}

std::string triton_message(std::string_view target, std::string_view chip) {
  return fmt::format(
      R"(You write GPU kernels for {} in Triton. Hand in one complete Python file per answer.

Format of an answer
- Exactly one fenced block marked python with the whole file; text outside it is for people and is not run.
- The file defines at least one @triton.jit kernel and a function `run` that takes the inputs and then the outputs in the
  order of the problem:

```python
import torch
import triton
import triton.language as tl

@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(y_ptr + i, 2.0 * tl.load(x_ptr + i, mask=inside), mask=inside)

def run(x, y):
    n = x.numel()
    scale[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
```

- Outputs are allocated by the caller and hold garbage: write every element in a kernel. What `run` returns is not used.
- `run` is called once for each set of shapes, before there are data, and what it launches is recorded: decide by shapes,
  never by contents (no .item(), no reading of tensors).
- Of torch there are shapes, strides, views, dtypes, torch.empty, zeros, full and *_like for scratch, fill_ and copy_ of
  whole tensors, and torch.cuda.get_device_properties. torch does no mathematics; every operation is a Triton kernel.
- Tensor descriptors: triton.tools.tensor_descriptor.TensorDescriptor, or tl.make_tensor_descriptor with
  triton.set_allocator. triton.autotune takes the first configuration that compiles, since nothing is timed there.

How an answer is judged
- compile: Triton's compiler and ptxas for {}; its errors, registers and spills are reported back.
- execute: every instruction runs on an emulated GPU; memory errors are reported with the line.
- correctness: against a truth in higher precision, with limits on blocks, rows and elements.
- instructions: how much of the problem's multiply-adds the tensor cores did ({}), and what TMA moved.
You get the findings of each turn and may hand in a better version.
)",
      chip, target, target == "sm_100a" ? "tcgen05" : "wgmma, by tl.dot with tiles of at least 64 rows");
}

}  // namespace

std::string system_message(std::string_view target, std::string_view knowledge, candidate::Language language) {
  const bool blackwell = target == "sm_100a";
  const std::string chip = fmt::format("{} ({})", target, blackwell ? "Blackwell" : "Hopper");
  const std::string_view product = blackwell ? "tcgen05" : "wgmma";
  if (language == candidate::Language::triton) return with_knowledge(triton_message(target, chip), knowledge);
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
  return with_knowledge(std::move(text), knowledge);
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
