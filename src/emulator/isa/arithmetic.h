#pragma once

#include "emulator/decoder.h"

/// Binders of opcodes that integer, float and half instructions share; arithmetic.cpp dispatches by type.
namespace ptxbench::emulator {

void bind_integer_add(Decoder& decoder, const ptx::Instruction& instruction);
void bind_integer_sub(Decoder& decoder, const ptx::Instruction& instruction);
void bind_integer_mul(Decoder& decoder, const ptx::Instruction& instruction);
void bind_integer_mad(Decoder& decoder, const ptx::Instruction& instruction);
void bind_integer_div(Decoder& decoder, const ptx::Instruction& instruction);
void bind_integer_abs(Decoder& decoder, const ptx::Instruction& instruction);
void bind_integer_neg(Decoder& decoder, const ptx::Instruction& instruction);
void bind_integer_min(Decoder& decoder, const ptx::Instruction& instruction);
void bind_integer_max(Decoder& decoder, const ptx::Instruction& instruction);

/// add, sub, mul, fma, mad, div, abs, neg, min, max, ex2, tanh on f32 and f64.
void bind_float(Decoder& decoder, const ptx::Instruction& instruction);
/// The same opcodes on f16, f16x2, bf16, bf16x2.
void bind_half(Decoder& decoder, const ptx::Instruction& instruction);

void register_arithmetic(BinderTable& table);
void register_integer_bits(BinderTable& table);

}  // namespace ptxbench::emulator
