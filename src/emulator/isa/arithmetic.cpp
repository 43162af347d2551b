#include "emulator/isa/arithmetic.h"

#include "emulator/isa/alu.h"

namespace ptxbench::emulator {
namespace {

using Bind = void (*)(Decoder&, const Instruction&);

template <Bind Integer>
void dispatch(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  switch (type) {
    case Type::f32:
    case Type::f64:
      if (instruction.type(1) != Type::none) throw std::runtime_error("mixed-precision arithmetic (sm_100)");
      bind_float(decoder, instruction);
      return;
    case Type::f16:
    case Type::f16x2:
    case Type::bf16:
    case Type::bf16x2:
      bind_half(decoder, instruction);
      return;
    case Type::f32x2:
      throw std::runtime_error("packed f32x2 arithmetic (sm_100)");
    default:
      Integer(decoder, instruction);
  }
}

void no_integer_form(Decoder&, const Instruction& instruction) { unsupported_type(instruction.type()); }

}  // namespace

void register_arithmetic(BinderTable& table) {
  table.set(Op::add, &dispatch<&bind_integer_add>);
  table.set(Op::sub, &dispatch<&bind_integer_sub>);
  table.set(Op::mul, &dispatch<&bind_integer_mul>);
  table.set(Op::mad, &dispatch<&bind_integer_mad>);
  table.set(Op::fma, &dispatch<&no_integer_form>);
  table.set(Op::div, &dispatch<&bind_integer_div>);
  table.set(Op::abs, &dispatch<&bind_integer_abs>);
  table.set(Op::neg, &dispatch<&bind_integer_neg>);
  table.set(Op::min, &dispatch<&bind_integer_min>);
  table.set(Op::max, &dispatch<&bind_integer_max>);
  table.set(Op::ex2, &dispatch<&no_integer_form>);
  table.set(Op::tanh, &dispatch<&no_integer_form>);
}

}  // namespace ptxbench::emulator
