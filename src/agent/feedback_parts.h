#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/feedback.h"
#include "agent/source_view.h"

/// The parts that feedback is composed of; feedback.cpp puts them together.
namespace ptxbench::agent::parts {

struct Evidence {
  const evaluation::Evaluation& evaluation;
  const SourceView& source;
  FeedbackLevel level;
  std::string_view knowledge;
};

/// What a part says first, for the headline: a sentence without its full stop. Empty: it has nothing urgent.
struct Part {
  std::string first;
  std::vector<FeedbackSection> sections;
};

/// Errors of a compilation that failed, repetitions folded, each with its source and an explanation.
Part compile_errors(const Evidence& evidence);
/// What stopped or spoils the run: findings in the order of their causality, with what follows from them folded.
Part causes(const Evidence& evidence);
/// Wrong outputs: which, how many, where, and what the errors look like.
Part numbers(const Evidence& evidence);
/// Stages whose result is unknown, why, and whether the candidate can do anything about it.
Part unknowns(const Evidence& evidence);
/// What the tensor cores and TMA did.
Part instructions(const Evidence& evidence);
/// Time, what bounds it, and what to change first.
Part speed(const Evidence& evidence);
/// Remarks that decide nothing.
Part notes(const Evidence& evidence);

/// Whether a file's name is that of the candidate itself, as reports give it.
inline bool is_candidates(std::string_view file) { return file == "kernel.cu" || file == "kernel.py"; }
/// "M=256 N=128".
std::string axes_text(const std::vector<std::pair<std::string, std::int64_t>>& axes);
/// Lines of `text`, each with two spaces before it.
std::string indent(std::string_view text);
/// "1 finding", "3 findings".
std::string counted(std::uint64_t count, std::string_view noun);
/// The line of the candidate that a place belongs to: that of the call in the kernel's body, or the place's own. 0:
/// none.
std::uint32_t body_line(const evaluation::Place& place);
/// "kernel.cu:152 (inside kernel.cu:63)".
std::string place_text(const evaluation::Place& place);
/// An instruction with the middle of long register lists left out.
std::string short_instruction(std::string_view instruction);
/// First sentence, or first line, without what a headline has no room for.
std::string first_line(std::string_view text, std::size_t most = 220);

}  // namespace ptxbench::agent::parts
