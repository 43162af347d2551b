#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "evaluation/evaluator.h"

namespace ptxbench::evaluation {

/// Source of tests/evaluation/candidates/<name>, or of examples/kernels/<name>.
std::string candidate_source(std::string_view name);
std::string example_source(std::string_view name);
/// The line of `source` that holds `marker`; 0 if there is none.
std::uint32_t line_with(std::string_view source, std::string_view marker);

/// One evaluator for all tests of the process; its artifact cache lies in the build folder.
Evaluator& evaluator();
/// A definition of tests/evaluation/data with M rows.
problem::Problem small_problem(std::int64_t rows, std::string_view definition = "gemm_small");

/// Small budget and short host limit, one run.
EvaluateOptions quick_options();
Evaluation evaluate(std::string_view source, const problem::Problem& problem,
                    const EvaluateOptions& options = quick_options());

/// The first finding with this rule, or null.
const Finding* find(const Evaluation& evaluation, std::string_view rule);
/// Everything about an evaluation, for failure messages.
std::string dump(const Evaluation& evaluation);

}  // namespace ptxbench::evaluation
