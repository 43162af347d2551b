#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace ptxbench::problem {

/// Scratch memory on a cache line, not initialised.
struct AlignedFloats {
  explicit AlignedFloats(std::int64_t count)
      : data(static_cast<float*>(
                 std::aligned_alloc(64, (static_cast<std::size_t>(count) * sizeof(float) + 63) / 64 * 64)),
             &std::free) {}
  float* get() { return data.get(); }
  const float* get() const { return data.get(); }

  std::unique_ptr<float, decltype(&std::free)> data;
};

inline std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace ptxbench::problem
