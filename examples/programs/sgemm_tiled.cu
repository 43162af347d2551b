// The textbook tiled matrix product in fp32: C = A * B, square, one 32x32 tile of C per CTA of 32x32 threads, one
// element per thread, both operand tiles in shared memory. Serves as a benchmark of the emulator's SIMT speed.
// Build: nvcc -O3 -cudart shared -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]' sgemm_tiled.cu -o sgemm_tiled
// Usage: sgemm_tiled [n]      n a multiple of 32, 1024 by default

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kTile = 32;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

__global__ void __launch_bounds__(kTile* kTile) sgemm_tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile];
  const int tx = static_cast<int>(threadIdx.x);
  const int ty = static_cast<int>(threadIdx.y);
  const int row = static_cast<int>(blockIdx.y) * kTile + ty;
  const int col = static_cast<int>(blockIdx.x) * kTile + tx;

  float sum = 0.0f;
  for (int k0 = 0; k0 < n; k0 += kTile) {
    a_tile[ty][tx] = a[row * n + k0 + tx];
    b_tile[ty][tx] = b[(k0 + ty) * n + col];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTile; ++k) sum = fmaf(a_tile[ty][k], b_tile[k][tx], sum);
    __syncthreads();
  }
  c[row * n + col] = sum;
}

// A reproducible value in [-1, 1).
float value(uint32_t index) {
  index = index * 747796405u + 2891336453u;
  index = ((index >> (index >> 28 & 15u)) ^ index) * 277803737u;
  return static_cast<float>(static_cast<int32_t>(index >> 8) - (1 << 23)) / static_cast<float>(1 << 23);
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1024;
  if (n <= 0 || n % kTile != 0 || n > 16384) {
    std::fprintf(stderr, "usage: %s [n], n a multiple of %d\n", argv[0], kTile);
    return 2;
  }
  const size_t count = static_cast<size_t>(n) * n;
  const size_t bytes = count * sizeof(float);
  std::vector<float> a(count);
  std::vector<float> b(count);
  std::vector<float> c(count, NAN);
  for (size_t i = 0; i < count; ++i) {
    a[i] = value(static_cast<uint32_t>(2 * i));
    b[i] = value(static_cast<uint32_t>(2 * i + 1));
  }

  float* device_a = nullptr;
  float* device_b = nullptr;
  float* device_c = nullptr;
  check(cudaMalloc(&device_a, bytes), "cudaMalloc");
  check(cudaMalloc(&device_b, bytes), "cudaMalloc");
  check(cudaMalloc(&device_c, bytes), "cudaMalloc");
  check(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice), "copy of A");
  check(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice), "copy of B");
  check(cudaMemcpy(device_c, c.data(), bytes, cudaMemcpyHostToDevice), "copy of C");

  sgemm_tiled<<<dim3(n / kTile, n / kTile), dim3(kTile, kTile)>>>(device_a, device_b, device_c, n);
  check(cudaGetLastError(), "launch");
  check(cudaMemcpy(c.data(), device_c, bytes, cudaMemcpyDeviceToHost), "copy of C");

  // One element of every row and of every column is recomputed in double precision; all others must at least be finite.
  // Rounding errors of n fused steps stay below n * 2^-24 * sum |a||b|, and |a||b| < 1.
  double worst = 0.0;
  int wrong = 0;
  for (int row = 0; row < n; ++row) {
    const int col = static_cast<int>((static_cast<int64_t>(row) * 7 + 3) % n);
    double sum = 0.0;
    double magnitude = 0.0;
    for (int k = 0; k < n; ++k) {
      const double product =
          static_cast<double>(a[static_cast<size_t>(row) * n + k]) * b[static_cast<size_t>(k) * n + col];
      sum += product;
      magnitude += std::fabs(product);
    }
    const double error = std::fabs(sum - c[static_cast<size_t>(row) * n + col]);
    wrong += !(error <= magnitude * n * 0x1p-24);
    worst = std::fmax(worst, error);
  }
  for (size_t i = 0; i < count; ++i) wrong += !std::isfinite(c[i]);

  check(cudaFree(device_a), "cudaFree");
  check(cudaFree(device_b), "cudaFree");
  check(cudaFree(device_c), "cudaFree");
  std::printf("sgemm_tiled: n=%d, largest error %.3g: %s\n", n, worst, wrong == 0 ? "PASS" : "FAIL");
  return wrong == 0 ? 0 : 1;
}
