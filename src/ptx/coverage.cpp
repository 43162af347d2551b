#include "ptx/coverage.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace ptxbench::ptx {
namespace {

std::string pattern_text(const CompiledForm& form) {
  std::string text(opcode_text(form.form->op));
  for (const ModifierSlot& slot : form.slots) {
    const bool single = slot.choices.size() == 1 && !slot.optional;
    if (!single) text += slot.optional ? "{" : "(";
    // wgmma has up to 32 shapes in a slot: the ends say enough.
    const bool shortened = slot.choices.size() > 14;
    std::vector<Mod> choices = slot.choices;
    if (shortened) std::sort(choices.begin(), choices.end());
    for (size_t i = 0; i < choices.size(); ++i) {
      if (shortened && i > 1 && i + 1 < choices.size()) {
        if (i == 2) text += " \\| ...";
        continue;
      }
      text += fmt::format("{}.{}", i == 0 ? "" : " \\| ", modifier_text(choices[i]));
    }
    if (!single) text += slot.optional ? "}" : ")";
  }
  return text;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

std::string note_text(const ExecutionNote& note) {
  constexpr std::string_view kNames[] = {"exact", "approximate", "partly", "unsupported"};
  const std::string_view name = kNames[static_cast<size_t>(note.execution)];
  return note.detail.empty() ? std::string(name) : fmt::format("{}: {}", name, escaped(note.detail));
}

}  // namespace

std::string coverage_page(const std::map<const CompiledForm*, ExecutionNote>& notes) {
  const std::span<const CompiledForm> forms = compiled_forms();
  std::map<std::string_view, std::vector<const CompiledForm*>> by_section;
  for (const CompiledForm& form : forms) by_section[form.form->section].push_back(&form);
  std::array<size_t, 4> totals{};
  for (const auto& [form, note] : notes) ++totals[static_cast<size_t>(note.execution)];

  std::string page = fmt::format(
      "# PTX coverage\n\nMade by `ptx_coverage` from the instruction table and the emulator; do not edit. The table "
      "has "
      "{} forms, {} of them for sm_90a; the others are known only to say which target they need.\n\n"
      "| executed | forms | meaning |\n| --- | --- | --- |\n"
      "| exact | {} | results are those of the hardware |\n"
      "| approximate | {} | results may differ from the hardware's in the last bits |\n"
      "| partly | {} | some instructions of the form are executed, others stop the kernel |\n"
      "| unsupported | {} | reaching such an instruction stops the kernel with `unsupported.instruction` |\n\n"
      "`{{.x}}` is optional, `(.x | .y)` a choice. Operand contracts are in the table's rows, their language in "
      "[ptx.md](ptx.md). The last column is what the emulator made of sample instructions: every modifier, every pair "
      "of "
      "modifiers and every kind of operand.\n",
      forms.size(), notes.size(), totals[0], totals[1], totals[2], totals[3]);
  for (const auto& [section, rows] : by_section) {
    page += fmt::format("\n## {}\n\n| form | operands | ISA | target | executed |\n| --- | --- | --- | --- | --- |\n",
                        section);
    for (const CompiledForm* row : rows) {
      const InstructionForm& form = *row->form;
      const auto note = notes.find(row);
      page += fmt::format("| `{}` | {} | {}.{} | {} | {} |\n", pattern_text(*row),
                          form.operands.empty() ? "" : fmt::format("`{}`", escaped(form.operands)), form.min_isa / 10,
                          form.min_isa % 10, form.target, note == notes.end() ? "" : note_text(note->second));
    }
  }
  return page;
}

}  // namespace ptxbench::ptx
