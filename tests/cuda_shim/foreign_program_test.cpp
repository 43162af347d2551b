// Programs that nvcc built, run in a sandboxed process with the client libraries and the emulated device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "cuda_shim/host_process.h"
#include "cuda_shim/program_check.h"
#include "cuda_shim/server.h"

namespace ptxbench::cuda_shim {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string program(const std::string& name) { return std::string(PTXBENCH_TEST_PROGRAMS "/") + name; }

class ForeignProgram : public ::testing::Test {
 protected:
  void run(const std::string& name, std::vector<std::string> arguments = {}, HostLimits limits = {}) {
    const auto info = check_program(program(name));
    ASSERT_TRUE(info) << info.error().message;
    const auto output = std::make_shared<DeviceOutput>();
    emulator::DeviceOptions options;
    options.threads = 2;
    options.print = [output](std::string_view text) { output->append(text); };
    auto device = emulator::Device::create(std::move(options));
    ASSERT_TRUE(device) << device.error().message;
    const auto backend = make_emulator_backend(**device);
    auto server = ShimServer::start(*backend, output);
    ASSERT_TRUE(server) << server.error().message;
    HostRequest request;
    request.argv = {program(name)};
    request.argv.insert(request.argv.end(), arguments.begin(), arguments.end());
    request.socket = (*server)->socket_path();
    request.preload = info->needs_preload;
    request.limits = limits;
    request.untrusted = untrusted_;
    if (!request.limits.wall) request.limits.wall = std::chrono::seconds(60);
    auto outcome = run_host_process(request);
    ASSERT_TRUE(outcome) << outcome.error().message;
    outcome_ = std::move(*outcome);
    report_ = (*server)->stop(outcome_.end == HostOutcome::End::exited);
    EXPECT_EQ(backend->used_bytes(), 0u) << "the client's memory must be freed with it";
  }
  std::string diagnostic(const std::string& rule) const {
    for (const HostDiagnostic& diagnostic : report_.diagnostics) {
      if (diagnostic.rule == rule) return diagnostic.message;
    }
    return "none";
  }
  bool untrusted_ = false;
  HostOutcome outcome_;
  ShimReport report_;
};

TEST_F(ForeignProgram, UsesTheRuntimeApi) {
  run("host_api");
  EXPECT_EQ(outcome_.stdout_text, "done, 0 failures\n");
  EXPECT_EQ(outcome_.stderr_text, "");
  EXPECT_TRUE(outcome_.ok()) << outcome_.describe();
  EXPECT_FALSE(report_.fault);
  EXPECT_GE(report_.launches, 70u);
}

TEST_F(ForeignProgram, UsesTheRuntimeApiWithPerThreadStreams) {
  run("host_api_per_thread");
  EXPECT_EQ(outcome_.stdout_text, "done, 0 failures\n");
  EXPECT_EQ(outcome_.stderr_text, "");
}

TEST_F(ForeignProgram, AnswersCallsAsTheHardwareDoes) {
  const auto expected = base::read_file("tests/cuda_shim/data/api_probe_h200.txt");
  ASSERT_TRUE(expected) << expected.error().message;
  run("api_probe");
  EXPECT_EQ(outcome_.stdout_text, *expected);
}

struct FaultCase {
  const char* name;
  const char* rule;
  const char* error;  ///< what the hardware reports too, except where it cannot notice
};
class ForeignFault : public ForeignProgram, public ::testing::WithParamInterface<FaultCase> {};

TEST_P(ForeignFault, IsReportedToBothSides) {
  run("faults", {GetParam().name});
  EXPECT_EQ(outcome_.stdout_text, std::string("launched\n") + GetParam().error + "\n");
  EXPECT_TRUE(outcome_.ok());
  ASSERT_TRUE(report_.fault);
  EXPECT_EQ(report_.fault->rule, GetParam().rule);
  EXPECT_THAT(report_.fault->place.file, HasSubstr("faults.cu"));
  EXPECT_NE(report_.fault->place.line, 0u);
  EXPECT_FALSE(report_.fault->remedy.empty());
}
INSTANTIATE_TEST_SUITE_P(Kinds, ForeignFault,
                         ::testing::Values(FaultCase{"trap", "launch.trap", "cudaErrorLaunchFailure"},
                                           FaultCase{"assert", "launch.assert", "cudaErrorAssert"},
                                           FaultCase{"misaligned", "memory.misaligned", "cudaErrorMisalignedAddress"},
                                           FaultCase{"wild", "memory.out-of-bounds", "cudaErrorIllegalAddress"},
                                           FaultCase{"beyond", "memory.out-of-bounds", "cudaErrorIllegalAddress"},
                                           FaultCase{"hang", "sync.deadlock", "cudaErrorLaunchTimeout"}),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_F(ForeignProgram, PrintsDeviceOutputAtSynchronisation) {
  run("faults", {"print"});
  EXPECT_EQ(outcome_.stdout_text, "launched\nhello from thread 0, text\ncudaSuccess\n");
}

TEST_F(ForeignProgram, ExitCodeIsTold) {
  run("host_conduct", {"exit"});
  EXPECT_EQ(outcome_.end, HostOutcome::End::exited);
  EXPECT_EQ(outcome_.exit_code, 3);
}

TEST_F(ForeignProgram, CrashIsAVerdict) {
  run("host_conduct", {"abort"});
  EXPECT_EQ(outcome_.end, HostOutcome::End::crashed);
  EXPECT_EQ(outcome_.signal, SIGABRT);
}

TEST_F(ForeignProgram, EndlessLoopIsStopped) {
  HostLimits limits;
  limits.wall = std::chrono::milliseconds(400);
  run("host_conduct", {"loop"}, limits);
  EXPECT_EQ(outcome_.end, HostOutcome::End::timed_out);
  limits.wall.reset();
  limits.cpu_seconds = 1;
  run("host_conduct", {"loop"}, limits);
  EXPECT_EQ(outcome_.end, HostOutcome::End::crashed);
}

TEST_F(ForeignProgram, TouchingDeviceMemoryIsFound) {
  run("host_conduct", {"touch"});
  EXPECT_EQ(outcome_.signal, SIGSEGV);
  EXPECT_THAT(diagnostic("memory.host-access"), HasSubstr("byte 0 of an allocation of 64 bytes"));
}

TEST_F(ForeignProgram, WorkLeftInStreamsIsFinished) {
  run("host_conduct", {"unsynchronised"});
  EXPECT_TRUE(outcome_.ok());
  EXPECT_EQ(report_.launches, 1u);
}

TEST_F(ForeignProgram, UnmodelledCallStopsWithItsName) {
  run("host_conduct", {"graph"});
  EXPECT_FALSE(outcome_.ok());
  EXPECT_EQ(outcome_.stdout_text, "");
  EXPECT_THAT(outcome_.stderr_text, StartsWith("ptxbench: unsupported.host-call: cudaGraphCreate"));
  EXPECT_THAT(report_.unsupported, ::testing::ElementsAre("cudaGraphCreate"));
}

TEST_F(ForeignProgram, HasNoNetwork) {
  run("host_conduct", {"network"});
  EXPECT_EQ(outcome_.stdout_text, "no network\n");
}

TEST_F(ForeignProgram, CannotReachItsParent) {
  run("host_conduct", {"parent"});
  EXPECT_EQ(outcome_.stdout_text, "1 1 1\n");
}

TEST_F(ForeignProgram, UntrustedCodeCanOnlyReadFiles) {
  const auto folder = base::TempDir::create("untrusted");
  ASSERT_TRUE(folder);
  const auto old = folder->path() / "old";
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator(folder->path()), {}); };
  ASSERT_TRUE(base::write_file_atomic(old, "as it was"));
  std::filesystem::permissions(old, std::filesystem::perms(0644));
  const auto written = std::filesystem::last_write_time(old);
  untrusted_ = true;
  run("host_conduct", {"files", folder->path().string()});
  EXPECT_EQ(outcome_.stdout_text, "read \n");
  EXPECT_EQ(base::read_file(old).value_or("gone"), "as it was");
  EXPECT_EQ(std::filesystem::status(old).permissions(), std::filesystem::perms(0644));
  EXPECT_EQ(std::filesystem::last_write_time(old), written);
  EXPECT_EQ(files(), 1);
  // A program of the user's own may do all of that, so the attempts are real ones.
  untrusted_ = false;
  run("host_conduct", {"files", folder->path().string()});
  EXPECT_EQ(outcome_.stdout_text,
            "read write update create create-for-reading temporary truncate-open truncate fopen append folder symlink "
            "link fifo mode mode-of-descriptor times socket rename remove \n");
}

TEST_F(ForeignProgram, UntrustedCodeStaysInItsProcessGroup) {
  untrusted_ = true;
  run("host_conduct", {"group"});
  EXPECT_EQ(outcome_.stdout_text, "0\n");
  untrusted_ = false;
  run("host_conduct", {"group"});
  EXPECT_NE(outcome_.stdout_text, "0\n");
}

TEST_F(ForeignProgram, MemoryIsLimited) {
  run("host_conduct", {"memory"});
  EXPECT_EQ(outcome_.stdout_text, "refused\n");
}

TEST_F(ForeignProgram, ForkedChildIsRefusedAndParentGoesOn) {
  run("host_conduct", {"fork"});
  EXPECT_EQ(outcome_.stdout_text, "cudaSuccess\n");
  EXPECT_TRUE(outcome_.ok());
}

TEST_F(ForeignProgram, OldStyleRunPathNeedsPreload) {
  const auto info = check_program(program("rpath"));
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->needs_preload);
  run("rpath", {"unsynchronised"});
  EXPECT_TRUE(outcome_.ok()) << outcome_.stderr_text;
  EXPECT_EQ(report_.launches, 1u);
}

TEST_F(ForeignProgram, CompressedImagesWork) {
  run("compressed", {"unsynchronised"});
  EXPECT_EQ(report_.launches, 1u);
}

TEST(ForeignProgramCheck, RefusesWithTheFlagToUse) {
  const auto fixed = check_program(program("static_runtime"));
  ASSERT_FALSE(fixed);
  EXPECT_EQ(fixed.error().kind, ErrorKind::input);
  EXPECT_THAT(fixed.error().message, HasSubstr("-cudart shared"));
  const auto bare = check_program(program("no_ptx"));
  ASSERT_FALSE(bare);
  EXPECT_THAT(bare.error().message, HasSubstr("-gencode arch=compute_90a,code=[sm_90a,compute_90a]"));
}

}  // namespace
}  // namespace ptxbench::cuda_shim
