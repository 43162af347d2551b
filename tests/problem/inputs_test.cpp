#include "problem/inputs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/files.h"
#include "problem/comparison.h"
#include "problem/reference.h"

namespace ptxbench::problem {
namespace {

constexpr const char* kDefinition = R"({"name":"d","op_type":"x","axes":{"N":{"type":"const","value":3}},
 "inputs":{"x":{"shape":["N"],"dtype":"float32"},"s":{"shape":null,"dtype":"float32"},"i":{"shape":null,"dtype":"int64"}},
 "outputs":{"y":{"shape":["N"],"dtype":"bfloat16"}},"reference":"r"})";

Problem problem_with(const std::string& inputs, const std::string& root = "") {
  const auto definition = *parse_definition(base::Json::parse(kDefinition), "d");
  auto workload = *parse_workload(base::Json::parse(R"({"uuid":"u","axes":{},"inputs":)" + inputs + "}"), "w");
  workload.root = root;
  return *make_problem(definition, workload);
}

TEST(Inputs, ScalarsAndRandomTensors) {
  const auto problem =
      problem_with(R"({"s":{"type":"scalar","value":2.5},"i":{"type":"scalar","value":9007199254740993}})");
  InputOptions options;
  options.seed = 4;
  const auto inputs = make_inputs(problem, options);
  ASSERT_TRUE(inputs) << inputs.error().message;
  ASSERT_EQ(inputs->size(), 3u);
  EXPECT_EQ((*inputs)[1].as<float>()[0], 2.5f);
  EXPECT_EQ((*inputs)[2].as<std::int64_t>()[0], 9007199254740993) << "no digit lost to a float";
  float expected[3];
  RandomTensor{Dtype::float32, Distribution::normal, 4, 0}.fill(0, 3, expected);
  EXPECT_EQ(std::memcmp((*inputs)[0].data(), expected, sizeof(expected)), 0) << "what is left out is random";
}

TEST(Inputs, SafetensorsMustFit) {
  const auto folder = *base::TempDir::create();
  const auto write = [&](const std::string& header, std::size_t bytes) {
    std::ofstream out(folder.path() / "b.safetensors", std::ios::binary);
    const std::uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header << std::string(bytes, '\1');
  };
  const auto problem =
      problem_with(R"({"x":{"type":"safetensors","path":"b.safetensors","tensor_key":"k"}})", folder.path().string());
  write(R"({"k":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", 12);
  EXPECT_TRUE(make_input(problem, 0, {}));
  EXPECT_FALSE(random_input(problem, 0, {}));
  write(R"({"k":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 16);
  const auto wrong = make_input(problem, 0, {});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("[4]"), std::string::npos) << wrong.error().message;
}

TEST(Inputs, OutputsStartAsPoison) {
  const auto outputs = make_outputs(problem_with("{}"));
  ASSERT_TRUE(outputs);
  EXPECT_EQ((*outputs)[0].dtype, Dtype::bfloat16);
  EXPECT_TRUE(is_poison((*outputs)[0], 2));
}

TEST(Inputs, LazyOperandsGiveTheSameTruth) {
  const auto definition =
      *parse_definition(base::Json::parse(R"({"name":"g","op_type":"gemm","axes":{"M":{"type":"const","value":40},
    "N":{"type":"const","value":24},"K":{"type":"const","value":300}},"inputs":{"A":{"shape":["M","K"],"dtype":"bfloat16"},
    "B":{"shape":["N","K"],"dtype":"bfloat16"}},"outputs":{"C":{"shape":["M","N"],"dtype":"bfloat16"}},"reference":"r"})"),
                        "g");
  Workload workload;
  workload.uuid = "u";
  const auto problem = *make_problem(definition, workload);
  InputOptions options;
  options.seed = 8;
  const auto inputs = *make_inputs(problem, options);
  const auto reference = *find_reference(definition);
  const auto eager = reference(request_for(problem, inputs));
  ASSERT_TRUE(eager);
  TruthRequest lazy{problem, {}, {{8, 16, 0, 24}}, 0};
  for (std::size_t i = 0; i < 2; ++i) lazy.inputs.push_back({nullptr, random_input(problem, i, options)});
  const auto part = reference(lazy);
  ASSERT_TRUE(part);
  for (std::size_t i = 0; i < 40 * 24; ++i) {
    const bool inside = i / 24 >= 8 && i / 24 < 16;
    EXPECT_EQ((*part)[0].as<float>()[i], inside ? (*eager)[0].as<float>()[i] : 0.0f);
  }
}

}  // namespace
}  // namespace ptxbench::problem
