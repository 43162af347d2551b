#include "base/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/text.h"

namespace ptxbench::base {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

ProcessOptions shell(std::string script) {
  ProcessOptions options;
  options.argv = {"sh", "-c", std::move(script)};
  return options;
}

ProcessResult run(const ProcessOptions& options) {
  auto result = run_process(options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : ProcessResult{};
}

bool is_running(pid_t pid) {
  if (::kill(pid, 0) != 0) return false;
  // A killed orphan may stay a zombie until init collects it: that is not running.
  const auto status = read_file("/proc/" + std::to_string(pid) + "/stat");
  if (!status) return false;
  const std::size_t state = status->rfind(')') + 2;
  return state < status->size() && (*status)[state] != 'Z';
}

class Process : public ::testing::Test {
 protected:
  void TearDown() override {
    errno = 0;
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
    EXPECT_EQ(errno, ECHILD);
  }
};

TEST_F(Process, CapturesStreamsAndExitCode) {
  const auto result = run(shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(result.stdout_text, "out\n");
  EXPECT_EQ(result.stderr_text, "err\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.signal, 0);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.outcome(), "exited with code 3");
  EXPECT_GT(result.max_rss_bytes, 0U);
}

TEST_F(Process, ArgumentsAreNotInterpreted) {
  ProcessOptions options;
  options.argv = {"printf", "%s|", "a b", "$HOME", "*", ""};
  EXPECT_EQ(run(options).stdout_text, "a b|$HOME|*||");
}

TEST_F(Process, ReportsSignals) {
  const auto result = run(shell("kill -SEGV $$"));
  EXPECT_EQ(result.signal, SIGSEGV);
  EXPECT_EQ(result.exit_code, -1);
  EXPECT_THAT(result.outcome(), HasSubstr("signal 11"));
}

TEST_F(Process, MissingProgramIsAnError) {
  ProcessOptions options;
  options.argv = {"ptxbench-no-such-program"};
  auto result = run_process(options);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("ptxbench-no-such-program"));
  options.argv = {"/no/such/program"};
  result = run_process(options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::infrastructure);
  EXPECT_THAT(result.error().message, HasSubstr("No such file"));
  options.argv.clear();
  EXPECT_FALSE(run_process(options));
}

TEST_F(Process, WrongWorkingFolderIsAnError) {
  ProcessOptions options = shell("true");
  options.working_directory = "/no/such/folder";
  const auto result = run_process(options);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("/no/such/folder"));
}

TEST_F(Process, EnvironmentAndWorkingFolder) {
  const TempDir folder = TempDir::create().value();
  ::setenv("PTXBENCH_TEST_GONE", "here", 1);
  ProcessOptions options = shell("echo \"$A|${PTXBENCH_TEST_GONE-unset}|$(pwd)\"");
  options.environment = {{"A", "x=y"}, {"PTXBENCH_TEST_GONE", std::nullopt}};
  options.working_directory = folder.path();
  EXPECT_EQ(run(options).stdout_text, "x=y|unset|" + folder.path().string() + "\n");
  ::unsetenv("PTXBENCH_TEST_GONE");

  ProcessOptions bare;
  bare.argv = {"env"};
  bare.clear_environment = true;
  bare.environment = {{"ONLY", "1"}};
  EXPECT_EQ(run(bare).stdout_text, "ONLY=1\n");
}

TEST_F(Process, StandardInputBothWaysAtOnce) {
  ProcessOptions options;
  options.argv = {"cat"};
  options.stdin_text = std::string(3'000'000, 'x');
  EXPECT_EQ(run(options).stdout_text, options.stdin_text);
}

TEST_F(Process, ChildThatIgnoresItsInput) {
  ProcessOptions options = shell("exec <&-; echo done");
  options.stdin_text = std::string(3'000'000, 'x');
  EXPECT_EQ(run(options).stdout_text, "done\n");
}

TEST_F(Process, EmptyInputIsAnEndOfFile) {
  ProcessOptions options;
  options.argv = {"cat"};
  options.wall_limit = 5s;
  EXPECT_TRUE(run(options).ok());
}

TEST_F(Process, OutputIsCapped) {
  ProcessOptions options = shell("head -c 1000000 /dev/zero; head -c 2000 /dev/zero >&2");
  options.max_stdout_bytes = 1000;
  options.max_stderr_bytes = 2000;
  const auto result = run(options);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.stdout_text.size(), 1000U);
  EXPECT_TRUE(result.stdout_truncated);
  EXPECT_EQ(result.stderr_text.size(), 2000U);
  EXPECT_FALSE(result.stderr_truncated);
}

TEST_F(Process, WallLimitEndsSleepers) {
  ProcessOptions options = shell("echo before; sleep 60");
  options.wall_limit = 200ms;
  const auto result = run(options);
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.stdout_text, "before\n");
  EXPECT_LT(result.elapsed_seconds, 10);
  EXPECT_THAT(result.outcome(), HasSubstr("was stopped after"));
}

TEST_F(Process, WallLimitEndsEndlessWriters) {
  ProcessOptions options;
  options.argv = {"yes"};
  options.wall_limit = 200ms;
  options.max_stdout_bytes = 10;
  const auto result = run(options);
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.stdout_text, "y\ny\ny\ny\ny\n");
  EXPECT_LT(result.elapsed_seconds, 10);
}

TEST_F(Process, DescendantsDieWithTheChild) {
  const auto result = run(shell("sleep 60 & echo $!"));
  EXPECT_TRUE(result.ok());
  EXPECT_LT(result.elapsed_seconds, 10);
  const auto pid = parse_u64(trim(result.stdout_text));
  ASSERT_TRUE(pid);
  for (int i = 0; i < 100 && is_running(static_cast<pid_t>(*pid)); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(is_running(static_cast<pid_t>(*pid)));
}

TEST_F(Process, DescendantOutsideTheGroupDoesNotHoldUs) {
  const auto start = std::chrono::steady_clock::now();
  const auto result = run(shell("setsid sh -c 'echo $$; sleep 5' & sleep 0.2"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 4s);
  EXPECT_TRUE(result.ok());
  const auto pid = parse_u64(trim(result.stdout_text));
  ASSERT_TRUE(pid) << result.stdout_text;
  ::kill(-static_cast<pid_t>(*pid), SIGKILL);
}

TEST_F(Process, CancelFromAnotherThread) {
  std::stop_source source;
  ProcessOptions options = shell("sleep 60");
  options.cancel = source.get_token();
  std::jthread stopper([&] {
    std::this_thread::sleep_for(100ms);
    source.request_stop();
  });
  const auto result = run(options);
  EXPECT_TRUE(result.cancelled);
  EXPECT_LT(result.elapsed_seconds, 10);
}

TEST_F(Process, FileSizeLimit) {
  const TempDir folder = TempDir::create().value();
  ProcessOptions options;
  options.argv = {"dd", "if=/dev/zero", "of=big", "bs=1000", "count=100"};
  options.working_directory = folder.path();
  options.limits.file_size_bytes = 5000;
  EXPECT_FALSE(run(options).ok());
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "big"), 5000U);
}

TEST_F(Process, CpuLimitEndsLoops) {
  ProcessOptions options = shell("while :; do :; done");
  options.limits.cpu_seconds = 1;
  options.wall_limit = 60s;
  const auto result = run(options);
  EXPECT_FALSE(result.timed_out);
  EXPECT_TRUE(result.signal == SIGXCPU || result.signal == SIGKILL) << result.outcome();
  EXPECT_LT(result.cpu_seconds, 5);
}

TEST_F(Process, AddressSpaceLimit) {
  ProcessOptions options;
  options.argv = {"sh", "-c", "ulimit -v"};
  options.limits.address_space_bytes = std::uint64_t{512} << 20;
  EXPECT_EQ(trim(run(options).stdout_text), "524288");
}

TEST_F(Process, NoCoreDumps) { EXPECT_EQ(trim(run(shell("ulimit -c")).stdout_text), "0"); }

TEST_F(Process, OnlyNamedDescriptorsReachTheChild) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  // High numbers, which the shell does not use itself; without close-on-exec, on purpose.
  for (int& end : ends) {
    const int low = std::exchange(end, ::fcntl(end, F_DUPFD, 100));
    ::close(low);
    ASSERT_GE(end, 100);
  }
  ProcessOptions options = shell("for f in /proc/$$/fd/*; do echo ${f##*/}; done");
  const std::string write_end = std::to_string(ends[1]);
  options.inherited_fds = {ends[1]};
  std::vector<std::string> open_fds;
  const std::string listing = run(options).stdout_text;
  for (const auto line : split_lines(listing)) open_fds.emplace_back(line);
  EXPECT_THAT(open_fds, ::testing::Contains(write_end));
  EXPECT_THAT(open_fds, ::testing::Not(::testing::Contains(std::to_string(ends[0]))));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(Process, SandboxHookCanRefuse) {
  ProcessOptions options = shell("true");
  options.before_exec = [] { return EPERM; };
  const auto refused = run_process(options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("sandbox"));
  options.before_exec = [] { return 0; };
  EXPECT_TRUE(run(options).ok());
}

TEST_F(Process, StartIsAnnounced) {
  pid_t seen = 0;
  ProcessOptions options = shell("echo $$");
  options.on_started = [&](pid_t pid) { seen = pid; };
  const auto result = run(options);
  EXPECT_EQ(trim(result.stdout_text), std::to_string(seen));
}

TEST_F(Process, ManyAtOnce) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int j = 0; j < 5; ++j) EXPECT_EQ(run(shell("exit " + std::to_string(i))).exit_code, i);
    });
  }
}

TEST(FindProgram, SearchesThePath) {
  EXPECT_TRUE(find_program("sh"));
  EXPECT_FALSE(find_program("ptxbench-no-such-program"));
  EXPECT_FALSE(find_program(""));
  const TempDir folder = TempDir::create().value();
  ASSERT_TRUE(write_file_atomic(folder.path() / "tool", "#!/bin/sh\n"));
  EXPECT_FALSE(find_program("tool", folder.path().string())) << "not executable yet";
  std::filesystem::permissions(folder.path() / "tool", std::filesystem::perms::owner_all);
  EXPECT_EQ(find_program("tool", "/nowhere:" + folder.path().string()), folder.path() / "tool");
  EXPECT_FALSE(find_program(folder.path().string())) << "a folder is no program";
}

}  // namespace
}  // namespace ptxbench::base
