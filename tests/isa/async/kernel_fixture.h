#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "emulator/device.h"

/// Runs hand-written PTX kernels on a fresh device under each completion policy.
namespace ptxbench::emulator {

/// A module with one entry `k` that takes four 64-bit parameters; %rd0 .. %rd3 hold them, %r0 is the thread, %r1 the
/// lane.
inline std::string kernel(const std::string& body, const std::string& declarations = "",
                          const std::string& directives = "") {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n" + declarations +
         "\n.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) " + directives + R"(
{
  .reg .pred %p<32>;
  .reg .b16 %h<32>;
  .reg .b32 %r<160>;
  .reg .b64 %rd<64>;
  .reg .f32 %f<160>;
  ld.param.u64 %rd0, [p0];
  ld.param.u64 %rd1, [p1];
  ld.param.u64 %rd2, [p2];
  ld.param.u64 %rd3, [p3];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %laneid;
)" + body +
         "\n  ret;\n}\n";
}

struct Geometry {
  uint32_t grid = 1, block = 32, cluster = 0, dynamic_shared = 0;
};

class KernelTest : public testing::TestWithParam<CompletionPolicy> {
 protected:
  void SetUp() override {
    DeviceOptions options;
    options.threads = 1;
    options.completion = GetParam();
    options.seed = 7;
    options.observer = observer;
    options.instruction_budget = 200'000'000;
    options.print = [this](std::string_view text) { printed += text; };
    auto created = Device::create(std::move(options));
    ASSERT_TRUE(created.has_value()) << created.error().message;
    device = std::move(*created);
  }

  template <class T>
  uint64_t upload(const std::vector<T>& values) {
    auto address = device->memory().allocate(values.size() * sizeof(T), AllocationKind::device, "");
    EXPECT_TRUE(address.has_value());
    EXPECT_TRUE(device->write(*address, std::as_bytes(std::span(values))).has_value());
    return *address;
  }
  template <class T>
  std::vector<T> download(uint64_t address, size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(device->read(address, std::as_writable_bytes(std::span(values))).has_value());
    return values;
  }
  template <class T>
  uint64_t zeros(size_t count) {
    return upload(std::vector<T>(count, T{}));
  }

  LaunchReport launch(const std::string& ptx, Geometry shape, std::vector<uint64_t> parameters = {}) {
    auto module = device->load_ptx(ptx, "test");
    if (!module) {
      ADD_FAILURE() << module.error().message;
      return {};
    }
    LaunchRequest request;
    request.function = *device->find_kernel(*module, "k");
    request.grid[0] = shape.grid;
    request.block[0] = shape.block;
    if (shape.cluster != 0) {
      request.cluster[0] = shape.cluster;
      request.cluster[1] = request.cluster[2] = 1;
    }
    request.dynamic_shared_bytes = shape.dynamic_shared;
    request.max_dynamic_shared_bytes = DeviceLimits::kSharedPerBlockOptIn;
    if (parameters.size() < 4) parameters.resize(4, 0);
    request.parameters.resize(parameters.size() * 8);
    std::memcpy(request.parameters.data(), parameters.data(), request.parameters.size());
    request.stop = stop;
    auto report = device->launch(request);
    if (!report) {
      ADD_FAILURE() << report.error().message;
      return {};
    }
    return std::move(*report);
  }

  /// Runs and expects no fault.
  LaunchReport run(const std::string& ptx, Geometry shape, std::vector<uint64_t> parameters = {}) {
    LaunchReport report = launch(ptx, shape, std::move(parameters));
    EXPECT_FALSE(report.fault.has_value())
        << report.fault->rule << ": " << report.fault->message << "\n  at " << report.fault->place.instruction;
    return report;
  }

  /// Runs and expects a fault of this rule; returns its message.
  std::string fault(const std::string& ptx, Geometry shape, const std::string& rule,
                    std::vector<uint64_t> parameters = {}) {
    const LaunchReport report = launch(ptx, shape, std::move(parameters));
    if (!report.fault) {
      ADD_FAILURE() << "no fault, expected " << rule;
      return {};
    }
    EXPECT_EQ(report.fault->rule, rule) << report.fault->message;
    return report.fault->message;
  }

  Observer* observer = nullptr;  ///< set before SetUp
  std::stop_token stop;          ///< ends launches early
  std::unique_ptr<Device> device;
  std::string printed;
};

inline std::string policy_name(const testing::TestParamInfo<CompletionPolicy>& info) {
  switch (info.param) {
    case CompletionPolicy::eager:
      return "eager";
    case CompletionPolicy::lazy:
      return "lazy";
    case CompletionPolicy::random:
      return "random";
  }
  return "";
}

#define PTXBENCH_ALL_POLICIES(suite)                                                                                   \
  INSTANTIATE_TEST_SUITE_P(Policies, suite,                                                                            \
                           testing::Values(CompletionPolicy::eager, CompletionPolicy::lazy, CompletionPolicy::random), \
                           policy_name)

}  // namespace ptxbench::emulator
