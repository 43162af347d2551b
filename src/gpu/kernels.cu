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

constexpr int kChunk = 8;  // elements that a thread makes at once

template <class Element>
struct alignas(kChunk * sizeof(Element) < 16 ? kChunk * sizeof(Element) : 16) Chunk {
  Element element[kChunk];
};

/// The four values of a Philox block at once: random_element() would make the block four times.
__device__ void random_four(Distribution distribution, std::uint64_t seed, std::uint32_t tensor, std::uint64_t block,
                            float (&out)[4]) {
  namespace problem = ptxbench::problem;
  const auto key0 = static_cast<std::uint32_t>(seed);
  const auto key1 = static_cast<std::uint32_t>(seed >> 32);
  if (distribution == Distribution::bell) {
    const problem::PhiloxBlock words = problem::philox(problem::element_counter(block, tensor, 4), key0, key1, problem::kBellRounds);
    for (int i = 0; i < 4; ++i) out[i] = problem::bell_value(words.word[i]);
    return;
  }
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
__device__ unsigned bits_differ(const Element& a, const Element& b) {
  const auto* const left = reinterpret_cast<const unsigned char*>(&a);
  const auto* const right = reinterpret_cast<const unsigned char*>(&b);
  unsigned differ = 0;
  for (unsigned i = 0; i < sizeof(Element); ++i) differ |= left[i] ^ right[i];
  return differ != 0 ? 1 : 0;
}

/// Writes what the generator makes or, with somewhere to count, compares it with what is there.
/// `bell`, which is made under the clock's eye, has code of its own: it needs fewer registers.
template <bool kBell, bool kCompare, class Element>
__device__ void visit_chunks(Element* out, Distribution distribution, std::uint64_t seed, std::uint32_t tensor,
                             std::uint64_t count, unsigned long long* differences) {
  unsigned long long mine = 0;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t at = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; at * kChunk < count; at += step) {
    float values[kChunk];
    for (int half = 0; half < 2; ++half) {
      float four[4];
      random_four(kBell ? Distribution::bell : distribution, seed, tensor, at * 2 + static_cast<unsigned>(half), four);
      for (int i = 0; i < 4; ++i) values[4 * half + i] = four[i];
    }
    const std::uint64_t first = at * kChunk;
    if (first + kChunk <= count) {
      Chunk<Element> chunk;
      for (int i = 0; i < kChunk; ++i) chunk.element[i] = round_to<Element>(values[i]);
      if (kCompare) {
        const Chunk<Element> there = reinterpret_cast<const Chunk<Element>*>(out)[at];
        for (int i = 0; i < kChunk; ++i) mine += bits_differ(there.element[i], chunk.element[i]);
      } else {
        reinterpret_cast<Chunk<Element>*>(out)[at] = chunk;
      }
    } else {
      for (int i = 0; i < kChunk; ++i) {
        if (first + static_cast<unsigned>(i) >= count) break;
        const Element value = round_to<Element>(values[i]);
        Element& place = out[first + static_cast<unsigned>(i)];
        if (kCompare) {
          mine += bits_differ(place, value);
        } else {
          place = value;
        }
      }
    }
  }
  if (kCompare && mine != 0) atomicAdd(differences, mine);
}

template <bool kCompare, class Element>
__device__ void visit(Element* out, Distribution distribution, std::uint64_t seed, std::uint32_t tensor,
                      std::uint64_t count, unsigned long long* differences) {
  if (distribution == Distribution::bell) {
    visit_chunks<true, kCompare>(out, distribution, seed, tensor, count, differences);
  } else {
    visit_chunks<false, kCompare>(out, distribution, seed, tensor, count, differences);
  }
}

template <bool kCompare>
__device__ void visit_tensor(void* out, ElementType type, Distribution distribution, std::uint64_t seed,
                             std::uint32_t tensor, std::uint64_t count, unsigned long long* differences) {
  switch (type) {
    case ElementType::float32:
      return visit<kCompare>(static_cast<float*>(out), distribution, seed, tensor, count, differences);
    case ElementType::float16:
      return visit<kCompare>(static_cast<__half*>(out), distribution, seed, tensor, count, differences);
    case ElementType::bfloat16:
      return visit<kCompare>(static_cast<__nv_bfloat16*>(out), distribution, seed, tensor, count, differences);
    case ElementType::float8_e4m3fn:
      return visit<kCompare>(static_cast<__nv_fp8_e4m3*>(out), distribution, seed, tensor, count, differences);
    case ElementType::float8_e5m2:
      return visit<kCompare>(static_cast<__nv_fp8_e5m2*>(out), distribution, seed, tensor, count, differences);
  }
}

}  // namespace

extern "C" {

/// The elements of problem::RandomTensor; floating types only. Addresses are multiples of 16.
__global__ void ptxbench_fill_random(void* out, ElementType type, Distribution distribution, std::uint64_t seed,
                                     std::uint32_t tensor, std::uint64_t count) {
  visit_tensor<false>(out, type, distribution, seed, tensor, count, nullptr);
}

/// Adds the number of elements at `in` that are not those to `*differences`.
__global__ void ptxbench_count_not_random(void* in, ElementType type, Distribution distribution, std::uint64_t seed,
                                          std::uint32_t tensor, std::uint64_t count, unsigned long long* differences) {
  visit_tensor<true>(in, type, distribution, seed, tensor, count, differences);
}

/// `count` words of 8 bytes from an address that is a multiple of 16.
__global__ void ptxbench_fill_words(std::uint64_t* out, std::uint64_t word, std::uint64_t count) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const ulonglong2 two = make_ulonglong2(word, word);
  for (std::uint64_t i = first; i < count / 2; i += step) reinterpret_cast<ulonglong2*>(out)[i] = two;
  if (first == 0 && count % 2 != 0) out[count - 1] = word;
}

/// Adds the number of words of 8 bytes that differ to `*differences`; addresses are multiples of 16.
__global__ void ptxbench_count_differences(const std::uint64_t* left, const std::uint64_t* right, std::uint64_t count,
                                           unsigned long long* differences) {
  constexpr int kAtOnce = 4;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const auto* const left2 = reinterpret_cast<const ulonglong2*>(left);
  const auto* const right2 = reinterpret_cast<const ulonglong2*>(right);
  unsigned long long mine = 0;
  const auto compare = [&](const ulonglong2& a, const ulonglong2& b) { mine += (a.x != b.x ? 1 : 0) + (a.y != b.y ? 1 : 0); };
  std::uint64_t i = first;
  for (; i + (kAtOnce - 1) * step < count / 2; i += kAtOnce * step) {
    ulonglong2 a[kAtOnce], b[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) a[j] = left2[i + static_cast<unsigned>(j) * step];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) b[j] = right2[i + static_cast<unsigned>(j) * step];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) compare(a[j], b[j]);
  }
  for (; i < count / 2; i += step) compare(left2[i], right2[i]);
  if (first == 0 && count % 2 != 0) mine += left[count - 1] != right[count - 1] ? 1 : 0;
  if (mine != 0) atomicAdd(differences, mine);
}

/// Adds the number of bytes other than `byte` in zones of `bytes` to `*differences`: one block for each zone.
__global__ void ptxbench_count_guards(const std::uint64_t* zones, unsigned bytes, unsigned byte,
                                      unsigned long long* differences) {
  const auto* const zone = reinterpret_cast<const unsigned char*>(zones[blockIdx.x]);
  unsigned long long mine = 0;
  for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) mine += zone[i] != byte ? 1 : 0;
  if (mine != 0) atomicAdd(differences, mine);
}

/// Copies slices of `words` words of 4 bytes to other places, with bits flipped: slice p of `out` is slice
/// (p * factor + shift) mod slices of `in`. A block row (y) for each slice.
__global__ void ptxbench_permute_slices(std::uint32_t* out, const std::uint32_t* in, std::uint64_t words,
                                        std::uint32_t slices, std::uint32_t factor, std::uint32_t shift,
                                        std::uint32_t flip) {
  for (std::uint32_t slice = blockIdx.y; slice < slices; slice += gridDim.y) {
    const std::uint64_t from = (std::uint64_t{slice} * factor + shift) % slices;
    std::uint32_t* const to = out + slice * words;
    const std::uint32_t* const source = in + from * words;
    const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
    const std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (words % 4 == 0) {
      for (std::uint64_t i = first; i < words / 4; i += step) {
        uint4 four = reinterpret_cast<const uint4*>(source)[i];
        four.x ^= flip, four.y ^= flip, four.z ^= flip, four.w ^= flip;
        reinterpret_cast<uint4*>(to)[i] = four;
      }
    } else {
      for (std::uint64_t i = first; i < words; i += step) to[i] = source[i] ^ flip;
    }
  }
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
