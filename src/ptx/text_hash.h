#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace ptxbench::ptx {

/// A fast hash for the short names of PTX text: eight bytes a step, mixed by a 64x64 multiplication.
inline uint64_t hash_text(std::string_view text) {
  const auto mix = [](uint64_t a, uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  uint64_t hash = 0x9e3779b97f4a7c15u ^ text.size();
  const char* data = text.data();
  size_t left = text.size();
  while (left >= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = mix(hash ^ word, 0xa0761d6478bd642fu);
    data += 8;
    left -= 8;
  }
  uint64_t word = 0;
  if (left > 0) std::memcpy(&word, data, left);
  return mix(hash ^ word, 0xe7037ed1a0b428dbu);
}

}  // namespace ptxbench::ptx
