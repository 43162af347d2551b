// The kernels of the planted-fault corpus as timelines: what holds for every timeline, and that a kernel's own order
// does not depend on how the emulator completes what is asynchronous.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "emulator/device.h"
#include "hazard_case.h"
#include "launch/prepared_launch.h"
#include "timeline/chrome_trace.h"
#include "timeline/recorder.h"
#include "timeline/schedule.h"
#include "trace_checks.h"

namespace ptxbench::timeline {
namespace {

using emulator::CompletionPolicy;

constexpr const char* kCases[] = {
#include "hazard_cases.inc"
};

struct Outcome {
  std::vector<LaunchRecord> launches;
  bool faulted = false;
};

Outcome record(const hazards::HazardCase& hazard, const std::string& ptx, CompletionPolicy policy) {
  Outcome outcome;
  emulator::DeviceOptions options;
  options.threads = 1;
  options.completion = policy;
  options.seed = 11;
  options.instruction_budget = 50'000'000;
  auto recording = Recording::start(std::move(options), {});
  EXPECT_TRUE(recording) << recording.error().message;
  emulator::Device& device = (*recording)->device();
  const auto module = device.load_ptx(ptx, hazard.path.filename().string());
  EXPECT_TRUE(module) << module.error().message;
  const auto prepared = launch::PreparedLaunch::create(device, *module, hazard.launch);
  EXPECT_TRUE(prepared) << prepared.error().message;
  for (std::uint32_t i = 0; i < hazard.launch.repeat && !outcome.faulted; ++i) {
    const auto report = device.launch(prepared->request());
    if (!report) break;
    (*recording)->recorder().add(*report);
    outcome.faulted = report->fault.has_value();
  }
  outcome.launches = (*recording)->recorder().take();
  return outcome;
}

class TimelineCorpus : public ::testing::TestWithParam<const char*> {};

TEST_P(TimelineCorpus, KeepsTheRules) {
  const auto hazard = hazards::read_case(std::filesystem::path(HAZARD_FOLDER) / GetParam());
  ASSERT_TRUE(hazard) << hazard.error().message;
  for (const bool faulty : {false, true}) {
    if (faulty && hazard->rules.empty()) continue;
    const auto ptx = hazards::compile_variant(*hazard, faulty, TEST_CACHE);
    ASSERT_TRUE(ptx) << ptx.error().message;
    for (const auto policy : {CompletionPolicy::eager, CompletionPolicy::lazy}) {
      SCOPED_TRACE(testing::Message() << (faulty ? "faulty" : "right") << ", policy " << static_cast<int>(policy));
      const Outcome outcome = record(*hazard, *ptx, policy);
      for (const LaunchRecord& launch : outcome.launches) {
        for (const ClusterRecord& cluster : launch.clusters) {
          const ClusterSchedule timed = schedule(launch, cluster);
          EXPECT_EQ(fault_of(launch, timed), "");
          if (!faulty) {
            EXPECT_TRUE(cluster.finished);
          }
          // A fault before the first wait leaves nothing to show but its mark.
          EXPECT_TRUE(timed.cycles > 0 || launch.fault);
        }
      }
      EXPECT_EQ(fault_of_trace(chrome_trace(outcome.launches)), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, TimelineCorpus, ::testing::ValuesIn(kCases), [](const auto& param) {
  std::string name = param.param;
  name = name.substr(0, name.rfind('.'));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace ptxbench::timeline
