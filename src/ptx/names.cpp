#include "ptx/names.h"

#include <iterator>
#include <unordered_map>

#include "ptx/text_hash.h"

namespace ptxbench::ptx {
namespace {

struct Hasher {
  size_t operator()(std::string_view text) const { return hash_text(text); }
};
template <class Value>
using NameMap = std::unordered_map<std::string_view, Value, Hasher>;

// Some spellings are put together from adjacent literals.
// NOLINTBEGIN(bugprone-suspicious-missing-comma)
constexpr std::string_view kModifierTexts[] = {"",
#define X(name, bits) #name,
                                               PTXBENCH_PTX_TYPES(X)
#undef X
#define X(name, text) text,
                                                   PTXBENCH_PTX_MODIFIERS(X)
#undef X
};
// NOLINTEND(bugprone-suspicious-missing-comma)
static_assert(std::size(kModifierTexts) == static_cast<size_t>(Mod::count_));

constexpr OpcodeSpelling kOpcodes[] = {
#define X(name, text) {Op::name, text},
    PTXBENCH_PTX_OPCODES(X)
#undef X
};

constexpr std::string_view kSpecialRegisters[] = {
#define X(name, text) text,
    PTXBENCH_PTX_SPECIAL_REGISTERS(X)
#undef X
};

}  // namespace

std::string_view opcode_text(Op op) {
  return op == Op::invalid ? std::string_view() : kOpcodes[static_cast<size_t>(op) - 1].text;
}

std::span<const OpcodeSpelling> opcode_spellings() { return kOpcodes; }
std::span<const std::string_view> special_register_spellings() { return kSpecialRegisters; }

std::string_view modifier_text(Mod mod) { return kModifierTexts[static_cast<size_t>(mod)]; }

Mod find_modifier(std::string_view text) {
  static const NameMap<Mod> map = [] {
    NameMap<Mod> made;
    // The types come first, so that ".b1" (also a byte selector of video operands) is the type.
    for (size_t i = 1; i < std::size(kModifierTexts); ++i) made.emplace(kModifierTexts[i], static_cast<Mod>(i));
    return made;
  }();
  const auto found = map.find(text);
  return found == map.end() ? Mod::none : found->second;
}

std::string_view type_name(Type type) { return kModifierTexts[static_cast<size_t>(type)]; }

Type find_type(std::string_view text) { return mod_type(find_modifier(text)); }

std::string_view space_text(StateSpace space) {
  switch (space) {
    case StateSpace::generic:
      return "";
    case StateSpace::reg:
      return "reg";
    case StateSpace::sreg:
      return "sreg";
    case StateSpace::const_:
      return "const";
    case StateSpace::global:
      return "global";
    case StateSpace::local:
      return "local";
    case StateSpace::param:
      return "param";
    case StateSpace::param_entry:
      return "param::entry";
    case StateSpace::param_func:
      return "param::func";
    case StateSpace::shared:
      return "shared";
    case StateSpace::shared_cta:
      return "shared::cta";
    case StateSpace::shared_cluster:
      return "shared::cluster";
  }
  return "";
}

std::optional<SpecialRegister> find_special_register(std::string_view text) {
  static const NameMap<SpecialRegister> map = [] {
    NameMap<SpecialRegister> made;
    for (size_t i = 0; i < std::size(kSpecialRegisters); ++i)
      made.emplace(kSpecialRegisters[i], static_cast<SpecialRegister>(i));
    return made;
  }();
  const auto found = map.find(text);
  if (found == map.end()) return std::nullopt;
  return found->second;
}

std::string_view special_register_text(SpecialRegister reg) { return kSpecialRegisters[static_cast<size_t>(reg)]; }

Type special_register_type(SpecialRegister reg) {
  switch (reg) {
    case SpecialRegister::is_explicit_cluster:
      return Type::pred;
    case SpecialRegister::clock64:
    case SpecialRegister::globaltimer:
    case SpecialRegister::gridid:
    case SpecialRegister::current_graph_exec:
      return Type::u64;
    default:
      return Type::u32;
  }
}

MatrixShape mod_shape(Mod mod) {
  const std::string_view text = modifier_text(mod);
  if (mod < Mod::m8n8 || mod > Mod::m64n256k256) return {};
  MatrixShape shape;
  uint32_t* part = nullptr;
  for (const char c : text) {
    if (c == 'm')
      part = &shape.m;
    else if (c == 'n')
      part = &shape.n;
    else if (c == 'k')
      part = &shape.k;
    else if (part != nullptr)
      *part = *part * 10 + static_cast<uint32_t>(c - '0');
  }
  return shape;
}

}  // namespace ptxbench::ptx
