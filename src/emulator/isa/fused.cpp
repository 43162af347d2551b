#include "emulator/isa/fused.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "emulator/isa/control.h"
#include "emulator/isa/half_float.h"
#include "emulator/memory_access.h"

namespace ptxbench::emulator {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::OperandKind;
using ptx::StateSpace;
using ptx::Type;

constexpr uint32_t kUnused = 0xffffffffu;

/// d = broadcast * row + addend. A slot is kUnused where nobody reads the value later.
struct MultiplyAdd {
  uint32_t broadcast_offset = 0, row_offset = 0;  ///< bytes from the first byte that the run's loads touch
  uint32_t broadcast_slot = kUnused, row_slot = kUnused, result_slot = kUnused;
  bool uniform_slot = false;  ///< shape of broadcast_slot
};

/// A run adds up in one accumulator: each element's addend is the result of the one before.
struct Run {
  MemoryOp first;  ///< of the first load: what its own handler expects in Inst::extra
  Handler plain = nullptr;
  uint32_t broadcast_address = 0, row_address = 0;  ///< 32-bit scalar slot, slot whose lane 0 counts
  /// Bytes [low, high) that all loads together touch, relative to the address registers.
  int32_t broadcast_low = 0, broadcast_high = 0, row_low = 0, row_high = 0;
  uint32_t addend_slot = 0;
  std::vector<MultiplyAdd> elements;  // the plain handler reads `first` where this struct begins
  // What the loads touch, for Warp::touches: distances of rows from row_low, and bytes [begin, end) from broadcast_low.
  std::vector<uint32_t> rows;
  std::vector<std::pair<uint32_t, uint32_t>> broadcasts;
};

static_assert(std::is_standard_layout_v<Run> && offsetof(Run, first) == 0);

bool inside(const Warp& warp, uint32_t address, int32_t low, int32_t high) {
  // The address register and its offset add up modulo 2^32, as they do one by one.
  const uint32_t begin = address + static_cast<uint32_t>(low) - warp.shared_begin;
  return address % 4 == 0 && uint64_t{begin} + static_cast<uint32_t>(high - low) <= warp.shared_span;
}

/// The same bytes as the loads one by one.
bool touch_run(Warp& warp, const Run& run, uint32_t broadcast_address, uint32_t row_address) {
  SharedTouches& shared = warp.touches->shared;
  const uint32_t own = warp.cta->rank << kCtaRankShift;
  bool fine = shared.read_rows(warp.index, row_address + static_cast<uint32_t>(run.row_low) - own, run.rows);
  const uint32_t base = broadcast_address + static_cast<uint32_t>(run.broadcast_low) - own;
  for (const auto& [begin, end] : run.broadcasts)
    fine = shared.broadcast(warp.index, base + begin, end - begin, TouchKind::read) && fine;
  return fine;
}

const Inst* run_multiply_adds(Warp& warp, const Inst& inst) {
  const Run& run = *static_cast<const Run*>(inst.extra);
  const uint32_t broadcast_address = *warp.slot<const uint32_t>(run.broadcast_address);
  const uint32_t row_address = *warp.slot<const uint32_t>(run.row_address);
  if (!inside(warp, broadcast_address, run.broadcast_low, run.broadcast_high) ||
      !inside(warp, row_address, run.row_low, run.row_high)) [[unlikely]] {
    return run.plain(warp, inst);
  }
  if (warp.touches != nullptr && !touch_run(warp, run, broadcast_address, row_address)) give_up_proof(warp);
  // Register and offset add up modulo 2^32: the sum is an address, its parts need not be.
  const std::byte* broadcast_base = warp.shared_origin + (broadcast_address + static_cast<uint32_t>(run.broadcast_low));
  const std::byte* row_base = warp.shared_origin + (row_address + static_cast<uint32_t>(run.row_low));
  alignas(64) float sum[kLanes];
  std::memcpy(sum, warp.slot<const float>(run.addend_slot), sizeof sum);
  for (const MultiplyAdd& element : run.elements) {
    float factor = 0;
    std::memcpy(&factor, broadcast_base + element.broadcast_offset, sizeof factor);
    const auto* row = reinterpret_cast<const float*>(row_base + element.row_offset);
    for (unsigned lane = 0; lane < kLanes; ++lane) sum[lane] = __builtin_fmaf(factor, row[lane], sum[lane]);
    if (element.broadcast_slot != kUnused) [[unlikely]] {
      float* out = warp.slot<float>(element.broadcast_slot);
      for (unsigned lane = 0; lane < (element.uniform_slot ? 1 : kLanes); ++lane) out[lane] = factor;
    }
    if (element.row_slot != kUnused) [[unlikely]]
      std::memcpy(warp.slot<float>(element.row_slot), row, sizeof sum);
    if (element.result_slot != kUnused) {
      // A NaN stays one to the run's end, so it is enough to make those canonical that can be seen.
      float* out = warp.slot<float>(element.result_slot);
      for (unsigned lane = 0; lane < kLanes; ++lane) out[lane] = canonical(sum[lane]);
    }
  }
  return &inst + 3 * run.elements.size();
}

/// Three instructions that make one element of a run, with the registers that link it to its neighbours.
struct Triple {
  MultiplyAdd element;
  int32_t broadcast_offset = 0, row_offset = 0;  ///< bytes from the address registers
  uint32_t broadcast_address = ptx::kNone, row_address = ptx::kNone, addend = ptx::kNone, result = ptx::kNone;
};

class Fuser {
 public:
  explicit Fuser(Decoder& decoder) : decoder_(decoder), code_(decoder.code()), source_(decoder.function()) {}

  void run() {
    for (const BasicBlock& block : code_.blocks) {
      const size_t end = next_block(block);
      for (size_t at = block.first_inst + 1; at + 2 < end;) at += fuse(at, end);
    }
  }

 private:
  size_t next_block(const BasicBlock& block) const {
    const auto index = static_cast<size_t>(&block - code_.blocks.data());
    return index + 1 < code_.blocks.size() ? code_.blocks[index + 1].first_inst : code_.code.size() - 1;
  }

  /// Fuses the run that starts at `at`, if there is one; how many decoded instructions to go on by.
  size_t fuse(size_t at, size_t end) {
    Run run;
    uint32_t accumulator = ptx::kNone, broadcast_address = ptx::kNone, row_address = ptx::kNone;
    for (size_t next = at; next + 2 < end; next += 3) {
      const std::optional<Triple> triple = match(next);
      if (!triple) break;
      if (run.elements.empty()) {
        broadcast_address = triple->broadcast_address;
        row_address = triple->row_address;
        run.addend_slot = decoder_.register_slot(triple->addend).offset;
      } else if (triple->broadcast_address != broadcast_address || triple->row_address != row_address ||
                 triple->addend != accumulator) {
        break;
      } else if (triple->result == accumulator || last_used_at(accumulator, code_.code[next + 2].site)) {
        run.elements.back().result_slot = kUnused;
      }
      const auto extend = [&](int32_t& low, int32_t& high, int32_t offset, int32_t bytes) {
        low = run.elements.empty() ? offset : std::min(low, offset);
        high = run.elements.empty() ? offset + bytes : std::max(high, offset + bytes);
      };
      extend(run.broadcast_low, run.broadcast_high, triple->broadcast_offset, 4);
      extend(run.row_low, run.row_high, triple->row_offset, 4 * kLanes);
      run.elements.push_back(triple->element);
      run.elements.back().broadcast_offset = static_cast<uint32_t>(triple->broadcast_offset);
      run.elements.back().row_offset = static_cast<uint32_t>(triple->row_offset);
      accumulator = triple->result;
    }
    const size_t count = run.elements.size();
    if (count == 0) return 1;
    std::vector<uint32_t> words;
    for (MultiplyAdd& element : run.elements) {
      element.broadcast_offset -= static_cast<uint32_t>(run.broadcast_low);
      element.row_offset -= static_cast<uint32_t>(run.row_low);
      words.push_back(element.broadcast_offset);
      run.rows.push_back(element.row_offset);
    }
    std::sort(words.begin(), words.end());
    for (const uint32_t word : words) {
      if (run.broadcasts.empty() || word > run.broadcasts.back().second) {
        run.broadcasts.emplace_back(word, word + 4);
      } else {
        run.broadcasts.back().second = word + 4;
      }
    }
    run.broadcast_address = decoder_.register_slot(broadcast_address).offset;
    run.row_address = decoder_.register_slot(row_address).offset;
    Inst& first = code_.code[at];
    run.plain = first.full;
    run.first = *static_cast<const MemoryOp*>(first.extra);
    first.extra = decoder_.keep(std::move(run));
    first.full = &run_multiply_adds;
    return 3 * count;
  }

  const Instruction* instruction(size_t at) const {
    const Instruction& found = source_.instructions[code_.code[at].site];
    return found.guard == ptx::kNone ? &found : nullptr;
  }

  /// The memory operation of a weak 32-bit load from the CTA's shared memory, null for anything else.
  const MemoryOp* shared_load(size_t at) const {
    const Instruction* load = instruction(at);
    if (code_.code[at].full == &unsupported_handler) return nullptr;
    if (load == nullptr || load->op != Op::ld || type_bits(load->type()) != 32) return nullptr;
    if (load->operands[0].kind != OperandKind::reg || load->operands[1].kind != OperandKind::address) return nullptr;
    const auto* op = static_cast<const MemoryOp*>(code_.code[at].extra);
    const bool own = op->space == StateSpace::shared || op->space == StateSpace::shared_cta;
    const bool fits = op->offset > -(1 << 24) && op->offset < (1 << 24) && op->offset % 4 == 0;
    return own && fits && op->address_bits == 32 && op->semantics == Semantics::weak &&
                   type_bits(source_.registers[load->operands[0].index].type) == 32
               ? op
               : nullptr;
  }

  bool last_used_at(uint32_t reg, uint32_t site) const {
    const RegisterLifetime& life = decoder_.lifetime(reg);
    return life.block_local() && life.last == site;
  }

  std::optional<Triple> match(size_t at) const {
    const uint32_t site = code_.code[at].site;
    for (size_t i = 1; i < 3; ++i) {
      if (code_.code[at + i].site != site + i) return std::nullopt;
    }
    if (code_.code[at + 3].site == site + 2) return std::nullopt;
    const MemoryOp* loads[2] = {shared_load(at), shared_load(at + 1)};
    const Instruction* fma = instruction(at + 2);
    if (loads[0] == nullptr || loads[1] == nullptr || fma == nullptr || fma->op != Op::fma) return std::nullopt;
    if (fma->type() != Type::f32 || fma->has(Mod::ftz) || fma->has(Mod::sat) || !fma->has(Mod::rn)) return std::nullopt;
    for (const auto& operand : fma->operands) {
      if (operand.kind != OperandKind::reg) return std::nullopt;
    }
    const int broadcast = loads[0]->address.shape == Shape::uniform ? 0 : 1;
    const MemoryOp &one = *loads[broadcast], &row = *loads[1 - broadcast];
    if (one.address.shape != Shape::uniform || row.address.shape != Shape::vector || row.stride != 4) {
      return std::nullopt;
    }
    const uint32_t one_register = source_.instructions[site + static_cast<uint32_t>(broadcast)].operands[0].index;
    const uint32_t row_register = source_.instructions[site + 1 - static_cast<uint32_t>(broadcast)].operands[0].index;
    const uint32_t a = fma->operands[1].index, b = fma->operands[2].index;
    if (one_register == row_register ||
        !((a == one_register && b == row_register) || (a == row_register && b == one_register))) {
      return std::nullopt;
    }
    const ptx::Operand* addresses[2] = {&source_.instructions[site].operands[1].elements[0],
                                        &source_.instructions[site + 1].operands[1].elements[0]};
    Triple triple;
    triple.addend = fma->operands[3].index;
    triple.result = fma->operands[0].index;
    // All addresses and the first addend are read before anything is written.
    for (const ptx::Operand* address : addresses) {
      if (address->kind != OperandKind::reg) return std::nullopt;
      const uint32_t reg = address->index;
      if (reg == one_register || reg == row_register || reg == triple.result) return std::nullopt;
    }
    if (triple.addend == one_register || triple.addend == row_register) return std::nullopt;
    const Slot result = decoder_.register_slot(triple.result);
    if (result.shape != Shape::vector || decoder_.register_slot(triple.addend).shape != Shape::vector) {
      return std::nullopt;
    }
    triple.broadcast_address = addresses[broadcast]->index;
    triple.row_address = addresses[1 - broadcast]->index;
    triple.broadcast_offset = static_cast<int32_t>(one.offset);
    triple.row_offset = static_cast<int32_t>(row.offset);
    triple.element.result_slot = result.offset;
    const auto kept = [&](uint32_t reg) {
      const bool dead = reg == triple.result || last_used_at(reg, site + 2);
      return dead ? kUnused : decoder_.register_slot(reg).offset;
    };
    triple.element.broadcast_slot = kept(one_register);
    triple.element.uniform_slot = decoder_.register_slot(one_register).shape == Shape::uniform;
    triple.element.row_slot = kept(row_register);
    return triple;
  }

  Decoder& decoder_;
  FunctionCode& code_;
  const ptx::Function& source_;
};

}  // namespace

void fuse_multiply_adds(Decoder& decoder) {
  if (!decoder.observed()) Fuser(decoder).run();
}

}  // namespace ptxbench::emulator
