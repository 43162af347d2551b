// How fast the executor's own kernels are (src/gpu/kernels.cu): what a timed call costs beside the kernels it measures.
// On a machine with a Hopper GPU:
//
//   nvcc -std=c++20 -O3 -arch=sm_90a -I src -o /tmp/executor_kernels bench/executor_kernels.cu && /tmp/executor_kernels
//
// Prints the best time of ten and the bytes moved in it, for A of a GEMM with M = 8192 and K = 5120.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "gpu/kernels.cu"

namespace {

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "executor_kernels: %s\n", cudaGetErrorString(status));
  std::exit(3);
}

template <class Launch>
void measure(const char* name, double bytes, Launch launch) {
  cudaEvent_t start = nullptr, end = nullptr;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&end));
  float best = 1e9f;
  for (int i = 0; i < 11; ++i) {
    check(cudaEventRecord(start));
    launch();
    check(cudaGetLastError());
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, end));
    if (i > 0) best = std::min(best, milliseconds);
  }
  std::printf("%-32s %8.1f us %8.0f GB/s\n", name, 1e3 * best, bytes / best / 1e6);
}

}  // namespace

int main() {
  constexpr std::uint64_t kElements = 8192ull * 5120, kBytes = 2 * kElements, kSlices = 160;
  constexpr std::uint64_t kRoom = std::uint64_t{128} << 20;
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0));
  const unsigned blocks = static_cast<unsigned>(device.multiProcessorCount) * 8;
  const auto cache = static_cast<std::uint64_t>(device.l2CacheSize);
  void *a = nullptr, *b = nullptr, *c = nullptr, *counter = nullptr;
  for (void** one : {&a, &b, &c}) {
    check(cudaMalloc(one, kRoom));
    check(cudaMemset(*one, 0, kRoom));
  }
  check(cudaMalloc(&counter, 16));
  auto* const differences = static_cast<unsigned long long*>(counter);
  const auto words = [](void* at) { return static_cast<std::uint64_t*>(at); };
  std::printf("%s, L2 %.1f MB, tensor %.1f MB\n", device.name, 1e-6 * static_cast<double>(cache), 1e-6 * kBytes);
  for (const auto& [name, distribution] : {std::pair{"normal", Distribution::normal}, {"bell", Distribution::bell}}) {
    char line[64];
    std::snprintf(line, sizeof line, "inputs, %s", name);
    measure(line, kBytes, [&] {
      ptxbench_fill_random<<<blocks, 256>>>(a, ElementType::bfloat16, distribution, 7, 0, kElements);
    });
    std::snprintf(line, sizeof line, "inputs compared, %s", name);
    measure(line, kBytes, [&] {
      ptxbench_count_not_random<<<blocks, 256>>>(a, ElementType::bfloat16, distribution, 7, 0, kElements, differences);
    });
  }
  measure("poison", kBytes, [&] { ptxbench_fill_words<<<blocks, 256>>>(words(a), 7, kBytes / 8); });
  measure("flush", 2.0 * static_cast<double>(cache), [&] {
    ptxbench_count_differences<<<blocks, 256>>>(words(b), words(c), cache / 8, differences);
  });
  measure("inputs permuted", 2.0 * kBytes, [&] {
    ptxbench_permute_slices<<<dim3(8, kSlices), 256>>>(static_cast<std::uint32_t*>(a), static_cast<std::uint32_t*>(b),
                                                       kBytes / 4 / kSlices, kSlices, 7, 3, 0x8000'8000u);
  });
  measure("time stamp", 0, [&] { ptxbench_stamp<<<1, 1>>>(words(counter)); });
}
