// A plain GEMM that goes wrong on the device in a way that the number of rows chooses, so that one compilation serves many
// tests. Lines marked with [name] are the ones that findings must name.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

enum Mode {
  kDeadlock = 1,
  kOutOfBounds = 2,
  kEndlessLoop = 3,
  kWildPointer = 4,
  kInputModified = 5,
  kUnwrittenRows = 6,
  kWrongScale = 8,
  kTrap = 9,
  kSecondKernel = 10,
  // Every other number of rows: correct.
};

__device__ float dot(const __nv_bfloat16* a, const __nv_bfloat16* b, int k) {
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += __bfloat162float(a[i]) * __bfloat162float(b[i]);
  return sum;
}

__device__ void wait_for_nobody() {
  __shared__ uint64_t barrier;
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(address) : "memory");
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
  }
  __syncthreads();
  uint32_t done = 0;
  while (done == 0) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(address));  // [deadlock]
  }
}

__global__ void gemm(__nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k, int mode) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  if (mode == kDeadlock) wait_for_nobody();
  if (mode == kTrap) __trap();
  if (mode == kEndlessLoop) {
    volatile int* word = reinterpret_cast<volatile int*>(c);
    while (word[column] != 12345) word[column] = 1;  // [endless]
  }
  if (mode == kWildPointer) *reinterpret_cast<volatile int*>(0x123456789000) = 1;  // [wild]
  if (mode == kUnwrittenRows && row >= m - 2) return;
  float value = dot(a + row * k, b + column * k, k);
  if (mode == kWrongScale) value *= 1.02f;
  c[row * n + column] = __float2bfloat16(value);
  if (mode == kOutOfBounds && row == m - 1) c[(row + 1) * n + column] = __float2bfloat16(value);  // [bounds]
  if (mode == kInputModified && row == 0 && column < k) a[column] = __float2bfloat16(0.0f);
}

__global__ void copy(const __nv_bfloat16* from, __nv_bfloat16* to, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] = from[i];
}

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int m = static_cast<int>(a.size(0)), k = static_cast<int>(a.size(1)), n = static_cast<int>(b.size(0));
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  auto* a_data = static_cast<__nv_bfloat16*>(a.data_ptr());
  auto* b_data = static_cast<const __nv_bfloat16*>(b.data_ptr());
  auto* c_data = static_cast<__nv_bfloat16*>(c.data_ptr());
  if (m == kSecondKernel) {
    __nv_bfloat16* work = nullptr;
    cudaMalloc(&work, sizeof(__nv_bfloat16) * static_cast<size_t>(m) * static_cast<size_t>(n));
    gemm<<<dim3(static_cast<unsigned>(n / 64), static_cast<unsigned>(m)), 64, 0, stream>>>(a_data, b_data, work, m, n, k, m);
    copy<<<(m * n + 255) / 256, 256, 0, stream>>>(work, c_data, m * n);
    cudaStreamSynchronize(stream);
    cudaFree(work);
    return;
  }
  gemm<<<dim3(static_cast<unsigned>(n / 64), static_cast<unsigned>(m)), 64, 0, stream>>>(a_data, b_data, c_data, m, n, k, m);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
