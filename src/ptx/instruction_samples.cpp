#include "ptx/instruction_samples.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ptx/matcher.h"
#include "ptx/names.h"

namespace ptxbench::ptx {
namespace {

constexpr std::string_view kDeclarations =
    ".reg .pred %p<40>; .reg .b8 %q<40>; .reg .b16 %h<40>; .reg .b32 %r<300>; .reg .f32 %f<300>; .reg .b64 %rd<70>; "
    ".reg .f64 %fd<40>; .reg .b128 %rq<10>; .shared .align 128 .b8 sm[1024]; .local .align 16 .b8 lm[64];";

std::string register_name(Type type, unsigned number) {
  switch (type) {
    case Type::pred:
      return fmt::format("%p{}", number);
    case Type::f32:
      return fmt::format("%f{}", number);
    case Type::f64:
      return fmt::format("%fd{}", number);
    default:
      break;
  }
  switch (type_bits(type)) {
    case 128:
      return fmt::format("%rq{}", number);
    case 64:
      return fmt::format("%rd{}", number);
    case 16:
      return fmt::format("%h{}", number);
    case 8:
      return fmt::format("%q{}", number);
    default:
      return fmt::format("%r{}", number);
  }
}

bool takes_integers(Type type) {
  switch (type) {
    case Type::u8:
    case Type::u16:
    case Type::u32:
    case Type::u64:
    case Type::s8:
    case Type::s16:
    case Type::s32:
    case Type::s64:
    case Type::b8:
    case Type::b16:
    case Type::b32:
    case Type::b64:
      return true;
    default:
      return false;
  }
}

/// The spellings of one operand, the usual one first.
using Spellings = std::vector<std::string>;

void add_constant(const OperandRule& rule, Type type, Spellings& spellings) {
  if (type == Type::f32) {
    spellings.emplace_back("0f3f000000");
  } else if (type == Type::f64) {
    spellings.emplace_back("0d3fe0000000000000");
  } else if (type == Type::none || takes_integers(type)) {
    spellings.push_back(fmt::format("{}", rule.has_range ? std::min(rule.low + rule.step, rule.high) : 1));
  }
}

class Sampler {
 public:
  Sampler(Op op, const std::vector<Mod>& mods) : op_(op), mods_(mods) {
    for (const Mod mod : mods)
      if (mod_type(mod) != Type::none) types_.push_back(mod_type(mod));
  }

  std::vector<Spellings> operands(const std::vector<OperandRule>& rules) {
    std::vector<Spellings> spellings;
    for (const OperandRule& rule : rules) {
      if (rule.condition != Mod::none && !has(rule.condition)) continue;
      spellings.push_back(operand(rule));
    }
    return spellings;
  }

  std::string text(const std::vector<std::string>& operands) const {
    std::string text(opcode_text(op_));
    for (const Mod mod : mods_) text += fmt::format(".{}", modifier_text(mod));
    for (size_t i = 0; i < operands.size(); ++i) text += (i == 0 ? " " : ", ") + operands[i];
    return text + ";";
  }

 private:
  bool has(Mod mod) const { return std::find(mods_.begin(), mods_.end(), mod) != mods_.end(); }

  unsigned dimensions() const {
    constexpr Mod kDimensions[] = {Mod::_1d, Mod::_2d, Mod::_3d, Mod::_4d, Mod::_5d};
    for (unsigned i = 0; i < 5; ++i)
      if (has(kDimensions[i])) return i + 1;
    return 0;
  }

  Spellings address() {
    // The n-th address is in the n-th state space named.
    std::vector<StateSpace> spaces;
    for (const Mod mod : mods_)
      if (mod_space(mod) != StateSpace::generic) spaces.push_back(mod_space(mod));
    const size_t number = addresses_++;
    const bool bulk = op_ == Op::cp_async_bulk || op_ == Op::cp_reduce_async_bulk || op_ == Op::cp_async;
    const StateSpace space =
        spaces.empty() ? StateSpace::generic : spaces[bulk ? std::min(number, spaces.size() - 1) : 0];
    const std::string base = fmt::format("%rd{}", 9 + number);
    // Later addresses are of another space than the modifier says; tensor copies name the other side's space first.
    const std::string_view name = opcode_text(op_);
    const bool own_space = number == 0 && !name.ends_with("tensor");
    if (op_ == Op::prefetch && (space == StateSpace::const_ || space == StateSpace::param))
      return {"[%rd9]", "[%rd9+128]"};
    switch (space) {
      case StateSpace::param:
      case StateSpace::param_entry:
        return op_ == Op::st ? Spellings{"[rv]"} : Spellings{"[pt]", "[pt+16]"};
      case StateSpace::param_func:
        return {"[rv]"};
      case StateSpace::const_:
        return {"[cm]", "[cm+16]", "[%rd9]", "[%rd9+16]"};
      case StateSpace::local:
        return {"[lm+16]", "[lm]", "[%rd9]", "[%rd9+16]"};
      case StateSpace::shared:
      case StateSpace::shared_cta:
        if (number == 0) return {"[sm+128]", "[sm]", "[%r9]", "[%r9+128]", "[%rd9]"};
        return {"[%r9]", "[%r9+128]", "[sm+128]", "[%rd9]"};
      case StateSpace::shared_cluster:
        if (own_space) return {"[" + base + "]", "[%r9]", "[%r9+128]", "[sm+128]"};
        return {"[" + base + "]", "[%r9]", "[%r9+128]"};
      default: {
        Spellings spellings{"[" + base + "]", "[" + base + "+128]", "[" + base + "+-128]"};
        if (own_space) spellings.emplace_back(name.starts_with("mbarrier") ? "[sm+128]" : "[gm+128]");
        return spellings;
      }
    }
  }

  /// Number of elements of a vector operand, 0 for a scalar; `type` becomes that of a matrix fragment's registers.
  unsigned elements(const OperandRule& rule, Type& type) const {
    switch (rule.count_rule) {
      case CountRule::one:
        return 0;
      case CountRule::fixed:
        return rule.count;
      case CountRule::vector_modifier:
        return has(Mod::v2) ? 2 : has(Mod::v4) ? 4 : has(Mod::v8) ? 8 : 0;
      case CountRule::matrix_count:
        return rule.count * (has(Mod::x4) ? 4u : has(Mod::x2) ? 2u : 1u);
      case CountRule::im2col_offsets:
        return dimensions() > 2 ? dimensions() - 2 : 1;
      case CountRule::fragment: {
        Mod shape = Mod::none;
        for (const Mod mod : mods_)
          if (mod_shape(mod).m != 0) shape = mod;
        const FragmentSize size = fragment_size(op_, mod_shape(shape), rule.fragment, type);
        type = size.type;
        return size.count;
      }
    }
    return 0;
  }

  static std::string vector_text(const Spellings& elements) { return fmt::format("{{{}}}", fmt::join(elements, ", ")); }

  Spellings vector_operand(const OperandRule& rule, Type type, unsigned count) {
    Spellings registers, wide, constants;
    for (unsigned i = 0; i < count; ++i) {
      const unsigned number = next_++ % (type_bits(type) == 32 ? 290 : 60);
      registers.push_back(register_name(type, number));
      wide.push_back(register_name(Type::b64, number));
      if (rule.role == OperandRole::source) add_constant(rule, type, constants);
    }
    Spellings spellings{vector_text(registers)};
    if (rule.relaxed && type_bits(type) < 64) spellings.push_back(vector_text(wide));
    if (!constants.empty() && rule.count_rule != CountRule::fragment) spellings.push_back(vector_text(constants));
    if (rule.role == OperandRole::destination_sink && count > 1) {
      registers[0] = "_";
      spellings.push_back(vector_text(registers));
    }
    return spellings;
  }

  void add_special_registers(Type type, Spellings& spellings) const {
    if (!takes_integers(type)) return;
    if (type_bits(type) == 32) spellings.emplace_back("%laneid");
    // Every one of them once: moved as the unsigned type it reads as.
    if (op_ != Op::mov || (type != Type::u32 && type != Type::u64)) return;
    for (size_t i = 0; i < special_register_spellings().size(); ++i) {
      if (special_register_type(static_cast<SpecialRegister>(i)) == type)
        spellings.emplace_back(special_register_spellings()[i]);
    }
  }

  void add_variables(Type type, Spellings& spellings) const {
    if (!takes_integers(type)) return;
    switch (op_) {
      case Op::mov:
        if (type_bits(type) == 64) spellings.insert(spellings.end(), {"gm", "sm+8", "lm", "pt", "fn"});
        if (type_bits(type) == 32) spellings.emplace_back("sm");
        return;
      case Op::cvta:
        for (const auto& [space, variable] :
             std::initializer_list<std::pair<Mod, const char*>>{{Mod::const_, "cm"},
                                                                {Mod::global, "gm"},
                                                                {Mod::local, "lm"},
                                                                {Mod::shared, "sm"},
                                                                {Mod::shared_cta, "sm"},
                                                                {Mod::shared_cluster, "sm"},
                                                                {Mod::param, "pt"},
                                                                {Mod::param_entry, "pt"}}) {
          if (has(space)) spellings.emplace_back(variable);
        }
        return;
      default:
        if (has(Mod::shared_cluster)) spellings.emplace_back("sm");
    }
  }

  Spellings register_or_constant(const OperandRule& rule, Type type) {
    const unsigned number = 1 + next_++ % 5;
    Spellings spellings{register_name(type, number)};
    if (rule.relaxed && type_bits(type) < 64) {
      for (const Type wide : {Type::b16, Type::b32, Type::b64})
        if (type_bits(wide) > type_bits(type)) spellings.push_back(register_name(wide, number));
    }
    if (rule.selectable) {
      for (const std::string_view selector : {".b0", ".b3", ".h1"})
        spellings.push_back(register_name(type, number) + std::string(selector));
    }
    switch (rule.role) {
      case OperandRole::destination_sink:
        if (rule.count_rule != CountRule::vector_modifier) spellings.emplace_back("_");
        break;
      case OperandRole::source:
        add_constant(rule, type, spellings);
        break;
      case OperandRole::special_source:
        add_constant(rule, type, spellings);
        add_special_registers(type, spellings);
        break;
      case OperandRole::move_source:
        add_constant(rule, type, spellings);
        if (op_ == Op::mov) add_special_registers(type, spellings);
        add_variables(type, spellings);
        break;
      default:
        break;
    }
    return spellings;
  }

  Spellings operand(const OperandRule& rule) {
    Type type = rule.type;
    if (rule.type_index >= 0 && static_cast<size_t>(rule.type_index) < types_.size()) type = types_[rule.type_index];
    if (rule.widened) type = widened_type(type);
    if (const unsigned count = elements(rule, type); count > 0) return vector_operand(rule, type, count);
    switch (rule.role) {
      case OperandRole::immediate: {
        if (!rule.has_range) return {"1"};
        Spellings ends{fmt::format("{}", rule.low)};
        if (rule.high != rule.low) ends.push_back(fmt::format("{}", rule.high));
        return ends;
      }
      case OperandRole::predicate_source:
        if (op_ == Op::mov) return {"%p7", "!%p7", "1", "%is_explicit_cluster"};
        // ptxas takes no constant beside bf16 numbers.
        if (!types_.empty() && (types_.back() == Type::bf16 || types_.back() == Type::bf16x2)) return {"%p7", "!%p7"};
        return {"%p7", "!%p7", "1"};
      case OperandRole::predicate_destination:
        return {"%p1"};
      case OperandRole::predicate_destination_pair:
        return {"%p1", "%p1|%p2", "%p1|_", "_|%p2"};
      case OperandRole::destination_with_predicate:
        return {register_name(type, 1), register_name(type, 1) + "|%p2"};
      case OperandRole::destination_and_predicate:
        return {register_name(type, 1) + "|%p2", "_|%p2"};
      case OperandRole::address:
        return address();
      case OperandRole::tensor_address: {
        Spellings registers, constants;
        const unsigned coordinates = has(Mod::tile_gather4) || has(Mod::tile_scatter4) ? 5 : dimensions();
        for (unsigned i = 0; i < coordinates; ++i) {
          registers.push_back(fmt::format("%r{}", 30 + i));
          constants.emplace_back("0");
        }
        return {fmt::format("[%rd20, {}]", vector_text(registers)), fmt::format("[%rd20, {}]", vector_text(constants))};
      }
      case OperandRole::label:
        return {"out"};
      case OperandRole::label_list:
        return {"ts"};
      case OperandRole::sink:
        return {"_"};
      case OperandRole::call:
        // By name, and through a pointer whose function a prototype or a list of candidates describes.
        return {"(r0), fn, (pa1)", "nothing", "(r0), %rd1, (pa1), proto", "(r0), %rd1, (pa1), candidates"};
      default:
        return register_or_constant(rule, type);
    }
  }

  Op op_;
  std::vector<Mod> mods_;
  std::vector<Type> types_;
  unsigned next_ = 0;
  size_t addresses_ = 0;
};

std::vector<std::string> usual_operands(const std::vector<Spellings>& operands) {
  std::vector<std::string> usual;
  usual.reserve(operands.size());
  for (const Spellings& spellings : operands) usual.push_back(spellings.front());
  return usual;
}

/// Collects the samples of one form.
class Collector {
 public:
  explicit Collector(const CompiledForm& form) : form_(form) {
    // Optional modifiers are left out, of others the first is usual.
    for (const ModifierSlot& slot : form.slots) choices_.push_back(slot.optional ? -1 : 0);
  }

  void usual(bool vary_operands) { emit(vary_operands); }

  void each_choice(bool vary_operands) {
    for (size_t i = 0; i < choices_.size(); ++i) with_each(i, [&] { emit(vary_operands); });
  }

  void each_pair() {
    for (size_t i = 0; i < choices_.size(); ++i) {
      with_each(i, [&] {
        for (size_t j = i + 1; j < choices_.size(); ++j) with_each(j, [&] { emit(false); });
      });
    }
  }

  std::vector<InstructionSample> take() { return std::move(samples_); }

 private:
  template <class Visit>
  void with_each(size_t slot, Visit visit) {
    const int usual = choices_[slot];
    for (size_t i = 0; i < form_.slots[slot].choices.size(); ++i) {
      choices_[slot] = static_cast<int>(i);
      visit();
    }
    choices_[slot] = usual;
  }

  void emit(bool vary_operands) {
    std::vector<Mod> mods;
    for (size_t i = 0; i < choices_.size(); ++i)
      if (choices_[i] >= 0) mods.push_back(form_.slots[i].choices[static_cast<size_t>(choices_[i])]);
    for (const std::vector<OperandRule>& alternative : form_.operands) {
      for (const bool with_optional : {false, true}) {
        std::vector<OperandRule> rules;
        for (const OperandRule& rule : alternative)
          if (!rule.optional || rule.condition != Mod::none || with_optional) rules.push_back(rule);
        Sampler sampler(form_.form->op, mods);
        const std::vector<Spellings> operands = sampler.operands(rules);
        const std::vector<std::string> usual = usual_operands(operands);
        add(sampler.text(usual), usual);
        for (size_t i = 0; vary_operands && i < operands.size(); ++i) {
          std::vector<std::string> varied = usual;
          for (size_t spelling = 1; spelling < operands[i].size(); ++spelling) {
            varied[i] = operands[i][spelling];
            add(sampler.text(varied), varied);
          }
        }
      }
    }
  }

  void add(std::string text, const std::vector<std::string>& operands) {
    if (seen_.insert(text).second) samples_.push_back({std::move(text), choices_, operands});
  }

  const CompiledForm& form_;
  std::vector<int> choices_;
  std::vector<InstructionSample> samples_;
  std::set<std::string> seen_;
};

}  // namespace

std::string sample_module(const std::vector<std::string>& lines, std::string_view target) {
  std::string text = fmt::format(
      ".version 9.0\n.target {}\n.address_size 64\n.global .align 128 .b8 gm[256]; .const .align 128 .b8 cm[64];\n"
      ".func (.param .b32 rv) fn(.param .b32 pa) {{ ret; }}\n.func nothing() {{ ret; }}\n",
      target);
  for (size_t i = 0; i < lines.size(); ++i) {
    text += fmt::format(
        ".visible .entry k{}(.param .u64 pa, .param .u32 pb, .param .align 128 .b8 pt[128]) {{ {} .param .align 16 .b8 "
        "rv[32]; .param .b32 r0; .param .b32 pa1; ts: .branchtargets out;\n"
        "proto: .callprototype (.param .b32 _) _ (.param .b32 _); candidates: .calltargets fn;\n{}\nout: ret; }}\n",
        i, kDeclarations, lines[i]);
  }
  return text;
}

std::string sample_instruction(Op op, const std::vector<Mod>& mods, const std::vector<OperandRule>& rules) {
  Sampler sampler(op, mods);
  return sampler.text(usual_operands(sampler.operands(rules)));
}

std::vector<InstructionSample> samples_of(const CompiledForm& form) {
  Collector collector(form);
  collector.usual(true);
  collector.each_choice(false);
  return collector.take();
}

std::vector<InstructionSample> thorough_samples_of(const CompiledForm& form) {
  Collector collector(form);
  collector.usual(true);
  collector.each_choice(true);
  collector.each_pair();
  return collector.take();
}

}  // namespace ptxbench::ptx
