// What is said without running anything: tensors that fit nowhere, and calls that had nothing to do.
#include <gtest/gtest.h>

#include "evaluation/memory_need.h"
#include "evaluation/run_judge.h"
#include "problem/inputs.h"

namespace ptxbench::evaluation {
namespace {

problem::Problem problem_of(std::int64_t rows) {
  const auto definition = problem::parse_definition(
      base::Json::parse(R"({"name":"d","op_type":"x","axes":{"M":{"type":"var"}},"inputs":{"x":{"shape":["M"],
      "dtype":"float32"}},"outputs":{"y":{"shape":["M"],"dtype":"float32"}},"reference":"r"})"),
      "d");
  problem::Workload workload;
  workload.axes = {{"M", rows}};
  return *problem::make_problem(*definition, workload);
}

TEST(MemoryNeed, TensorsThatFitNowhereAreAnErrorOfTheAxes) {
  EXPECT_TRUE(check_memory(problem_of(1000)));
  for (const std::int64_t rows : {std::int64_t{1} << 40, std::int64_t{1} << 56}) {
    const auto fits = check_memory(problem_of(rows));
    ASSERT_FALSE(fits);
    EXPECT_NE(fits.error().message.find("choose smaller axes"), std::string::npos) << fits.error().message;
  }
}

TEST(JudgeExecution, OnlyACallWithElementsToWriteMustLaunch) {
  for (const std::int64_t rows : {0, 5}) {
    DeviceObservation observation;
    observation.host.last.emplace();
    observation.host.last->outcome = RunnerOutcome::finished;
    observation.outputs = *problem::make_outputs(problem_of(rows));
    evaluation::Run run;
    std::vector<Finding> findings;
    Fidelity fidelity;
    judge_execution(observation, run, findings, fidelity);
    EXPECT_EQ(run.execute, rows == 0 ? Status::passed : Status::failed) << run.reason;
  }
}

}  // namespace
}  // namespace ptxbench::evaluation
