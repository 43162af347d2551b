#include "emulator/isa/uniform.h"

namespace ptxbench::emulator {

bool uniform_capable(const ptx::Instruction& instruction) {
  using ptx::Op;
  switch (instruction.op) {
    case Op::add:
    case Op::sub:
    case Op::mad:
      return !instruction.has(ptx::Mod::cc);  // the carry is a lane mask
    case Op::mul:
    case Op::fma:
    case Op::div:
    case Op::rem:
    case Op::abs:
    case Op::neg:
    case Op::min:
    case Op::max:
    case Op::mul24:
    case Op::mad24:
    case Op::sad:
    case Op::popc:
    case Op::clz:
    case Op::bfind:
    case Op::fns:
    case Op::brev:
    case Op::bfe:
    case Op::bfi:
    case Op::bmsk:
    case Op::szext:
    case Op::dp4a:
    case Op::dp2a:
    case Op::and_:
    case Op::or_:
    case Op::xor_:
    case Op::not_:
    case Op::cnot:
    case Op::shl:
    case Op::shr:
    case Op::shf:
    case Op::lop3:
    case Op::prmt:
    case Op::setp:
    case Op::set:
    case Op::selp:
    case Op::slct:
    case Op::testp:
    case Op::rcp:
    case Op::sqrt:
    case Op::rsqrt:
    case Op::sin:
    case Op::cos:
    case Op::lg2:
    case Op::ex2:
    case Op::tanh:
    case Op::copysign:
    case Op::cvt:
    case Op::cvt_pack:
    case Op::cvta:
    case Op::isspacep:
    case Op::mapa:
    case Op::getctarank:
    case Op::createpolicy:
    case Op::vadd:
    case Op::vsub:
    case Op::vabsdiff:
    case Op::vmin:
    case Op::vmax:
    case Op::vshl:
    case Op::vshr:
    case Op::vmad:
    case Op::vset:
    case Op::vadd2:
    case Op::vsub2:
    case Op::vavrg2:
    case Op::vabsdiff2:
    case Op::vmin2:
    case Op::vmax2:
    case Op::vset2:
    case Op::vadd4:
    case Op::vsub4:
    case Op::vavrg4:
    case Op::vabsdiff4:
    case Op::vmin4:
    case Op::vmax4:
    case Op::vset4:
      return true;
    case Op::mov:
      return instruction.type() != ptx::Type::b128;  // such registers are always per lane
    default:
      return false;
  }
}

}  // namespace ptxbench::emulator
