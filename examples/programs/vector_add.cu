// The smallest useful CUDA program: z = x + y, checked on the host.
// Build: nvcc -cudart shared -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]' vector_add.cu -o vector_add
// Usage: vector_add [elements]

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

__global__ void add(const float* x, const float* y, float* z, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) z[i] = x[i] + y[i];
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 100000;
  if (count <= 0) {
    std::fprintf(stderr, "usage: %s [elements]\n", argv[0]);
    return 2;
  }
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  std::vector<float> x(count);
  std::vector<float> y(count);
  std::vector<float> z(count, -1.0f);
  for (int i = 0; i < count; ++i) {
    x[i] = 0.5f * static_cast<float>(i % 1024);
    y[i] = static_cast<float>(i % 77) - 38.0f;
  }

  float* device_x = nullptr;
  float* device_y = nullptr;
  float* device_z = nullptr;
  check(cudaMalloc(&device_x, bytes), "cudaMalloc");
  check(cudaMalloc(&device_y, bytes), "cudaMalloc");
  check(cudaMalloc(&device_z, bytes), "cudaMalloc");
  check(cudaMemcpy(device_x, x.data(), bytes, cudaMemcpyHostToDevice), "copy of x");
  check(cudaMemcpy(device_y, y.data(), bytes, cudaMemcpyHostToDevice), "copy of y");

  constexpr int kThreads = 256;
  add<<<(count + kThreads - 1) / kThreads, kThreads>>>(device_x, device_y, device_z, count);
  check(cudaGetLastError(), "launch");
  check(cudaMemcpy(z.data(), device_z, bytes, cudaMemcpyDeviceToHost), "copy of z");

  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += z[i] != x[i] + y[i];

  check(cudaFree(device_x), "cudaFree");
  check(cudaFree(device_y), "cudaFree");
  check(cudaFree(device_z), "cudaFree");
  std::printf("vector_add: %d elements, %d wrong: %s\n", count, wrong, wrong == 0 ? "PASS" : "FAIL");
  return wrong == 0 ? 0 : 1;
}
