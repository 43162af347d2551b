#include "candidate/language.h"

#include "base/text.h"

namespace ptxbench::candidate {

std::string_view to_string(Language language) { return language == Language::triton ? "triton" : "cuda"; }

Result<Language> parse_language(std::string_view text) {
  const std::string lower = base::to_lower(text);
  for (const Language one : kLanguages) {
    if (lower == to_string(one)) return one;
  }
  return input_error("unknown language '{}': cuda or triton", text);
}

Language language_of_file(std::string_view path) { return path.ends_with(".py") ? Language::triton : Language::cuda; }

std::string_view source_name(Language language) { return language == Language::triton ? "kernel.py" : "kernel.cu"; }

}  // namespace ptxbench::candidate
