// Compares random_element.h on a GPU with the CPU, bit by bit. Not part of the build, as it needs a GPU:
//   nvcc -std=c++20 -O2 -arch=sm_90a -I src -Xcompiler -mfma,-ffp-contract=off tests/problem/random_on_gpu.cu -o random_on_gpu
#include <cstdio>
#include <cstring>
#include <vector>

#include "problem/random_element.h"

using ptxbench::problem::Distribution;
using ptxbench::problem::random_element;

__global__ void generate(float* out, Distribution distribution, unsigned long long seed, unsigned tensor,
                         unsigned long long first, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = random_element(distribution, seed, tensor, first + i);
}

int main() {
  constexpr int kCount = 1 << 22;
  constexpr unsigned kRounds = 4, kDistributions = 6;
  float* device = nullptr;
  if (cudaMalloc(&device, kCount * sizeof(float)) != cudaSuccess) {
    std::puts("no GPU");
    return 3;
  }
  std::vector<float> values(kCount);
  long different = 0;
  for (unsigned run = 0; run < kRounds * kDistributions; ++run) {
    const unsigned round = run % kRounds;
    const auto distribution = static_cast<Distribution>(run / kRounds);
    const unsigned long long seed = 0x9e3779b97f4a7c15ull * round + 42;
    const unsigned long long first = round == 3 ? 1ull << 34 : 0;
    generate<<<kCount / 256, 256>>>(device, distribution, seed, round, first, kCount);
    cudaMemcpy(values.data(), device, kCount * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < kCount; ++i) {
      const float expected = random_element(distribution, seed, round, first + i);
      if (std::memcmp(&expected, &values[i], sizeof(float)) != 0) ++different;
    }
  }
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, 0);
  std::printf("%s: %ld of %ld elements differ (%s)\n", properties.name, different, long{kRounds} * kDistributions * kCount,
              cudaGetErrorString(cudaGetLastError()));
  return different == 0 ? 0 : 1;
}
