// Kernels of the executor: inputs, poison, cache flush, time stamps. Built to machine code that the executor loads next
// to a candidate's.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "gpu/kernels.h"
#include "problem/random_element.h"

namespace {

using ptxbench::gpu::ElementType;
using ptxbench::problem::Distribution;

__device__ std::uint64_t global_time() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time)::"memory");
  return time;
}

template <class Element>
__device__ Element round_to(float value);
template <>
__device__ float round_to<float>(float value) {
  return value;
}
template <>
__device__ __half round_to<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __nv_bfloat16 round_to<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ __nv_fp8_e4m3 round_to<__nv_fp8_e4m3>(float value) {
  return __nv_fp8_e4m3(value);
}
template <>
__device__ __nv_fp8_e5m2 round_to<__nv_fp8_e5m2>(float value) {
  return __nv_fp8_e5m2(value);
}

template <class Element>
struct alignas(4 * sizeof(Element)) Four {
  Element element[4];
};

/// The four values of a Philox block at once: random_element() would make the block four times.
__device__ void random_four(Distribution distribution, std::uint64_t seed, std::uint32_t tensor, std::uint64_t block,
                            float (&out)[4]) {
  namespace problem = ptxbench::problem;
  const auto key0 = static_cast<std::uint32_t>(seed);
  const auto key1 = static_cast<std::uint32_t>(seed >> 32);
  const problem::PhiloxBlock words = problem::philox(problem::element_counter(block, tensor, 0), key0, key1);
  const problem::NormalPair low = problem::normal_pair(words.word[0], words.word[1]);
  const problem::NormalPair high = problem::normal_pair(words.word[2], words.word[3]);
  out[0] = low.first;
  out[1] = low.second;
  out[2] = high.first;
  out[3] = high.second;
  if (distribution == Distribution::normal) return;
  if (distribution == Distribution::spiky || distribution == Distribution::tiny) {
    const bool tiny = distribution == Distribution::tiny;
    const problem::PhiloxBlock spikes = problem::philox(problem::element_counter(block, tensor, 1), key0, key1);
    for (int i = 0; i < 4; ++i) {
      if (spikes.word[i] < (tiny ? problem::kTinyBelow : problem::kSpikeBelow))
        out[i] = problem::exact::multiply(out[i], tiny ? problem::kTinyFactor : problem::kSpikeFactor);
    }
    return;
  }
  for (float& value : out) {
    value = distribution == Distribution::ties
                ? problem::near_tie(value)
                : problem::exact::multiply(
                      value, distribution == Distribution::scaled ? problem::kScaledFactor : problem::kFlatFactor);
  }
}

template <class Element>
__device__ void fill_random(Element* out, Distribution distribution, std::uint64_t seed, std::uint32_t tensor,
                            std::uint64_t count) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t block = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; block * 4 < count; block += step) {
    float values[4];
    random_four(distribution, seed, tensor, block, values);
    if (block * 4 + 4 <= count) {
      Four<Element> four;
      for (int i = 0; i < 4; ++i) four.element[i] = round_to<Element>(values[i]);
      reinterpret_cast<Four<Element>*>(out)[block] = four;
    } else {
      for (std::uint64_t i = block * 4; i < count; ++i) out[i] = round_to<Element>(values[i & 3u]);
    }
  }
}

}  // namespace

extern "C" {

/// The elements of problem::RandomTensor; floating types only.
__global__ void ptxbench_fill_random(void* out, ElementType type, Distribution distribution, std::uint64_t seed,
                                     std::uint32_t tensor, std::uint64_t count) {
  switch (type) {
    case ElementType::float32:
      return fill_random(static_cast<float*>(out), distribution, seed, tensor, count);
    case ElementType::float16:
      return fill_random(static_cast<__half*>(out), distribution, seed, tensor, count);
    case ElementType::bfloat16:
      return fill_random(static_cast<__nv_bfloat16*>(out), distribution, seed, tensor, count);
    case ElementType::float8_e4m3fn:
      return fill_random(static_cast<__nv_fp8_e4m3*>(out), distribution, seed, tensor, count);
    case ElementType::float8_e5m2:
      return fill_random(static_cast<__nv_fp8_e5m2*>(out), distribution, seed, tensor, count);
  }
}

/// `count` words of 8 bytes.
__global__ void ptxbench_fill_words(std::uint64_t* out, std::uint64_t word, std::uint64_t count) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) out[i] = word;
}

/// Adds the number of words of 8 bytes that differ to `*differences`.
__global__ void ptxbench_count_differences(const std::uint64_t* left, const std::uint64_t* right, std::uint64_t count,
                                           unsigned long long* differences) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  unsigned long long mine = 0;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    mine += left[i] != right[i] ? 1 : 0;
  if (mine != 0) atomicAdd(differences, mine);
}

/// Holds up the stream until the host has put everything else on it (`*gate >= ticket`), then stamps. Five seconds at
/// most: a host that died must not hang the GPU.
__global__ void ptxbench_gate(const volatile std::uint32_t* gate, std::uint32_t ticket, std::uint64_t* stamp) {
  const std::uint64_t started = global_time();
  while (*gate < ticket && global_time() - started < 5'000'000'000ull) __nanosleep(100);
  *stamp = global_time();
}

__global__ void ptxbench_stamp(std::uint64_t* stamp) { *stamp = global_time(); }
}
