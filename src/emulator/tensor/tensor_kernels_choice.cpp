#include "emulator/tensor/tensor_kernels.h"

#include <cstdlib>
#include <string_view>

namespace ptxbench::emulator {

const TensorKernels& tensor_kernels() {
#ifdef PTXBENCH_TENSOR_V4
  static const TensorKernels& chosen = []() -> const TensorKernels& {
    const char* wanted = std::getenv("PTXBENCH_CPU_LEVEL");
    const bool lowest = wanted != nullptr && std::string_view(wanted) == "v3";
    const bool level_4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                         __builtin_cpu_supports("avx512vl");
    return level_4 && !lowest ? v4::kernels() : v3::kernels();
  }();
  return chosen;
#else
  return v3::kernels();
#endif
}

}  // namespace ptxbench::emulator
