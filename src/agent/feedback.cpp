#include "agent/feedback.h"

#include <algorithm>

#include "agent/feedback_parts.h"
#include "base/text.h"
#include "candidate/language.h"
#include "knowledge/tokens.h"

namespace ptxbench::agent {
namespace {

using evaluation::Evaluation;
using evaluation::StageName;
using evaluation::Status;
using parts::Part;

/// Kept free for the line that says what was left out.
constexpr std::size_t kTokensOfTheRest = 64;
constexpr std::size_t kMostNamesLeftOut = 3;

std::string stages_text(const Evaluation& evaluation) {
  // Neighbours that ended alike share a word.
  std::string text = "Stages:";
  for (std::size_t s = 0; s < evaluation::kStageCount; ++s) {
    const auto name = static_cast<StageName>(s);
    const auto& stage = evaluation.stage(name);
    text += fmt::format("{} {}", s == 0 ? "" : ",", evaluation::to_string(name));
    const bool tells = !stage.reason.empty() && (stage.status == Status::failed || stage.status == Status::unknown);
    const bool shared = s + 1 < evaluation::kStageCount && !tells && evaluation.stages[s + 1].status == stage.status;
    if (shared) continue;
    text += fmt::format(" {}", evaluation::to_string(stage.status));
    if (tells) text += fmt::format(" ({})", parts::first_line(stage.reason, 60));
  }
  if (evaluation.hazards.status != Status::skipped)
    text += fmt::format(", hazard check {}", evaluation.hazards.status == Status::passed   ? "clean"
                                             : evaluation.hazards.status == Status::failed ? "found hazards"
                                                                                           : "unknown");
  return text + '\n';
}

FeedbackSection headline(const Evaluation& evaluation, const std::string& first) {
  FeedbackSection section;
  section.name = "headline";
  if (evaluation.passed()) {
    section.text = "Evaluation results: PASSED";
    if (evaluation.sampled)
      section.text +=
          fmt::format(" (on a sample: {:.3g} % of the output elements were checked)", 100 * evaluation.coverage);
  } else {
    section.text = evaluation.verdict == Status::unknown ? "Evaluation results: UNKNOWN, nothing was found to be wrong;"
                                                         : "Evaluation FAILED:";
    if (!evaluation.summary.empty()) section.text += ' ' + parts::first_line(evaluation.summary, 120);
  }
  section.text += '\n';
  if (!first.empty()) {
    const std::string sentence = parts::first_line(first, 330);
    section.text += fmt::format("{}: {}{}\n", evaluation.passed() ? "Next" : "Do first", sentence,
                                sentence.ends_with('?') ? "" : ".");
  }
  section.brief = section.text;
  section.text += stages_text(evaluation);
  return section;
}

}  // namespace

std::string_view to_string(FeedbackLevel level) {
  switch (level) {
    case FeedbackLevel::terse:
      return "terse";
    case FeedbackLevel::standard:
      return "standard";
    case FeedbackLevel::rich:
      return "rich";
  }
  return "";
}

Result<FeedbackLevel> parse_feedback_level(std::string_view text) {
  for (const FeedbackLevel level : {FeedbackLevel::terse, FeedbackLevel::standard, FeedbackLevel::rich}) {
    if (text == to_string(level)) return level;
  }
  return input_error("'{}' is no level of feedback: terse, standard or rich", text);
}

std::size_t default_tokens(FeedbackLevel level) {
  switch (level) {
    case FeedbackLevel::terse:
      return 350;
    case FeedbackLevel::standard:
      return 1500;
    case FeedbackLevel::rich:
      return 6000;
  }
  return 1500;
}

std::vector<FeedbackSection> feedback_sections(const Evaluation& evaluation, std::string_view source,
                                               const FeedbackOptions& options) {
  const SourceView view(source);
  const parts::Evidence evidence{evaluation, view, options.level, options.knowledge};
  std::vector<Part> all;
  // A source that does not compile has no other faults that anybody could know of.
  if (!evaluation.compile.succeeded()) {
    all.push_back(parts::compile_errors(evidence));
  } else {
    all.push_back(parts::causes(evidence));
    all.push_back(parts::numbers(evidence));
    all.push_back(parts::unknowns(evidence));
    all.push_back(parts::instructions(evidence));
    all.push_back(parts::speed(evidence));
    all.push_back(parts::notes(evidence));
  }
  std::string first;
  for (const Part& part : all) {
    if (first.empty()) first = part.first;
  }
  std::vector<FeedbackSection> sections = {headline(evaluation, first)};
  for (Part& part : all) {
    for (FeedbackSection& section : part.sections) sections.push_back(std::move(section));
  }
  return sections;
}

std::string compose(const std::vector<FeedbackSection>& sections, std::size_t tokens) {
  std::string text;
  std::size_t used = 0;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const auto fits = [&](const std::string& part, bool is_whole) {
      // What is said of the rest needs no room if there is no rest.
      const std::size_t reserve = is_whole && i + 1 == sections.size() ? 0 : kTokensOfTheRest;
      return !part.empty() && used + knowledge::estimate_tokens(part) + 1 + reserve <= tokens;
    };
    const std::string gap = i == 0 ? "" : "\n";
    std::string part = gap + sections[i].text;
    bool whole = true;
    if (!fits(part, true)) {
      whole = false;
      part = sections[i].brief.empty() ? "" : gap + sections[i].brief;
      if (i > 0 && !fits(part, false)) part.clear();
    }
    used += knowledge::estimate_tokens(part) + 1;
    text += part;
    if (whole || i == 0) continue;
    const std::size_t from = part.empty() ? i : i + 1;
    std::string names = part.empty() ? "" : fmt::format("details of {}", sections[i].name);
    for (std::size_t left = from; left < std::min(sections.size(), from + kMostNamesLeftOut); ++left)
      names += (names.empty() ? "" : ", ") + sections[left].name;
    if (sections.size() > from + kMostNamesLeftOut)
      names += fmt::format(" and {} more", sections.size() - from - kMostNamesLeftOut);
    text += fmt::format("\n(left out, less causal: {})\n", names);
    break;
  }
  return text;
}

std::string feedback_text(const Evaluation& evaluation, std::string_view source, const FeedbackOptions& options) {
  const std::size_t tokens = options.tokens != 0 ? options.tokens : default_tokens(options.level);
  std::string text = compose(feedback_sections(evaluation, source, options), std::max(tokens, kFewestFeedbackTokens));
  // The parts call the candidate's file by the name that most have.
  if (evaluation.language == candidate::to_string(candidate::Language::triton)) {
    text = base::replace_all(text, candidate::source_name(candidate::Language::cuda),
                             candidate::source_name(candidate::Language::triton));
  }
  return text;
}

std::string no_code_feedback(const candidate::Extraction& extraction, candidate::Language language) {
  std::string text = fmt::format("Evaluation FAILED: no candidate in the answer ({})\n",
                                 extraction.reason ? candidate::to_string(*extraction.reason) : "no_code");
  using Reason = candidate::NoCodeReason;
  std::string first = "answer with one fenced block marked cpp that holds the whole file";
  if (extraction.reason == Reason::no_export)
    first = "export the host function with TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run), in the same block as the kernel";
  if (extraction.reason == Reason::no_kernel)
    first = "put the __global__ function into the same block as the export: one block is one complete file";
  if (language == candidate::Language::triton) {
    first = "answer with one fenced block marked python that holds the whole file";
    if (extraction.reason == Reason::no_export)
      first = "define the function run(...) at top level, in the same block as the kernel";
    if (extraction.reason == Reason::no_kernel)
      first = "put the function with @triton.jit into the same block as run(...): one block is one complete file";
  }
  if (extraction.reason == Reason::only_reasoning)
    first = "end the reasoning and give the file after it: what is inside of it does not count";
  if (extraction.unclosed)
    first += "; the last block is not closed, so the answer may have been cut off: make it shorter";
  return text + fmt::format("Do first: {}.\nFound: {}\n", first, extraction.message);
}

namespace parts {

std::string axes_text(const std::vector<std::pair<std::string, std::int64_t>>& axes) {
  std::string text;
  for (const auto& [name, value] : axes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

std::string indent(std::string_view text) {
  std::string out;
  for (const std::string_view line : base::split_lines(text)) out += fmt::format("  {}\n", line);
  return out;
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::uint32_t body_line(const evaluation::Place& place) {
  // The outermost call in the candidate's own file; a header's line says nothing.
  for (auto call = place.called_from.rbegin(); call != place.called_from.rend(); ++call) {
    if (is_candidates(call->first)) return call->second;
  }
  return is_candidates(place.file) ? place.line : 0;
}

std::string place_text(const evaluation::Place& place) {
  const std::uint32_t body = body_line(place);
  std::string text = body != 0                                ? fmt::format("kernel.cu:{}", body)
                     : !place.file.empty() && place.line != 0 ? fmt::format("{}:{}", place.file, place.line)
                                                              : "";
  // From the outside in, so that a reader can follow the calls.
  std::string inner;
  for (std::size_t i = place.called_from.size(); i-- > 0;) {
    const auto& [file, line] = place.called_from[i];
    if (is_candidates(file) && line != body) inner += fmt::format("{}{}", inner.empty() ? "" : " > ", line);
  }
  if (is_candidates(place.file) && place.line != body && place.line != 0)
    inner += fmt::format("{}{}", inner.empty() ? "" : " > ", place.line);
  if (!inner.empty()) text += fmt::format(" > {}", inner);
  return text;
}

std::string short_instruction(std::string_view instruction) {
  std::string text(base::trim(instruction));
  // Register lists of matrix fragments: the first, the last, and how many.
  for (std::size_t open = text.find('{'); open != std::string::npos; open = text.find('{', open + 1)) {
    const auto close = text.find('}', open);
    if (close == std::string::npos) break;
    const auto items = base::split(std::string_view(text).substr(open + 1, close - open - 1), ',');
    if (items.size() <= 5) continue;
    text.replace(
        open, close - open + 1,
        fmt::format("{{{}, ... {}: {} registers}}", base::trim(items.front()), base::trim(items.back()), items.size()));
  }
  return text.size() > 300 ? text.substr(0, 296) + " ..." : text;
}

std::string first_line(std::string_view text, std::size_t most) {
  std::string line(base::trim(text.substr(0, text.find('\n'))));
  while (!line.empty() && (line.back() == '.' || line.back() == ':')) line.pop_back();
  if (line.size() <= most) return line;
  std::size_t end = most;
  while (end > most / 2 && line[end] != ' ') --end;
  // Never inside a character of several bytes.
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;
  return line.substr(0, end) + " ...";
}

}  // namespace parts
}  // namespace ptxbench::agent
