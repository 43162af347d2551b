#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ptxbench::candidate {

/// What a candidate is written in.
enum class Language { cuda, triton };

inline constexpr std::array<Language, 2> kLanguages = {Language::cuda, Language::triton};

/// "cuda", "triton".
std::string_view to_string(Language language);
/// The error lists the known ones.
Result<Language> parse_language(std::string_view text);
/// By the end of the file's name: ".py" is Triton, anything else CUDA.
Language language_of_file(std::string_view path);
/// What reports call the candidate's file: "kernel.cu", "kernel.py".
std::string_view source_name(Language language);

}  // namespace ptxbench::candidate
