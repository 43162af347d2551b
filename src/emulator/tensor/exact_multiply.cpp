#include "emulator/tensor/exact_multiply.h"

#include "emulator/tensor/tensor_kernels.h"

#include <algorithm>
#include <array>
#include <vector>

namespace ptxbench::emulator {
namespace {

/// Where one register of one column group lies in the packed operands.
struct Place {
  const float* a;
  const std::int16_t* a_exponents;
  const float* b;
  const std::int16_t* b_exponents;
};

Place place(const ExactMultiply& job, unsigned group, unsigned half, unsigned parity) {
  const std::size_t a_offset = std::size_t{half} * job.a.words() * kLanes;
  const std::size_t b_offset = std::size_t{group} * job.b.words() * kGroupColumns + 4 * parity;
  return {job.a.floats() + a_offset, job.a.exponents() + a_offset, job.b.floats() + b_offset,
          job.b.exponents() + b_offset};
}

DotOperand row_operand(const ExactMultiply& job, const Place& at, unsigned lane) {
  return {at.a + lane, kLanes, smallest_exponent(job.a_type)};
}

DotOperand column_operand(const ExactMultiply& job, const Place& at, unsigned lane) {
  return {at.b + lane % 4, kGroupColumns, smallest_exponent(job.b_type)};
}

bool prepare(const ExactMultiply& job) {
  const bool a_special = job.a.compute_exponents(job.a_type);
  return job.b.compute_exponents(job.b_type) || a_special;
}

void unpack_halves(const std::uint32_t* lanes, float* even, float* odd) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    even[lane] = f16_to_f32(static_cast<std::uint16_t>(lanes[lane]));
    odd[lane] = f16_to_f32(static_cast<std::uint16_t>(lanes[lane] >> 16));
  }
}

}  // namespace

void ExactMultiply::run_f32(std::uint32_t* const* d, bool accumulate) const {
  const TensorKernels& kernels = tensor_kernels();
  const bool special = prepare(*this);
  alignas(64) constexpr std::array<float, kLanes> kZeros{};
  for (unsigned group = 0; group < columns / kGroupColumns; ++group) {
    for (unsigned half = 0; half < 2; ++half) {
      const Place even = place(*this, group, half, 0);
      float* const target[2] = {reinterpret_cast<float*>(d[4 * group + 2 * half]),
                                reinterpret_cast<float*>(d[4 * group + 2 * half + 1])};
      const float* const c[2] = {accumulate ? target[0] : kZeros.data(), accumulate ? target[1] : kZeros.data()};
      const bool done =
          !special && kernels.fused_dots(even.a, even.a_exponents, even.b, even.b_exponents, a.words(), c,
                                         kSmallestF32Exponent, model.fraction_bits, model.result_bits, nullptr, target);
      if (done) {
        continue;
      }
      for (unsigned parity = 0; parity < 2; ++parity) {
        const Place at = place(*this, group, half, parity);
        for (unsigned lane = 0; lane < kLanes; ++lane) {
          target[parity][lane] = fused_dot(row_operand(*this, at, lane), column_operand(*this, at, lane), a.words(),
                                           c[parity][lane], model);
        }
      }
    }
  }
}

void ExactMultiply::run_f16(std::uint32_t* const* d, bool accumulate) const {
  const TensorKernels& kernels = tensor_kernels();
  const bool special = prepare(*this);
  for (unsigned group = 0; group < columns / kGroupColumns; ++group) {
    for (unsigned half = 0; half < 2; ++half) {
      std::uint32_t* target = d[2 * group + half];
      alignas(64) float accumulators[2][kLanes] = {};
      if (accumulate) {
        unpack_halves(target, accumulators[0], accumulators[1]);
      }
      const float* const c[2] = {accumulators[0], accumulators[1]};
      const Place even = place(*this, group, half, 0);
      double sums[2][kLanes];
      const bool done =
          !special && kernels.fused_dots(even.a, even.a_exponents, even.b, even.b_exponents, a.words(), c,
                                         kSmallestF16Exponent, model.fraction_bits, model.result_bits, sums, nullptr);
      std::uint32_t packed[kLanes] = {};
      for (unsigned parity = 0; parity < 2; ++parity) {
        const Place at = place(*this, group, half, parity);
        for (unsigned lane = 0; lane < kLanes; ++lane) {
          const std::uint32_t bits = done ? round_to_f16_accumulator(sums[parity][lane])
                                          : fused_dot_f16(row_operand(*this, at, lane), column_operand(*this, at, lane),
                                                          a.words(), c[parity][lane], model);
          packed[lane] |= bits << (16 * parity);
        }
      }
      std::copy(packed, packed + kLanes, target);
    }
  }
}

void multiply_f16_fast(const PackedA& a, const PackedB& b, unsigned columns, std::uint32_t* const* d, bool accumulate,
                       AlignedBuffer<std::uint32_t>& scratch) {
  const unsigned registers = columns / 2;
  std::uint32_t* wide = scratch.reserve(std::size_t{registers} * kLanes);
  std::array<std::uint32_t*, 128> pointers{};
  for (unsigned i = 0; i < registers; ++i) {
    pointers[i] = wide + i * kLanes;
  }
  const auto floats = [&](unsigned i) { return reinterpret_cast<float*>(pointers[i]); };
  for (unsigned i = 0; accumulate && i < registers / 2; ++i) {
    unpack_halves(d[i], floats(2 * i), floats(2 * i + 1));
  }
  tensor_kernels().multiply_f32(a.floats(), b.floats(), a.words(), columns, pointers.data(), accumulate);
  for (unsigned i = 0; i < registers / 2; ++i) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      d[i][lane] = static_cast<std::uint32_t>(f32_to_f16_rn(floats(2 * i)[lane])) |
                   static_cast<std::uint32_t>(f32_to_f16_rn(floats(2 * i + 1)[lane])) << 16;
    }
  }
}

}  // namespace ptxbench::emulator
