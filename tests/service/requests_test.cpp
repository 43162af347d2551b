#include "service/requests.h"

#include <gtest/gtest.h>

namespace ptxbench::service {
namespace {

using base::Json;

Solution demo() {
  Solution solution;
  solution.name = "eval_kernel";
  solution.definition = "gemm_n7168_k5120";
  solution.language = "cuda";
  solution.entry_point = "kernel.cu::run";
  solution.binding = "tvm-ffi";
  solution.target_hardware = {"H100"};
  solution.sources = {{"kernel.cu", "// demo\n"}};
  return solution;
}

Json body() {
  return Json::parse(R"({"solution":{"name":"k","definition":"gemm_small","author":"a",
    "spec":{"language":"cuda","target_hardware":["H100"],"entry_point":"kernel.cu::run"},
    "sources":[{"path":"kernel.cu","content":"x"}]}})");
}

/// "body.solution.name: missing" for each error.
std::string errors_of(const Json& json, TaskKind kind = TaskKind::evaluate) {
  BodyErrors errors;
  read_submit_request(kind, json, errors);
  std::string text;
  for (const Json& error : errors.list()) {
    std::string place;
    for (const Json& part : error.at("loc")) {
      const std::string name = part.is_string() ? part.get<std::string>() : part.dump();
      place += fmt::format("{}{}", place.empty() ? "" : ".", name);
    }
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", place, error.at("type").get<std::string>());
  }
  return text;
}

TEST(Solution, HashesAsTheFormatPrescribes) {
  Solution solution = demo();
  EXPECT_EQ(solution.hash(), "9a6e57930aec57d2f6ed80a29529a3d614837665");
  EXPECT_EQ(solution.normalised_name(), "eval_kernel_9a6e5793");
  solution.binding.reset();
  EXPECT_EQ(solution.hash(), "bbb58513fff3054d2cda9524679a621cb741831b");
  // Name, author and hardware are not covered.
  solution.author = "else";
  solution.name = "other";
  solution.target_hardware = {"H200"};
  EXPECT_EQ(solution.hash(), "bbb58513fff3054d2cda9524679a621cb741831b");
}

TEST(Solution, WhatIsNotJudgedHereIsSaid) {
  EXPECT_FALSE(unsupported_reason(demo()));
  Solution solution = demo();
  solution.language = "tilelang";
  EXPECT_TRUE(unsupported_reason(solution));
  solution.language = "triton";
  solution.entry_point = "kernel.py::run";
  for (const auto& binding : {std::optional<std::string>(), std::optional<std::string>("torch")}) {
    solution.binding = binding;
    EXPECT_FALSE(unsupported_reason(solution));
  }
  solution.sources.push_back({"second.py", ""});
  EXPECT_FALSE(single_source(solution)) << "one file";
  solution = demo();
  solution.binding = "torch";
  EXPECT_TRUE(unsupported_reason(solution));
  solution = demo();
  solution.target_hardware = {"Blackwell"};
  EXPECT_TRUE(unsupported_reason(solution));
  solution.target_hardware = {"Blackwell", "H100"};
  EXPECT_FALSE(unsupported_reason(solution));
  solution.entry_point = "kernel.cu::launch";
  EXPECT_TRUE(unsupported_reason(solution));
}

TEST(Solution, IncludedSourcesBecomeOneText) {
  Solution solution = demo();
  solution.sources = {{"kernel.cu", "#include \"tile.cuh\"\nint b;\n"}, {"tile.cuh", "int a;\n"}};
  const auto text = single_source(solution);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_NE(text->find("int a;"), std::string::npos);
  EXPECT_NE(text->find("int b;"), std::string::npos);
  solution.sources[1].path = "deep/tile.cuh";
  EXPECT_FALSE(single_source(solution));
}

TEST(SubmitRequest, ReadsWhatIsThere) {
  Json json = body();
  json["workload_uuids"] = {"u-2", "u-1"};
  json["timeout"] = 30;
  json["atol"] = 0.001;
  json["run_baseline"] = false;
  json["unknown_member"] = 1;
  BodyErrors errors;
  const SubmitRequest request = read_submit_request(TaskKind::evaluate, json, errors);
  ASSERT_TRUE(errors.empty()) << errors.list().dump();
  EXPECT_EQ(request.workload_uuids, (std::vector<std::string>{"u-2", "u-1"}));
  EXPECT_EQ(request.timeout, 30);
  EXPECT_EQ(request.atol, 0.001);
  EXPECT_FALSE(request.run_baseline);
  EXPECT_TRUE(request.solution.destination_passing_style);
  EXPECT_FALSE(request.solution.binding);
}

TEST(SubmitRequest, NullsAreAbsent) {
  Json json = body();
  json["workload_uuids"] = nullptr;
  json["timeout"] = nullptr;
  json["solution"]["spec"]["binding"] = nullptr;
  json["solution"]["description"] = nullptr;
  EXPECT_EQ(errors_of(json), "");
}

TEST(SubmitRequest, WrongMembersAreAllNamed) {
  EXPECT_EQ(errors_of(Json::array()), "body: model_attributes_type");
  EXPECT_EQ(errors_of(Json::object()), "body.solution: missing");
  Json json = body();
  json["solution"].erase("name");
  json["solution"]["spec"]["language"] = "basic";
  json["timeout"] = "soon";
  json["baseline_cache_mode"] = "always";
  EXPECT_EQ(errors_of(json),
            "body.solution.name: missing; body.solution.spec.language: literal_error; "
            "body.baseline_cache_mode: literal_error; body.timeout: float_type");
  json = body();
  json["solution"]["sources"] = Json::array();
  EXPECT_EQ(errors_of(json), "body.solution.sources: value_error; body.solution.spec.entry_point: value_error");
  json = body();
  json["solution"]["spec"]["target_hardware"] = Json::array();
  EXPECT_EQ(errors_of(json), "body.solution.spec.target_hardware: value_error");
  for (const char* path : {"../kernel.cu", "/etc/passwd", "a/../../b", ""}) {
    json = body();
    json["solution"]["sources"].push_back({{"path", path}, {"content", ""}});
    EXPECT_EQ(errors_of(json), "body.solution.sources.1.path: value_error") << path;
  }
  json = body();
  json["solution"]["sources"].push_back(json["solution"]["sources"][0]);
  EXPECT_EQ(errors_of(json), "body.solution.sources.1.path: value_error");
  for (const char* entry : {"kernel.cu", "kernel.cu::run::x", "::run", "kernel.cu::", "other.cu::run"}) {
    json = body();
    json["solution"]["spec"]["entry_point"] = entry;
    EXPECT_EQ(errors_of(json), "body.solution.spec.entry_point: value_error") << entry;
  }
  json = body();
  json["timeout"] = -1;
  EXPECT_EQ(errors_of(json), "body.timeout: greater_than_equal");
}

TEST(SubmitRequest, ToolsHaveTheirOwnMembers) {
  Json json = body();
  json["sanitizer_path"] = "/bin/rm";
  json["sanitizer_types"] = {"memcheck", "racecheck"};
  BodyErrors errors;
  const SubmitRequest request = read_submit_request(TaskKind::sanitize, json, errors);
  EXPECT_TRUE(errors.empty()) << errors.list().dump();
  EXPECT_EQ(request.timeout, 120);
  json["sanitizer_types"] = {"leakcheck"};
  json["max_lines"] = 0;
  EXPECT_EQ(errors_of(json, TaskKind::sanitize),
            "body.sanitizer_types: value_error; body.max_lines: greater_than_equal");
  json = body();
  json["source_context_lines"] = 1.5;
  EXPECT_EQ(errors_of(json, TaskKind::debug), "body.source_context_lines: int_type");
  json = body();
  json["ncu_path"] = 5;
  EXPECT_EQ(errors_of(json, TaskKind::profile), "body.ncu_path: string_type");
}

TEST(NativeRequest, ReadsAxesAndRefusesBothKindsOfChoice) {
  BodyErrors errors;
  const NativeRequest request =
      read_native_request(Json{{"source", "x"}, {"problem", "p"}, {"axes", {{"M", 16}}}, {"together", true}}, errors);
  EXPECT_TRUE(errors.empty()) << errors.list().dump();
  ASSERT_EQ(request.axes.size(), 1U);
  EXPECT_EQ(request.axes[0].second, 16);
  EXPECT_TRUE(request.together);
  read_native_request(Json{{"source", "x"}, {"problem", "p"}, {"axes", {{"M", 1.5}}}}, errors);
  read_native_request(Json{{"source", "x"}, {"problem", "p"}, {"axes", {{"M", 1}}}, {"workloads", {"u"}}}, errors);
  EXPECT_EQ(errors.list().size(), 2U) << errors.list().dump();
}

}  // namespace
}  // namespace ptxbench::service
