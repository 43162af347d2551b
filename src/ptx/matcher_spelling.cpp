#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ptx/matcher.h"
#include "ptx/names.h"
#include "ptx/spelling.h"

namespace ptxbench::ptx {
namespace {

/// Types and state spaces keep their sequence whatever the order of the rest.
enum class Sequence : uint8_t { none, type, space };

Sequence sequence_of(Mod mod) {
  if (mod_type(mod) != Type::none) return Sequence::type;
  if (mod_space(mod) != StateSpace::generic) return Sequence::space;
  return Sequence::none;
}

bool match_in_order(const std::vector<ModifierSlot>& slots, const std::vector<Mod>& mods) {
  size_t taken = 0;
  for (const ModifierSlot& slot : slots) {
    if (taken < mods.size() && slot.accepts(mods[taken]))
      ++taken;
    else if (!slot.optional)
      return false;
  }
  return taken == mods.size();
}

bool match_any_order(const std::vector<ModifierSlot>& slots, const std::vector<Mod>& mods) {
  uint64_t used = 0;
  size_t count = 0;
  const auto next_of = [&](Sequence sequence) {
    for (size_t i = 0; i < mods.size(); ++i)
      if ((used >> i & 1) == 0 && sequence_of(mods[i]) == sequence) return i;
    return mods.size();
  };
  for (const ModifierSlot& slot : slots) {
    size_t chosen = mods.size();
    for (size_t i = 0; i < mods.size() && chosen == mods.size(); ++i) {
      if ((used >> i & 1) != 0 || !slot.accepts(mods[i])) continue;
      const Sequence sequence = sequence_of(mods[i]);
      if (sequence == Sequence::none || next_of(sequence) == i) chosen = i;
    }
    if (chosen < mods.size()) {
      used |= uint64_t{1} << chosen;
      ++count;
    } else if (!slot.optional) {
      return false;
    }
  }
  return count == mods.size();
}

/// The name's parts with their offsets: "ld" 0, "global" 3, ...
struct Part {
  std::string_view text;
  size_t offset = 0;
};

std::vector<Part> split(std::string_view name) {
  std::vector<Part> parts;
  size_t start = 0;
  while (start <= name.size() && parts.size() <= 64) {
    size_t end = name.find('.', start);
    if (end == std::string_view::npos) end = name.size();
    parts.push_back({name.substr(start, end - start), start});
    start = end + 1;
  }
  return parts;
}

std::string list_choices(const std::vector<Mod>& choices) {
  std::string text;
  const size_t shown = choices.size() > 14 ? 12 : choices.size();
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += fmt::format("'.{}'", modifier_text(choices[i]));
  }
  if (shown < choices.size()) text += fmt::format(" or one of {} more", choices.size() - shown);
  return text;
}

bool target_has(const CompiledForm& form, const TargetVersion& target) {
  if (form.form->min_isa > target.isa) return false;
  if (form.target_specific) return target.number == form.target_number && target.suffix == 'a';
  return target.number >= form.target_number;
}

/// How far a form's pattern reads along the modifiers in order, for the choice of the form to explain.
struct Progress {
  size_t taken = 0;                       ///< modifiers read
  const ModifierSlot* missing = nullptr;  ///< required slot that was not satisfied
};

Progress progress_of(const CompiledForm& form, const std::vector<Mod>& mods) {
  Progress progress;
  std::vector<bool> used(mods.size());
  size_t count = 0;
  for (const ModifierSlot& slot : form.slots) {
    size_t chosen = mods.size();
    for (size_t i = 0; i < mods.size() && chosen == mods.size(); ++i)
      if (!used[i] && slot.accepts(mods[i])) chosen = i;
    if (chosen < mods.size()) {
      used[chosen] = true;
      ++count;
    } else if (!slot.optional && progress.missing == nullptr) {
      progress.missing = &slot;
    }
  }
  progress.taken = count;
  return progress;
}

void explain_modifiers(Op op, const std::vector<Mod>& mods, const std::vector<Part>& parts, size_t first_part,
                       std::string_view name, Spelling& spelling) {
  const auto forms = compiled_forms(op);
  if (forms.empty()) {
    spelling.problem = fmt::format("instruction '{}' is not supported", opcode_text(op));
    return;
  }
  const CompiledForm* best = nullptr;
  Progress best_progress;
  for (const CompiledForm& form : forms) {
    const Progress progress = progress_of(form, mods);
    const bool better =
        best == nullptr || progress.taken > best_progress.taken ||
        (progress.taken == best_progress.taken && best_progress.missing != nullptr && progress.missing == nullptr);
    if (better) {
      best = &form;
      best_progress = progress;
    }
  }
  std::vector<bool> used(mods.size());
  for (const ModifierSlot& slot : best->slots) {
    for (size_t i = 0; i < mods.size(); ++i) {
      if (!used[i] && slot.accepts(mods[i])) {
        used[i] = true;
        break;
      }
    }
  }
  const size_t stray = static_cast<size_t>(std::find(used.begin(), used.end(), false) - used.begin());
  if (stray < mods.size() && first_part + stray < parts.size())
    spelling.problem_offset = parts[first_part + stray].offset;
  if (best_progress.missing != nullptr) {
    const std::string found = stray < mods.size() ? fmt::format("'.{}'", modifier_text(mods[stray])) : "none of them";
    spelling.problem =
        fmt::format("'{}': expected {}, found {}", name, list_choices(best_progress.missing->choices), found);
    if (stray < mods.size()) {
      NearestSpelling nearest(modifier_text(mods[stray]));
      for (const Mod choice : best_progress.missing->choices) nearest.offer(modifier_text(choice));
      spelling.problem += nearest.hint();
    }
  } else if (stray < mods.size()) {
    spelling.problem = fmt::format("'{}': modifier '.{}' does not go with the others; the form is '{}{}'", name,
                                   modifier_text(mods[stray]), opcode_text(op), best->form->modifiers);
  } else {
    spelling.problem = fmt::format("'{}': the modifiers are in an order that '{}{}' does not allow", name,
                                   opcode_text(op), best->form->modifiers);
  }
}

/// The modifiers that ptxas reads as part of the opcode's name stand before all others.
bool leading_parts_lead(Op op, const std::vector<Mod>& mods) {
  const auto leads = [op](Mod mod) {
    switch (op) {
      case Op::bar:
      case Op::barrier:
        return mod == Mod::cta || mod == Mod::sync || mod == Mod::arrive || mod == Mod::red;
      case Op::mbarrier_arrive:
      case Op::mbarrier_arrive_drop:
        return mod == Mod::expect_tx;
      case Op::mbarrier_test_wait:
      case Op::mbarrier_try_wait:
        return mod == Mod::parity;
      case Op::multimem:
        return mod == Mod::ld_reduce || mod == Mod::st || mod == Mod::red;
      case Op::setmaxnreg:
        return mod == Mod::inc || mod == Mod::dec;
      default:
        return false;
    }
  };
  bool led = false;
  for (size_t i = 0; i < mods.size(); ++i) {
    if (!leads(mods[i])) continue;
    if (i > 0 && !(led && leads(mods[i - 1]))) return false;
    if (mods[i] == Mod::cta && i > 0) return false;
    led = true;
  }
  return true;
}

/// The opcode with the most parts that begins the name; with `anywhere`, its `.sync` and `.aligned` may stand later.
Op find_opcode(const std::vector<Part>& parts, std::vector<bool>& consumed, bool anywhere) {
  Op best = Op::invalid;
  size_t best_parts = 0;
  for (const OpcodeSpelling& candidate : opcode_spellings()) {
    if (candidate.text.substr(0, candidate.text.find('.')) != parts[0].text) continue;
    const std::vector<Part> wanted = split(candidate.text);
    if (wanted.size() > parts.size() || wanted.size() <= best_parts) continue;
    std::vector<bool> used(parts.size());
    bool fits = true;
    for (size_t i = 0; i < wanted.size() && fits; ++i) {
      if (!anywhere) {
        fits = wanted[i].text == parts[i].text;
        used[i] = true;
        continue;
      }
      const bool movable = wanted[i].text == "sync" || wanted[i].text == "aligned";
      size_t at = movable ? 0 : i;
      while (movable && at < parts.size() && (used[at] || parts[at].text != wanted[i].text)) ++at;
      fits = at < parts.size() && parts[at].text == wanted[i].text;
      if (fits) used[at] = true;
    }
    if (fits) {
      best = candidate.op;
      best_parts = wanted.size();
      consumed = used;
    }
  }
  return best;
}

}  // namespace

bool match_modifiers(const std::vector<ModifierSlot>& slots, const std::vector<Mod>& mods) {
  return match_in_order(slots, mods) || (mods.size() <= 64 && match_any_order(slots, mods));
}

Spelling resolve_spelling(std::string_view name, const TargetVersion& target) {
  Spelling spelling;
  const std::vector<Part> parts = split(name);
  if (parts.size() > 64) {
    spelling.problem = "instruction name has too many modifiers";
    return spelling;
  }
  std::string first_problem;
  size_t first_offset = 0;
  for (const bool anywhere : {false, true}) {
    std::vector<bool> consumed;
    const Op op = find_opcode(parts, consumed, anywhere);
    if (op == Op::invalid) {
      if (anywhere) break;
      NearestSpelling nearest(parts[0].text);
      NearestSpelling whole(name);
      for (const OpcodeSpelling& candidate : opcode_spellings()) {
        nearest.offer(candidate.text.substr(0, candidate.text.find('.')));
        whole.offer(candidate.text);
      }
      bool family = false;
      for (const OpcodeSpelling& candidate : opcode_spellings())
        family = family || candidate.text.substr(0, candidate.text.find('.')) == parts[0].text;
      first_problem = family ? fmt::format("unknown instruction '{}'{}", name, whole.hint())
                             : fmt::format("unknown instruction '{}'{}", parts[0].text, nearest.hint());
      if (parts[0].text == "tcgen05")
        first_problem = fmt::format("instruction '{}' needs an sm_100a target, which is not supported", name);
      continue;
    }
    std::vector<Mod> mods;
    size_t first_part = parts.size();
    bool known = true;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (consumed[i]) continue;
      first_part = std::min(first_part, i);
      const Mod mod = find_modifier(parts[i].text);
      if (mod == Mod::none) {
        NearestSpelling nearest(parts[i].text);
        for (const CompiledForm& form : compiled_forms(op))
          for (const ModifierSlot& slot : form.slots)
            for (const Mod choice : slot.choices) nearest.offer(modifier_text(choice));
        first_problem = fmt::format("'{}': unknown modifier '.{}'{}", name, parts[i].text, nearest.hint());
        first_offset = parts[i].offset;
        known = false;
        break;
      }
      mods.push_back(mod);
    }
    if (!known) break;
    bool modifiers_fit = false;
    const CompiledForm* refused = nullptr;
    for (const CompiledForm& form : compiled_forms(op)) {
      if (!match_modifiers(form.slots, mods) || !leading_parts_lead(op, mods)) continue;
      modifiers_fit = true;
      if (target_has(form, target))
        spelling.forms.push_back(&form);
      else
        refused = &form;
    }
    if (!spelling.forms.empty()) {
      spelling.op = op;
      spelling.mods = std::move(mods);
      return spelling;
    }
    if (!first_problem.empty() && !modifiers_fit) continue;
    if (modifiers_fit) {
      const InstructionForm& form = *refused->form;
      const bool isa = form.min_isa > target.isa;
      first_problem = isa ? fmt::format("'{}' needs '.version {}.{}' or later, the module has {}.{}", name,
                                        form.min_isa / 10, form.min_isa % 10, target.isa / 10, target.isa % 10)
                          : fmt::format("'{}' needs target {}{}, the module's is sm_{}{}", name, form.target,
                                        refused->target_specific ? "" : " or later", target.number,
                                        target.suffix == 0 ? "" : std::string(1, target.suffix));
      break;
    }
    Spelling explained;
    explain_modifiers(op, mods, parts, first_part, name, explained);
    first_problem = explained.problem;
    first_offset = explained.problem_offset;
  }
  spelling.problem = first_problem;
  spelling.problem_offset = first_offset;
  return spelling;
}

}  // namespace ptxbench::ptx
