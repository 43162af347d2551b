#include <iostream>
#include <random>
#include <string>

#include "ptx/instruction_samples.h"
#include "ptx/parser.h"

/// Development tool around the instruction table. Without arguments: one sample instruction a line; `--thorough`:
/// more of them. `--check`: reads lines and says for each whether the parser takes it. `--mutate SEED COUNT`: samples
/// with one modifier replaced.
int main(int argc, char** argv) {
  using namespace ptxbench::ptx;
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "--check") {
    std::string line;
    while (std::getline(std::cin, line)) {
      const auto parsed = parse_module(sample_module({line}), "sample");
      std::cout << (parsed ? "OK  " : "ERR ") << line << (parsed ? "" : "   // " + parsed.error().message) << "\n";
    }
    return 0;
  }
  std::vector<std::string> lines;
  if (mode == "--mutate" && argc > 3) {
    std::mt19937_64 random(std::stoull(argv[2]));
    const auto forms = compiled_forms();
    for (int i = std::stoi(argv[3]); i > 0; --i) {
      const CompiledForm& form = forms[random() % forms.size()];
      if (form.target_number > 90) continue;
      const auto family = compiled_forms(form.form->op);
      std::vector<Mod> mods, pool;
      for (const CompiledForm& other : family)
        for (const ModifierSlot& slot : other.slots) pool.insert(pool.end(), slot.choices.begin(), slot.choices.end());
      for (const ModifierSlot& slot : form.slots)
        if (!slot.optional || random() % 3 == 0) mods.push_back(slot.choices[random() % slot.choices.size()]);
      if (!mods.empty() && !pool.empty()) {
        switch (random() % 4) {
          case 0:
            mods[random() % mods.size()] = pool[random() % pool.size()];
            break;
          case 1:
            mods.erase(mods.begin() + static_cast<long>(random() % mods.size()));
            break;
          case 2:
            mods.insert(mods.begin() + static_cast<long>(random() % mods.size()), pool[random() % pool.size()]);
            break;
          default:
            break;
        }
      }
      lines.push_back(sample_instruction(form.form->op, mods, form.operands[random() % form.operands.size()]));
    }
  } else {
    for (const CompiledForm& form : compiled_forms()) {
      if (form.target_number > 90) continue;
      for (InstructionSample& sample : mode == "--thorough" ? thorough_samples_of(form) : samples_of(form))
        lines.push_back(std::move(sample.text));
    }
  }
  for (const std::string& line : lines) std::cout << line << "\n";
  return 0;
}
