#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "emulator/program.h"
#include "emulator/register_facts.h"
#include "emulator/register_lifetimes.h"
#include "ptx/module.h"

namespace ptxbench::emulator {

class DefinednessCode;

/// Full-mask and masked variants of one handler.
struct HandlerPair {
  Handler full = nullptr;
  Handler masked = nullptr;
};

/// Translates one function. Binders (one per opcode, registered by the files in isa/) call it to name operand slots and
/// to emit decoded instructions.
class Decoder {
 public:
  /// `general`: no uniform registers; counters are those of `specialised`, whose function it is.
  Decoder(Program& program, FunctionCode& code, const FunctionCode* specialised = nullptr);
  ~Decoder();
  static bool is_lane_varying(ptx::SpecialRegister special);
  /// The same in blocks whose warps are rows of x (LaunchRequest::block[0] a multiple of 32, or one row): what
  /// specialised code assumes.
  static bool varies_in_aligned_block(ptx::SpecialRegister special);
  static bool is_dynamic(ptx::SpecialRegister special);
  /// Decodes the whole function: control-flow graph, register shapes, code.
  void run();

  const ptx::Module& module() const { return *program_.module; }
  const ptx::Function& function() const { return *code_.source; }
  Program& program() { return program_; }
  FunctionCode& code() { return code_; }

  // --- operands -------------------------------------------------------------------------------------------------
  /// Slot of a source operand read as `type` (decides how immediates are encoded). Registers, immediates, special
  /// registers and addresses of variables. Predicates: slot of the u32 mask (immediates 0/1 become masks).
  Slot source(const ptx::Operand& operand, ptx::Type type);
  /// The same, but always a per-lane vector slot: for handlers that have no uniform variants.
  Slot vector_source(const ptx::Operand& operand, ptx::Type type);
  /// Slot of a destination register; a scratch slot for the sink `_`.
  Slot destination(const ptx::Operand& operand, ptx::Type type);
  /// As destination(), for handlers without uniform variants: such opcodes never define uniform registers.
  Slot vector_destination(const ptx::Operand& operand, ptx::Type type);
  /// Register width in bits as declared (1 for predicates); width of `type` for non-registers.
  unsigned operand_bits(const ptx::Operand& operand, ptx::Type type) const;
  /// A negated predicate source is materialised into a scratch slot.
  Slot predicate(const ptx::Operand& operand);
  Slot scratch(unsigned bits, Shape shape = Shape::vector);
  Slot constant(uint64_t low, uint64_t high = 0);              ///< uniform slot
  Slot vector_constant(uint64_t bits, unsigned element_bits);  ///< broadcast vector slot
  /// The condition code's carry bit, one lane mask per function (add.cc, subc, madc, ...).
  Slot carry_flag() {
    if (!carry_flag_) carry_flag_ = scratch(1);
    return *carry_flag_;
  }
  Slot register_slot(uint32_t reg) const { return code_.registers[reg]; }
  const RegisterLifetime& lifetime(uint32_t reg) const { return lifetimes_[reg]; }
  /// Immediate value of an operand if it is one.
  static std::optional<int64_t> immediate(const ptx::Operand& operand);
  /// Address of a variable operand (`name+8`) as a uniform 64-bit slot, and the space it lies in.
  std::pair<Slot, ptx::StateSpace> variable_address(const ptx::Operand& operand);
  Slot special_register(ptx::SpecialRegister special);
  /// Fills space, address slot, offset of a memory operand `[...]`.
  void memory_address(const ptx::Operand& operand, ptx::StateSpace space, MemoryOp& op);
  /// Keeps `value` alive as long as the program and returns its address, for Inst::extra.
  template <class T>
  const T* keep(T value) {
    auto owned = std::make_shared<T>(std::move(value));
    const T* raw = owned.get();
    code_.extras.push_back(std::move(owned));
    return raw;
  }

  // --- code -----------------------------------------------------------------------------------------------------
  Inst& emit(HandlerPair handlers);
  /// The instruction cannot be executed: reaching it faults with unsupported.instruction and `reason`.
  void unsupported(std::string reason);
  /// Executed results of this instruction only approximate the hardware's: named in the fidelity footer.
  void approximate() { approximate_ = true; }
  uint32_t site() const { return site_; }
  /// Code for an observer: memory instructions send events. Without one nothing is added.
  bool observed() const { return program_.observed; }
  /// Immediate post-dominator of the block being decoded, kNone if its branches meet only at the function's end.
  uint32_t current_post_dominator() const { return code_.blocks[block_].post_dominator; }
  uint32_t block_of_label(uint32_t label) const { return code_.label_block[label]; }

 private:
  void build_blocks();
  void find_post_dominators();
  void classify_registers();
  /// Gives block-local vector registers their slots: one slot serves several that never live at once.
  void share_slots();
  void patch_branches();
  void decode_instruction(uint32_t index);
  /// For an observer: tells it about registers that wgmma uses too.
  void watch_registers(const ptx::Instruction& instruction);
  uint32_t allocate(unsigned bytes, unsigned alignment);
  uint64_t immediate_bits(const ptx::Operand& operand, ptx::Type type) const;

  Program& program_;
  FunctionCode& code_;
  uint32_t site_ = 0;
  uint32_t block_ = 0;
  bool approximate_ = false;
  std::optional<Slot> carry_flag_;
  std::vector<std::pair<uint32_t, std::pair<uint64_t, uint64_t>>> uniform_constants_;  // offset -> value
  struct VectorConstant {
    uint32_t offset;
    uint64_t bits;
    unsigned element_bits;
  };
  std::vector<VectorConstant> vector_constants_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> constant_index_;
  std::map<std::pair<uint64_t, unsigned>, uint32_t> vector_constant_index_;
  std::map<ptx::SpecialRegister, Slot> special_index_;
  std::map<std::tuple<int, uint64_t, int64_t>, Slot> address_index_;
  uint32_t next_offset_ = 0;
  uint32_t next_counter_ = 0, next_guard_ = 0;
  bool general_ = false;
  bool first_ = true;  ///< of the decodings of its function, whose counters the others share
  RegisterFacts facts_;
  std::vector<RegisterLifetime> lifetimes_;
  std::unique_ptr<DefinednessCode> definedness_;  ///< null unless DeviceOptions::definedness asks for it
  std::vector<bool> tensor_core_registers_;       ///< accumulators and A fragments of wgmma; empty if there are none
};

/// The general code of a function, decoded on first use (thread safe).
const FunctionCode& general_code(const Program& program, const FunctionCode& code);

using Binder = void (*)(Decoder&, const ptx::Instruction&);

/// Opcode -> binder; filled once by register_all_binders().
class BinderTable {
 public:
  static BinderTable& instance();
  void set(ptx::Op op, Binder binder) { binders_[static_cast<size_t>(op)] = binder; }
  Binder get(ptx::Op op) const { return binders_[static_cast<size_t>(op)]; }

 private:
  BinderTable();
  std::array<Binder, 256> binders_{};
};

/// One registration function per file in isa/.
void register_control(BinderTable& table);
void register_integer(BinderTable& table);
void register_float(BinderTable& table);
void register_half(BinderTable& table);
void register_convert(BinderTable& table);
void register_logic(BinderTable& table);
void register_compare(BinderTable& table);
void register_move(BinderTable& table);
void register_memory(BinderTable& table);
void register_atomic(BinderTable& table);
void register_barrier(BinderTable& table);
void register_warp(BinderTable& table);
void register_matrix(BinderTable& table);
void register_mbarrier(BinderTable& table);
void register_cp_async(BinderTable& table);
void register_bulk(BinderTable& table);
void register_tensor_map(BinderTable& table);
void register_cluster(BinderTable& table);
void register_wgmma(BinderTable& table);
void register_video(BinderTable& table);
void register_system(BinderTable& table);

}  // namespace ptxbench::emulator
