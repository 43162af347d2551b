#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/instruction_table.h"

/// The PTX abstract syntax tree. Names are resolved while parsing: an operand refers to a register, variable, label or
/// function by index, and the index is unique in its function however the source's `{ }` scopes shadow names.
namespace ptxbench::ptx {

inline constexpr uint32_t kNone = 0xffffffffu;

struct SourcePosition {
  uint32_t line = 0;    ///< 1-based line in the PTX text
  uint32_t column = 0;  ///< 1-based column
};

enum class OperandKind : uint8_t {
  reg,             ///< index = Function::registers
  predicate_pair,  ///< `p|q`: elements = two operands (reg or sink)
  integer,         ///< bits = two's complement value
  floating,        ///< bits = IEEE-754 pattern; width says f32 or f64 (decimal literals are f64)
  special,         ///< special register (%tid.x, %laneid, ...): index = SpecialRegister
  variable,        ///< address of a variable or parameter: index = VariableRef, bits = byte offset (`name+8`)
  label,           ///< branch target: index = Function::labels
  function,        ///< call target: index = Module::functions
  address,      ///< `[base+offset]`: elements[0] = base (reg, variable, or integer), bits = offset. Tensor coordinates
                ///< `[map, {c0, c1}]` add elements[1] = a vector
  vector,       ///< `{a, b, ...}`: elements
  sink,         ///< `_`
  target_list,  ///< branch-target or call-prototype label: index = Function::labels
};

struct Operand {
  OperandKind kind = OperandKind::sink;
  bool negated = false;  ///< `!p`
  bool is_f32 = false;   ///< floating: written as 0f........
  uint32_t index = kNone;
  uint64_t bits = 0;
  std::vector<Operand> elements;
  Mod suffix = Mod::none;  ///< `.b0`..`.h1` selectors of video instructions, `.unified` of addresses
  std::string text;        ///< spelling to print literals exactly as they came; empty if none is needed
};

struct Instruction {
  const InstructionForm* form = nullptr;  ///< the row of the instruction table that matched
  Op op{};                                ///< form->op, for quick switches
  std::vector<Mod> mods;                  ///< in source order, the opcode's own parts excluded
  std::vector<Operand> operands;          ///< call: return params vector, target, arguments vector, prototype?
  uint32_t guard = kNone;                 ///< predicate register or kNone
  bool guard_negated = false;
  SourcePosition position;
  uint32_t file = 0;            ///< last `.loc`: file index as in `.file`, 0 = unknown
  uint32_t line = 0;            ///< last `.loc`: source line, 0 = unknown
  uint32_t inlined_at = kNone;  ///< Function::call_sites: where the inlined function it belongs to was called

  bool has(Mod mod) const;
  /// The i-th modifier that is a type (.f32, .u64, ...), Type::none if there is none.
  Type type(size_t i = 0) const;
  /// First modifier that is a state space; StateSpace::generic if there is none.
  StateSpace space(size_t i = 0) const;
};

/// Only registers that the body uses are listed; `%r<1000>` alone makes none. Components of vector registers are
/// registers of their own, named `v.x`.
struct Register {
  std::string name;
  Type type = Type::none;
};

/// A declared variable: module-scope, function-scope (local, shared, param) or a parameter.
struct Variable {
  std::string name;
  StateSpace space = StateSpace::generic;
  Type type = Type::none;
  uint32_t vector = 1;               ///< 1, 2 or 4 (`.v2`, `.v4`)
  uint32_t alignment = 0;            ///< bytes; natural alignment if the source names none
  std::vector<uint64_t> dimensions;  ///< empty for a scalar; 0 for `[]`
  uint64_t size = 0;                 ///< bytes in all; 0 for an extern array of unknown size
  std::vector<std::byte> data;       ///< initial bytes (`size` long) or empty
  /// Addresses inside the initialiser: at `offset` bytes, address of `variable`/`function` + addend.
  struct Relocation {
    uint64_t offset = 0;
    std::string symbol;
    int64_t addend = 0;
    bool generic = false;  ///< written as generic(symbol)
    uint64_t mask = 0;     ///< `0xff00(symbol)`: the address bits that go into this element; 0 = all
  };
  std::vector<Relocation> relocations;
  bool is_extern = false, is_visible = false, is_weak = false, is_common = false;
  bool pointer = false;  ///< entry parameter with `.ptr`
  StateSpace pointer_space = StateSpace::generic;
  uint32_t pointer_alignment = 0;
  SourcePosition position;
  std::vector<std::string> attributes;  ///< `.attribute(...)` entries: ".managed", ".unified(...)"
  std::string declaration_text;  ///< canonical text of the declaration for the printer; empty: built from the fields
};

enum class StatementKind : uint8_t {
  instruction,  ///< index = Function::instructions
  label,        ///< index = Function::labels
  scope_open,
  scope_close,
  declare_registers,  ///< text
  declare_variable,   ///< index = Function::variables
  location,           ///< `.loc` text
  directive,          ///< `.pragma`, `.branchtargets`, `.callprototype`, ...: text
};

struct Statement {
  StatementKind kind{};
  uint32_t index = kNone;
  std::string text;
};

/// Place of an inlined call, from `.loc ... inlined_at`.
struct CallSite {
  uint32_t file = 0, line = 0, column = 0;
  uint32_t parent = kNone;  ///< the call site of the function that holds this place, if that is inlined too
};

struct Label {
  std::string name;
  uint32_t instruction = kNone;   ///< index of the instruction that follows it (may be instructions.size())
  std::vector<uint32_t> targets;  ///< `.branchtargets`: labels
  bool is_prototype = false;      ///< `.callprototype`
  std::vector<uint64_t> prototype_returns, prototype_params;  ///< byte sizes
  std::vector<uint32_t> call_targets;                         ///< `.calltargets`: indices into Module::functions
};

/// Where an operand's variable lives: the top bit chooses the table.
struct VariableRef {
  static constexpr uint32_t kModule = 0x80000000u;
  static bool is_module(uint32_t index) { return (index & kModule) != 0; }
  static uint32_t position(uint32_t index) { return index & ~kModule; }
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool is_extern = false, is_visible = false, is_weak = false;
  bool has_body = false;
  std::vector<uint32_t> parameters;  ///< indices into variables, in order
  std::vector<uint32_t> returns;     ///< `.func` return parameters, indices into variables
  std::vector<Variable> variables;   ///< parameters, returns, and everything declared in the body
  std::vector<Register> registers;
  std::vector<Label> labels;
  std::vector<Instruction> instructions;
  std::vector<CallSite> call_sites;   ///< of inlined functions
  std::vector<Statement> statements;  ///< the body in source order, for the printer
  uint32_t maxntid[3] = {0, 0, 0};    ///< 0 = not given
  uint32_t reqntid[3] = {0, 0, 0};
  uint32_t reqnctapercluster[3] = {0, 0, 0};
  uint32_t maxclusterrank = 0;
  uint32_t minnctapersm = 0, maxnreg = 0;
  uint32_t alias_of = kNone;  ///< `.alias`: the function in Module::functions whose body this name stands for
  bool explicit_cluster = false, noreturn = false, blocks_are_clusters = false;
  std::vector<std::string> directives;  ///< performance directives in source order, for the printer
  SourcePosition position;
};

struct SourceFile {
  uint32_t index = 0;
  std::string path;
};

struct Module {
  uint32_t version_major = 0, version_minor = 0;
  std::string target;  ///< "sm_90a"
  std::vector<std::string> target_options;
  uint32_t address_size = 64;
  std::vector<SourceFile> files;
  std::vector<Variable> variables;  ///< module scope: global, const, shared
  std::vector<Function> functions;  ///< declarations too
  /// Module-level items in source order for the printer: kind tells function, variable, or raw text (`.file`,
  /// `.section`).
  struct Item {
    enum class Kind : uint8_t { function, variable, text } kind{};
    uint32_t index = kNone;
    std::string text;
  };
  std::vector<Item> items;
  /// The parts of the text that are debug information (`.loc`, `.file`, `.section .debug...`), in order: bytes from the
  /// directive's first token up to the next token.
  struct TextRange {
    size_t begin = 0, end = 0;
  };
  std::vector<TextRange> debug_text;

  const Function* find_function(std::string_view name) const;
  std::string_view file_path(uint32_t file_index) const;  ///< "" if unknown
};

}  // namespace ptxbench::ptx
