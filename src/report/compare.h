#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/metrics.h"

namespace ptxbench::report {

struct CompareOptions {
  std::vector<double> thresholds = {0, 0.5, 0.8, 1.0};
  unsigned turn_limit = 0;  ///< of the trajectory metrics; 0: the smallest number of turns that both sides planned for
  unsigned permutations = 10'000;
  unsigned replicates = 2'000;  ///< of the bootstrap of the difference
};

/// B against A in one quantity.
struct Difference {
  std::string metric;                           ///< "Fast_p, p = 0.5"
  std::string denominator;                      ///< "turns" or "trajectories"
  std::optional<double> a, b;                   ///< shares; overall: the means over problems
  std::optional<double> difference, low, high;  ///< b - a, with 95 % limits
  std::optional<double> p_value;
  std::string verdict;  ///< "better", "worse", "no significant difference", "not measured"
};

struct ProblemComparison {
  std::vector<std::string> key;  ///< architecture, problem, workload, language
  std::size_t trajectories_a = 0, trajectories_b = 0, turns_a = 0, turns_b = 0;
  std::vector<Difference> differences;  ///< p values adjusted over problems by Holm's method
};

struct Comparison {
  std::string a, b;
  std::vector<Difference> overall;
  std::vector<ProblemComparison> problems;
  std::vector<std::string> only_a, only_b;  ///< problems of one side, which count nowhere
};

/// Compares two sets of trajectories, paired by problem. Trajectories are exchanged between the sides within a problem
/// to see how often chance alone gives such a difference.
Result<Comparison> compare(const Table& table, const Group& a, const Group& b, const CompareOptions& options);

}  // namespace ptxbench::report
