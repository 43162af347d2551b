#include "emulator/tensor/mma_sync.h"

#include "emulator/tensor/exact_multiply.h"
#include "emulator/tensor/tensor_kernels.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace ptxbench::emulator {
namespace {

constexpr unsigned kColumns = 8;

unsigned element_bits(MmaSyncType type) {
  switch (type) {
    case MmaSyncType::tf32:
      return 32;
    case MmaSyncType::f16:
    case MmaSyncType::bf16:
      return 16;
    case MmaSyncType::s4:
    case MmaSyncType::u4:
      return 4;
    case MmaSyncType::b1:
      return 1;
    default:
      return 8;
  }
}

bool is_any(MmaSyncType type, std::initializer_list<MmaSyncType> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

bool is_byte_integer(MmaSyncType type) { return is_any(type, {MmaSyncType::s8, MmaSyncType::u8}); }
bool is_nibble(MmaSyncType type) { return is_any(type, {MmaSyncType::s4, MmaSyncType::u4}); }
bool is_byte_float(MmaSyncType type) { return is_any(type, {MmaSyncType::e4m3, MmaSyncType::e5m2}); }
bool is_integral(MmaSyncType type) { return is_byte_integer(type) || is_nibble(type) || type == MmaSyncType::b1; }

bool has_shape(const MmaSyncShape& shape) {
  const auto any_k = [&](std::initializer_list<unsigned> ks) {
    return std::find(ks.begin(), ks.end(), shape.k) != ks.end();
  };
  if (shape.m == 8) {
    return (is_byte_integer(shape.a_type) && shape.k == 16) || (is_nibble(shape.a_type) && shape.k == 32) ||
           (shape.a_type == MmaSyncType::b1 && shape.k == 128);
  }
  if (shape.m != 16) {
    return false;
  }
  switch (shape.a_type) {
    case MmaSyncType::f16:
    case MmaSyncType::bf16:
      return any_k({8, 16});
    case MmaSyncType::tf32:
      return any_k({4, 8});
    case MmaSyncType::s4:
    case MmaSyncType::u4:
      return any_k({32, 64});
    case MmaSyncType::b1:
      return any_k({128, 256});
    default:
      return any_k({16, 32});
  }
}

MmaType packed_type(MmaSyncType type) {
  constexpr std::array types = {MmaType::f16,  MmaType::bf16, MmaType::tf32, MmaType::e4m3,
                                MmaType::e5m2, MmaType::s8,   MmaType::u8};
  return types[static_cast<std::size_t>(type)];
}

/// Element `k` of row (or column) `line` of a fragment of `bits`-wide elements: lanes 4*(line%8) .. +3 hold 32 bits of
/// consecutive k each; further registers continue with line+8 (A only) and then with higher k.
std::uint32_t fragment_element(const std::uint32_t* const* registers, unsigned bits, unsigned line_blocks,
                               unsigned line, unsigned k) {
  const unsigned per_register = 32 / bits;
  const unsigned block = k / (4 * per_register);
  const unsigned lane = line % 8 * 4 + k / per_register % 4;
  const std::uint32_t word = registers[block * line_blocks + line / 8][lane];
  return bits == 32 ? word : (word >> (k % per_register * bits)) & ((1U << bits) - 1U);
}

std::int64_t as_integer(MmaSyncType type, std::uint32_t bits) {
  switch (type) {
    case MmaSyncType::s8:
      return static_cast<std::int8_t>(bits);
    case MmaSyncType::s4:
      return static_cast<std::int8_t>(bits << 4) >> 4;
    default:
      return bits;
  }
}

/// Integer types without a vector path: element by element.
void integer_reference(const MmaSyncShape& shape, const std::uint32_t* const* a, const std::uint32_t* const* b,
                       std::uint32_t* const* d) {
  const unsigned bits = element_bits(shape.a_type);
  for (unsigned row = 0; row < shape.m; ++row) {
    for (unsigned column = 0; column < kColumns; ++column) {
      std::int64_t sum = 0;
      for (unsigned k = 0; k < shape.k; ++k) {
        const std::uint32_t x = fragment_element(a, bits, shape.m / 8, row, k);
        const std::uint32_t y = fragment_element(b, bits, 1, column, k);
        if (shape.a_type == MmaSyncType::b1) {
          sum += shape.bit_operation == MmaBitOperation::bit_xor ? x ^ y : x & y;
        } else {
          sum += as_integer(shape.a_type, x) * as_integer(shape.b_type, y);
        }
      }
      std::uint32_t& target = d[row / 8 * 2 + column % 2][row % 8 * 4 + column / 2];
      sum += static_cast<std::int32_t>(target);
      if (shape.saturate) {
        sum = std::clamp<std::int64_t>(sum, std::numeric_limits<std::int32_t>::min(),
                                       std::numeric_limits<std::int32_t>::max());
      }
      target = static_cast<std::uint32_t>(sum);
    }
  }
}

/// Moves column g's words, which pack_a_register left splatted at lanes 4g.., into packed-B order.
void take_columns(const std::uint32_t* splatted, std::uint32_t* out) {
  for (unsigned column = 0; column < kColumns; ++column) {
    out[column % 2 * 4 + column / 2] = splatted[4 * column];
  }
}

}  // namespace

const char* to_string(MmaSyncType type) {
  constexpr std::array names = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "s4", "u4", "b1"};
  return names[static_cast<std::size_t>(type)];
}

unsigned MmaSyncShape::a_registers() const { return m * k * element_bits(a_type) / 1024; }
unsigned MmaSyncShape::b_registers() const { return kColumns * k * element_bits(b_type) / 1024; }
unsigned MmaSyncShape::c_registers() const { return m / (accumulator == AccumulatorType::f16 ? 8 : 4); }

Result<void> check_mma_sync(const MmaSyncShape& shape) {
  const bool mixed = (is_byte_integer(shape.a_type) && is_byte_integer(shape.b_type)) ||
                     (is_nibble(shape.a_type) && is_nibble(shape.b_type)) ||
                     (is_byte_float(shape.a_type) && is_byte_float(shape.b_type));
  if (shape.a_type != shape.b_type && !mixed) {
    return input_error("mma.sync: operand types {} and {} cannot be combined", to_string(shape.a_type),
                       to_string(shape.b_type));
  }
  if (!has_shape(shape)) {
    return input_error("unsupported: mma.sync m{}n8k{} with {} operands", shape.m, shape.k, to_string(shape.a_type));
  }
  if (is_integral(shape.a_type) != (shape.accumulator == AccumulatorType::s32)) {
    return input_error("mma.sync: s32 accumulators and integer operands belong together, the operands are {}",
                       to_string(shape.a_type));
  }
  if (shape.accumulator == AccumulatorType::f16 && shape.a_type != MmaSyncType::f16) {
    return input_error("unsupported: mma.sync with {} operands and f16 accumulators", to_string(shape.a_type));
  }
  if (shape.saturate && (!is_integral(shape.a_type) || shape.a_type == MmaSyncType::b1)) {
    return input_error("mma.sync: .satfinite is defined for 8-bit and 4-bit integers only");
  }
  return {};
}

void MmaSyncEngine::execute(const MmaSyncShape& shape, const std::uint32_t* const* a, const std::uint32_t* const* b,
                            const std::uint32_t* const* c, std::uint32_t* const* d, MmaMode mode) {
  assert(check_mma_sync(shape).has_value());
  // D may be any source register: work on a copy.
  alignas(64) std::uint32_t work[4][kLanes];
  std::uint32_t* const pointers[4] = {work[0], work[1], work[2], work[3]};
  const unsigned registers = shape.c_registers();
  for (unsigned i = 0; i < registers; ++i) {
    std::memcpy(work[i], c[i], sizeof work[i]);
  }
  if (shape.m == 8 || element_bits(shape.a_type) < 8) {
    integer_reference(shape, a, b, pointers);
  } else if (is_byte_float(shape.a_type)) {
    execute_fp8(shape, packed_type(shape.a_type), packed_type(shape.b_type), a, b, pointers, mode);
  } else {
    execute_packed(shape, packed_type(shape.a_type), packed_type(shape.b_type), a, b, pointers, mode);
  }
  for (unsigned i = 0; i < registers; ++i) {
    std::memcpy(d[i], work[i], sizeof work[i]);
  }
}

void MmaSyncEngine::execute_packed(const MmaSyncShape& shape, MmaType a_type, MmaType b_type,
                                   const std::uint32_t* const* a, const std::uint32_t* const* b,
                                   std::uint32_t* const* d, MmaMode mode) {
  const TensorKernels& kernels = tensor_kernels();
  const bool full = shape.a_registers() == 4;  // the short shapes have half the k
  const std::uint32_t* const a_registers[4] = {a[0], a[1], full ? a[2] : nullptr, full ? a[3] : nullptr};
  a_.pack_registers(a_type, a_registers, 1, false);
  const unsigned words = words_per_step(b_type);
  std::uint32_t* out = b_.start(words, kColumns);
  alignas(64) std::uint32_t splatted[16 * kLanes];
  for (unsigned i = 0; i < 2; ++i) {
    std::uint32_t* target = out + i * (words / 2) * kColumns;
    if (i >= shape.b_registers()) {
      std::fill(target, target + words / 2 * kColumns, 0U);
      continue;
    }
    kernels.pack_a_register(b_type, b[i], false, splatted);
    for (unsigned word = 0; word < words / 2; ++word) {
      take_columns(splatted + word * kLanes, target + word * kColumns);
    }
  }
  if (shape.accumulator == AccumulatorType::s32) {
    kernels.multiply_s32(a_.data(), b_.data(), words, kColumns, d, true, shape.saturate);
  } else if (mode == MmaMode::exact) {
    const ExactMultiply job{a_, b_, a_type, b_type, kColumns, kHopperModel};
    shape.accumulator == AccumulatorType::f32 ? job.run_f32(d, true) : job.run_f16(d, true);
  } else if (shape.accumulator == AccumulatorType::f32) {
    kernels.multiply_f32(a_.floats(), b_.floats(), words, kColumns, d, true);
  } else {
    multiply_f16_fast(a_, b_, kColumns, d, true, wide_);
  }
}

void MmaSyncEngine::execute_fp8(const MmaSyncShape& shape, MmaType a_type, MmaType b_type,
                                const std::uint32_t* const* a, const std::uint32_t* const* b, std::uint32_t* const* d,
                                MmaMode mode) {
  constexpr unsigned kWords = 16;  // of one f16 instruction
  const TensorKernels& kernels = tensor_kernels();
  alignas(64) std::uint32_t sum[4][kLanes];
  std::uint32_t* const sums[4] = {sum[0], sum[1], sum[2], sum[3]};
  alignas(64) std::uint32_t splatted[kWords * kLanes];
  for (unsigned part = 0; part < 2; ++part) {
    // Elements 4t + 2*part and 4t + 2*part + 1 of every register.
    std::uint32_t* a_out = a_.start_words(kWords);
    std::uint32_t* b_out = b_.start(kWords, kColumns);
    std::fill(a_out, a_out + 2 * kWords * kLanes, 0U);
    std::fill(b_out, b_out + kWords * kColumns, 0U);
    const auto each_word = [&](unsigned block, auto move) {
      for (unsigned i = 0; i < 8; ++i) {
        move(block * 8 + i, splatted + (i / 2 * 4 + 2 * part + i % 2) * kLanes);
      }
    };
    for (unsigned i = 0; i < shape.a_registers(); ++i) {
      kernels.pack_a_register(a_type, a[i], false, splatted);
      each_word(i / 2, [&](unsigned word, const std::uint32_t* lanes) {
        std::memcpy(a_out + (std::size_t{i % 2} * kWords + word) * kLanes, lanes, kLanes * sizeof *lanes);
      });
    }
    for (unsigned i = 0; i < shape.b_registers(); ++i) {
      kernels.pack_a_register(b_type, b[i], false, splatted);
      each_word(i, [&](unsigned word, const std::uint32_t* lanes) { take_columns(lanes, b_out + word * kColumns); });
    }
    if (mode == MmaMode::exact) {
      const ExactMultiply job{a_, b_, a_type, b_type, kColumns, kHopperModel};
      job.run_f32(sums, part != 0);
    } else {
      kernels.multiply_f32(a_.floats(), b_.floats(), kWords, kColumns, sums, part != 0);
    }
  }
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const float total = bits_to_f32(sum[i][lane]) + bits_to_f32(d[i][lane]);
      d[i][lane] = std::isnan(total) ? 0x7fffffffU : f32_to_bits(total);
    }
  }
}

Result<void> check_mma_sync_f64(unsigned m, unsigned k) {
  const bool defined = (m == 8 && k == 4) || (m == 16 && (k == 4 || k == 8 || k == 16));
  if (!defined) {
    return input_error("unsupported: mma.sync m{}n8k{} with f64 operands", m, k);
  }
  return {};
}

void mma_sync_f64(unsigned m, unsigned k, const double* const* a, const double* const* b, const double* const* c,
                  double* const* d) {
  assert(check_mma_sync_f64(m, k).has_value());
  const unsigned row_blocks = m / 8;
  double result[4][kLanes];
  for (unsigned row = 0; row < m; ++row) {
    for (unsigned column = 0; column < kColumns; ++column) {
      const unsigned index = row / 8 * 2 + column % 2;
      const unsigned lane = row % 8 * 4 + column / 2;
      double sum = c[index][lane];
      for (unsigned i = 0; i < k; ++i) {
        sum = std::fma(a[i / 4 * row_blocks + row / 8][row % 8 * 4 + i % 4], b[i / 4][column * 4 + i % 4], sum);
      }
      result[index][lane] = sum;
    }
  }
  for (unsigned i = 0; i < m / 4; ++i) {
    std::memcpy(d[i], result[i], sizeof result[i]);
  }
}

void ldmatrix_b16(const std::byte* const* rows, bool transpose, std::uint32_t* lanes) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!transpose) {
      std::memcpy(&lanes[lane], rows[lane / 4] + 4 * (lane % 4), sizeof lanes[lane]);
      continue;
    }
    std::uint16_t low;
    std::uint16_t high;
    std::memcpy(&low, rows[2 * (lane % 4)] + 2 * (lane / 4), sizeof low);
    std::memcpy(&high, rows[2 * (lane % 4) + 1] + 2 * (lane / 4), sizeof high);
    lanes[lane] = static_cast<std::uint32_t>(low) | static_cast<std::uint32_t>(high) << 16;
  }
}

void stmatrix_b16(const std::uint32_t* lanes, bool transpose, std::byte* const* rows) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!transpose) {
      std::memcpy(rows[lane / 4] + 4 * (lane % 4), &lanes[lane], sizeof lanes[lane]);
      continue;
    }
    const auto low = static_cast<std::uint16_t>(lanes[lane]);
    const auto high = static_cast<std::uint16_t>(lanes[lane] >> 16);
    std::memcpy(rows[2 * (lane % 4)] + 2 * (lane / 4), &low, sizeof low);
    std::memcpy(rows[2 * (lane % 4) + 1] + 2 * (lane / 4), &high, sizeof high);
  }
}

void movmatrix_b16(const std::uint32_t* source, std::uint32_t* destination) {
  std::byte storage[8][16];
  std::byte* rows[8];
  for (unsigned i = 0; i < 8; ++i) {
    rows[i] = storage[i];
  }
  stmatrix_b16(source, false, rows);
  ldmatrix_b16(rows, true, destination);
}

}  // namespace ptxbench::emulator
