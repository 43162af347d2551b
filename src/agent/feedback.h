#pragma once

#include <string>

#include "candidate/extraction.h"
#include "evaluation/evaluation.h"

namespace ptxbench::agent {

struct FeedbackOptions {
  std::size_t max_findings = 8;
  std::size_t max_compiler_bytes = 6000;  ///< of the compiler's own text
};

/// What the model is told after a turn: verdict first, then per stage what was found, each with rule, line and remedy;
/// the source lines themselves are quoted from `source`.
std::string feedback_text(const evaluation::Evaluation& evaluation, std::string_view source,
                          const FeedbackOptions& options = {});

/// For an answer without a candidate.
std::string no_code_feedback(const candidate::Extraction& extraction);

}  // namespace ptxbench::agent
