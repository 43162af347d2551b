#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "problem/tensor.h"

namespace ptxbench::problem {

/// One tensor of a safetensors file.
struct SafetensorsEntry {
  std::string key;
  Dtype dtype = Dtype::float32;
  Shape shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes from the start of the file
};

/// A file of named tensors: 8 bytes with the header's length, a JSON header, then the data. The whole header is checked
/// before anything is read: offsets within the file, sizes that fit shape and type, no overlap, no element types
/// outside the data format.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  /// Checks a header; `file_bytes` is the size of the whole file.
  static Result<std::vector<SafetensorsEntry>> parse_header(std::string_view header, std::uint64_t file_bytes,
                                                            std::string_view where);

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// Whether the tensor is there, of this type and shape. The error lists the keys there are.
  Result<void> check(std::string_view key, Dtype dtype, const Shape& shape) const;
  /// Reads one tensor; `name` is the tensor's name in the problem. The error lists the keys there are.
  Result<Tensor> read(std::string_view key, std::string name) const;

 private:
  Result<const SafetensorsEntry*> find(std::string_view key) const;
  std::filesystem::path path_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<std::size_t> by_key_;  ///< entries in the order of their keys: many workloads may read one file
};

/// Writes the tensors, by their names, and `metadata` (strings by key) to a new file; one that is there is replaced
/// once all is written. Element types that the format does not have are an input error.
Result<void> write_safetensors(const std::filesystem::path& path, const std::vector<const Tensor*>& tensors,
                               const std::vector<std::pair<std::string, std::string>>& metadata = {});

}  // namespace ptxbench::problem
