#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "ptx/matcher.h"
#include "ptx/names.h"

namespace ptxbench::ptx {
namespace {

enum class Kind : uint8_t { none, integer, bits, floating, half, packed, predicate };

Kind kind_of(Type type) {
  switch (type) {
    case Type::none:
      return Kind::none;
    case Type::u8:
    case Type::u16:
    case Type::u32:
    case Type::u64:
    case Type::s8:
    case Type::s16:
    case Type::s32:
    case Type::s64:
      return Kind::integer;
    case Type::b8:
    case Type::b16:
    case Type::b32:
    case Type::b64:
    case Type::b128:
      return Kind::bits;
    case Type::f32:
    case Type::f64:
      return Kind::floating;
    case Type::f16:
    case Type::f16x2:
      return Kind::half;
    case Type::pred:
      return Kind::predicate;
    default:
      return Kind::packed;
  }
}

/// PTX ISA "Operand Type Checking" and "Operand Size Exceeding Instruction-Type Size", as ptxas applies them.
bool register_fits(Type wanted, Type reg, bool relaxed) {
  const unsigned wanted_bits = type_bits(wanted), reg_bits = type_bits(reg);
  const bool same = reg_bits == wanted_bits;
  const bool enough = same || (relaxed && reg_bits > wanted_bits);
  const Kind have = kind_of(reg);
  switch (kind_of(wanted)) {
    case Kind::none:
      return true;
    case Kind::predicate:
      return have == Kind::predicate;
    case Kind::integer:
      return (have == Kind::integer || have == Kind::bits) && enough;
    case Kind::bits:
      return have != Kind::predicate && enough;
    case Kind::floating:
    case Kind::half:
      return wanted == reg || (have == Kind::bits && enough);
    case Kind::packed:
      return have == Kind::bits && enough;
  }
  return false;
}

bool constant_fits(Type wanted, const Operand& operand) {
  switch (kind_of(wanted)) {
    case Kind::integer:
      return operand.kind == OperandKind::integer;
    case Kind::bits:
      if (operand.kind == OperandKind::integer) return true;
      return (wanted == Type::b32 && operand.is_f32) || (wanted == Type::b64 && !operand.is_f32);
    case Kind::floating:
      return operand.kind == OperandKind::floating;
    case Kind::none:
      return operand.kind == OperandKind::integer;
    default:
      return false;
  }
}

struct RuleTarget {
  Type type = Type::none;
  uint32_t count = 0;  ///< 0: a scalar
};

class Matcher {
 public:
  Matcher(const OperandContext& context, Instruction& instruction) : context_(context), instruction_(instruction) {
    for (const Mod mod : instruction.mods) {
      if (mod_type(mod) != Type::none && types_ < 4) type_[types_++] = mod_type(mod);
      switch (mod) {
        case Mod::v2:
          vector_ = 2;
          break;
        case Mod::v4:
          vector_ = 4;
          break;
        case Mod::v8:
          vector_ = 8;
          break;
        case Mod::x1:
          matrices_ = 1;
          break;
        case Mod::x2:
          matrices_ = 2;
          break;
        case Mod::x4:
          matrices_ = 4;
          break;
        case Mod::_1d:
          dimensions_ = 1;
          break;
        case Mod::_2d:
          dimensions_ = 2;
          break;
        case Mod::_3d:
          dimensions_ = 3;
          break;
        case Mod::_4d:
          dimensions_ = 4;
          break;
        case Mod::_5d:
          dimensions_ = 5;
          break;
        default:
          if (mod >= Mod::m8n8) shape_mod_ = mod;
      }
    }
  }

  RuleTarget target(const OperandRule& rule) const {
    RuleTarget target;
    target.type = rule.type;
    if (rule.type_index >= 0 && static_cast<size_t>(rule.type_index) < types_) {
      target.type = type_[rule.type_index];
      if (rule.widened) target.type = widened_type(target.type);
    }
    switch (rule.count_rule) {
      case CountRule::one:
        break;
      case CountRule::fixed:
        target.count = rule.count;
        break;
      case CountRule::vector_modifier:
        target.count = vector_;
        break;
      case CountRule::matrix_count:
        target.count = matrices_ * rule.count;
        break;
      case CountRule::im2col_offsets:
        target.count = dimensions_ > 2 ? dimensions_ - 2 : 1;
        break;
      case CountRule::fragment: {
        const FragmentSize size = fragment_size(instruction_.op, mod_shape(shape_mod_), rule.fragment, target.type);
        target.count = size.count;
        target.type = size.type;
        break;
      }
    }
    return target;
  }

  bool scalar_fits(const OperandRule& rule, Type type, const Operand& operand) const {
    switch (rule.role) {
      case OperandRole::destination_sink:
        // A load may drop elements of a vector, but not its whole result.
        if (operand.kind == OperandKind::sink) return rule.count_rule != CountRule::vector_modifier || vector_ > 0;
        [[fallthrough]];
      case OperandRole::destination:
      case OperandRole::source_register:
        return operand.kind == OperandKind::reg && !operand.negated &&
               register_fits(type, context_.register_type(operand.index), rule.relaxed);
      case OperandRole::source:
      case OperandRole::special_source:
      case OperandRole::move_source:
        return source_fits(rule, type, operand);
      default:
        return false;
    }
  }

  bool source_fits(const OperandRule& rule, Type type, const Operand& operand) const {
    if (operand.negated) return false;
    switch (operand.kind) {
      case OperandKind::reg:
        return register_fits(type, context_.register_type(operand.index), rule.relaxed);
      case OperandKind::integer:
      case OperandKind::floating:
        return constant_fits(type, operand) && in_range(rule, operand);
      case OperandKind::special: {
        if (rule.role == OperandRole::source) return false;
        const auto special = static_cast<SpecialRegister>(operand.index);
        const Kind kind = kind_of(type);
        if (kind == Kind::none || kind == Kind::floating || kind == Kind::half) return false;
        const unsigned have = type_bits(special_register_type(special)), wanted = type_bits(type);
        if (special == SpecialRegister::gridid) return wanted == 32 || wanted == 64;
        return have == wanted || (have > wanted && (rule.relaxed || have == 32));
      }
      case OperandKind::variable:
      case OperandKind::function:
        return rule.role == OperandRole::move_source && (kind_of(type) == Kind::integer || kind_of(type) == Kind::bits);
      default:
        return false;
    }
  }

  static bool in_range(const OperandRule& rule, const Operand& operand) {
    const auto value = static_cast<int64_t>(operand.bits);
    return !rule.has_range || (value >= rule.low && value <= rule.high && (value - rule.low) % rule.step == 0);
  }

  bool predicate_register(const Operand& operand) const {
    return operand.kind == OperandKind::reg && context_.register_type(operand.index) == Type::pred;
  }

  bool address_fits(const Operand& operand, bool tensor) const {
    if (operand.kind != OperandKind::address || operand.elements.empty()) return false;
    if (tensor != (operand.elements.size() == 2)) return false;
    const Operand& base = operand.elements[0];
    if (base.kind == OperandKind::reg) {
      const Type type = context_.register_type(base.index);
      const Kind kind = kind_of(type);
      const unsigned bits = type_bits(type);
      if ((kind != Kind::integer && kind != Kind::bits) || bits < 16 || bits > 64) return false;
    }
    if (!tensor) return true;
    if (base.kind == OperandKind::integer) return false;
    const Operand& coordinates = operand.elements[1];
    if (coordinates.kind != OperandKind::vector) return false;
    if (coordinates.elements.size() != coordinate_count()) return false;
    for (const Operand& coordinate : coordinates.elements) {
      const bool fits = coordinate.kind == OperandKind::integer ||
                        (coordinate.kind == OperandKind::reg &&
                         register_fits(Type::s32, context_.register_type(coordinate.index), false));
      if (!fits) return false;
    }
    return true;
  }

  /// Registers of a vector have one width, also where that may exceed the type's.
  bool same_widths(const std::vector<Operand>& elements) const {
    unsigned bits = 0;
    for (const Operand& element : elements) {
      if (element.kind != OperandKind::reg) continue;
      const unsigned own = type_bits(context_.register_type(element.index));
      if (bits != 0 && own != bits) return false;
      bits = own;
    }
    return true;
  }

  uint32_t coordinate_count() const {
    for (const Mod mod : instruction_.mods)
      if (mod == Mod::tile_gather4 || mod == Mod::tile_scatter4) return 5;
    return dimensions_;
  }

  bool fits(const OperandRule& rule, const Operand& operand) const {
    switch (rule.role) {
      case OperandRole::sink:
        return operand.kind == OperandKind::sink;
      case OperandRole::immediate: {
        return operand.kind == OperandKind::integer && in_range(rule, operand);
      }
      case OperandRole::predicate_source:
        return predicate_register(operand) || operand.kind == OperandKind::integer ||
               (instruction_.op == Op::mov && operand.kind == OperandKind::special &&
                special_register_type(static_cast<SpecialRegister>(operand.index)) == Type::pred);
      case OperandRole::predicate_destination:
        return predicate_register(operand) && !operand.negated;
      case OperandRole::predicate_destination_pair:
        if (operand.kind == OperandKind::predicate_pair) {
          return std::all_of(operand.elements.begin(), operand.elements.end(), [&](const Operand& element) {
            return element.kind == OperandKind::sink || predicate_register(element);
          });
        }
        return predicate_register(operand) && !operand.negated;
      case OperandRole::destination_with_predicate:
      case OperandRole::destination_and_predicate: {
        const Type type = target(rule).type;
        const auto is_destination = [&](const Operand& element) {
          return element.kind == OperandKind::sink ||
                 (element.kind == OperandKind::reg &&
                  register_fits(type, context_.register_type(element.index), false));
        };
        if (operand.kind == OperandKind::predicate_pair) {
          return is_destination(operand.elements[0]) &&
                 (predicate_register(operand.elements[1]) || operand.elements[1].kind == OperandKind::sink);
        }
        return rule.role == OperandRole::destination_with_predicate && operand.kind == OperandKind::reg &&
               is_destination(operand);
      }
      case OperandRole::address:
        return address_fits(operand, false);
      case OperandRole::tensor_address:
        return address_fits(operand, true);
      case OperandRole::label:
        return operand.kind == OperandKind::label;
      case OperandRole::label_list:
        return operand.kind == OperandKind::target_list;
      case OperandRole::call:
        return true;
      default:
        break;
    }
    if (operand.suffix != Mod::none && !rule.selectable) return false;
    const RuleTarget wanted = target(rule);
    if (rule.count_rule == CountRule::fragment && wanted.count == 0) return false;
    // A one-element vector stands for its element and the other way round, as in Triton's `ld.global.b32 {%r1},
    // [%rd1]`.
    if (wanted.count == 0 && operand.kind == OperandKind::vector)
      return operand.elements.size() == 1 && (instruction_.op == Op::ld || instruction_.op == Op::st) &&
             rule.count_rule == CountRule::vector_modifier && scalar_fits(rule, wanted.type, operand.elements[0]);
    if (wanted.count == 0 || (wanted.count == 1 && operand.kind != OperandKind::vector))
      return scalar_fits(rule, wanted.type, operand);
    if (operand.kind != OperandKind::vector || operand.elements.size() != wanted.count) return false;
    if (rule.relaxed && !same_widths(operand.elements)) return false;
    return std::all_of(operand.elements.begin(), operand.elements.end(),
                       [&](const Operand& element) { return scalar_fits(rule, wanted.type, element); });
  }

  /// Number of operands that fit in sequence; `complete` if the whole contract is met.
  size_t run(const std::vector<OperandRule>& rules, bool& complete, const OperandRule*& stopped) const {
    size_t at = 0;
    const auto& operands = instruction_.operands;
    if (rules.size() == 1 && rules[0].role == OperandRole::call) {
      complete = true;
      return operands.size();
    }
    for (const OperandRule& rule : rules) {
      if (rule.condition != Mod::none && !instruction_.has(rule.condition)) continue;
      if (at < operands.size() && fits(rule, operands[at])) {
        ++at;
        continue;
      }
      if (rule.optional && rule.condition == Mod::none) continue;
      stopped = &rule;
      complete = false;
      return at;
    }
    complete = at == operands.size();
    stopped = nullptr;
    return at;
  }

  void normalise(const std::vector<OperandRule>& rules) const {
    size_t at = 0;
    for (const OperandRule& rule : rules) {
      if (at >= instruction_.operands.size()) break;
      if (rule.condition != Mod::none && !instruction_.has(rule.condition)) continue;
      Operand& operand = instruction_.operands[at];
      if (rule.optional && rule.condition == Mod::none && !fits(rule, operand)) continue;
      ++at;
      if (!is_value(rule.role)) continue;
      const auto [type, count] = target(rule);
      if (count == 0 && operand.kind == OperandKind::vector) {
        Operand element = std::move(operand.elements[0]);
        operand = std::move(element);
        // ptxas schedules `{x}` and `x` differently, so the printer must keep the braces.
        operand.text = "{}";
      } else if (count == 1 && operand.kind != OperandKind::vector) {
        Operand vector;
        vector.kind = OperandKind::vector;
        vector.elements.push_back(std::move(operand));
        operand = std::move(vector);
      }
      set_width(operand, type);
      for (Operand& element : operand.elements) set_width(element, type);
    }
  }

  std::string describe(const OperandRule& rule) const {
    const RuleTarget wanted = target(rule);
    const std::string type = wanted.type == Type::none ? "" : fmt::format(" of type .{}", type_name(wanted.type));
    if (wanted.count > 0) return fmt::format("a vector of {} registers{}", wanted.count, type);
    switch (rule.role) {
      case OperandRole::destination:
      case OperandRole::source_register:
        return "a register" + type;
      case OperandRole::destination_sink:
        return "a register" + type + " or '_'";
      case OperandRole::source: {
        std::string text = "a register" + type;
        if (wanted.type == Type::none || constant_allowed(wanted.type)) text += " or a constant";
        if (rule.has_range) text += fmt::format(" from {} to {}", rule.low, rule.high);
        if (rule.has_range && rule.step > 1) text += fmt::format(" in steps of {}", rule.step);
        return text;
      }
      case OperandRole::special_source:
        return "a register" + type + ", a constant or a special register";
      case OperandRole::move_source:
        return "a register" + type + ", a constant, a special register or a variable";
      case OperandRole::immediate:
        if (!rule.has_range) return "an integer constant";
        if (rule.low == rule.high) return fmt::format("the constant {}", rule.low);
        return rule.step == 1
                   ? fmt::format("an integer constant from {} to {}", rule.low, rule.high)
                   : fmt::format("an integer constant from {} to {} in steps of {}", rule.low, rule.high, rule.step);
      case OperandRole::predicate_source:
        return "a predicate";
      case OperandRole::predicate_destination:
        return "a predicate register";
      case OperandRole::predicate_destination_pair:
        return "a predicate register or a pair 'p|q'";
      case OperandRole::destination_with_predicate:
        return "a register" + type + " or a pair 'd|p'";
      case OperandRole::destination_and_predicate:
        return "a pair 'd|p' of a register" + type + " and a predicate";
      case OperandRole::address:
        return "an address in brackets with an integer base register";
      case OperandRole::tensor_address:
        return fmt::format("a tensor address '[map, {{c0, ...}}]' with {} coordinate{}", coordinate_count(),
                           coordinate_count() == 1 ? "" : "s");
      case OperandRole::sink:
        return "'_'";
      case OperandRole::label:
        return "a label";
      case OperandRole::label_list:
        return "the name of a .branchtargets list";
      case OperandRole::call:
        return "call operands";
    }
    return "";
  }

  std::string describe(const Operand& operand) const {
    switch (operand.kind) {
      case OperandKind::reg:
        return fmt::format("{}register '{}' of type .{}", operand.negated ? "negated " : "",
                           context_.function.registers[operand.index].name,
                           type_name(context_.register_type(operand.index)));
      case OperandKind::predicate_pair:
        return "a pair 'p|q'";
      case OperandKind::integer:
        return fmt::format("integer constant {}", static_cast<int64_t>(operand.bits));
      case OperandKind::floating:
        return operand.is_f32 ? "an f32 constant" : "an f64 constant";
      case OperandKind::special:
        return fmt::format("special register '{}'", special_register_text(static_cast<SpecialRegister>(operand.index)));
      case OperandKind::variable:
        return fmt::format("variable '{}'", context_.variable(operand.index).name);
      case OperandKind::label:
        return fmt::format("label '{}'", context_.function.labels[operand.index].name);
      case OperandKind::function:
        return fmt::format("function '{}'", context_.module.functions[operand.index].name);
      case OperandKind::address:
        if (operand.elements.size() == 2)
          return fmt::format("a tensor address with {} coordinates", operand.elements[1].elements.size());
        return "an address" + (operand.elements.empty() ? std::string() : " based on " + describe(operand.elements[0]));
      case OperandKind::vector:
        if (operand.elements.empty()) return "an empty vector";
        for (const Operand& element : operand.elements)
          if (element.kind != operand.elements[0].kind)
            return fmt::format("a mixed vector of {}", operand.elements.size());
        return fmt::format("a vector of {}, first {}", operand.elements.size(), describe(operand.elements[0]));
      case OperandKind::sink:
        return "'_'";
      case OperandKind::target_list:
        return "a label list";
    }
    return "";
  }

 private:
  static bool is_value(OperandRole role) {
    switch (role) {
      case OperandRole::destination:
      case OperandRole::destination_sink:
      case OperandRole::source:
      case OperandRole::source_register:
      case OperandRole::move_source:
      case OperandRole::special_source:
        return true;
      default:
        return false;
    }
  }

  static bool constant_allowed(Type type) {
    const Kind kind = kind_of(type);
    return kind == Kind::integer || kind == Kind::bits || kind == Kind::floating;
  }

  static void set_width(Operand& operand, Type type) {
    if (operand.kind != OperandKind::floating) return;
    if (type == Type::f32 && !operand.is_f32) {
      const auto narrow = static_cast<float>(std::bit_cast<double>(operand.bits));
      operand.bits = std::bit_cast<uint32_t>(narrow);
      operand.is_f32 = true;
    } else if (type == Type::f64 && operand.is_f32) {
      const auto wide = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(operand.bits)));
      operand.bits = std::bit_cast<uint64_t>(wide);
      operand.is_f32 = false;
    }
  }

  const OperandContext& context_;
  Instruction& instruction_;
  Type type_[4] = {};
  size_t types_ = 0;
  uint32_t vector_ = 0, matrices_ = 0, dimensions_ = 0;
  Mod shape_mod_ = Mod::none;
};

}  // namespace

Type widened_type(Type type) {
  switch (type) {
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::u32:
      return Type::u64;
    case Type::s32:
      return Type::s64;
    default:
      return Type::none;
  }
}

FragmentSize fragment_size(Op op, MatrixShape shape, char fragment, Type element) {
  const bool group = op == Op::wgmma_mma_async || op == Op::wgmma_mma_async_sp;
  const bool sparse = op == Op::wgmma_mma_async_sp || op == Op::mma_sp || op == Op::mma_sp_ordered;
  const bool wmma = op == Op::wmma_mma || op == Op::wmma_load_a || op == Op::wmma_load_b;
  const uint32_t lanes = group ? 128 : 32;
  uint32_t elements = fragment == 'A' ? shape.m * shape.k : fragment == 'B' ? shape.k * shape.n : shape.m * shape.n;
  if (fragment == 'A' && sparse) elements /= 2;
  // Each quarter of the warp multiplies its own pair of m8n8k4 matrices.
  const bool volta = op == Op::mma && shape.m == 8 && shape.k == 4 && element != Type::f64;
  if (volta) elements *= 4;
  // wmma keeps every f16 factor twice.
  if (wmma && element == Type::f16 && (fragment == 'A' || fragment == 'B')) return {8, Type::f16x2};
  const unsigned bits = type_bits(element);
  if (bits == 0 || elements == 0) return {};
  switch (element) {
    case Type::f64:
      return {elements / lanes, Type::f64};
    case Type::f32:
      return {elements / lanes, Type::f32};
    case Type::s32:
      return {elements / lanes, Type::s32};
    case Type::f16:
      return {std::max(elements / (lanes * 2), 1u), Type::f16x2};
    default:
      return {std::max(elements * bits / (lanes * 32), 1u), Type::b32};
  }
}

bool match_operands(const Spelling& spelling, const OperandContext& context, Instruction& instruction,
                    std::string& problem, int& problem_operand) {
  instruction.op = spelling.op;
  const Matcher matcher(context, instruction);
  size_t best = 0;
  const OperandRule* best_rule = nullptr;
  bool any = false;
  for (const CompiledForm* form : spelling.forms) {
    for (const std::vector<OperandRule>& rules : form->operands) {
      bool complete = false;
      const OperandRule* stopped = nullptr;
      const size_t reached = matcher.run(rules, complete, stopped);
      if (complete) {
        instruction.form = form->form;
        matcher.normalise(rules);
        return true;
      }
      if (!any || reached > best || (reached == best && best_rule == nullptr)) {
        best = reached;
        best_rule = stopped;
        any = true;
      }
    }
  }
  const bool excess = best_rule == nullptr;
  problem_operand = best < instruction.operands.size() ? static_cast<int>(best) : -1;
  if (excess) {
    problem = fmt::format("expected {} operand{}, found {}", best, best == 1 ? "" : "s", instruction.operands.size());
  } else if (best >= instruction.operands.size()) {
    problem = fmt::format("expected {} as operand {}, found the end of the instruction", matcher.describe(*best_rule),
                          best + 1);
  } else {
    problem = fmt::format("expected {} as operand {}, found {}", matcher.describe(*best_rule), best + 1,
                          matcher.describe(instruction.operands[best]));
  }
  return false;
}

}  // namespace ptxbench::ptx
