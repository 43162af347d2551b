#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "problem/comparison.h"
#include "problem/dataset.h"
#include "problem/inputs.h"
#include "problem/reference.h"
#include "problem/requests.h"

// What the tests of several families of problems have in common.

namespace ptxbench::problem {

// Throw where the text or the axes are wrong.
Definition definition_of(const std::string& json);
Problem problem_of(const Definition& definition, std::vector<std::pair<std::string, std::int64_t>> axes);

/// Inputs by the rules of the problem's family, and the truth, by output.
struct ProblemData {
  ProblemData(Problem which, Distribution distribution, std::uint64_t seed);
  ProblemData(const ProblemData&) = delete;
  ProblemData& operator=(const ProblemData&) = delete;

  std::vector<float> widened(std::size_t input) const;
  Tensor& tensor(std::string_view name);
  /// What the reference says of the inputs as they are now; empty if nothing.
  std::string refusal() const;

  Problem problem;
  std::vector<Tensor> tensors;
  std::vector<std::vector<float>> truths;
};

/// Whether nothing native judges a definition that was changed in this way.
template <class Change>
bool refused(const Definition& from, const Change& change) {
  Definition changed = from;
  change(changed);
  return !find_reference(changed);
}

void expect_part(const std::string& message, std::string_view part);

/// The first explanation, and that there is a remedy for it.
void expect_pattern(const TensorComparison& result, std::string_view pattern, const std::string& what);

/// The tightest limit, as limit over value.
double margin_of(const TensorComparison& result);

/// The least margins that sound kernels had, by what was compared; prints them at the end.
class Margins {
 public:
  ~Margins();
  /// Also expects that it passed, with a margin of 1.5.
  void take(const std::string& name, const TensorComparison& result, const std::string& what);

 private:
  std::map<std::string, double> least_;
};

// --- shipped problems

/// The uuid of a workload that is not published elsewhere.
std::string own_uuid(const Definition& definition, const Workload& workload);

struct ShippedRule {
  std::map<std::string, std::string> published;  ///< uuids, by the problem's title
  double most_multiply_adds = 0;                 ///< of a check
  std::uint64_t most_bytes = 0;
};

/// All outputs have limits, all workloads a uuid by the rule and a known amount of work, and all checks are small and
/// have a truth, which `look` is shown. Gives the number of published workloads.
std::size_t expect_shipped(const Dataset& dataset, const Definition& definition, const ShippedRule& rule,
                           const std::function<void(const Problem&, const Truth&)>& look);

/// The same of attention over requests, which also has `scale` where a workload does not give it.
std::size_t expect_shipped_requests(const Dataset& dataset, const Definition& definition, const RequestRoles& roles,
                                    const ShippedRule& rule, double scale);

}  // namespace ptxbench::problem
