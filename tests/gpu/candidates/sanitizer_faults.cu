// Right results, and a fault beside them for each tool of compute-sanitizer. The number of rows chooses it:
// 1: a write to address 0 (memcheck); 2: two warps write one word of shared memory (racecheck); 3: a read of memory that
// nobody has written (initcheck); 4: half a warp at a barrier of all (synccheck); 5: none.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

using Element = __nv_bfloat16;

__global__ void gemm(const Element* a, const Element* b, Element* c, int n, int k) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), row = static_cast<int>(blockIdx.y);
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += __bfloat162float(a[row * k + i]) * __bfloat162float(b[column * k + i]);
  c[row * n + column] = __float2bfloat16(sum);
}

__global__ void writes_to_null(int* nowhere) { nowhere[threadIdx.x] = 1; }

__global__ void races(int* out) {
  __shared__ int word;
  word = static_cast<int>(threadIdx.x / 32);
  __syncthreads();
  out[threadIdx.x] = word;
}

__global__ void reads_nothing(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x]; }

__global__ void half_waits(int* out) {
  if (threadIdx.x < 16) __syncthreads();
  out[threadIdx.x] = 1;
}

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int m = static_cast<int>(a.size(0)), n = static_cast<int>(b.size(0)), k = static_cast<int>(a.size(1));
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  gemm<<<dim3(static_cast<unsigned>(n / 64), static_cast<unsigned>(m)), 64, 0, stream>>>(
      static_cast<const Element*>(a.data_ptr()), static_cast<const Element*>(b.data_ptr()),
      static_cast<Element*>(c.data_ptr()), n, k);
  int* scratch = nullptr;
  if (cudaMalloc(&scratch, 4096) != cudaSuccess) return;
  if (m == 1) writes_to_null<<<1, 32, 0, stream>>>(nullptr);
  if (m == 2) races<<<1, 64, 0, stream>>>(scratch);
  if (m == 3) reads_nothing<<<1, 32, 0, stream>>>(scratch, scratch + 64);
  if (m == 4) half_waits<<<1, 32, 0, stream>>>(scratch);
  cudaStreamSynchronize(stream);
  cudaFree(scratch);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
