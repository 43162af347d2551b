#pragma once

#include <cstddef>
#include <string_view>

namespace ptxbench::knowledge {

/// An estimate of how many tokens a language model sees in `text`. No vocabulary is at hand: words, digits, punctuation
/// and white space are counted by rules that were fitted to a vocabulary of 152,000 byte pairs (docs/knowledge.md says
/// how near they come). Linear in the text, any bytes.
std::size_t estimate_tokens(std::string_view text);

}  // namespace ptxbench::knowledge
