#include "evaluation/python_reference.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/files.h"
#include "base/process.h"
#include "evaluation/run_judge.h"
#include "evaluation/workload_state.h"
#include "problem/inputs.h"

namespace ptxbench::evaluation {
namespace {

namespace fs = std::filesystem;

/// y = reference(x, s), z = 2 x: an operation that nothing here knows.
problem::Problem problem_with(const std::string& reference, std::int64_t m = 5) {
  const base::Json definition = {
      {"name", "scale"},
      {"op_type", "elementwise"},
      {"axes", {{"M", {{"type", "var"}}}, {"N", {{"type", "const"}, {"value", 3}}}}},
      {"inputs",
       {{"x", {{"shape", {"M", "N"}}, {"dtype", "float32"}}}, {"s", {{"shape", nullptr}, {"dtype", "float32"}}}}},
      {"outputs", {{"y", {{"shape", {"M", "N"}}, {"dtype", "float32"}}}}},
      {"reference", reference}};
  const auto parsed = problem::parse_definition(definition, "test");
  problem::Workload workload;
  workload.uuid = "u";
  workload.axes = {{"M", m}};
  workload.inputs = {{"s", problem::ScalarInput{2.5}}};
  return *problem::make_problem(*parsed, workload);
}

/// An interpreter that finds the stand-in for PyTorch instead of the real one: Python, without -I.
std::string python_with_stand_in(const base::TempDir& folder) {
  const fs::path script = folder.path() / "python";
  std::ofstream(script) << "#!/bin/sh\nshift\nPYTHONPATH=" << TEST_SOURCE << "/stand_in exec python3 \"$@\"\n";
  fs::permissions(script, fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  return script.string();
}

class PythonReference : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!base::find_program("python3")) GTEST_SKIP() << "python3 is not installed";
    options_.python = python_with_stand_in(folder_);
    options_.threads = 1;
  }
  PythonTruth truth(const problem::Problem& problem) {
    auto made = problem::make_inputs(problem, {});
    EXPECT_TRUE(made) << made.error().message;
    inputs_ = std::move(*made);
    auto result = python_truth(problem, inputs_, options_);
    EXPECT_TRUE(result) << result.error().message;
    return result ? std::move(*result) : PythonTruth{};
  }
  std::string reason(const std::string& reference) {
    const auto result = truth(problem_with(reference));
    EXPECT_FALSE(result.truth);
    return result.reason;
  }
  base::TempDir folder_ = *base::TempDir::create();
  PythonReferenceOptions options_;
  std::vector<problem::Tensor> inputs_;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(PythonReference, ComputesFromTensorsAndScalars) {
  const auto expect_scaled = [&](const char* reference) {
    const auto result = truth(problem_with(reference));
    ASSERT_TRUE(result.truth) << result.reason;
    ASSERT_EQ(result.truth->outputs.size(), 1u);
    EXPECT_EQ(result.truth->outputs[0].shape, (problem::Shape{5, 3}));
    for (std::size_t i = 0; i < 15; ++i) {
      EXPECT_FLOAT_EQ(result.truth->outputs[0].as<float>()[i], 2.5f * inputs_[0].as<float>()[i]);
    }
  };
  expect_scaled("def run(x, s):\n  return x * s\n");
  expect_scaled("import torch\ndef run(x, s):\n  return (x * s,)\n");
  expect_scaled("def run(x, s):\n  print('talks')\n  return {'y': x * s, 'more': 1}\n");
  const auto nothing = truth(problem_with("def run(x, s):\n  return x * s\n", 0));
  EXPECT_TRUE(nothing.truth) << "no elements: " << nothing.reason;
}

TEST_F(PythonReference, WhatGoesWrongIsAReason) {
  EXPECT_HAS(reason("def run(x, s):\n  return x[\n"), "SyntaxError");
  EXPECT_HAS(reason("def run(x, s):\n  return 1 / 0\n"), "exited with code 1: ZeroDivisionError: division by zero");
  EXPECT_HAS(reason("def go(x, s):\n  return x\n"), "the reference has no function `run`");
  EXPECT_HAS(reason("def run(x, s):\n  return x, x\n"), "run returned 2 values, but the definition has 1 outputs");
  EXPECT_HAS(reason("def run(x, s):\n  return {'z': x}\n"), "run returned no y");
  EXPECT_HAS(reason("def run(x, s):\n  return x[0]\n"), "run returned y of shape [], but it is [5, 3]");
  EXPECT_HAS(reason("import os\ndef run(x, s):\n  os.kill(os.getpid(), 9)\n"), "was killed by signal 9");
  const std::string none = "its Python reference ended without giving results";
  EXPECT_EQ(reason("import os\nos._exit(0)\n"), none);
  EXPECT_EQ(reason("import sys\ndef run(x, s):\n  sys.exit(0)\n"), none);
  EXPECT_EQ(reason("import os\ndef run(x, s):\n  os._exit(0)\n"), none);
  EXPECT_HAS(reason("def run(x, s):\n  raise ValueError('\\x1b[31mred')\n"), "ValueError: \\x1b[31mred");
  options_.wall_limit = std::chrono::milliseconds(300);
  EXPECT_HAS(reason("def run(x, s):\n  while True: pass\n"), "was stopped after");
  options_.python = "/no/such/python";
  EXPECT_HAS(reason("def run(x, s):\n  return x\n"), "there is no /no/such/python");
}

TEST_F(PythonReference, WithoutPyTorchThereIsNone) {
  const fs::path script = folder_.path() / "bare";
  std::ofstream(script) << "#!/bin/sh\nshift\nexec python3 -I -S \"$@\"\n";
  fs::permissions(script, fs::perms::owner_all);
  options_.python = script.string();
  EXPECT_HAS(reason("def run(x, s):\n  return x * s\n"), "PyTorch cannot be loaded by");
}

TEST_F(PythonReference, CannotTouchFilesOrTheNetwork) {
  const fs::path target = folder_.path() / "written";
  const std::string open_it = "def run(x, s):\n  open('" + target.string() + "', 'w').write('x')\n  return x * s\n";
  EXPECT_HAS(reason(open_it), "PermissionError");
  EXPECT_FALSE(fs::exists(target));
  EXPECT_HAS(reason("import socket\ndef run(x, s):\n  socket.socket()\n  return x * s\n"), "Error");
  EXPECT_HAS(reason("import socket\ndef run(x, s):\n  socket.socket(socket.AF_UNIX)\n  return x * s\n"),
             "PermissionError");
  EXPECT_HAS(reason("import os\ndef run(x, s):\n  os.ftruncate(os.memfd_create('m'), 4096)\n  return x * s\n"),
             "File too large");
}

TEST_F(PythonReference, SeesNoVariablesOfOurs) {
  ::setenv("PTXBENCH_TEST_VARIABLE", "secret", 1);
  const auto said = reason("import os\ndef run(x, s):\n  raise ValueError(sorted(os.environ))\n");
  ::unsetenv("PTXBENCH_TEST_VARIABLE");
  EXPECT_HAS(said, "'HOME', 'LANG',");
  EXPECT_EQ(said.find("PTXBENCH"), std::string::npos) << said;
}

TEST_F(PythonReference, ACancelledRunIsNotRemembered) {
  ::setenv("PTXBENCH_PYTHON", options_.python.c_str(), 1);
  WorkloadCache cache;
  const auto problem = problem_with("def run(x, s):\n  return x * s\n");
  std::stop_source cancelled;
  cancelled.request_stop();
  const auto first = cache.get(problem, {}, true, cancelled.get_token());
  const auto second = cache.get(problem, {}, true);
  ::unsetenv("PTXBENCH_PYTHON");
  ASSERT_TRUE(first && second);
  EXPECT_FALSE((*first)->truth);
  EXPECT_FALSE((*first)->no_truth.empty());
  EXPECT_TRUE((*second)->truth) << (*second)->no_truth;
}

/// What the judge says of an output that is `factor` times x s.
Run judged(const problem::Problem& problem, const WorkloadState& state, float factor, std::vector<Finding>& findings) {
  DeviceObservation observation;
  observation.outputs = *problem::make_outputs(problem);
  for (std::size_t i = 0; i < observation.outputs[0].count; ++i) {
    observation.outputs[0].as<float>()[i] = factor * 2.5f * state.inputs[0].as<float>()[i];
  }
  Run run;
  CorrectnessInput input{problem, state.inputs, state.truth ? &*state.truth : nullptr, state.no_truth};
  EXPECT_TRUE(judge_correctness(observation, input, run, findings));
  return run;
}

TEST_F(PythonReference, DecidesByTheReferencesRule) {
  ::setenv("PTXBENCH_PYTHON", options_.python.c_str(), 1);
  WorkloadCache cache;
  const auto problem = problem_with("def run(x, s):\n  return x * s\n");
  const auto state = cache.get(problem, {}, false);
  ASSERT_TRUE(state) << state.error().message;
  ASSERT_TRUE((*state)->truth) << (*state)->no_truth;
  EXPECT_TRUE((*state)->truth_from_python);
  std::vector<Finding> findings;
  const auto right = judged(problem, **state, 1.0f, findings);
  EXPECT_EQ(right.correctness, Status::passed) << right.reason;
  EXPECT_EQ(right.outputs.at(0).rule, problem::Tolerance::reference);
  EXPECT_TRUE(findings.empty());
  const auto wrong = judged(problem, **state, 1.1f, findings);
  EXPECT_EQ(wrong.correctness, Status::failed);
  ASSERT_FALSE(wrong.outputs.at(0).failures.empty());
  EXPECT_HAS(wrong.outputs.at(0).failures[0], "off by more than 0.01 both absolutely and relatively");

  ::setenv("PTXBENCH_PYTHON", "/no/such/python", 1);
  WorkloadCache fresh;
  const auto none = fresh.get(problem, {}, true);
  ::unsetenv("PTXBENCH_PYTHON");
  ASSERT_TRUE(none) << none.error().message;
  findings.clear();
  const auto unknown = judged(problem, **none, 1.0f, findings);
  EXPECT_EQ(unknown.correctness, Status::unknown);
  EXPECT_HAS(unknown.reason,
             "there is no native reference for scale (op_type elementwise), and there is no /no/such/python");
}

}  // namespace
}  // namespace ptxbench::evaluation
