// The program as its user meets it: exit codes, messages, `doctor`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/process.h"

namespace ptxbench {
namespace {

using ::testing::HasSubstr;

base::ProcessResult ptxbench_with(std::map<std::string, std::optional<std::string>> environment,
                                  std::vector<std::string> arguments) {
  base::ProcessOptions options;
  // Beside this test, in a build folder as in a bundle.
  options.argv = {(base::executable_path().value().parent_path() / "ptxbench").string()};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment = std::move(environment);
  options.wall_limit = std::chrono::seconds(60);
  auto result = base::run_process(options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : base::ProcessResult{};
}

base::ProcessResult ptxbench(std::vector<std::string> arguments) { return ptxbench_with({}, std::move(arguments)); }

TEST(CommandLine, VersionAndHelpSucceed) {
  const auto version = ptxbench({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.stdout_text, ::testing::StartsWith("ptxbench "));
  const auto help = ptxbench({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.stdout_text, HasSubstr("doctor"));
  EXPECT_THAT(help.stdout_text, HasSubstr("Exit codes"));
}

TEST(CommandLine, NoCommandShowsHelpAndIsAUsageError) {
  const auto result = ptxbench({});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.stderr_text, HasSubstr("Usage"));
}

TEST(CommandLine, UnknownCommandIsAUsageErrorWithAHint) {
  const auto result = ptxbench({"docter"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.stderr_text, HasSubstr("did you mean 'doctor'?"));
  EXPECT_EQ(result.stdout_text, "");
}

TEST(CommandLine, UnknownOptionIsAUsageError) {
  const auto result = ptxbench({"doctor", "--no-such-option"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.stderr_text, HasSubstr("--no-such-option"));
}

TEST(CommandLine, OptionsMayStandBeforeTheFile) {
  // Every option that may be repeated, with the file behind it: the file is missing, and that is what is said.
  for (const char* command : {"eval", "check"}) {
    for (const auto& option : std::vector<std::vector<std::string>>{
             {"--data", "problems"}, {"--workload", "94920358"}, {"--axis", "M=64"}}) {
      std::vector<std::string> arguments = {command, "-p", "gemm_n7168_k5120"};
      arguments.insert(arguments.end(), option.begin(), option.end());
      arguments.emplace_back("no-such-kernel.cu");
      const auto result = ptxbench(arguments);
      EXPECT_EQ(result.exit_code, 2) << command << " " << option[0];
      EXPECT_THAT(result.stderr_text, HasSubstr("no-such-kernel.cu")) << command << " " << option[0];
      EXPECT_THAT(result.stderr_text, ::testing::Not(HasSubstr("required"))) << command << " " << option[0];
    }
  }
  for (const auto& option : std::vector<std::vector<std::string>>{{"--policies", "eager,lazy"}, {"--replay", "3"}}) {
    std::vector<std::string> arguments = {"check", "-p", "gemm_n7168_k5120"};
    arguments.insert(arguments.end(), option.begin(), option.end());
    arguments.emplace_back("no-such-kernel.cu");
    const auto result = ptxbench(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.stderr_text, HasSubstr("no-such-kernel.cu")) << option[0];
  }
}

TEST(CommandLine, ProblemsShowWhatRunsByDefault) {
  const auto attention = ptxbench({"problems", "show", "mha_bwd_d64"});
  EXPECT_EQ(attention.exit_code, 0);
  const std::string& text = attention.stdout_text;
  const std::size_t checks = text.find("checks:");
  ASSERT_NE(checks, std::string::npos) << text;
  EXPECT_THAT(text.substr(checks), HasSubstr("B=1 H=2 S=512"));
  EXPECT_THAT(text.substr(checks), HasSubstr("default"));
  EXPECT_THAT(text.substr(0, checks), ::testing::Not(HasSubstr("default")));
  EXPECT_THAT(text, HasSubstr("d3bcb902-6a13-5ada-9251-fa841b10cd0b  S=4096"));
  const auto gemm = ptxbench({"problems", "show", "gemm_n7168_k5120"});
  EXPECT_THAT(gemm.stdout_text, ::testing::Not(HasSubstr("checks:")));
  EXPECT_THAT(gemm.stdout_text, HasSubstr("default"));
}

TEST(CommandLine, ProblemsWritesAndValidatesTensors) {
  const auto folder = base::TempDir::create();
  ASSERT_TRUE(folder);
  const std::string file = (folder->path() / "x.safetensors").string();
  auto result = ptxbench({"problems", "tensors", "--axis", "M=3", "--truth", "gemm_n128_k2048", file});
  EXPECT_EQ(result.exit_code, 0) << result.stderr_text;
  EXPECT_THAT(result.stdout_text, HasSubstr("3 tensors of gemm_n128_k2048 M=3"));
  const auto bytes = base::read_file(file);
  ASSERT_TRUE(bytes);
  EXPECT_GT(bytes->size(), 2u * (3 + 128) * 2048 + 4u * 3 * 128);
  EXPECT_THAT(bytes->substr(8, 400), HasSubstr("\"definition\":\"gemm_n128_k2048\""));
  result = ptxbench({"problems", "tensors", "mha_bwd_d64", file});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.stderr_text, HasSubstr("choose one with --workload"));

  result = ptxbench({"problems", "validate", folder->path().string()});
  EXPECT_EQ(result.exit_code, 2) << "not a problem folder at all";
  std::filesystem::create_directories(folder->path() / "definitions");
  result = ptxbench({"problems", "validate", folder->path().string()});
  EXPECT_EQ(result.exit_code, 0) << result.stdout_text;
  std::ofstream(folder->path() / "definitions/d.json") << "{";
  result = ptxbench({"problems", "validate", "--json", folder->path().string()});
  EXPECT_EQ(result.exit_code, 1);
  const auto report = base::parse_json(result.stdout_text, "output");
  ASSERT_TRUE(report) << result.stdout_text;
  EXPECT_EQ((*report)["errors"], 1);
  EXPECT_THAT((*report)["remarks"][0]["message"].get<std::string>(), HasSubstr("d.json"));
}

TEST(CommandLine, OutputThatCannotBeWrittenIsThree) {
  const std::string program = (base::executable_path().value().parent_path() / "ptxbench").string();
  for (const char* command : {"--version", "--help", "problems", "problems --json", "doctor --json"}) {
    base::ProcessOptions options;
    options.argv = {"sh", "-c", "\"$0\" " + std::string(command) + " >/dev/full", program};
    const auto result = base::run_process(options);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 3) << command;
    EXPECT_THAT(result->stderr_text, HasSubstr("cannot write the output: No space left on device")) << command;
  }
}

const base::Json* find_check(const base::Json& report, const std::string& name) {
  for (const auto& check : report["checks"]) {
    if (check["name"] == name) return &check;
  }
  return nullptr;
}

TEST(Doctor, JsonNamesEveryCheck) {
  const auto result = ptxbench({"doctor", "--json"});
  const auto report = base::parse_json(result.stdout_text, "doctor");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ((*report)["schema"], "ptxbench.doctor/1");
  EXPECT_EQ((*report)["ok"] == true, result.exit_code == 0);
  for (const char* name : {"processor", "home folder", "cache folder", "nvcc", "ptxas", "CUDA runtime", "host compiler",
                           "TVM-FFI", "cuobjdump", "nvdisasm", "compute-sanitizer", "NVIDIA driver", "GPU"}) {
    const base::Json* check = find_check(*report, name);
    ASSERT_NE(check, nullptr) << name;
    // What is missing always comes with what to do.
    EXPECT_NE((*check)["found"].get<bool>(), check->contains("remedy")) << name;
  }
}

TEST(Doctor, MissingToolkitIsNamedWithItsRemedyAndExitCode) {
  const base::TempDir home = base::TempDir::create().value();
  const std::map<std::string, std::optional<std::string>> bare = {{"PTXBENCH_HOME", home.path().string()},
                                                                  {"PTXBENCH_FORCE_WHEEL_CUDA", "1"}};
  const auto result = ptxbench_with(bare, {"doctor", "--json"});
  EXPECT_EQ(result.exit_code, 3);
  const auto report = base::parse_json(result.stdout_text, "doctor");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ((*report)["ok"], false);
  EXPECT_EQ((*find_check(*report, "nvcc"))["found"], false);
  EXPECT_THAT((*find_check(*report, "nvcc"))["remedy"].get<std::string>(), HasSubstr("scripts/setup.sh"));
  const auto text = ptxbench_with(bare, {"doctor"});
  EXPECT_EQ(text.exit_code, 3);
  EXPECT_THAT(text.stdout_text, HasSubstr("MISSING  nvcc"));
  EXPECT_THAT(text.stdout_text, ::testing::Not(HasSubstr("\x1b["))) << "no colours in a pipe";
}

TEST(Doctor, UnwritableCacheIsFound) {
  const auto result = ptxbench_with({{"PTXBENCH_CACHE", "/proc/no-such-folder"}}, {"doctor"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.stdout_text, HasSubstr("MISSING  cache folder"));
  EXPECT_THAT(result.stdout_text, HasSubstr("PTXBENCH_CACHE"));
}

class Experiments : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(base::write_file_atomic(folder_.path() / name, text));
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  base::TempDir folder_ = base::TempDir::create().value();
};

TEST_F(Experiments, ModelsAreListedAndSayWhatTheyLack) {
  write("m.toml",
        "[models.a]\nprovider = \"openai\"\nmodel = \"x\"\nkey_variable = \"PTXBENCH_NO_SUCH_VARIABLE\"\n"
        "[models.r]\nprovider = \"replay\"\nanswers = \"answers\"\n");
  write("answers/1.md", "ready");
  const auto list = ptxbench({"models", "list", "--json", "--models", path("m.toml")});
  EXPECT_EQ(list.exit_code, 0) << list.stderr_text;
  const auto report = base::parse_json(list.stdout_text, "list");
  ASSERT_TRUE(report) << list.stdout_text;
  EXPECT_EQ((*report)["models"].size(), 2u);
  EXPECT_THAT((*report)["models"][0]["missing"].get<std::string>(), HasSubstr("PTXBENCH_NO_SUCH_VARIABLE"));
  EXPECT_EQ((*report)["models"][1]["missing"], nullptr);
  const auto missing = ptxbench({"models", "check", "a", "--models", path("m.toml")});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.stderr_text, HasSubstr("PTXBENCH_NO_SUCH_VARIABLE"));
  const auto check = ptxbench({"models", "check", "r", "--models", path("m.toml")});
  EXPECT_EQ(check.exit_code, 0) << check.stderr_text;
  EXPECT_THAT(check.stdout_text, HasSubstr("ready"));
  const auto unknown = ptxbench({"models", "check", "b", "--models", path("m.toml")});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.stderr_text, HasSubstr("configured are a, r"));
}

TEST_F(Experiments, OneIsPlannedRunLookedAtExportedAndImported) {
  // Answers without a candidate: no compiler is needed.
  write("answers/1.md", "I have to think about it.");
  write("answers/2.md", "It is hard.");
  write("e.toml",
        "name = \"e\"\nturns = 3\nreplicas = 2\nproblems = [\"gemm_n128_k2048\"]\n"
        "[models.r]\nprovider = \"replay\"\nanswers = \"answers\"\n");
  const auto plan = ptxbench({"run", path("e.toml"), "--dry-run"});
  EXPECT_EQ(plan.exit_code, 0) << plan.stderr_text;
  EXPECT_THAT(plan.stdout_text, HasSubstr("2 trajectories of at most 3 turns"));
  const auto run = ptxbench({"run", path("e.toml"), "--out", path("out")});
  EXPECT_EQ(run.exit_code, 0) << run.stderr_text;
  EXPECT_THAT(run.stdout_text, HasSubstr("2 of 2 trajectories done"));
  EXPECT_THAT(run.stdout_text, HasSubstr("0 of 4 turns correct"));
  EXPECT_THAT(run.stdout_text, HasSubstr("cost unknown"));
  const auto again = ptxbench({"run", path("e.toml"), "--out", path("out")});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.stderr_text, HasSubstr("--resume"));
  EXPECT_EQ(ptxbench({"run", path("e.toml"), "--out", path("out"), "--resume"}).exit_code, 0);
  EXPECT_EQ(ptxbench({"run", path("e.toml"), "--resume"}).exit_code, 2) << "which folder?";
  const auto show = ptxbench({"trajectories", "show", path("out/trajectories/exp_001.jsonl")});
  EXPECT_EQ(show.exit_code, 0) << show.stderr_text;
  EXPECT_THAT(show.stdout_text, HasSubstr("Extraction error"));
  EXPECT_EQ(ptxbench({"trajectories", "export", path("out"), "--to", path("reference")}).exit_code, 0);
  const auto imported = ptxbench({"trajectories", "import", path("reference"), "--to", path("back")});
  EXPECT_EQ(imported.exit_code, 0) << imported.stderr_text;
  EXPECT_THAT(imported.stdout_text, HasSubstr("2 trajectories with 4 turns"));
}

TEST_F(Experiments, AMistakeInTheFileIsNamedWithItsLine) {
  write("e.toml", "name = \"e\"\nturn = 3\nmodels_used = [\"r\"]\nproblems = [\"gemm_n128_k2048\"]\n");
  const auto wrong = ptxbench({"run", path("e.toml"), "--dry-run"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.stderr_text, HasSubstr("e.toml:2: unknown key 'turn'; did you mean 'turns'?"));
  write("e.toml", "name = \"e\"\nmodels_used = [\"r\"]\nproblems = [\"gemm_n128_k2048\"]\n");
  const auto unknown = ptxbench({"run", path("e.toml"), "--dry-run"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.stderr_text, HasSubstr("no model 'r'"));
}

}  // namespace
}  // namespace ptxbench
