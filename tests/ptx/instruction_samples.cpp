#include "instruction_samples.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

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

Type doubled(Type type) {
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
      return Type::b64;
  }
}

class Sampler {
 public:
  Sampler(Op op, const std::vector<Mod>& mods) : op_(op), mods_(mods) {
    for (const Mod mod : mods)
      if (mod_type(mod) != Type::none) types_.push_back(mod_type(mod));
  }

  std::string run(const std::vector<OperandRule>& rules) {
    std::string text(opcode_text(op_));
    for (const Mod mod : mods_) text += fmt::format(".{}", modifier_text(mod));
    bool first = true;
    for (const OperandRule& rule : rules) {
      if (rule.condition != Mod::none && !has(rule.condition)) continue;
      text += (first ? " " : ", ") + operand(rule);
      first = false;
    }
    if (op_ == Op::call) return "call.uni (r0), fn, (pa1);";
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

  std::string address() {
    // The n-th address is in the n-th state space named.
    std::vector<StateSpace> spaces;
    for (const Mod mod : mods_)
      if (mod_space(mod) != StateSpace::generic) spaces.push_back(mod_space(mod));
    const size_t number = addresses_++;
    const bool bulk = op_ == Op::cp_async_bulk || op_ == Op::cp_reduce_async_bulk || op_ == Op::cp_async;
    const StateSpace space =
        spaces.empty() ? StateSpace::generic : spaces[bulk ? std::min(number, spaces.size() - 1) : 0];
    if (op_ == Op::prefetch && space == StateSpace::const_) return "[%rd9]";
    switch (space) {
      case StateSpace::param:
      case StateSpace::param_entry:
        return op_ == Op::st ? "[rv]" : op_ == Op::prefetch ? "[%rd9]" : "[pt]";
      case StateSpace::param_func:
        return "[rv]";
      case StateSpace::const_:
        return "[cm]";
      case StateSpace::local:
        return "[lm+16]";
      case StateSpace::shared:
      case StateSpace::shared_cta:
        return number == 0 ? "[sm+128]" : "[%r9]";
      default:
        return fmt::format("[%rd{}]", 9 + number);
    }
  }

  std::string operand(const OperandRule& rule) {
    Type type = rule.type;
    if (rule.type_index >= 0 && static_cast<size_t>(rule.type_index) < types_.size()) type = types_[rule.type_index];
    if (rule.widened) type = doubled(type);
    unsigned count = 0;
    switch (rule.count_rule) {
      case CountRule::one:
        break;
      case CountRule::fixed:
        count = rule.count;
        break;
      case CountRule::vector_modifier:
        count = has(Mod::v2) ? 2 : has(Mod::v4) ? 4 : has(Mod::v8) ? 8 : 0;
        break;
      case CountRule::matrix_count:
        count = rule.count * (has(Mod::x4) ? 4u : has(Mod::x2) ? 2u : 1u);
        break;
      case CountRule::im2col_offsets:
        count = dimensions() > 2 ? dimensions() - 2 : 1;
        break;
      case CountRule::fragment: {
        Mod shape = Mod::none;
        for (const Mod mod : mods_)
          if (mod_shape(mod).m != 0) shape = mod;
        const FragmentSize size = fragment_size(op_, mod_shape(shape), rule.fragment, type);
        count = size.count;
        type = size.type;
        break;
      }
    }
    if (count > 0) {
      std::string text = "{";
      for (unsigned i = 0; i < count; ++i)
        text += (i == 0 ? "" : ", ") + register_name(type, next_++ % (type_bits(type) == 32 ? 290 : 60));
      return text + "}";
    }
    switch (rule.role) {
      case OperandRole::immediate:
        return fmt::format("{}", rule.has_range ? rule.low : 1);
      case OperandRole::predicate_source:
        return "%p7";
      case OperandRole::predicate_destination:
      case OperandRole::predicate_destination_pair:
        return "%p1";
      case OperandRole::destination_and_predicate:
        return register_name(type, 1) + "|%p2";
      case OperandRole::address:
        return address();
      case OperandRole::tensor_address: {
        std::string text = "[%rd20, {";
        const unsigned coordinates = has(Mod::tile_gather4) || has(Mod::tile_scatter4) ? 5 : dimensions();
        for (unsigned i = 0; i < coordinates; ++i) text += fmt::format("{}%r{}", i == 0 ? "" : ", ", 30 + i);
        return text + "}]";
      }
      case OperandRole::label:
        return "out";
      case OperandRole::label_list:
        return "ts";
      case OperandRole::sink:
        return "_";
      default:
        return register_name(type, 1 + next_++ % 5);
    }
  }

  Op op_;
  std::vector<Mod> mods_;
  std::vector<Type> types_;
  unsigned next_ = 0;
  size_t addresses_ = 0;
};

}  // namespace

std::string sample_module(const std::vector<std::string>& lines, std::string_view target) {
  std::string text = fmt::format(
      ".version 9.0\n.target {}\n.address_size 64\n.global .align 128 .b8 gm[64]; .const .align 128 .b8 cm[64]; "
      ".func (.param .b32 rv) fn(.param .b32 pa) {{ ret; }}\n",
      target);
  for (size_t i = 0; i < lines.size(); ++i) {
    text += fmt::format(
        ".visible .entry k{}(.param .u64 pa, .param .u32 pb, .param .align 128 .b8 pt[128]) {{ {} .param .align 16 .b8 "
        "rv[32]; .param .b32 r0; .param .b32 pa1; ts: .branchtargets out;\n{}\nout: ret; }}\n",
        i, kDeclarations, lines[i]);
  }
  return text;
}

size_t sample_line(size_t index) { return 6 + index * 3; }

std::string sample_instruction(Op op, const std::vector<Mod>& mods, const std::vector<OperandRule>& rules) {
  return Sampler(op, mods).run(rules);
}

std::vector<std::string> samples_of(const CompiledForm& form) {
  std::vector<std::string> samples;
  std::set<std::string> seen;
  // The choice of each slot; -1 leaves an optional one out.
  std::vector<int> choice(form.slots.size());
  for (size_t i = 0; i < choice.size(); ++i) choice[i] = form.slots[i].optional ? -1 : 0;
  const auto emit = [&] {
    std::vector<Mod> mods;
    for (size_t i = 0; i < choice.size(); ++i)
      if (choice[i] >= 0) mods.push_back(form.slots[i].choices[static_cast<size_t>(choice[i])]);
    for (const std::vector<OperandRule>& alternative : form.operands) {
      for (const bool with_optional : {false, true}) {
        std::vector<OperandRule> rules;
        for (const OperandRule& rule : alternative)
          if (!rule.optional || rule.condition != Mod::none || with_optional) rules.push_back(rule);
        std::string line = sample_instruction(form.form->op, mods, rules);
        if (seen.insert(line).second) samples.push_back(std::move(line));
      }
    }
  };
  emit();
  for (size_t i = 0; i < choice.size(); ++i) {
    const int usual = choice[i];
    for (int value = 0; value < static_cast<int>(form.slots[i].choices.size()); ++value) {
      choice[i] = value;
      emit();
    }
    choice[i] = usual;
  }
  return samples;
}

}  // namespace ptxbench::ptx
