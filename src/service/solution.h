#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace ptxbench::service {

struct SourceFile {
  std::string path, content;
};

/// A candidate as FlashInfer-Trace writes it.
struct Solution {
  std::string name, definition, author, description;
  std::string language;  ///< python, triton, cpp, cuda, tilelang
  std::vector<std::string> target_hardware;
  std::string entry_point;  ///< "file::symbol"
  std::vector<std::string> dependencies;
  bool destination_passing_style = true;
  std::optional<std::string> binding;  ///< tvm-ffi, torch
  std::vector<SourceFile> sources;

  /// SHA-1 over what decides what the candidate does, as the format prescribes.
  std::string hash() const;
  /// The name with the beginning of the hash: what traces call it.
  std::string normalised_name() const;
};

/// Why it cannot be judged here, though it is well formed; nothing when it can.
std::optional<std::string> unsupported_reason(const Solution& solution);

/// All sources as the one text that is judged: files that the entry file includes are put in their place.
Result<std::string> single_source(const Solution& solution);

}  // namespace ptxbench::service
