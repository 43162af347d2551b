#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ptxbench::base {

/// Incremental SHA-256. After `hex()` the object is finished; further use is a programming error and throws.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& update(std::string_view bytes);
  Sha256& update(std::span<const std::byte> bytes);
  /// Adds the length of `field` before its bytes, so that ("ab","c") and ("a","bc") differ: use it to hash records.
  Sha256& update_field(std::string_view field);
  /// 64 lower-case hexadecimal digits.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(std::string_view bytes);
/// Streams the file, whatever its size.
Result<std::string> sha256_file(const std::filesystem::path& path);
/// Only for formats that prescribe SHA-1 (FlashInfer-Trace solution hashes); 40 lower-case digits.
std::string sha1_hex(std::string_view bytes);

}  // namespace ptxbench::base
