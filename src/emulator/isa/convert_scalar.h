#pragma once

#include <cstdint>

#include "ptx/module.h"

/// cvt of one value, exact for every pair of types and every rounding: the slow path behind convert.cpp's lane loops.
namespace ptxbench::emulator {

enum class CvtRounding : uint8_t { none, rn, rz, rm, rp, rna, rni, rzi, rmi, rpi };

struct Conversion {
  ptx::Type to = ptx::Type::none, from = ptx::Type::none;
  CvtRounding rounding = CvtRounding::none;
  bool ftz = false, sat = false, relu = false, satfinite = false;
  uint8_t register_bits = 0;  ///< of the destination: results are sign- or zero-extended to it

  uint64_t pack() const;
  static Conversion unpack(uint64_t bits);
};

/// `source` holds the register's bits; those above the source type are ignored.
uint64_t convert_value(uint64_t source, const Conversion& conversion);

}  // namespace ptxbench::emulator
