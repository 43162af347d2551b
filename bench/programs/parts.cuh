// What the programs in this folder share. For sources that nvcc compiles as a whole: everything has internal linkage.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int64_t kGuardBytes = 4096;
[[maybe_unused]] constexpr int64_t kFlushBytes = 256 << 20;

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

// Nearly normal numbers (sums of four uniform ones), a function of place alone, scaled to a standard deviation of 1.
__host__ __device__ float value(uint32_t tensor, uint64_t element) {
  uint64_t x = (element + 1) * 0x9e3779b97f4a7c15ull + tensor * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  x ^= x >> 31;
  float sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>((x >> (16 * i)) & 0xffff) / 65536.0f - 0.5f;
  return sum * 1.7320508f;
}

[[maybe_unused]] __global__ void fill(__nv_bfloat16* data, uint64_t count, uint32_t tensor, float scale) {
  const uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x;
  if (i < count) data[i] = __float2bfloat16(value(tensor, i) * scale);
}

// Memory with a poisoned zone before and behind it.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : bytes_(bytes) {
    check_cuda(cudaMalloc(&base_, bytes + 2 * kGuardBytes), "cudaMalloc");
    poison();
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(base_); }

  void poison() const { check_cuda(cudaMemset(base_, 0xff, bytes_ + 2 * kGuardBytes), "cudaMemset"); }

  template <class T = void>
  T* data() const {
    return reinterpret_cast<T*>(base_ + kGuardBytes);
  }

  template <class T>
  std::vector<T> copy() const {
    std::vector<T> host(static_cast<size_t>(bytes_) / sizeof(T));
    check_cuda(cudaMemcpy(host.data(), data(), bytes_, cudaMemcpyDeviceToHost), "copy");
    if (const char* path = std::getenv("ATTENTION_OUTPUTS")) {  // appended, to be compared with another machine's
      std::FILE* file = std::fopen(path, "ab");
      if (file == nullptr || std::fwrite(host.data(), sizeof(T), host.size(), file) != host.size()) std::exit(2);
      std::fclose(file);
    }
    return host;
  }

  bool guards_intact() const {
    std::vector<unsigned char> zone(2 * kGuardBytes);
    check_cuda(cudaMemcpy(zone.data(), base_, kGuardBytes, cudaMemcpyDeviceToHost), "copy");
    check_cuda(cudaMemcpy(zone.data() + kGuardBytes, base_ + kGuardBytes + bytes_, kGuardBytes, cudaMemcpyDeviceToHost),
               "copy");
    return std::all_of(zone.begin(), zone.end(), [](unsigned char byte) { return byte == 0xff; });
  }

 private:
  char* base_ = nullptr;
  int64_t bytes_;
};

// Milliseconds of `repetitions` launches after ten more, sorted; L2 is overwritten before each.
template <class Launch>
std::vector<float> timed(const Launch& launch, int repetitions) {
  void* flush = nullptr;
  check_cuda(cudaMalloc(&flush, kFlushBytes), "cudaMalloc");
  cudaEvent_t begin = nullptr, end = nullptr;
  check_cuda(cudaEventCreate(&begin), "event");
  check_cuda(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = -10; i < repetitions; ++i) {
    check_cuda(cudaMemsetAsync(flush, 0, kFlushBytes), "flush");
    check_cuda(cudaEventRecord(begin), "event");
    launch();
    check_cuda(cudaEventRecord(end), "event");
    check_cuda(cudaEventSynchronize(end), "event");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i >= 0) times.push_back(ms);
  }
  check_cuda(cudaFree(flush), "cudaFree");
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace
