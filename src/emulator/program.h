#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/observer.h"
#include "ptx/module.h"

/// A kernel decoded for execution. Decoding happens once per module: every PTX instruction becomes one or more `Inst`,
/// 64 bytes each, whose handlers are chosen by operand shape and type.
namespace ptxbench::emulator {

struct Warp;
struct Inst;
enum class DefinednessMode : uint8_t;
/// Executes one instruction and returns the next one, or null when the warp must leave its run loop (it blocked,
/// yielded, exited, diverged or faulted; the warp's state says which).
using Handler = const Inst* (*)(Warp&, const Inst&);

inline constexpr unsigned kLanes = 32;
inline constexpr uint32_t kFullMask = 0xffffffffu;

/// Where an operand lives in the warp's register file. A `vector` slot holds one value per lane: u16[32] for 8- and
/// 16-bit types, u32[32], u64[32], or two u64[32] planes (low, high) for 128 bits; predicates are one u32 lane mask. A
/// `uniform` slot holds one 8-byte value (16 for 128 bits) that all lanes share: immediates, launch constants,
/// warp-uniform registers.
enum class Shape : uint8_t { vector, uniform };

struct Slot {
  uint32_t offset = 0;  ///< bytes from Warp::regs
  Shape shape = Shape::vector;
};

struct alignas(64) Inst {
  Handler full = nullptr;    ///< used when all 32 lanes are active
  Handler masked = nullptr;  ///< honours Warp::mask
  uint32_t dst = 0;
  uint32_t src[4] = {0, 0, 0, 0};
  uint32_t site = 0;            ///< PTX instruction index in the function (Site::instruction)
  const void* extra = nullptr;  ///< family-specific description, owned by the Program
  int64_t imm = 0;
  uint32_t aux = 0;
  uint32_t flags = 0;
};
static_assert(sizeof(Inst) == 64);

/// Static facts about a memory access, used by address handlers and by the observer wrapper.
struct MemoryOp {
  ptx::StateSpace space = ptx::StateSpace::generic;
  AccessKind kind = AccessKind::read;
  Semantics semantics = Semantics::weak;
  Scope scope = Scope::none;
  Proxy proxy = Proxy::generic;
  uint32_t bytes = 0;  ///< per lane, all vector elements together
  Slot address;        ///< 32- or 64-bit address register or constant
  unsigned address_bits = 64;
  int64_t stride = INT64_MIN;  ///< bytes between lanes' addresses if the whole warp runs (RegisterFacts::stride)
  int64_t offset = 0;
  uint32_t element_bytes = 0;
  unsigned elements = 1;
  std::array<Slot, 8> data{};          ///< registers of the vector elements
  std::array<uint8_t, 8> data_bits{};  ///< declared register width of each element
};

struct BasicBlock {
  uint32_t first_inst = 0;       ///< index of the block's BlockEnter pseudo-instruction in Function::code
  uint32_t first = 0, last = 0;  ///< PTX instructions [first, last)
  std::vector<uint32_t> successors;
  uint32_t post_dominator = ptx::kNone;  ///< immediate post-dominator block, kNone = function exit
  bool is_join = false;                  ///< some branch reconverges here
};

/// Storage of a variable a function can address.
struct FunctionCode {
  uint32_t index = 0;  ///< in ptx::Module::functions
  const ptx::Function* source = nullptr;
  std::vector<Inst> code;
  std::vector<BasicBlock> blocks;
  std::vector<Slot> registers;        ///< PTX register -> slot
  std::vector<uint32_t> label_block;  ///< label index -> block
  uint32_t frame_bytes = 0;           ///< register file of one activation
  /// Uniform slots that hold constants: copied into a fresh frame at `constants_offset`.
  std::vector<std::byte> constants;
  uint32_t constants_offset = 0;
  uint32_t local_bytes = 0;            ///< per thread: local variables and call parameters of one activation
  std::vector<uint64_t> local_offset;  ///< per Function::variables: offset in the frame's local memory, or kNone64
  /// Launch-constant special registers the code reads: filled when a frame starts.
  struct SpecialSlot {
    ptx::SpecialRegister special{};
    uint32_t offset = 0;
    Shape shape = Shape::uniform;
  };
  std::vector<SpecialSlot> specials;
  /// Addresses known only when a frame starts: uniform slots filled with base(kind) + value.
  enum class AddressKind : uint8_t { shared_variable, parameter, local };
  struct AddressSlot {
    AddressKind kind{};
    uint32_t offset = 0;
    uint64_t value = 0;  ///< shared_variable: index in Program::shared_variables; else byte offset
    int64_t addend = 0;
  };
  std::vector<AddressSlot> addresses;
  std::vector<uint32_t> shared_variables;  ///< Program::shared_variables this function names
  std::vector<uint32_t> callees;           ///< functions it calls directly
  bool calls_indirectly = false;
  std::vector<uint64_t> parameter_offset;  ///< entry: byte offset of each parameter in the parameter block
  uint32_t parameter_bytes = 0;
  /// The same function with every register per lane: for blocks whose warps are not rows of x, and for warps whose
  /// lanes stop running together where the analysis behind uniform registers assumed they would. Made on demand, see
  /// general_code().
  std::unique_ptr<FunctionCode> general;
  std::once_flag general_once;
  std::vector<std::shared_ptr<void>> extras;  ///< owns what Inst::extra points to
  uint32_t site_base = 0;                     ///< Site::instruction = site_base + PTX instruction index
  uint32_t counter_base = 0;                  ///< first index of this function's block counters in the program
  std::vector<uint32_t> approximate;          ///< PTX instructions whose results only approximate the hardware's
  uint32_t guard_counter_base = 0;
  std::vector<std::pair<uint32_t, uint32_t>> guards;  ///< guard counter, PTX instruction
};
inline constexpr uint64_t kNone64 = ~0ull;
/// Values of function pointers: tag | function index.
inline constexpr uint64_t kFunctionPointerTag = 0x0000'0f00'0000'0000ull;

/// A loaded module ready to run: all functions decoded, module variables placed.
struct Program {
  uint32_t id = 0;
  bool observed = false;            ///< decoded for an observer
  DefinednessMode definedness{};    ///< DeviceOptions::definedness
  bool touching = false;            ///< decoded for launches that are proved free of races (touches.h)
  bool exact_tensor_cores = false;  ///< DeviceOptions::exact_tensor_cores
  std::string name;
  std::shared_ptr<const ptx::Module> module;
  std::vector<std::unique_ptr<FunctionCode>> functions;  ///< parallel to module->functions; null without body
  /// Parallel to module->variables: device address (global, const) or index in shared_variables.
  std::vector<uint64_t> variable_address;
  /// Shared variables of the whole module; each kernel lays out those it can reach.
  struct SharedVariable {
    std::string name;
    uint64_t bytes = 0;
    uint32_t alignment = 1;
    bool dynamic = false;  ///< extern array: starts behind the static ones
  };
  std::vector<SharedVariable> shared_variables;
  std::vector<std::vector<uint32_t>> function_shared;  ///< per function and variable: shared variable or kNone
  uint32_t counters = 0;                               ///< number of block counters
  uint32_t guard_counters = 0;
  std::vector<uint64_t> allocations;  ///< device memory to free with the module
  /// The same program for launches that are proved free of races, see touching_program().
  std::unique_ptr<Program> touching_twin;
  std::once_flag touching_once;
  /// The same program for launches that repeat another run, see retracing_program().
  std::unique_ptr<Program> retracing_twin;
  std::once_flag retracing_once;
};

}  // namespace ptxbench::emulator
