#pragma once

#include <string>

#include "base/terminal.h"
#include "evaluation/evaluation.h"

namespace ptxbench::evaluation {

/// For people: a line per stage, the findings with their places, the numbers that were wrong, the fidelity footer and
/// the verdict. Ends with a newline.
std::string to_text(const Evaluation& evaluation, const base::Style& style);

}  // namespace ptxbench::evaluation
