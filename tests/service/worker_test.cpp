// `ptxbench worker` itself: a line in, a line out.

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"
#include "programs.h"

namespace ptxbench::service {
namespace {

using base::Json;

std::string source(const std::string& name) {
  return base::read_file("tests/evaluation/candidates/" + name).value_or("");
}

/// The answers to these lines, by id; progress left out.
std::map<int, Json> answers(const std::vector<std::string>& lines, int exit_code = 0) {
  base::ProcessOptions options;
  options.argv = {ptxbench_program(), "worker"};
  options.environment["PTXBENCH_CACHE"] = TEST_CACHE;
  options.wall_limit = std::chrono::minutes(2);
  for (const std::string& line : lines) options.stdin_text += line + "\n";
  const auto result = base::run_process(options);
  EXPECT_TRUE(result);
  EXPECT_EQ(result->exit_code, exit_code) << result->stderr_text;
  std::map<int, Json> out;
  for (const std::string_view line : base::split_lines(result->stdout_text)) {
    const auto json = base::parse_json(line, "answer");
    EXPECT_TRUE(json) << line;
    if (!json || json->contains("progress")) continue;
    out[json->at("id").is_number() ? json->at("id").get<int>() : -1] = *json;
  }
  return out;
}

Json request(int id, const char* kind, const std::string& text, const Json& more = Json::object()) {
  Json json{{"id", id},
            {"kind", kind},
            {"source", text},
            {"definition", "gemm_small"},
            {"data", Json::array({"tests/service/data"})}};
  json.update(more);
  return json;
}

TEST(Worker, EvaluatesChecksAndPrepares) {
  const std::string kernel = source("device_faults.cu");
  const Json seven{{"axes", {{"M", 7}}}}, eight{{"workloads", Json::array({"5e0c5c5e-0008"})}};
  Json screen = eight;
  screen["screen"] = true;
  Json required = eight;
  required["options"] = Json{{"require", Json::array({"target"})}};
  Json seven_screened{{"axes", {{"M", 7}}}, {"screen", true}, {"options", {{"require", Json::array({"target"})}}}};
  const auto all = answers(
      {request(1, "evaluate", kernel, seven).dump(), request(2, "evaluate", kernel, eight).dump(),
       request(3, "check", kernel, seven).dump(), request(4, "prepare", kernel, eight).dump(),
       request(5, "prepare", kernel, screen).dump(), request(6, "prepare", source("compile_error.cu"), seven).dump(),
       request(7, "prepare", kernel, seven_screened).dump(), Json{{"id", 8}, {"kind", "probe"}}.dump()});
  ASSERT_EQ(all.size(), 8U);
  EXPECT_EQ(all.at(1).at("evaluation").at("verdict").at("status"), "passed");
  EXPECT_NE(all.at(1).at("text").get<std::string>().find("verdict: passed"), std::string::npos);
  EXPECT_EQ(all.at(2).at("evaluation").at("verdict").at("status"), "failed");
  EXPECT_EQ(all.at(3).at("check").at("schema"), "ptxbench.check/1");
  // It compiles, which is all that was asked; on the emulator it is wrong.
  EXPECT_EQ(all.at(4).value("prepared", false), true) << all.at(4);
  EXPECT_EQ(all.at(5).at("evaluation").at("verdict").at("status"), "failed") << all.at(5);
  EXPECT_EQ(all.at(6).at("evaluation").at("stages").at(0).at("status"), "failed");
  // What is required of the result is for the GPU to show.
  EXPECT_EQ(all.at(7).value("prepared", false), true) << all.at(7);
  EXPECT_EQ(all.at(8).at("ready"), true);
}

TEST(Worker, SaysWhatIsWrongAndGoesOn) {
  const auto all =
      answers({request(1, "dance", "").dump(), "no json", "[]", "",
               request(2, "evaluate", "", {{"definition", "gem_small"}, {"axes", {{"M", 7}}}}).dump(),
               request(3, "evaluate", "", {{"axes", {{"M", "seven"}}}}).dump(), request(4, "evaluate", "").dump(),
               request(5, "evaluate", "", {{"data", Json::array({"no/such/root"})}, {"axes", {{"M", 7}}}}).dump(),
               Json{{"id", 6}, {"kind", "probe"}, {"backend", "cloud"}}.dump(),
               request(7, "evaluate", "", {{"axes", {{"M", 7}}}, {"options", {{"seed", -1}}}}).dump()});
  const std::map<int, std::string> says{
      {1, "dance"},        {-1, "object"}, {2, "gemm_small"},  {3, "request.axes.M"}, {4, "'workloads' or 'axes'"},
      {5, "no/such/root"}, {6, "cloud"},   {7, "options.seed"}};
  for (const auto& [id, text] : says) {
    ASSERT_TRUE(all.contains(id)) << id;
    const Json& error = all.at(id).at("error");
    EXPECT_EQ(error.at("kind"), "input") << error;
    EXPECT_NE(error.at("message").get<std::string>().find(text), std::string::npos) << error;
  }
}

TEST(Worker, IsNotShownToPeople) {
  base::ProcessOptions options;
  options.argv = {ptxbench_program(), "--help"};
  const auto help = base::run_process(options);
  ASSERT_TRUE(help);
  EXPECT_NE(help->stdout_text.find("serve"), std::string::npos);
  EXPECT_EQ(help->stdout_text.find("worker "), std::string::npos) << help->stdout_text;
}

}  // namespace
}  // namespace ptxbench::service
