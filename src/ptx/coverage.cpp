#include "ptx/coverage.h"

#include <algorithm>
#include <map>
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

}  // namespace

std::string coverage_page(const ExecutionNote& executed) {
  const std::span<const CompiledForm> forms = compiled_forms();
  std::map<std::string_view, std::vector<const CompiledForm*>> by_section;
  for (const CompiledForm& form : forms) by_section[form.form->section].push_back(&form);
  size_t hopper = 0;
  for (const CompiledForm& form : forms) hopper += form.target_number <= 90 ? 1 : 0;

  std::string page = fmt::format(
      "# PTX coverage\n\nMade by `ptx_coverage` from the instruction table; do not edit. The table has {} forms, {} of "
      "them "
      "for sm_90a; the others are known only to say which target they need. `{{.x}}` is optional, `(.x | .y)` a "
      "choice. "
      "Operand contracts are in the table's rows, their language in [ptx.md](ptx.md).\n",
      forms.size(), hopper);
  for (const auto& [section, rows] : by_section) {
    page += fmt::format("\n## {}\n\n| form | operands | ISA | target |{}\n| --- | --- | --- | --- |{}\n", section,
                        executed ? " executed |" : "", executed ? " --- |" : "");
    for (const CompiledForm* row : rows) {
      const InstructionForm& form = *row->form;
      std::string operands;
      for (const char c : form.operands) operands += c == '|' ? std::string("\\|") : std::string(1, c);
      page +=
          fmt::format("| `{}` | {} | {}.{} | {} |", pattern_text(*row), operands.empty() ? "" : "`" + operands + "`",
                      form.min_isa / 10, form.min_isa % 10, form.target);
      if (executed) page += fmt::format(" {} |", executed(form));
      page += '\n';
    }
  }
  return page;
}

}  // namespace ptxbench::ptx
