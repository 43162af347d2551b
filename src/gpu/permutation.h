#pragma once

#include <bit>
#include <cstdint>
#include <numeric>
#include <utility>

namespace ptxbench::gpu {

/// How a timed call sees inputs whose contents have to fit each other, so that they cannot be made anew: the same
/// slices in another order, with signs that a secret seed flips. Judge and executor derive it alike.
struct SlicePermutation {
  static constexpr unsigned kFlips = 3;  ///< groups of tensors whose signs flip together

  std::uint32_t slices = 1, factor = 1, shift = 0;
  unsigned flips = 0;  ///< bit g: group g is flipped

  static SlicePermutation from_seed(std::uint64_t seed, std::uint32_t slices) {
    // SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    const auto next = [&seed] {
      std::uint64_t z = seed += 0x9e3779b97f4a7c15ull;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
      return z ^ (z >> 31);
    };
    SlicePermutation out;
    out.slices = slices;
    out.flips = static_cast<unsigned>(next()) & ((1u << kFlips) - 1);
    out.shift = static_cast<std::uint32_t>(next() % slices);
    do {
      out.factor = static_cast<std::uint32_t>(next() % slices);
    } while (std::gcd(out.factor, slices) != 1);
    return out;
  }

  /// The slice of the given tensors that lies at `place` in the call's.
  std::uint32_t source(std::uint32_t place) const {
    return static_cast<std::uint32_t>((std::uint64_t{place} * factor + shift) % slices);
  }
  /// Where slice `source` of the given tensors lies in the call's.
  std::uint32_t place(std::uint32_t source) const {
    // The inverse of `factor` by Euclid's algorithm: sizes are small, and few are asked for.
    std::int64_t r0 = slices, r1 = factor % slices, t0 = 0, t1 = 1;
    while (r1 != 0) {
      const std::int64_t q = r0 / r1;
      r0 -= q * r1, std::swap(r0, r1);
      t0 -= q * t1, std::swap(t0, t1);
    }
    const std::uint64_t inverse = static_cast<std::uint64_t>(t0 < 0 ? t0 + slices : t0);
    return static_cast<std::uint32_t>((std::uint64_t{source} + slices - shift) % slices * inverse % slices);
  }
  /// Whether a tensor of these groups (a mask) has its signs flipped.
  bool flipped(unsigned groups) const { return std::popcount(groups & flips) % 2 != 0; }
};

}  // namespace ptxbench::gpu
