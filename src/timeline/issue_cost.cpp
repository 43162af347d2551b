#include "timeline/issue_cost.h"

namespace ptxbench::timeline {
namespace {

using ptx::Op;
using ptx::Type;

/// Multiply-adds per cycle and scheduler of mma.sync with 16-bit operands.
constexpr double kLegacyMacs = 256;

bool has_64_bits(Type type) { return type == Type::s64 || type == Type::u64 || type == Type::b64 || type == Type::f64; }

bool is_float(Type type) {
  return type == Type::f32 || type == Type::f16 || type == Type::bf16 || type == Type::f16x2 || type == Type::bf16x2;
}

}  // namespace

double issue_cycles(const ptx::Instruction& instruction) {
  const Type type = instruction.type();
  switch (instruction.op) {
    case Op::mov:
      return 0;
    case Op::ex2:
    case Op::lg2:
    case Op::rcp:
    case Op::rsqrt:
    case Op::sqrt:
    case Op::sin:
    case Op::cos:
    case Op::tanh:
      return 8;  // 16 results a clock
    case Op::shfl_sync:
      return 4;  // 32
    case Op::cvt:
      return has_64_bits(type) || has_64_bits(instruction.type(1)) ? 8 : 2;
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::fma:
      if (is_float(type)) return 1;  // 128
      return has_64_bits(type) ? 4 : 2;
    case Op::mad:
    case Op::and_:
    case Op::or_:
    case Op::xor_:
    case Op::shl:
    case Op::shr:
    case Op::min:
    case Op::max:
    case Op::setp:
    case Op::selp:
      return has_64_bits(type) ? 4 : 2;  // 64
    default:
      return 1;
  }
}

double average_issue_cycles(const emulator::LaunchReport& report) {
  double cycles = static_cast<double>(report.legacy_mma_macs) / kLegacyMacs, warps = 0;
  if (report.module == nullptr) return 1;
  for (const emulator::InstructionCount& count : report.counts) {
    if (count.function >= report.module->functions.size()) continue;
    const ptx::Function& function = report.module->functions[count.function];
    if (count.instruction >= function.instructions.size()) continue;
    cycles += issue_cycles(function.instructions[count.instruction]) * static_cast<double>(count.warps);
    warps += static_cast<double>(count.warps);
  }
  return warps > 0 ? cycles / warps : 1;
}

}  // namespace ptxbench::timeline
