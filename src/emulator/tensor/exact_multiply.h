#pragma once

#include "emulator/tensor/exact_dot.h"
#include "emulator/tensor/packed_operands.h"

namespace ptxbench::emulator {

/// One warp's share of one instruction under a TensorCoreModel, on packed operands of exactly that instruction.
struct ExactMultiply {
  PackedA& a;
  PackedB& b;
  MmaType a_type;
  MmaType b_type;
  unsigned columns;
  TensorCoreModel model;

  /// d[4*group + 2*half + parity]: f32 accumulators.
  void run_f32(std::uint32_t* const* d, bool accumulate) const;
  /// d[2*group + half]: two f16 per register, the even column in the low half.
  void run_f16(std::uint32_t* const* d, bool accumulate) const;
};

/// f16 accumulators without the model: f32 multiply-adds over the whole instruction, rounded once to f16.
void multiply_f16_fast(const PackedA& a, const PackedB& b, unsigned columns, std::uint32_t* const* d, bool accumulate,
                       AlignedBuffer<std::uint32_t>& scratch);

}  // namespace ptxbench::emulator
