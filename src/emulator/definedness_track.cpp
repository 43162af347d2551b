#include <algorithm>

#include "emulator/definedness_tracked.h"

/// DefinednessMode::track: which handlers an instruction needs.
namespace ptxbench::emulator {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

bool is_control(Op op) {
  return op == Op::bra || op == Op::brx_idx || op == Op::exit || op == Op::ret || op == Op::call;
}

class TrackCode final : public DefinednessCode {
 public:
  explicit TrackCode(Decoder& decoder) : decoder_(decoder), carry_(plane_count(decoder.function()) - 1) {}

  void before_guard(const Instruction& instruction) override {
    if (instruction.guard == ptx::kNone) return;
    const bool branches = is_control(instruction.op);
    emit_uses({{branches ? UndefinedUse::branch : UndefinedUse::guard, instruction.guard, 1}});
  }

  void before(const Instruction& instruction) override {
    uses(instruction);
    if (const WrittenMemory written = written_by(instruction); written.bytes != 0) {
      const MemoryOp op = address_operand(decoder_, instruction.operands.at(written.operand), written.space,
                                          written.bytes, AccessKind::write);
      emit(&track_written, op);
    }
    switch (instruction.op) {
      case Op::ld:
      case Op::ldu:
      case Op::st:
      case Op::atom:
      case Op::red:
        access(instruction);
        return;
      case Op::st_async:
      case Op::red_async:
        remote(instruction);
        return;
      case Op::call:
        emit_call_results(decoder_, instruction);
        return;
      case Op::shfl_sync:
      case Op::vote_sync:
      case Op::match_sync:
      case Op::redux_sync:
        emit(&save_operands, group(instruction));
        return;
      case Op::ldmatrix:
      case Op::stmatrix:
        emit(&save_rows, matrix(instruction));
        return;
      default:
        break;
    }
    if (is_plain(instruction)) flow(instruction);
  }

  void after(const Instruction& instruction) override {
    switch (instruction.op) {
      case Op::shfl_sync:
      case Op::vote_sync:
      case Op::match_sync:
      case Op::redux_sync:
        emit(&track_group, group(instruction));
        return;
      case Op::ldmatrix:
      case Op::stmatrix:
        emit(&track_matrix, matrix(instruction));
        return;
      case Op::movmatrix:
        emit(&track_transpose,
             std::array<uint32_t, 2>{plane_of(instruction.operands.at(0)), plane_of(instruction.operands.at(1))});
        return;
      case Op::mma:
        product(instruction);
        return;
      case Op::wgmma_mma_async:
        return;
      default:
        break;
    }
    if (is_plain(instruction) || is_memory(instruction.op)) return;
    // Results of synchronising instructions are known: their operands are uses.
    TrackedUnknown rest;
    for_each_write(instruction, [&](uint32_t reg) { add_planes(reg, rest.results); });
    if (!is_synchronising(instruction.op)) {
      for_each_read(instruction, [&](uint32_t reg) { add_planes(reg, rest.sources); });
      rest.name = std::string(ptx::opcode_text(instruction.op));
    }
    if (!rest.results.empty() || !rest.sources.empty()) emit(&track_unknown, std::move(rest));
  }

 private:
  static bool is_memory(Op op) { return is_access(op) || op == Op::st_async || op == Op::red_async; }

  static bool is_synchronising(Op op) {
    switch (op) {
      case Op::bar:
      case Op::barrier:
      case Op::bar_warp_sync:
      case Op::elect_sync:
      case Op::activemask:
      case Op::mbarrier_init:
      case Op::mbarrier_inval:
      case Op::mbarrier_expect_tx:
      case Op::mbarrier_complete_tx:
      case Op::mbarrier_arrive:
      case Op::mbarrier_arrive_drop:
      case Op::mbarrier_pending_count:
      case Op::mbarrier_test_wait:
      case Op::mbarrier_try_wait:
      case Op::cp_async:
      case Op::cp_async_mbarrier_arrive:
      case Op::cp_async_bulk:
      case Op::cp_reduce_async_bulk:
      case Op::cp_async_bulk_tensor:
      case Op::cp_reduce_async_bulk_tensor:
      case Op::cp_async_bulk_prefetch:
      case Op::cp_async_bulk_prefetch_tensor:
      case Op::tensormap_replace:
      case Op::tensormap_cp_fenceproxy:
      case Op::fence_proxy:
      case Op::prefetch:
      case Op::prefetchu:
      case Op::applypriority:
      case Op::discard:
      case Op::nanosleep:
        return true;
      default:
        return false;
    }
  }

  /// One lane's registers in, the same lane's registers out.
  static bool is_plain(const Instruction& instruction) {
    if (!defines_first(instruction) || is_memory(instruction.op) || is_synchronising(instruction.op)) return false;
    switch (instruction.op) {
      case Op::shfl_sync:
      case Op::vote_sync:
      case Op::match_sync:
      case Op::redux_sync:
      case Op::ldmatrix:
      case Op::movmatrix:
      case Op::mma:
      case Op::mma_sp:
      case Op::mma_sp_ordered:
      case Op::wgmma_mma_async:
      case Op::wgmma_mma_async_sp:
      case Op::wmma_load_a:
      case Op::wmma_load_b:
      case Op::wmma_load_c:
      case Op::wmma_mma:
      case Op::multimem:
      case Op::call:
        return false;
      default:
        return true;
    }
  }

  unsigned register_bits(uint32_t reg) const { return type_bits(decoder_.function().registers[reg].type); }
  uint32_t plane_of(const Operand& operand) const {
    return operand.kind == OperandKind::reg ? operand.index : ptx::kNone;
  }
  void add_planes(uint32_t reg, std::vector<uint32_t>& planes) const {
    planes.push_back(reg);
    if (register_bits(reg) == 128) planes.push_back(high_plane(decoder_.function(), reg));
  }

  template <class T>
  void emit(Handler handler, T description) {
    const T* kept = decoder_.keep(std::move(description));
    decoder_.emit({handler, handler}).extra = kept;
  }
  void emit_uses(std::vector<TrackedUse> uses) {
    if (!uses.empty()) emit(&track_uses, std::move(uses));
  }

  /// A source with its value where an instruction's flow may need it.
  TrackedSource source(const Operand& operand, Type type) {
    TrackedSource source;
    Operand plain = operand;
    plain.negated = false;
    source.inverted = operand.negated;
    if (operand.kind == OperandKind::reg) {
      source.plane = operand.index;
      source.width = static_cast<uint8_t>(std::min(64u, register_bits(operand.index)));
      if (register_bits(operand.index) == 128) return source;
    } else if (operand.kind == OperandKind::integer && type != Type::pred) {
      type = Type::b64;
    } else if (operand.kind == OperandKind::special) {
      const auto special = static_cast<ptx::SpecialRegister>(operand.index);
      if (Decoder::is_dynamic(special)) return source;
    }
    try {
      source.value = value_operand(decoder_, plain, type);
      source.has_value = true;
    } catch (const std::exception&) {
      // The instruction itself will say why it cannot be decoded.
    }
    return source;
  }

  void add_sources(TrackedFlow& flow, const Operand& operand, Type type, unsigned width) {
    if (operand.kind == OperandKind::vector) {
      for (const Operand& element : operand.elements)
        add_sources(flow, element, type, width / static_cast<unsigned>(operand.elements.size()));
      return;
    }
    if (operand.kind == OperandKind::reg && register_bits(operand.index) == 128) {
      for (const uint32_t plane : {operand.index, high_plane(decoder_.function(), operand.index)}) {
        TrackedSource half;
        half.plane = plane;
        flow.sources.push_back(half);
        flow.source_widths.push_back(64);
      }
      return;
    }
    const bool predicate = operand.kind == OperandKind::reg && register_bits(operand.index) == 1;
    flow.sources.push_back(source(operand, predicate ? Type::pred : type));
    const unsigned own = operand.kind == OperandKind::reg ? register_bits(operand.index) : 64;
    flow.source_widths.push_back(static_cast<uint8_t>(flow.rule.flow == Flow::repack ? std::min(width, own) : own));
  }

  void add_results(TrackedFlow& flow, const Operand& operand, unsigned width) {
    if (operand.kind == OperandKind::vector || operand.kind == OperandKind::predicate_pair) {
      for (const Operand& element : operand.elements)
        add_results(flow, element, width / static_cast<unsigned>(operand.elements.size()));
      return;
    }
    if (operand.kind != OperandKind::reg) {
      flow.results.push_back(ptx::kNone);
      flow.result_widths.push_back(static_cast<uint8_t>(std::clamp(width, 1u, 64u)));
      return;
    }
    const unsigned own = register_bits(operand.index);
    add_planes(operand.index, flow.results);
    flow.result_widths.push_back(static_cast<uint8_t>(
        std::min(64u, flow.rule.flow == Flow::repack && own != 1 ? std::min(own, std::max(width, 1u)) : own)));
    if (own == 128) flow.result_widths.push_back(64);
  }

  void flow(const Instruction& instruction) {
    TrackedFlow flow;
    flow.rule = flow_of(instruction);
    const Type type = instruction.type();
    const unsigned width = type_bits(type);
    add_results(flow, instruction.operands[0], width);
    for (size_t o = 1; o < instruction.operands.size(); ++o) {
      const Operand& operand = instruction.operands[o];
      // The address forms of createpolicy and mapa's variables hold nothing undefined but their base.
      if (operand.kind == OperandKind::label || operand.kind == OperandKind::target_list) continue;
      if (operand.kind == OperandKind::address) continue;
      Type read_as = type;
      if (instruction.op == Op::cvt) read_as = instruction.type(1);
      if (instruction.op == Op::set) read_as = instruction.type(1);
      if (instruction.op == Op::slct && o == 3) read_as = instruction.type(1);
      const bool last_predicate = (instruction.op == Op::selp || instruction.op == Op::setp) && o == 3;
      if (last_predicate || type == Type::pred) read_as = Type::pred;
      add_sources(flow, operand, read_as, width);
    }
    // Extended-precision arithmetic (PTX ISA): the carry flag is one more source and result.
    const bool reads_carry = instruction.op == Op::addc || instruction.op == Op::subc || instruction.op == Op::madc;
    if (reads_carry) {
      TrackedSource carry;
      carry.plane = carry_;
      carry.width = 1;
      flow.sources.push_back(carry);
      flow.source_widths.push_back(1);
    }
    if (flow.sources.size() > 16 || flow.results.size() > 16) return;
    if (instruction.has(Mod::cc)) {
      // The carry depends on everything; the sum's own rule on less.
      TrackedFlow carried = flow;
      carried.rule = FlowRule{};
      carried.results = {carry_};
      carried.result_widths = {1};
      // Before the sum, which may overwrite its sources; its own carry-in was read into the sum's flow first.
      if (reads_carry) {
        flow.results.push_back(carry_);
        flow.result_widths.push_back(1);
        flow.rule = FlowRule{};
      } else {
        emit(&track_flow, std::move(carried));
      }
    }
    emit(&track_flow, std::move(flow));
  }

  void access(const Instruction& instruction) {
    TrackedAccess access;
    const bool tracked = memory_op(decoder_, instruction, access.memory);
    const bool load = instruction.op == Op::ld || instruction.op == Op::ldu;
    const size_t data = load ? 0 : address_position(instruction) + 1;
    const auto elements = [](const Operand& operand) {
      return operand.kind == OperandKind::vector ? operand.elements : std::vector<Operand>{operand};
    };
    const auto planes = [&](const Operand& operand) {
      std::vector<uint32_t> list;
      if (operand.kind == OperandKind::reg) add_planes(operand.index, list);
      return list;
    };
    if (!tracked) {
      // Parameters and constants.
      if (!load) return;
      TrackedUnknown defined;
      for (const Operand& element : elements(instruction.operands[0])) {
        if (element.kind == OperandKind::reg) add_planes(element.index, defined.results);
      }
      emit(&track_unknown, std::move(defined));
      return;
    }
    if (load || instruction.op == Op::st) {
      for (const Operand& element : elements(instruction.operands.at(data))) {
        access.data.push_back(planes(element));
        access.widths.push_back(
            static_cast<uint8_t>(element.kind == OperandKind::reg ? std::min(64u, register_bits(element.index)) : 64u));
      }
      const Type type = instruction.type();
      access.sign_extends = type == Type::s8 || type == Type::s16 || type == Type::s32;
      emit(load ? &track_load : &track_store, std::move(access));
      return;
    }
    TrackedAtomic atomic;
    for (const Mod mod :
         {Mod::exch, Mod::cas, Mod::add, Mod::and_, Mod::or_, Mod::xor_, Mod::inc, Mod::dec, Mod::min, Mod::max}) {
      if (instruction.has(mod)) {
        atomic.what = mod;
        break;
      }
    }
    const Type type = instruction.type();
    atomic.integer = type == Type::u32 || type == Type::s32 || type == Type::u64 || type == Type::s64;
    atomic.pairs = type == Type::f16x2 || type == Type::bf16x2;
    size_t next = address_position(instruction) + 1;
    if (atomic.what == Mod::cas) access.compare.push_back(source(instruction.operands.at(next++), type));
    for (const Operand& element : elements(instruction.operands.at(next))) {
      access.data.push_back(planes(element));
      access.values.push_back(source(element, type));
    }
    if (instruction.op == Op::atom) {
      for (const Operand& element : elements(instruction.operands.at(0))) access.results.push_back(planes(element));
    }
    atomic.access = std::move(access);
    emit(&track_atomic, std::move(atomic));
  }

  void remote(const Instruction& instruction) {
    TrackedAccess access;
    const Operand& value = instruction.operands.at(1);
    const auto list = value.kind == OperandKind::vector ? value.elements : std::vector<Operand>{value};
    for (const Operand& element : list) {
      access.data.emplace_back();
      if (element.kind == OperandKind::reg) add_planes(element.index, access.data.back());
    }
    access.memory.element_bytes = type_bits(instruction.type()) / 8;
    access.memory.elements = static_cast<unsigned>(list.size());
    emit(&track_remote, std::move(access));
  }

  TrackedGroup group(const Instruction& instruction) {
    TrackedGroup group;
    group.op = instruction.op;
    const auto& operands = instruction.operands;
    const Operand* target = &operands.at(0);
    if (target->kind == OperandKind::predicate_pair) {
      group.predicate = plane_of(target->elements.at(1));
      target = &target->elements[0];
    }
    group.result = plane_of(*target);
    group.source = source(operands.at(1), group.op == Op::vote_sync ? Type::pred : instruction.type());
    size_t members = 2;
    if (group.op == Op::shfl_sync) {
      group.second = value_operand(decoder_, operands.at(2), Type::u32);
      group.third = value_operand(decoder_, operands.at(3), Type::u32);
      members = 4;
    }
    group.members = value_operand(decoder_, operands.at(members), Type::u32);
    group.has_members = true;
    for (const Mod mod : {Mod::up, Mod::down, Mod::bfly, Mod::idx, Mod::ballot, Mod::all, Mod::any, Mod::uni, Mod::and_,
                          Mod::or_, Mod::xor_}) {
      if (instruction.has(mod)) group.mode = mod;
    }
    const bool predicate = group.op == Op::vote_sync && group.mode != Mod::ballot;
    group.width = predicate ? 1 : 32;
    return group;
  }

  TrackedMatrix matrix(const Instruction& instruction) {
    TrackedMatrix matrix;
    matrix.load = instruction.op == Op::ldmatrix;
    matrix.count = instruction.has(Mod::x4) ? 4 : instruction.has(Mod::x2) ? 2 : 1;
    matrix.transpose = instruction.has(Mod::trans);
    matrix.address = address_operand(decoder_, instruction.operands.at(matrix.load ? 1 : 0), instruction.space(), 16,
                                     AccessKind::read);
    const Operand& list = instruction.operands.at(matrix.load ? 0 : 1);
    for (unsigned m = 0; m < matrix.count; ++m) {
      matrix.planes[m] = plane_of(list.kind == OperandKind::vector ? list.elements.at(m) : list);
    }
    return matrix;
  }

  void product(const Instruction& instruction) {
    TrackedProduct product;
    const auto fragment = [&](const Operand& operand) {
      std::vector<uint32_t> planes;
      if (operand.kind == OperandKind::vector) {
        for (const Operand& element : operand.elements) planes.push_back(plane_of(element));
      } else {
        planes.push_back(plane_of(operand));
      }
      return planes;
    };
    const auto& operands = instruction.operands;
    product.d = fragment(operands.at(0));
    product.a = fragment(operands.at(1));
    product.b = fragment(operands.at(2));
    product.c = fragment(operands.at(3));
    for (const Mod mod : instruction.mods) {
      if (const ptx::MatrixShape shape = ptx::mod_shape(mod); shape.m != 0) product.tall = shape.m == 16;
    }
    product.packed = instruction.type(0) == Type::f16;
    product.width = instruction.type(0) == Type::f64 ? 64 : 32;
    if (product.c.size() != product.d.size()) return;
    emit(&track_product, std::move(product));
  }

  /// What the instruction does with an operand that must be known.
  void uses(const Instruction& instruction) {
    std::vector<TrackedUse> list;
    const auto& operands = instruction.operands;
    const auto use = [&](UndefinedUse kind, const Operand& operand, uint64_t bits = ~0ull) {
      for_each_register(operand, [&](uint32_t reg) {
        list.push_back({kind, reg, bits & low_bits(register_bits(reg))});
      });
    };
    const size_t first = defines_first(instruction) ? 1 : 0;
    size_t end = operands.size();
    if (instruction.has(Mod::L2_cache_hint) && end != 0) --end;  // a hint
    switch (instruction.op) {
      case Op::brx_idx:
        use(UndefinedUse::branch, operands.at(0));
        break;
      case Op::call:
        if (operands.at(1).kind == OperandKind::reg) use(UndefinedUse::address, operands[1]);
        break;
      case Op::shfl_sync:
        use(UndefinedUse::control, operands.at(2), 0x1f);
        use(UndefinedUse::control, operands.at(3), 0x1f1f);
        use(UndefinedUse::control, operands.at(4));
        break;
      case Op::vote_sync:
      case Op::match_sync:
      case Op::redux_sync:
        use(UndefinedUse::control, operands.at(2));
        break;
      case Op::elect_sync:
        use(UndefinedUse::control, operands.at(1));
        break;
      case Op::bar_warp_sync:
      case Op::bar:
      case Op::barrier:
      case Op::mbarrier_init:
      case Op::mbarrier_inval:
      case Op::mbarrier_expect_tx:
      case Op::mbarrier_complete_tx:
      case Op::mbarrier_arrive:
      case Op::mbarrier_arrive_drop:
      case Op::cp_async_mbarrier_arrive:
        for (size_t o = first; o < operands.size(); ++o) use(UndefinedUse::barrier, operands[o]);
        break;
      case Op::mbarrier_test_wait:
      case Op::mbarrier_try_wait:
        // Of a parity only bit 0 counts; the time limit is a hint.
        use(UndefinedUse::barrier, operands.at(1));
        use(UndefinedUse::barrier, operands.at(2), instruction.has(Mod::parity) ? 1 : ~0ull);
        break;
      case Op::mbarrier_pending_count:
        use(UndefinedUse::barrier, operands.at(1));
        break;
      case Op::wgmma_mma_async:
        for (size_t o = 1; o < operands.size(); ++o) {
          if (operands[o].kind == OperandKind::reg)
            use(register_bits(operands[o].index) == 1 ? UndefinedUse::control : UndefinedUse::address, operands[o]);
        }
        break;
      case Op::prefetch:
      case Op::prefetchu:
      case Op::applypriority:
      case Op::discard:
      case Op::nanosleep:
      case Op::cp_async_bulk_prefetch:
      case Op::cp_async_bulk_prefetch_tensor:
        break;
      default:
        for (size_t o = first; o < end; ++o) {
          if (operands[o].kind == OperandKind::address) {
            use(UndefinedUse::address, operands[o]);
          } else if (is_synchronising(instruction.op)) {
            use(UndefinedUse::control, operands[o]);
          }
        }
    }
    emit_uses(std::move(list));
  }

  Decoder& decoder_;
  uint32_t carry_;
};

}  // namespace

std::unique_ptr<DefinednessCode> make_track_code(Decoder& decoder) { return std::make_unique<TrackCode>(decoder); }

}  // namespace ptxbench::emulator
