#pragma once

#include <cstdint>

// The exact definition of random inputs, one element at a time. Plain C++ without dependencies, so that CUDA code can
// include it: every operation is one that IEEE 754 rounds correctly (add, multiply, fused multiply-add, square root,
// conversion) or an integer one, written so that no compiler may contract or reorder it. CPU and GPU therefore agree in
// every bit, whatever the vector width.

#if defined(__CUDACC__)
#define PTXBENCH_HD __host__ __device__ __forceinline__
#else
#define PTXBENCH_HD [[gnu::always_inline]] inline
#endif

namespace ptxbench::problem {

namespace exact {

#if defined(__CUDA_ARCH__)
PTXBENCH_HD float multiply(float a, float b) { return __fmul_rn(a, b); }
PTXBENCH_HD float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
PTXBENCH_HD float square_root(float a) { return __fsqrt_rn(a); }
PTXBENCH_HD float from_int(std::int32_t a) { return __int2float_rn(a); }
PTXBENCH_HD float from_bits(std::uint32_t a) { return __uint_as_float(a); }
PTXBENCH_HD std::uint32_t to_bits(float a) { return __float_as_uint(a); }
#else
PTXBENCH_HD float multiply(float a, float b) { return a * b; }
PTXBENCH_HD float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
PTXBENCH_HD float square_root(float a) { return __builtin_sqrtf(a); }
PTXBENCH_HD float from_int(std::int32_t a) { return static_cast<float>(a); }
PTXBENCH_HD float from_bits(std::uint32_t a) { return __builtin_bit_cast(float, a); }
PTXBENCH_HD std::uint32_t to_bits(float a) { return __builtin_bit_cast(std::uint32_t, a); }
#endif

}  // namespace exact

/// Four random words.
struct PhiloxBlock {
  std::uint32_t word[4];
};

/// Philox4x32 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC'11), with ten rounds.
PTXBENCH_HD PhiloxBlock philox(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1, int rounds = 10) {
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {
        {static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

struct NormalPair {
  float first, second;
};

/// Two independent standard normal values from two words (Box and Muller): radius sqrt(-2 ln u) with
/// u = (w0 / 2 + 1/2) / 2^31, angle 2 pi w1 / 2^32 less an eighth of a turn.
PTXBENCH_HD NormalPair normal_pair(std::uint32_t w0, std::uint32_t w1) {
  // u in (0, 1].
  const float u = exact::fma(exact::from_int(static_cast<std::int32_t>(w0 >> 1)), 0x1p-31f, 0x1p-32f);
  // ln u = exponent * ln 2 + ln(1 + f), with 1 + f within [sqrt(1/2), sqrt(2)).
  const std::uint32_t shifted = exact::to_bits(u) - 0x3f3504f3u;
  const std::int32_t exponent = static_cast<std::int32_t>(shifted) >> 23;
  const float f = exact::from_bits((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  // ln(1 + f) = f - f^2/2 + f^3 p(f), p fitted at Chebyshev points of the interval.
  float p = 6.97161147e-2f;
  p = exact::fma(p, f, -1.14797338e-1f);
  p = exact::fma(p, f, 1.16854199e-1f);
  p = exact::fma(p, f, -1.24256873e-1f);
  p = exact::fma(p, f, 1.42490576e-1f);
  p = exact::fma(p, f, -1.66678023e-1f);
  p = exact::fma(p, f, 2.00007157e-1f);
  p = exact::fma(p, f, -2.49999970e-1f);
  p = exact::fma(p, f, 3.33333312e-1f);
  const float square = exact::multiply(f, f);
  const float tail = exact::fma(exact::multiply(square, f), p, exact::multiply(square, -0.5f));
  const float log_u = exact::fma(exact::from_int(exponent), 0.693147182464599609375f, f + tail);
  const float minus_two_log = exact::multiply(log_u, -2.0f);
  const float radius = exact::square_root(minus_two_log > 0.0f ? minus_two_log : 0.0f);

  // Top two bits: quarter of the turn; the rest: an angle within [-pi/4, pi/4) around the middle of that quarter.
  const std::uint32_t quarter = w1 >> 30;
  const std::int32_t offset = static_cast<std::int32_t>(w1 & 0x3fffffffu) - 0x20000000;
  const float a = exact::multiply(exact::from_int(offset), 1.4629180792671596e-9f);  // pi / 2^31
  const float a2 = exact::multiply(a, a);
  float s = exact::fma(a2, -1.95878909e-4f, 8.33274827e-3f);
  s = exact::fma(s, a2, -1.66666647e-1f);
  const float sine = exact::fma(exact::multiply(s, a2), a, a);
  float c = exact::fma(a2, 2.45479421e-5f, -1.38883030e-3f);
  c = exact::fma(c, a2, 4.16666647e-2f);
  const float cosine = exact::fma(exact::multiply(c, a2), a2, exact::fma(a2, -0.5f, 1.0f));

  const bool odd = (quarter & 1u) != 0;
  const float x = odd ? sine : cosine;
  const float y = odd ? cosine : sine;
  const std::uint32_t x_sign = ((quarter + 1u) & 2u) << 30;
  const std::uint32_t y_sign = (quarter & 2u) << 30;
  return {exact::from_bits(exact::to_bits(exact::multiply(radius, x)) ^ x_sign),
          exact::from_bits(exact::to_bits(exact::multiply(radius, y)) ^ y_sign)};
}

/// What random inputs look like. `normal` is the data format's "random"; the others are for hidden checks.
enum class Distribution {
  normal,  ///< standard normal
  scaled,  ///< normal times 4
  spiky,   ///< normal, one element in 1024 times 16
  ties,    ///< near 1 or -1: normal / 64 away from zero from there
  flat,    ///< normal / 16
  tiny,    ///< normal, one element in 8 times 2^-130, which is subnormal in bf16 and fp32
  bell,  ///< sums of four random bytes with variance 1, within 3.46: timed calls have them, as they cost little to make
};

/// Spiky inputs: a value whose spike word is below this (one of 1024) is multiplied by kSpikeFactor.
constexpr std::uint32_t kSpikeBelow = 1u << 22;
constexpr float kSpikeFactor = 16.0f;
constexpr float kScaledFactor = 4.0f;
constexpr float kFlatFactor = 0.0625f;
/// Tiny inputs: a value whose spike word is below this (one of 8) is multiplied by kTinyFactor, which makes it
/// subnormal in fp32 and bf16 and zero in narrower types.
constexpr std::uint32_t kTinyBelow = 1u << 29;
constexpr float kTinyFactor = 0x1p-130f;

/// The fewest rounds with which the authors found no flaw.
constexpr int kBellRounds = 7;
/// A sum of four bytes has the variance 4 (256^2 - 1) / 12 = 21845.
constexpr float kBellFactor = 6.76587485e-3f;

PTXBENCH_HD float bell_value(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  const auto sum = static_cast<std::int32_t>(__dp4a(word, 0x01010101u, 0u));
#else
  const auto sum =
      static_cast<std::int32_t>((word & 0xffu) + ((word >> 8) & 0xffu) + ((word >> 16) & 0xffu) + (word >> 24));
#endif
  return exact::multiply(exact::from_int(sum - 510), kBellFactor);
}

/// Near ties: values close to 1 or -1, with the sign of a normal value and a 64th of its size beyond.
PTXBENCH_HD float near_tie(float normal) { return exact::fma(normal, 0.015625f, normal < 0.0f ? -1.0f : 1.0f); }

/// Counter of element `element` (in blocks of four) of tensor `tensor`; `purpose` 0 gives values, 1 says which are
/// spikes (or tiny), 2 gives scale factors (scale_factors.h), 3 offsets and pages (gqa_inputs.cpp), 4 the bytes
/// whose sums are bell-shaped, a word for each element.
PTXBENCH_HD PhiloxBlock element_counter(std::uint64_t block, std::uint32_t tensor, std::uint32_t purpose) {
  return {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), tensor, purpose}};
}

/// Standard normal value of one element: word pairs (0,1) and (2,3) of its block give elements 0,1 and 2,3.
PTXBENCH_HD float normal_element(std::uint64_t seed, std::uint32_t tensor, std::uint64_t element) {
  const PhiloxBlock block = philox(element_counter(element >> 2, tensor, 0), static_cast<std::uint32_t>(seed),
                                   static_cast<std::uint32_t>(seed >> 32));
  const NormalPair pair =
      (element & 2u) == 0 ? normal_pair(block.word[0], block.word[1]) : normal_pair(block.word[2], block.word[3]);
  return (element & 1u) == 0 ? pair.first : pair.second;
}

/// The fp32 value of one element under any distribution.
PTXBENCH_HD float random_element(Distribution distribution, std::uint64_t seed, std::uint32_t tensor,
                                 std::uint64_t element) {
  if (distribution == Distribution::bell) {
    const PhiloxBlock block = philox(element_counter(element >> 2, tensor, 4), static_cast<std::uint32_t>(seed),
                                     static_cast<std::uint32_t>(seed >> 32), kBellRounds);
    return bell_value(block.word[element & 3u]);
  }
  const float normal = normal_element(seed, tensor, element);
  if (distribution == Distribution::normal) return normal;
  if (distribution == Distribution::scaled) return exact::multiply(normal, kScaledFactor);
  if (distribution == Distribution::flat) return exact::multiply(normal, kFlatFactor);
  if (distribution == Distribution::ties) return near_tie(normal);
  const PhiloxBlock spikes = philox(element_counter(element >> 2, tensor, 1), static_cast<std::uint32_t>(seed),
                                    static_cast<std::uint32_t>(seed >> 32));
  const bool tiny = distribution == Distribution::tiny;
  const bool is_spike = spikes.word[element & 3u] < (tiny ? kTinyBelow : kSpikeBelow);
  return is_spike ? exact::multiply(normal, tiny ? kTinyFactor : kSpikeFactor) : normal;
}

}  // namespace ptxbench::problem
