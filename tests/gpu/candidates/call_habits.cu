// Right results by host code with habits that timing must bear. The number of rows chooses one:
// 1: 700 launches in a call, more than the driver queues; 2: 1 GiB allocated and freed in every call; 3: host memory
// registered and unregistered in every call, and the stream waited for; 4: a word read back in every call; 5: a line
// printed in every call.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdio>
#include <cstdlib>

using Element = __nv_bfloat16;

__global__ void gemm(const Element* a, const Element* b, Element* c, int n, int k) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), row = static_cast<int>(blockIdx.y);
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += __bfloat162float(a[row * k + i]) * __bfloat162float(b[column * k + i]);
  c[row * n + column] = __float2bfloat16(sum);
}
__global__ void nothing() {}

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int m = static_cast<int>(a.size(0)), n = static_cast<int>(b.size(0)), k = static_cast<int>(a.size(1));
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  const auto check = [](cudaError_t error, const char* what) {
    if (error != cudaSuccess) TVM_FFI_THROW(RuntimeError) << what << ": " << cudaGetErrorString(error);
  };
  void* memory = nullptr;
  if (m == 2) check(cudaMalloc(&memory, size_t{1} << 30), "cudaMalloc");
  void* host = nullptr;
  if (m == 3) {
    host = std::aligned_alloc(4096, 1 << 20);
    check(cudaHostRegister(host, 1 << 20, cudaHostRegisterDefault), "cudaHostRegister");
  }
  if (m == 1) {
    for (int i = 0; i < 700; ++i) nothing<<<1, 32, 0, stream>>>();
  }
  gemm<<<dim3(static_cast<unsigned>(n / 64), static_cast<unsigned>(m)), 64, 0, stream>>>(
      static_cast<const Element*>(a.data_ptr()), static_cast<const Element*>(b.data_ptr()),
      static_cast<Element*>(c.data_ptr()), n, k);
  check(cudaGetLastError(), "launch");
  if (m == 2) check(cudaFree(memory), "cudaFree");
  if (m == 3) {
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    check(cudaHostUnregister(host), "cudaHostUnregister");
    std::free(host);
  }
  if (m == 4) {
    Element word;
    check(cudaMemcpyAsync(&word, c.data_ptr(), sizeof word, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  if (m == 5) std::printf("a call\n");
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
