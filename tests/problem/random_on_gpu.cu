// Compares random_element.h on a GPU with the CPU, bit by bit. Not part of the build, as it needs a GPU:
//   nvcc -std=c++20 -O2 -arch=sm_90a -I src -Xcompiler -mfma,-ffp-contract=off tests/problem/random_on_gpu.cu -o random_on_gpu
#include <cstdio>
#include <cstring>
#include <vector>

#include "problem/random_element.h"

using ptxbench::problem::normal_element;

__global__ void generate(float* out, unsigned long long seed, unsigned tensor, unsigned long long first, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = normal_element(seed, tensor, first + i);
}

int main() {
  constexpr int kCount = 1 << 24;
  constexpr unsigned kRounds = 4;
  float* device = nullptr;
  if (cudaMalloc(&device, kCount * sizeof(float)) != cudaSuccess) {
    std::puts("no GPU");
    return 3;
  }
  std::vector<float> values(kCount);
  long different = 0;
  for (unsigned round = 0; round < kRounds; ++round) {
    const unsigned long long seed = 0x9e3779b97f4a7c15ull * round + 42;
    const unsigned long long first = round == 3 ? 1ull << 34 : 0;
    generate<<<kCount / 256, 256>>>(device, seed, round, first, kCount);
    cudaMemcpy(values.data(), device, kCount * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < kCount; ++i) {
      const float expected = normal_element(seed, round, first + i);
      if (std::memcmp(&expected, &values[i], sizeof(float)) != 0) ++different;
    }
  }
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, 0);
  std::printf("%s: %ld of %ld elements differ (%s)\n", properties.name, different, long{kRounds} * kCount,
              cudaGetErrorString(cudaGetLastError()));
  return different == 0 ? 0 : 1;
}
