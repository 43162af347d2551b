#include "ptx/module.h"

#include <algorithm>

namespace ptxbench::ptx {

bool Instruction::has(Mod mod) const { return std::find(mods.begin(), mods.end(), mod) != mods.end(); }

Type Instruction::type(size_t i) const {
  for (const Mod mod : mods) {
    const Type found = mod_type(mod);
    if (found != Type::none && i-- == 0) return found;
  }
  return Type::none;
}

StateSpace Instruction::space(size_t i) const {
  for (const Mod mod : mods) {
    const StateSpace found = mod_space(mod);
    if (found != StateSpace::generic && i-- == 0) return found;
  }
  return StateSpace::generic;
}

const Function* Module::find_function(std::string_view name) const {
  for (const Function& function : functions) {
    if (function.name != name) continue;
    return function.alias_of == kNone ? &function : &functions[function.alias_of];
  }
  return nullptr;
}

std::string_view Module::file_path(uint32_t file_index) const {
  for (const SourceFile& file : files)
    if (file.index == file_index) return file.path;
  return {};
}

}  // namespace ptxbench::ptx
