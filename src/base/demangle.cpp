#include "base/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace ptxbench::base {

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : name;
}

std::string short_name(const std::string& name) {
  std::string text = demangled(name);
  if (text.ends_with(')')) {
    int depth = 0;
    for (std::size_t at = text.size(); at-- > 0;) {
      depth += text[at] == ')' ? 1 : text[at] == '(' ? -1 : 0;
      if (depth != 0) continue;
      if (at != 0) text.erase(at);
      break;
    }
  }
  // What it returns ends with the last space that no bracket holds; names of lambdas and operators have others.
  int depth = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    const char c = text[at];
    depth += c == ')' || c == '>' ? 1 : c == '(' || c == '<' ? -1 : 0;
    if (c == ' ' && depth == 0) return text.substr(at + 1);
  }
  return text;
}

}  // namespace ptxbench::base
