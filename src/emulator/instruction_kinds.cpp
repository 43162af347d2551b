#include "emulator/instruction_kinds.h"

namespace ptxbench::emulator {

using ptx::Op;

bool is_arithmetic(Op op) {
  switch (op) {
    case Op::abs:
    case Op::add:
    case Op::addc:
    case Op::and_:
    case Op::bfe:
    case Op::bfi:
    case Op::bfind:
    case Op::bmsk:
    case Op::brev:
    case Op::clz:
    case Op::cnot:
    case Op::copysign:
    case Op::cos:
    case Op::cvt:
    case Op::cvt_pack:
    case Op::cvta:
    case Op::div:
    case Op::dp2a:
    case Op::dp4a:
    case Op::ex2:
    case Op::fma:
    case Op::fns:
    case Op::lg2:
    case Op::lop3:
    case Op::mad:
    case Op::mad24:
    case Op::madc:
    case Op::max:
    case Op::min:
    case Op::mov:
    case Op::mul:
    case Op::mul24:
    case Op::neg:
    case Op::not_:
    case Op::or_:
    case Op::popc:
    case Op::prmt:
    case Op::rcp:
    case Op::rem:
    case Op::rsqrt:
    case Op::sad:
    case Op::selp:
    case Op::set:
    case Op::setp:
    case Op::shf:
    case Op::shl:
    case Op::shr:
    case Op::sin:
    case Op::slct:
    case Op::sqrt:
    case Op::sub:
    case Op::subc:
    case Op::szext:
    case Op::tanh:
    case Op::testp:
    case Op::xor_:
      return true;
    default:
      return false;
  }
}

}  // namespace ptxbench::emulator
