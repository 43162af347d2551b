#include "emulator/coverage.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/decoder.h"
#include "emulator/isa/control.h"
#include "emulator/loader.h"
#include "ptx/coverage.h"
#include "ptx/instruction_samples.h"
#include "ptx/names.h"
#include "ptx/parser.h"

namespace ptxbench::emulator {
namespace {

using ptx::CompiledForm;
using ptx::Execution;
using ptx::ExecutionNote;
using ptx::InstructionSample;

void judge(const FunctionCode& code, std::vector<InstructionFidelity>& found) {
  for (const uint32_t instruction : code.approximate)
    found[instruction].fidelity = std::max(found[instruction].fidelity, Fidelity::approximate);
  for (const Inst& inst : code.code) {
    if (inst.full == &unsupported_handler)
      found[inst.site] = {Fidelity::unsupported, *static_cast<const std::string*>(inst.extra)};
  }
}

struct JudgedSample {
  InstructionSample sample;
  InstructionFidelity result;
  bool can_be_exact = false;  ///< on a device with exact tensor cores
};

/// The modifier in a slot, or, behind the slots, the spelling of an operand.
struct Feature {
  size_t place = 0;
  int choice = 0;
  std::string operand;
  bool operator<(const Feature& other) const {
    return std::tie(place, choice, operand) < std::tie(other.place, other.choice, other.operand);
  }
};
using Features = std::vector<Feature>;

Features features_of(const InstructionSample& sample) {
  Features features;
  for (const int choice : sample.choices) features.push_back({features.size(), choice, ""});
  for (const std::string& operand : sample.operands) features.push_back({features.size(), 0, operand});
  return features;
}

/// `last_place`: where the text so far ended.
std::string text_of(const CompiledForm& form, const Feature& feature, size_t last_place) {
  if (feature.place >= form.slots.size()) {
    if (feature.place == last_place) return fmt::format("`{}`", feature.operand);
    return fmt::format("operand {} `{}`", feature.place - form.slots.size() + 1, feature.operand);
  }
  const ptx::ModifierSlot& slot = form.slots[feature.place];
  const auto modifier = [&](int choice) {
    return fmt::format("`.{}`", ptx::modifier_text(slot.choices[static_cast<size_t>(choice)]));
  };
  if (feature.choice >= 0) return modifier(feature.choice);
  return slot.choices.size() == 1 ? "no " + modifier(0) : fmt::format("none of {} ...", modifier(0));
}

Features feature_set(const Features& features, size_t first, size_t second) {
  if (first == second) return {features[first]};
  return {features[first], features[second]};
}

/// Features, alone or in pairs, that only samples of a class have and that together cover `group`, a part of the class:
/// "`.u4`, `.s8` with `.satfinite`, operand 2 `_`". Empty if there are none.
template <class InClass>
std::string cause(const CompiledForm& form, const std::vector<JudgedSample>& samples, const std::vector<size_t>& group,
                  InClass in_class) {
  for (const bool pairs : {false, true}) {
    const auto for_each_set = [&](const InstructionSample& sample, auto visit) {
      const Features features = features_of(sample);
      for (size_t i = 0; i < features.size(); ++i) {
        if (!pairs) visit(feature_set(features, i, i));
        for (size_t j = i + 1; pairs && j < features.size(); ++j) visit(feature_set(features, i, j));
      }
    };
    // Feature set -> the samples of the group that have it.
    std::map<Features, std::vector<size_t>> candidates;
    for (const size_t index : group)
      for_each_set(samples[index].sample, [&](const Features& set) { candidates[set].push_back(index); });
    for (const JudgedSample& other : samples) {
      if (!in_class(other.result)) for_each_set(other.sample, [&](const Features& set) { candidates.erase(set); });
    }
    std::vector<std::string> named;
    size_t last_place = 0;
    std::vector<size_t> left = group;
    while (!left.empty()) {
      const auto covers = [&](const auto& candidate) {
        return std::count_if(left.begin(), left.end(),
                             [&](size_t i) { return std::ranges::binary_search(candidate.second, i); });
      };
      const auto best = std::max_element(candidates.begin(), candidates.end(),
                                         [&](const auto& a, const auto& b) { return covers(a) < covers(b); });
      if (best == candidates.end() || covers(*best) == 0) break;
      std::erase_if(left, [&](size_t i) { return std::ranges::binary_search(best->second, i); });
      std::string& text = named.emplace_back();
      for (const Feature& feature : best->first) {
        text += (text.empty() ? "" : " with ") + text_of(form, feature, last_place);
        last_place = feature.place;
      }
    }
    if (!left.empty()) continue;
    constexpr size_t kMostNamed = 6;
    if (named.size() > kMostNamed) {
      named.resize(kMostNamed);
      named.emplace_back("...");
    }
    return fmt::format("{}", fmt::join(named, ", "));
  }
  return {};
}

/// The reason without the operand it names, so that one sentence serves all such operands.
std::string general_reason(std::string reason, const InstructionSample& sample) {
  constexpr std::string_view kPrefix = "unsupported: ";
  if (reason.starts_with(kPrefix)) reason.erase(0, kPrefix.size());
  for (const std::string& operand : sample.operands) {
    if (!operand.starts_with('%')) continue;
    const size_t at = reason.find(" " + operand);
    if (at != std::string::npos) reason.erase(at, operand.size() + 1);
  }
  return reason;
}

ExecutionNote note_of(const CompiledForm& form, const std::vector<JudgedSample>& samples) {
  std::vector<size_t> approximate;
  std::vector<std::pair<std::string, std::vector<size_t>>> unsupported;  // by reason
  size_t failed = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto& [sample, result, can_be_exact] = samples[i];
    if (result.fidelity == Fidelity::approximate) approximate.push_back(i);
    if (result.fidelity != Fidelity::unsupported) continue;
    ++failed;
    const std::string reason = general_reason(result.reason, sample);
    auto same = std::ranges::find(unsupported, reason, &std::pair<std::string, std::vector<size_t>>::first);
    if (same == unsupported.end()) same = unsupported.insert(same, {reason, {}});
    same->second.push_back(i);
  }
  const auto which = [&](const std::vector<size_t>& group, auto in_class) {
    const std::string found = cause(form, samples, group, in_class);
    return found.empty() ? fmt::format("some, such as `{}`", samples[group.front()].sample.text) : found;
  };
  std::vector<std::string> details;
  for (const auto& [reason, group] : unsupported) {
    const auto fails = [](const InstructionFidelity& result) { return result.fidelity == Fidelity::unsupported; };
    details.push_back(failed == samples.size() ? reason : fmt::format("not {} ({})", which(group, fails), reason));
  }
  if (!approximate.empty()) {
    const auto differs = [](const InstructionFidelity& result) { return result.fidelity != Fidelity::exact; };
    const bool all = approximate.size() + failed == samples.size();
    if (failed > 0) details.push_back(all ? "the others approximate" : "approximate: " + which(approximate, differs));
    if (failed == 0 && !all) details.push_back("only " + which(approximate, differs));
    if (std::ranges::all_of(approximate, [&](size_t i) { return samples[i].can_be_exact; }))
      details.emplace_back("exact on a device with exact tensor cores");
  }
  const Execution execution = failed == samples.size() ? Execution::unsupported
                              : failed > 0             ? Execution::partly
                              : approximate.empty()    ? Execution::exact
                                                       : Execution::approximate;
  return {execution, fmt::format("{}", fmt::join(details, "; "))};
}

}  // namespace

Result<std::vector<std::vector<InstructionFidelity>>> instruction_fidelity(std::shared_ptr<const ptx::Module> module,
                                                                           AddressSpace& memory,
                                                                           const DeviceOptions& options) {
  const auto program = load_program(std::move(module), "module", 0, memory, options);
  if (!program) return tl::unexpected(program.error());
  Result<std::vector<std::vector<InstructionFidelity>>> found;
  try {
    for (const auto& code : (*program)->functions) {
      auto& function = found->emplace_back();
      if (code == nullptr) continue;
      function.resize(code->source->instructions.size());
      judge(*code, function);
      judge(general_code(**program, *code), function);
    }
  } catch (const std::length_error& reason) {
    found = input_error("{}", reason.what());  // general code needs more registers
  }
  for (const uint64_t address : (*program)->allocations) (void)memory.free(address);
  return found;
}

Result<std::string> coverage_page(AddressSpace& memory) {
  const DeviceOptions usual_device;
  DeviceOptions exact_device;
  exact_device.exact_tensor_cores = true;
  std::map<const CompiledForm*, ExecutionNote> notes;
  for (const CompiledForm& form : ptx::compiled_forms()) {
    if (form.target_number > 90) continue;
    std::vector<JudgedSample> judged;
    for (InstructionSample& sample : ptx::thorough_samples_of(form)) {
      auto module = ptx::parse_module(ptx::sample_module({sample.text}), "sample");
      // Not all pairs of modifiers go together.
      if (!module) continue;
      const size_t kernel = module->functions.size() - 1;
      const auto shared = std::make_shared<const ptx::Module>(std::move(*module));
      const auto usual = instruction_fidelity(shared, memory, usual_device);
      if (!usual) return tl::unexpected(usual.error());
      judged.push_back({std::move(sample), (*usual)[kernel].front()});
      if (judged.back().result.fidelity != Fidelity::approximate) continue;
      const auto exact = instruction_fidelity(shared, memory, exact_device);
      if (!exact) return tl::unexpected(exact.error());
      judged.back().can_be_exact = (*exact)[kernel].front().fidelity == Fidelity::exact;
    }
    if (judged.empty())
      return input_error("no sample of {}{} parses", ptx::opcode_text(form.form->op), form.form->modifiers);
    notes[&form] = note_of(form, judged);
  }
  return ptx::coverage_page(notes);
}

}  // namespace ptxbench::emulator
