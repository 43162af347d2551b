#include "problem/definition.h"

#include <gtest/gtest.h>

namespace ptxbench::problem {
namespace {

using base::Json;

Json example() {
  return Json::parse(
      R"({"name":"scale_n256","op_type":"elementwise","axes":{"M":{"type":"var"},"N":{"type":"const","value":256}},
    "inputs":{"x":{"shape":["M","N"],"dtype":"bfloat16"},"s":{"shape":null,"dtype":"float32"}},
    "outputs":{"y":{"shape":["M","N"],"dtype":"bfloat16"}},"reference":"def run(x, s):\n    return x * s","unknown_key":1})");
}

std::string error_of(const Json& json) {
  const auto definition = parse_definition(json, "file.json");
  return definition ? "" : definition.error().message;
}

void expect_error(const Json& json, std::initializer_list<const char*> parts) {
  const std::string message = error_of(json);
  for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
}

TEST(Definition, ReadsTheFormat) {
  const auto definition = parse_definition(example(), "file.json");
  ASSERT_TRUE(definition) << definition.error().message;
  EXPECT_EQ(definition->name, "scale_n256");
  ASSERT_EQ(definition->inputs.size(), 2u);
  EXPECT_EQ(definition->inputs[0].name, "x") << "file order is call order";
  EXPECT_TRUE(definition->inputs[1].is_scalar());
  EXPECT_EQ(definition->variable_axes(), std::vector<std::string>{"M"});
  EXPECT_EQ(*definition->find_axis("N")->constant, 256);
}

TEST(Definition, WireOrderAndAbsentMembers) {
  const auto json = to_json(*parse_definition(example(), "file.json"));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"name", "op_type", "axes", "inputs", "outputs", "reference", "tags",
                                            "description", "constraints"}));
  EXPECT_TRUE(json["description"].is_null());
  EXPECT_EQ(json["tags"], Json::array());
  EXPECT_TRUE(json["inputs"]["s"]["shape"].is_null());
  const auto again = parse_definition(json, "again");
  ASSERT_TRUE(again);
  EXPECT_EQ(to_json(*again), json);
}

TEST(Definition, AxisTypeMayBeLeftOut) {
  Json json = example();
  json["axes"]["N"] = {{"value", 7}};
  EXPECT_EQ(*parse_definition(json, "f")->find_axis("N")->constant, 7);
  json["axes"]["M"] = Json::object();
  EXPECT_FALSE(parse_definition(json, "f")->find_axis("M")->constant);
}

TEST(Definition, ListsWithoutEndAreRefused) {
  Json json = example();
  for (int i = 0; i < 300; ++i) json["axes"][fmt::format("a{}", i)] = {{"type", "var"}};
  expect_error(json, {"file.json.axes", "302 entries", "256"});
  json = example();
  for (int i = 0; i < 300; ++i) json["outputs"][fmt::format("y{}", i)] = json["outputs"]["y"];
  expect_error(json, {"file.json.outputs", "256"});
  json = example();
  json["inputs"]["x"]["shape"] = std::vector<std::string>(300, "M");
  expect_error(json, {"file.json.inputs.x.shape", "256"});
}

TEST(Definition, ShapesThatNoMemoryHoldsAreErrors) {
  Json json = example();
  json["axes"]["N"]["value"] = 1;
  json["inputs"]["x"]["dtype"] = "int64";
  const auto wide = parse_definition(json, "file.json");
  for (const std::int64_t m : {std::int64_t{1} << 60, std::int64_t{1} << 61, std::int64_t{1} << 58}) {
    EXPECT_FALSE(shape_of(wide->inputs[0], *bind_axes(*wide, {{"M", m}}))) << m;
  }
}

TEST(Definition, ErrorsNameFilePathAndRemedy) {
  const auto with = [](auto change) {
    Json json = example();
    change(json);
    return json;
  };
  expect_error(with([](Json& j) { j["inputs"]["x"]["dtype"] = "bf16"; }), {"file.json.inputs.x.dtype", "bfloat16"});
  expect_error(with([](Json& j) { j["inputs"]["x"].erase("shape"); }), {"file.json.inputs.x.shape", "null"});
  expect_error(with([](Json& j) { j["inputs"]["x"]["shape"][1] = "NN"; }),
               {"file.json.inputs.x.shape[1]", "did you mean 'N'"});
  expect_error(with([](Json& j) { j["axes"]["N"]["value"] = -1; }), {"file.json.axes.N.value", "negative"});
  expect_error(with([](Json& j) { j["axes"]["N"]["type"] = "fixed"; }), {"file.json.axes.N.type", "'var'"});
  expect_error(with([](Json& j) { j["outputs"]["x"] = j["outputs"]["y"]; }), {"file.json.outputs.x", "rename"});
  expect_error(with([](Json& j) { j["name"] = ""; }), {"file.json.name", "empty"});
  expect_error(with([](Json& j) { j.erase("reference"); }), {"file.json", "reference"});
  expect_error(with([](Json& j) { j["inputs"] = Json::array(); }), {"file.json.inputs", "object"});
  expect_error(Json::array(), {"file.json", "object"});
}

TEST(Workload, ReadsTheThreeKindsOfInput) {
  const Json json = Json::parse(R"({"uuid":"u-1","axes":{"M":64,"N":256},"inputs":{"x":{"type":"random"},
    "s":{"type":"scalar","value":2.5},"z":{"type":"safetensors","path":"blob/a.safetensors","tensor_key":"k"}}})");
  const auto workload = parse_workload(json, "f:1");
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_TRUE(std::holds_alternative<RandomInput>(*workload->find_input("x")));
  EXPECT_EQ(std::get<double>(std::get<ScalarInput>(*workload->find_input("s")).value), 2.5);
  EXPECT_EQ(std::get<SafetensorsInput>(*workload->find_input("z")).tensor_key, "k");
  EXPECT_EQ(workload->find_input("none"), nullptr);
  EXPECT_EQ(to_json(*workload), json);

  Json wrong = json;
  wrong["inputs"]["x"]["type"] = "normal";
  EXPECT_NE(parse_workload(wrong, "f:1").error().message.find("f:1.inputs.x.type"), std::string::npos);
  wrong = json;
  wrong["axes"]["M"] = 1.5;
  EXPECT_FALSE(parse_workload(wrong, "f:1"));
}

TEST(Trace, EvaluationsFollowTheirStatus) {
  Json json =
      Json::parse(R"({"definition":"d","solution":"s","workload":{"uuid":"u","axes":{},"inputs":{}},"evaluation":
    {"status":"PASSED","environment":{"hardware":"NVIDIA H200","libs":{"cuda":"13.0"}},"timestamp":"t","log":"",
     "correctness":{"max_relative_error":0.01,"max_absolute_error":"NaN"},
     "performance":{"latency_ms":0.5,"reference_latency_ms":0.4,"speedup_factor":0.8}}})");
  const auto trace = parse_trace(json, "t:1");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(to_json(*trace), json);
  const auto message = [&] { return parse_trace(json, "t:1").error().message; };
  json["evaluation"]["status"] = "TIMEOUT";
  EXPECT_NE(message().find("correctness: not allowed with status TIMEOUT"), std::string::npos);
  json["evaluation"]["correctness"] = nullptr;
  EXPECT_NE(message().find("performance: not allowed"), std::string::npos);
  json["evaluation"]["performance"] = nullptr;
  EXPECT_TRUE(parse_trace(json, "t:1"));
  json["evaluation"]["status"] = "PASSED";
  EXPECT_NE(message().find("correctness: needed"), std::string::npos);
  json["evaluation"]["status"] = "PASED";
  EXPECT_NE(message().find("did you mean 'PASSED'"), std::string::npos);
  json["solution"] = nullptr;
  json["evaluation"]["status"] = "TIMEOUT";
  EXPECT_FALSE(parse_trace(json, "t:1"));
}

TEST(BindAxes, ChecksNamesAndValues) {
  const auto definition = *parse_definition(example(), "file.json");
  EXPECT_EQ(bind_axes(definition, {{"M", 3}})->at("N"), 256);
  EXPECT_TRUE(bind_axes(definition, {{"M", 3}, {"N", 256}})) << "a constant may be repeated";
  EXPECT_NE(bind_axes(definition, {{"M", 3}, {"N", 128}}).error().message.find("constant"), std::string::npos);
  EXPECT_NE(bind_axes(definition, {{"m", 3}}).error().message.find("did you mean 'M'"), std::string::npos);
  EXPECT_NE(bind_axes(definition, {}).error().message.find("--axis M=N"), std::string::npos);
  EXPECT_FALSE(bind_axes(definition, {{"M", -1}}));
}

TEST(Uuid, Version5) {
  // From RFC 9562's appendix-style example: the URL namespace with a well-known name, as Python's uuid module gives it.
  EXPECT_EQ(uuid5_url("http://python.org/"), "4c565f0d-3f5a-5890-b41b-20cf47701c5e");
  // The rule by which the published backward workloads are named.
  EXPECT_EQ(uuid5_url("accrl://mha_bwd_d128/S=4096"), "38c3b07c-f006-5f5e-9860-ba214c805a6b");
}

}  // namespace
}  // namespace ptxbench::problem
