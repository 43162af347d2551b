// `ptxbench emulate`: what it prints and the exit codes it promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/process.h"

namespace ptxbench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string program(const std::string& name) { return std::string(PTXBENCH_TEST_PROGRAMS "/") + name; }

base::ProcessResult command(const std::string& name, std::vector<std::string> arguments) {
  base::ProcessOptions options;
  options.argv = {PTXBENCH_PROGRAM, name};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.wall_limit = std::chrono::seconds(100);
  auto result = base::run_process(options);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(base::ProcessResult());
}

base::ProcessResult emulate(std::vector<std::string> arguments) { return command("emulate", std::move(arguments)); }

TEST(EmulateCommand, PrintsTheProgramsOutputUnchanged) {
  const auto result = emulate({"--", program("faults"), "print"});
  EXPECT_EQ(result.stdout_text, "launched\nhello from thread 0, text\ncudaSuccess\n");
  EXPECT_THAT(result.stderr_text, HasSubstr("1 launch, "));
  EXPECT_THAT(result.stderr_text, HasSubstr("unsupported: none"));
  EXPECT_EQ(result.exit_code, 0);
}

TEST(EmulateCommand, DescribesAFault) {
  const auto result = emulate({"--", program("faults"), "beyond"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.stderr_text, HasSubstr("memory.out-of-bounds in kernel"));
  EXPECT_THAT(result.stderr_text, HasSubstr("faults.cu:"));
  EXPECT_THAT(result.stderr_text, HasSubstr("instruction: st.volatile.global.u32"));
  EXPECT_THAT(result.stderr_text, HasSubstr("remedy: "));
}

TEST(EmulateCommand, ReportsADeadlockAtOnce) {
  const auto result = emulate({"--schedule", "lazy", "--", program("faults"), "hang"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.stderr_text, HasSubstr("sync.deadlock"));
}

TEST(EmulateCommand, StopsAnEndlessKernel) {
  const auto start = std::chrono::steady_clock::now();
  const auto result = emulate({"--timeout", "1", "--", program("faults"), "endless"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.stderr_text, HasSubstr("a kernel was still executing and was stopped"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(EmulateCommand, ExitCodeFollowsTheProgram) {
  EXPECT_EQ(emulate({"--quiet", "--", program("host_conduct"), "unsynchronised"}).exit_code, 0);
  const auto failed = emulate({"--", program("host_conduct"), "exit"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.stderr_text, HasSubstr("exited with code 3"));
  const auto stopped = emulate({"--timeout", "0.5", "--", program("host_conduct"), "loop"});
  EXPECT_EQ(stopped.exit_code, 1);
  EXPECT_THAT(stopped.stderr_text, HasSubstr("was stopped after"));
}

TEST(EmulateCommand, RefusesWhatItCannotRun) {
  for (const auto& [path, text] :
       std::vector<std::pair<std::string, std::string>>{{program("static_runtime"), "-cudart shared"},
                                                        {program("no_ptx"), "code=[sm_90a,compute_90a]"},
                                                        {"/nonexistent/program", "cannot open program"},
                                                        {"no-such-program-anywhere", "in PATH"},
                                                        {"tests/cuda_shim/programs/faults.cu", "compile it first"}}) {
    const auto result = emulate({"--", path});
    EXPECT_EQ(result.exit_code, 2) << path;
    EXPECT_THAT(result.stderr_text, HasSubstr(text));
    EXPECT_EQ(result.stdout_text, "");
  }
  EXPECT_EQ(emulate({}).exit_code, 2);
}

TEST(EmulateCommand, RunsWrappersThatStartPrograms) {
  const auto result =
      emulate({"--", "sh", "-c", program("faults") + " print; " + program("host_conduct") + " unsynchronised"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.stdout_text, HasSubstr("hello from thread 0"));
  EXPECT_THAT(result.stderr_text, HasSubstr("2 launches, "));
}

TEST(EmulateCommand, ProgramsWithoutCudaAreJustRun) {
  const auto result = emulate({"--", "echo", "one two"});
  EXPECT_EQ(result.stdout_text, "one two\n");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.stderr_text, HasSubstr("0 launches"));
}

TEST(CheckCommand, RunsAProgramAgainToFollowWhatNobodyWrote) {
  const auto undefined = command("check", {"--", program("faults"), "undefined"});
  EXPECT_EQ(undefined.exit_code, 1);
  EXPECT_THAT(undefined.stdout_text, HasSubstr("memory.uninitialised in "));
  EXPECT_THAT(undefined.stdout_text, HasSubstr("a branch depends on global memory nobody wrote"));
  EXPECT_THAT(undefined.stdout_text, HasSubstr("allocation of 64 bytes + 0x4 (4 bytes)"));
  EXPECT_THAT(undefined.stdout_text, HasSubstr("launched\ncudaSuccess\n"));
  EXPECT_EQ(undefined.stdout_text.find("launched"), undefined.stdout_text.rfind("launched"));
  const auto set = command("check", {"--", program("faults"), "set"});
  EXPECT_EQ(set.exit_code, 0) << set.stdout_text;
}

}  // namespace
}  // namespace ptxbench
