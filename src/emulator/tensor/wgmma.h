#pragma once

#include "base/error.h"
#include "emulator/tensor/matrix_descriptor.h"
#include "emulator/tensor/mma_types.h"
#include "emulator/tensor/packed_operands.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ptxbench::emulator {

/// What consecutive `wgmma.mma_async` of one batch have in common.
struct WgmmaShape {
  unsigned n = 8;  ///< 8, 16 .. 256; M is 64 and K is 32 bytes of the operand type
  MmaType a_type = MmaType::bf16;
  MmaType b_type = MmaType::bf16;
  AccumulatorType accumulator = AccumulatorType::f32;
  MatrixMajor a_major = MatrixMajor::k_major;  ///< mn_major = imm-trans 1, 16-bit types only
  MatrixMajor b_major = MatrixMajor::k_major;
  bool a_in_registers = false;
  bool negate_a = false;  ///< imm-scale-a of -1
  bool negate_b = false;
  bool saturate = false;  ///< .satfinite, s32 accumulators only

  /// Registers per thread of D, and of A when in registers.
  unsigned d_registers() const { return accumulator == AccumulatorType::f16 ? n / 4 : n / 2; }
  unsigned k() const { return 32 / element_bytes(a_type); }
  bool operator==(const WgmmaShape&) const = default;
};

/// The combinations of PTX ISA "wgmma.mma_async" for sm_90a (dense; sparse and b1 are refused by name).
Result<void> check_wgmma(const WgmmaShape& shape);

/// One instruction of a batch.
struct WgmmaStep {
  std::uint64_t a_descriptor = 0;  ///< ignored when A is in registers
  std::uint64_t b_descriptor = 0;
  bool scale_d = true;  ///< false: D = A*B
};

/// A warp's registers. A register is 32 lanes of uint32_t, 32-byte aligned or better.
struct WgmmaWarp {
  unsigned index = 0;                       ///< within the warpgroup: rows 16*index .. 16*index+15
  std::uint32_t* const* d = nullptr;        ///< shape.d_registers() pointers
  const std::uint32_t* const* a = nullptr;  ///< 4 pointers per step, when A is in registers
};

MatrixLayout a_layout(const WgmmaShape& shape, std::uint64_t descriptor);
MatrixLayout b_layout(const WgmmaShape& shape, std::uint64_t descriptor);

/// Executes batches. Holds scratch memory and the packed-B cache, so keep one per host thread (or per CTA); not
/// thread-safe. Fragment layouts are those of PTX ISA "Register Fragments and Shared Memory Matrix Layouts".
class WgmmaEngine {
 public:
  /// Runs `steps` in order for each of `warps` (1 to 4 of a warpgroup, any subset: rows are independent).
  /// `shared_base` is shared address 0 of the CTA; the caller has checked that the operands lie inside (see
  /// operand_ranges.h). `shared_generation` names the state of shared memory: packed B operands are reused while it and
  /// the descriptors stay the same, for instance by the second warpgroup. Precondition: check_wgmma passed.
  void execute(const WgmmaShape& shape, std::span<const WgmmaStep> steps, std::span<const WgmmaWarp> warps,
               const std::byte* shared_base, std::uint64_t shared_generation, MmaMode mode = MmaMode::fast);

 private:
  void multiply(const WgmmaShape& shape, PackedB& b, std::uint32_t* const* d, bool accumulate, MmaMode mode);

  PackedA a_;
  PackedBCache b_;
  AlignedBuffer<std::uint32_t> wide_;  // f16 accumulators as f32 during a fast step
};

}  // namespace ptxbench::emulator
