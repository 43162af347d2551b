#include "test_support.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "problem/triage.h"

namespace ptxbench::problem {

Definition definition_of(const std::string& json) {
  auto definition = parse_definition(base::Json::parse(json), "g");
  if (!definition) throw std::runtime_error(definition.error().message);
  return std::move(*definition);
}

Problem problem_of(const Definition& definition, std::vector<std::pair<std::string, std::int64_t>> axes) {
  Workload workload;
  workload.uuid = "u";
  workload.axes = std::move(axes);
  auto problem = make_problem(definition, workload);
  if (!problem) throw std::runtime_error(problem.error().message);
  return std::move(*problem);
}

ProblemData::ProblemData(Problem which, Distribution distribution, std::uint64_t seed) : problem(std::move(which)) {
  InputOptions options;
  options.seed = seed;
  options.distribution = distribution;
  auto made = make_inputs(problem, options);
  if (!made) throw std::runtime_error(made.error().message);
  tensors = std::move(*made);
  const auto truth = (*find_reference(problem.definition))(request_for(problem, tensors));
  if (!truth) throw std::runtime_error(truth.error().message);
  for (const Tensor& output : truth->outputs) {
    const auto values = output.as<float>().first(output.count);
    truths.emplace_back(values.begin(), values.end());
  }
}

std::vector<float> ProblemData::widened(std::size_t input) const {
  std::vector<float> out(tensors[input].count);
  to_float(tensors[input].dtype, tensors[input].data(), 0, out.size(), out.data());
  return out;
}

Tensor& ProblemData::tensor(std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& one) { return one.name == name; });
  if (found == tensors.end()) throw std::runtime_error("no such input: " + std::string(name));
  return *found;
}

std::string ProblemData::refusal() const {
  const auto truth = (*find_reference(problem.definition))(request_for(problem, tensors));
  return truth ? "" : truth.error().message;
}

void expect_part(const std::string& message, std::string_view part) {
  EXPECT_NE(message.find(part), std::string::npos) << "'" << message << "' lacks '" << part << "'";
}

void expect_pattern(const TensorComparison& result, std::string_view pattern, const std::string& what) {
  ASSERT_FALSE(result.hypotheses.empty()) << what << "\n" << describe(result);
  EXPECT_EQ(result.hypotheses[0].pattern, pattern) << what << "\n" << describe(result);
  EXPECT_NE(remedy_for(pattern), remedy_for("no such pattern")) << pattern;
}

double margin_of(const TensorComparison& result) {
  double margin = result.limits.empty() ? 0 : INFINITY;
  for (const LimitedValue& one : result.limits) margin = std::min(margin, one.limit / std::max(one.value, 1e-12));
  return margin;
}

void Margins::take(const std::string& name, const TensorComparison& result, const std::string& what) {
  const double margin = margin_of(result);
  EXPECT_EQ(result.verdict, Verdict::passed) << what << "\n" << describe(result);
  EXPECT_GE(margin, 1.5) << what << "\n" << describe(result);
  const auto [slot, fresh] = least_.emplace(name, margin);
  if (!fresh) slot->second = std::min(slot->second, margin);
}

Margins::~Margins() {
  for (const auto& [what, margin] : least_) {
    std::printf("%-23s a sound kernel's worst value is 1/%.2f of its limit\n", what.c_str(), margin);
  }
}

std::string own_uuid(const Definition& definition, const Workload& workload) {
  std::string url = "ptxbench://" + definition.name;
  for (const auto& [axis, value] : workload.axes) url += fmt::format("/{}={}", axis, value);
  return uuid5_url(url);
}

std::size_t expect_shipped(const Dataset& dataset, const Definition& definition, const ShippedRule& rule,
                           const std::function<void(const Problem&, const Truth&)>& look) {
  const std::string& name = definition.name;
  for (std::size_t i = 0; i < definition.outputs.size(); ++i) EXPECT_TRUE(limits_for(definition, i)) << name;
  EXPECT_FALSE(dataset.checks(name).empty()) << name;
  std::size_t found = 0;
  for (const bool checks : {false, true}) {
    for (const Workload& workload : checks ? dataset.checks(name) : dataset.workloads(name)) {
      const auto problem = make_problem(definition, workload);
      if (!problem) {
        ADD_FAILURE() << problem.error().message;
        continue;
      }
      const auto known = rule.published.find(problem->title());
      const bool is_published = known != rule.published.end();
      EXPECT_EQ(workload.uuid, is_published ? known->second : own_uuid(definition, workload)) << problem->title();
      found += is_published ? 1 : 0;
      const auto work = required_multiply_adds(*problem);
      EXPECT_TRUE(work) << problem->title();
      if (!checks) continue;
      EXPECT_LT(work.value_or(INFINITY), rule.most_multiply_adds) << "checks are quick";
      EXPECT_LT(problem->tensor_bytes, rule.most_bytes) << problem->title();
      const auto inputs = make_inputs(*problem, {});
      if (!inputs) {
        ADD_FAILURE() << inputs.error().message;
        continue;
      }
      const auto truth = (*find_reference(definition))(request_for(*problem, *inputs));
      if (!truth) {
        ADD_FAILURE() << truth.error().message;
        continue;
      }
      look(*problem, *truth);
    }
  }
  return found;
}

std::size_t expect_shipped_requests(const Dataset& dataset, const Definition& definition, const RequestRoles& roles,
                                    const ShippedRule& rule, double scale) {
  EXPECT_EQ(roles.causal, roles.qo_indptr.has_value());
  const auto found = expect_shipped(dataset, definition, rule, [&](const Problem& problem, const Truth& truth) {
    // What a prefill's queries see nothing of is a matter on which published references differ.
    const auto lse = truth.outputs[roles.lse].as<float>().first(truth.outputs[roles.lse].count);
    const bool empty = std::any_of(lse.begin(), lse.end(), [](float value) { return !std::isfinite(value); });
    EXPECT_TRUE(!empty || !roles.qo_indptr) << problem.title();
  });
  // Sizes of one's own.
  std::vector<std::string> axes;
  for (const std::string& axis : definition.variable_axes()) {
    axes.push_back(axis + (axis == "len_indptr" ? "=3" : axis == "batch_size" ? "=2" : "=40"));
  }
  const auto made = dataset.workload_for_axes(definition, axes);
  const auto inputs = made ? make_inputs(*make_problem(definition, *made), {}) : tl::unexpected(made.error());
  EXPECT_TRUE(inputs) << inputs.error().message;
  if (inputs) {
    EXPECT_EQ((*inputs)[roles.sm_scale].as<float>()[0], static_cast<float>(scale)) << definition.name;
  }
  return found;
}

}  // namespace ptxbench::problem
