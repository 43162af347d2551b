#include "problem/inputs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/files.h"
#include "problem/attention.h"
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

TEST(Inputs, ScalarsAreExactOrRefused) {
  const auto made = [](Dtype dtype, const ScalarInput& value) {
    Problem problem = problem_with("{}");
    problem.definition.inputs[1].dtype = dtype;
    problem.workload.inputs = {{"s", value}};
    return make_input(problem, 1, {});
  };
  EXPECT_EQ(made(Dtype::int32, {std::int64_t{16777217}})->as<std::int32_t>()[0], 16777217);
  EXPECT_EQ(made(Dtype::int32, {-16777217.0})->as<std::int32_t>()[0], -16777217);
  EXPECT_EQ(made(Dtype::int8, {std::int64_t{-128}})->as<std::int8_t>()[0], -128);
  EXPECT_EQ(made(Dtype::boolean, {true})->as<std::uint8_t>()[0], 1);
  EXPECT_EQ(made(Dtype::int16, {true})->as<std::int16_t>()[0], 1);
  EXPECT_EQ(made(Dtype::float16, {std::int64_t{3}})->as<std::uint16_t>()[0], 0x4200);
  for (const auto& [dtype, value] : {std::pair<Dtype, ScalarInput>{Dtype::int8, {std::int64_t{300}}},
                                     {Dtype::int8, {std::int64_t{-129}}},
                                     {Dtype::int32, {std::int64_t{1} << 31}},
                                     {Dtype::int32, {2.5}},
                                     {Dtype::int64, {1e19}},
                                     {Dtype::boolean, {std::int64_t{2}}},
                                     {Dtype::float16, {70000.0}},
                                     {Dtype::float8_e4m3fn, {1000.0}},
                                     {Dtype::float32, {1e300}}}) {
    const auto wrong = made(dtype, value);
    ASSERT_FALSE(wrong) << to_string(dtype);
    EXPECT_NE(wrong.error().message.find("workload u: input s is "), std::string::npos) << wrong.error().message;
  }
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

Problem backward_problem(bool explicit_sources) {
  std::string text = R"({"name":"b_causal","op_type":"attention","axes":{"B":{"type":"const","value":2},
    "H":{"type":"const","value":3},"S":{"type":"const","value":70},"d":{"type":"const","value":64}},"inputs":{)";
  for (const char* name : {"Q", "K", "V", "O", "dO"}) {
    text += fmt::format(R"("{}":{{"shape":["B","H","S","d"],"dtype":"bfloat16"}},)", name);
  }
  text += R"("L":{"shape":["B","H","S"],"dtype":"float32"}},"outputs":{)";
  for (const char* name : {"dQ", "dK", "dV"}) {
    text += fmt::format(R"({}"{}":{{"shape":["B","H","S","d"],"dtype":"bfloat16"}})", name[1] == 'Q' ? "" : ",", name);
  }
  text += R"(},"reference":"r"})";
  const std::string sources = explicit_sources ? R"({"O":{"type":"derived"},"L":{"type":"random"}})" : "{}";
  const auto definition = parse_definition(base::Json::parse(text), "b");
  EXPECT_TRUE(definition) << definition.error().message;
  const auto workload = parse_workload(base::Json::parse(R"({"uuid":"u","axes":{},"inputs":)" + sources + "}"), "w");
  EXPECT_TRUE(workload) << workload.error().message;
  return *make_problem(*definition, *workload);
}

TEST(Inputs, DerivedOnesFollowFromTheOthers) {
  const Problem problem = backward_problem(false);
  InputOptions options;
  options.seed = 3;
  const auto inputs = make_inputs(problem, options);
  ASSERT_TRUE(inputs) << inputs.error().message;
  EXPECT_FALSE(random_input(problem, 3, options));
  EXPECT_TRUE(random_input(problem, 4, options));
  const AttentionShape shape = attention_shape(problem, *attention_roles(problem.definition));
  std::vector<float> o((*inputs)[3].count), lse((*inputs)[5].count);
  const auto matrix = [&](std::size_t i) {
    return MatrixRows((*inputs)[i].data(), Dtype::bfloat16, shape.rows(), shape.depth);
  };
  const RowRange all{0, shape.rows()};
  attention_forward(shape, {matrix(0), matrix(1), matrix(2)}, {&all, 1}, o.data(), lse.data(), 1);
  for (std::size_t i = 0; i < o.size(); ++i) ASSERT_EQ((*inputs)[3].as<std::uint16_t>()[i], to_bfloat16(o[i]));
  for (std::size_t i = 0; i < lse.size(); ++i) ASSERT_EQ((*inputs)[5].as<float>()[i], lse[i]);
  const auto one = make_input(problem, 3, options);
  ASSERT_TRUE(one);
  EXPECT_EQ(std::memcmp(one->data(), (*inputs)[3].data(), one->bytes()), 0);

  // What the workload says otherwise holds.
  const auto mixed = make_inputs(backward_problem(true), options);
  ASSERT_TRUE(mixed);
  EXPECT_EQ(std::memcmp((*mixed)[3].data(), (*inputs)[3].data(), one->bytes()), 0);
  float expected = 0;
  RandomTensor{Dtype::float32, Distribution::normal, 3, 5}.fill(11, 1, &expected);
  EXPECT_EQ((*mixed)[5].as<float>()[11], expected);
}

// Tiles of every output, which differ in rank: only what they need is computed, and it is what the whole truth has.
TEST(Inputs, TilesOfSeveralOutputs) {
  const auto definition =
      *parse_definition(base::Json::parse(R"({"name":"f","op_type":"attention","axes":{"B":{"type":"const","value":1},
    "H":{"type":"const","value":4},"S":{"type":"const","value":200},"D":{"type":"const","value":64}},"inputs":{
    "Q":{"shape":["B","H","S","D"],"dtype":"bfloat16"},"K":{"shape":["B","H","S","D"],"dtype":"bfloat16"},
    "V":{"shape":["B","H","S","D"],"dtype":"bfloat16"}},"outputs":{"LSE":{"shape":["B","H","S"],"dtype":"float32"},
    "O":{"shape":["B","H","S","D"],"dtype":"bfloat16"}},"reference":"r","tags":["mask:causal"]})"),
                        "f");
  Workload workload;
  workload.uuid = "u";
  const auto problem = *make_problem(definition, workload);
  const auto inputs = *make_inputs(problem, {});
  const auto reference = *find_reference(definition);
  const auto whole = reference(request_for(problem, inputs));
  ASSERT_TRUE(whole);
  TruthRequest lazy{problem, {}, {{{1, 2, 10, 50}}, {{600, 700, 0, 64}}}, 0};
  for (std::size_t i = 0; i < 3; ++i) lazy.inputs.push_back({nullptr, random_input(problem, i, {})});
  const auto part = reference(lazy);
  ASSERT_TRUE(part);
  ASSERT_EQ(part->outputs[0].shape, (Shape{1, 4, 200}));
  for (std::size_t row = 0; row < 800; ++row) {
    const bool in_lse = row >= 210 && row < 250, in_o = row >= 600 && row < 700;
    const float lse = part->outputs[0].as<float>()[row];
    ASSERT_EQ(lse, in_lse || in_o ? whole->outputs[0].as<float>()[row] : 0.0f) << row;
    for (std::size_t i = row * 64; i < row * 64 + 64; ++i) {
      ASSERT_EQ(part->outputs[1].as<float>()[i], in_lse || in_o ? whole->outputs[1].as<float>()[i] : 0.0f) << row;
    }
  }
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
  TruthRequest lazy{problem, {}, {{{8, 16, 0, 24}}}, 0};
  for (std::size_t i = 0; i < 2; ++i) lazy.inputs.push_back({nullptr, random_input(problem, i, options)});
  const auto part = reference(lazy);
  ASSERT_TRUE(part);
  for (std::size_t i = 0; i < 40 * 24; ++i) {
    const bool inside = i / 24 >= 8 && i / 24 < 16;
    EXPECT_EQ(part->outputs[0].as<float>()[i], inside ? eager->outputs[0].as<float>()[i] : 0.0f);
  }
}

}  // namespace
}  // namespace ptxbench::problem
