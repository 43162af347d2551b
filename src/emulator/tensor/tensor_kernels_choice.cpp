#include "emulator/tensor/tensor_kernels.h"

namespace ptxbench::emulator {

const TensorKernels& tensor_kernels() {
#ifdef PTXBENCH_TENSOR_V4
  static const TensorKernels& chosen = __builtin_cpu_supports("x86-64-v4") ? v4::kernels() : v3::kernels();
  return chosen;
#else
  return v3::kernels();
#endif
}

}  // namespace ptxbench::emulator
