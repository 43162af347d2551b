#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "candidate/extraction.h"
#include "candidate/language.h"
#include "evaluation/evaluation.h"

/// What the model is told after a turn, composed from the evidence of its evaluation. docs/feedback.md has the rules.
namespace ptxbench::agent {

enum class FeedbackLevel : std::uint8_t { terse, standard, rich };
std::string_view to_string(FeedbackLevel level);
Result<FeedbackLevel> parse_feedback_level(std::string_view text);

/// As few hold a headline, the stages and the first cause.
inline constexpr std::size_t kFewestFeedbackTokens = 200;
/// What experiments and `eval --feedback` have as `hazards` unless they are told otherwise.
inline constexpr std::string_view kHazardsOfExperiments = "always";

struct FeedbackOptions {
  FeedbackLevel level = FeedbackLevel::standard;
  std::size_t tokens = 0;           ///< budget, by knowledge::estimate_tokens; 0: the level's own
  std::string_view knowledge = {};  ///< the pack that the model was given: where names are looked for beside its source
};

/// The level's budget where none is given.
std::size_t default_tokens(FeedbackLevel level);

/// A part of the text. Parts come in the order of their causality, and none is ever cut.
struct FeedbackSection {
  std::string name;  ///< "headline", "cause 1", "output C": for the line that says what was left out
  std::string text;
  std::string brief;  ///< said instead where the text does not fit; empty: nothing is
};

/// All there is to say at a level, most causal first. The first section is the headline, which always fits.
std::vector<FeedbackSection> feedback_sections(const evaluation::Evaluation& evaluation, std::string_view source,
                                               const FeedbackOptions& options = {});

/// The sections from the first on, up to the one that does not fit any more, and a line that names the rest.
std::string compose(const std::vector<FeedbackSection>& sections, std::size_t tokens);

/// Both. The same evaluation and source give the same text, whoever judged.
std::string feedback_text(const evaluation::Evaluation& evaluation, std::string_view source,
                          const FeedbackOptions& options = {});

/// For an answer without a candidate.
std::string no_code_feedback(const candidate::Extraction& extraction,
                             candidate::Language language = candidate::Language::cuda);

}  // namespace ptxbench::agent
