#pragma once

#include "base/error.h"
#include "emulator/tensor/mma_types.h"
#include "emulator/tensor/packed_operands.h"

#include <array>
#include <cstdint>
#include <vector>

namespace ptxbench::emulator {

/// Multiplicand types of `mma.sync` with 32-bit registers (f64 has its own function).
enum class MmaSyncType : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, s8, u8, s4, u4, b1 };
const char* to_string(MmaSyncType type);

/// `.xor.popc` and `.and.popc` of b1.
enum class MmaBitOperation : std::uint8_t { bit_xor, bit_and };

/// One `mma.sync.aligned.m<m>n8k<k>.row.col`.
struct MmaSyncShape {
  unsigned m = 16;
  unsigned k = 16;
  MmaSyncType a_type = MmaSyncType::f16;
  MmaSyncType b_type = MmaSyncType::f16;
  AccumulatorType accumulator = AccumulatorType::f32;  ///< of C and D
  bool saturate = false;                               ///< .satfinite, integers only
  MmaBitOperation bit_operation = MmaBitOperation::bit_xor;

  /// 32-bit registers per thread.
  unsigned a_registers() const;
  unsigned b_registers() const;
  unsigned c_registers() const;
};

/// The shapes of PTX ISA "mma" that sm_90 runs, except Volta's m8n8k4 f16, sparse and block-scaled forms (refused by
/// name).
Result<void> check_mma_sync(const MmaSyncShape& shape);

/// Executes mma.sync for one full warp. Holds scratch memory; one per host thread.
///
/// 16-bit and tf32: MmaMode as for wgmma (the hardware model is the same). FP8 with `exact` follows the hardware's
/// lowering, confirmed on an H200: two f16 instructions on k%4 < 2 and k%4 >= 2 starting from zero, then one f32
/// addition of C. Integers are exact; without .satfinite they wrap, with it the sum is clamped once.
class MmaSyncEngine {
 public:
  /// Registers are arrays of 32 lanes; `d` may be the same registers as any source. Precondition: check_mma_sync
  /// passed.
  void execute(const MmaSyncShape& shape, const std::uint32_t* const* a, const std::uint32_t* const* b,
               const std::uint32_t* const* c, std::uint32_t* const* d, MmaMode mode = MmaMode::fast);

 private:
  void execute_packed(const MmaSyncShape& shape, MmaType a_type, MmaType b_type, const std::uint32_t* const* a,
                      const std::uint32_t* const* b, std::uint32_t* const* d, MmaMode mode);
  void execute_fp8(const MmaSyncShape& shape, MmaType a_type, MmaType b_type, const std::uint32_t* const* a,
                   const std::uint32_t* const* b, std::uint32_t* const* d, MmaMode mode);
  PackedA a_;
  PackedB b_;
  AlignedBuffer<std::uint32_t> wide_;
};

/// mma.sync on f64: m8n8k4, m16n8k4, m16n8k8, m16n8k16. Registers are arrays of 32 doubles: a has m*k/32, b k/4, c and
/// d m/4. Fused multiply-adds in order of k (confirmed for m8n8k4 on an H200).
Result<void> check_mma_sync_f64(unsigned m, unsigned k);
void mma_sync_f64(unsigned m, unsigned k, const double* const* a, const double* const* b, const double* const* c,
                  double* const* d);

/// One 8x8 matrix of 16-bit elements as `ldmatrix` and `stmatrix` move it. rows[i] is the 16 bytes of row i (the
/// address that lane 8*matrix + i gave). Lane l holds row l/4, elements 2*(l%4) and +1 (.trans: of column l/4).
void ldmatrix_b16(const std::byte* const* rows, bool transpose, std::uint32_t* lanes);
void stmatrix_b16(const std::uint32_t* lanes, bool transpose, std::byte* const* rows);
/// `movmatrix.sync.aligned.m8n8.trans.b16`; source and destination may be the same.
void movmatrix_b16(const std::uint32_t* source, std::uint32_t* destination);

}  // namespace ptxbench::emulator
