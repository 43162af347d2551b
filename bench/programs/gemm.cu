// One of the example GEMM kernels as a program: C[M,N] = A[M,K] * B[N,K]^T in bf16, one launch, for tools that check whole
// programs. Arguments: M N K (256 7168 5120).
//   nvcc -O3 -std=c++17 -cudart shared -lineinfo -I bench/programs/include -DKERNEL='"../../examples/kernels/gemm_simt.cu"'
//     -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]' bench/programs/gemm.cu -o gemm_simt
// A few elements are compared with sums in fp64. Exit code 0 if they are right, 1 if not.
#include <cmath>
#include <cstdio>
#include <vector>

#include KERNEL

namespace {

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

// Multiples of 1/8 in [-1, 1]: exact in bf16, and easily made by host and device alike.
__host__ __device__ float value(uint32_t tensor, uint64_t element) {
  uint64_t x = (element + 1) * 0x9e3779b97f4a7c15ull + tensor * 0xbf58476d1ce4e5b9ull;
  x ^= x >> 31;
  return static_cast<float>(static_cast<int>(x % 17) - 8) / 8.0f;
}

__global__ void fill(__nv_bfloat16* data, uint64_t count, uint32_t tensor) {
  const uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x;
  if (i < count) data[i] = __float2bfloat16(value(tensor, i));
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t m = argc > 1 ? std::atoll(argv[1]) : 256, n = argc > 2 ? std::atoll(argv[2]) : 7168,
                k = argc > 3 ? std::atoll(argv[3]) : 5120;
  __nv_bfloat16 *a = nullptr, *b = nullptr, *c = nullptr;
  check_cuda(cudaMalloc(&a, m * k * sizeof *a), "cudaMalloc");
  check_cuda(cudaMalloc(&b, n * k * sizeof *b), "cudaMalloc");
  check_cuda(cudaMalloc(&c, m * n * sizeof *c), "cudaMalloc");
  fill<<<static_cast<unsigned>((m * k + 255) / 256), 256>>>(a, m * k, 0);
  fill<<<static_cast<unsigned>((n * k + 255) / 256), 256>>>(b, n * k, 1);
  check_cuda(cudaGetLastError(), "fill");
  run_candidate({a, m, k}, {b, n, k}, {c, m, n});
  check_cuda(cudaDeviceSynchronize(), "the kernel");
  std::vector<__nv_bfloat16> result(static_cast<size_t>(m * n));
  check_cuda(cudaMemcpy(result.data(), c, result.size() * sizeof *c, cudaMemcpyDeviceToHost), "copy of C");
  int wrong = 0, looked_at = 0;
  for (int64_t i = 0; i < m * n; i += m * n / 97 + 1, ++looked_at) {
    double sum = 0;
    for (int64_t x = 0; x < k; ++x) sum += double{value(0, i / n * k + x)} * double{value(1, i % n * k + x)};
    const double found = __bfloat162float(result[static_cast<size_t>(i)]);
    wrong += !(std::abs(found - sum) <= std::abs(sum) / 128 + 1e-3);
  }
  for (__nv_bfloat16* pointer : {a, b, c}) check_cuda(cudaFree(pointer), "cudaFree");
  std::printf("gemm: %d of %d elements looked at are wrong: %s\n", wrong, looked_at, wrong == 0 ? "PASS" : "FAIL");
  return wrong == 0 ? 0 : 1;
}
