#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "problem/definition.h"

// What operations recognise a definition by.

namespace ptxbench::problem {

inline std::optional<std::size_t> find_tensor(const std::vector<TensorSpec>& specs, std::string_view name) {
  const auto found =
      std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& spec) { return spec.name == name; });
  if (found == specs.end()) return std::nullopt;
  return static_cast<std::size_t>(found - specs.begin());
}

/// A floating type of 16 bits or more.
inline bool is_wide_float(Dtype dtype) {
  return dtype == Dtype::bfloat16 || dtype == Dtype::float16 || dtype == Dtype::float32;
}

}  // namespace ptxbench::problem
