// Baselines as far as they need no GPU: how the judge describes them, and FlashInfer's modules.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/files.h"
#include "evaluation/gpu_run.h"
#include "gpu/flashinfer_gqa.h"
#include "problem/dataset.h"

namespace ptxbench::gpu {
namespace {

using base::Json;

const problem::Dataset& shipped() {
  static const problem::Dataset kData = *problem::Dataset::load(*problem::dataset_roots({}));
  return kData;
}

/// Of the first check of a definition.
Json description_of(const char* name, std::uint64_t seed = 0) {
  const problem::Definition& definition = **shipped().find_definition(name);
  const auto problem = *problem::make_problem(definition, shipped().checks(name)[0]);
  problem::InputOptions options;
  options.seed = seed;
  return evaluation::baseline_for(problem, *problem::make_inputs(problem, options));
}

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(Description, OfDecodeHasOffsetsOfKeysOnly) {
  const Json got = description_of("gqa_paged_decode_h24_kv8_d128_ps1");
  EXPECT_EQ(got.at("kind"), "gqa");
  EXPECT_EQ(got.at("paged"), true);
  EXPECT_EQ(got.at("causal"), false);
  EXPECT_EQ(got.at("page_size"), 1);
  EXPECT_EQ(got.at("heads"), 24);
  EXPECT_EQ(got.at("kv_heads"), 8);
  EXPECT_EQ(got.at("depth"), 128);
  EXPECT_EQ(got.at("dtype"), "bfloat16");
  EXPECT_NEAR(got.at("scale").get<double>(), 0.07, 1e-7);
  EXPECT_EQ(got.at("kv_offsets").size(), got.at("queries").get<std::size_t>() + 1);
  EXPECT_EQ(got.at("kv_offsets")[0], 0);
  EXPECT_EQ(got.at("kv_offsets_at"), 3);
  EXPECT_EQ(got.at("kv_indices_at"), 4);
  EXPECT_EQ(got.at("lse"), 1);
  EXPECT_FALSE(got.contains("q_offsets"));
  EXPECT_FALSE(got.contains("last_pages"));
}

TEST(Description, OfLongPagesSaysHowFullTheLastOnesAre) {
  const Json got = description_of("gqa_paged_decode_h24_kv8_d128_ps64");
  EXPECT_EQ(got.at("page_size"), 64);
  EXPECT_EQ(got.at("last_pages").size() + 1, got.at("kv_offsets").size());
  EXPECT_EQ(got.at("last_pages_at"), 5);
}

TEST(Description, OfPrefillHasOffsetsOfQueriesToo) {
  const Json paged = description_of("gqa_paged_prefill_causal_h32_kv8_d128_ps1");
  EXPECT_EQ(paged.at("causal"), true);
  EXPECT_EQ(paged.at("q_offsets").size(), paged.at("kv_offsets").size());
  EXPECT_EQ(paged.at("q_offsets").back(), paged.at("queries"));
  const Json ragged = description_of("gqa_ragged_prefill_causal_h32_kv4_d128");
  EXPECT_EQ(ragged.at("paged"), false);
  EXPECT_EQ(ragged.at("kv_heads"), 4);
  EXPECT_EQ(ragged.at("kv_offsets").back(), ragged.at("places"));
  EXPECT_FALSE(ragged.contains("kv_indices_at"));
}

// An executor plans what it is told ahead only if it is told the same again.
TEST(Description, FollowsFromTheInputs) {
  const char* name = "gqa_ragged_prefill_causal_h32_kv4_d128";
  EXPECT_EQ(description_of(name, 1), description_of(name, 1));
  EXPECT_NE(description_of(name, 1), description_of(name, 2));
  const problem::Definition& definition = **shipped().find_definition(name);
  EXPECT_TRUE(evaluation::baseline_for(*problem::make_problem(definition, shipped().checks(name)[0]), {}).is_null());
}

TEST(Description, OfOtherProblemsIsWhatItWas) {
  EXPECT_EQ(description_of("mha_with_lse_d128").at("kind"), "attention");
  EXPECT_TRUE(description_of("mla_paged_decode_h16_ckv512_kpe64_ps1").is_null());
}

TEST(FlashInfer, IsMissedWithARemedy) {
  const Variable elsewhere("PTXBENCH_FLASHINFER", "/nonexistent");
  const auto folder = find_flashinfer();
  ASSERT_FALSE(folder.has_value());
  EXPECT_EQ(folder.error().kind, ErrorKind::infrastructure);
  EXPECT_TRUE(folder.error().message.starts_with("FlashInfer not installed: nothing in /nonexistent"))
      << folder.error().message;
  EXPECT_NE(folder.error().message.find("scripts/build_flashinfer.sh"), std::string::npos);
}

TEST(FlashInfer, HalfOfItIsNamed) {
  auto half = base::TempDir::create("flashinfer-test");
  ASSERT_TRUE(half.has_value());
  std::ofstream(half->path() / "VERSION") << "0.6.14\n";
  const Variable elsewhere("PTXBENCH_FLASHINFER", half->path().string());
  const auto folder = find_flashinfer();
  ASSERT_TRUE(folder.has_value()) << folder.error().message;
  EXPECT_EQ(folder->version, "0.6.14");
  const auto module = FlashInferModule::load(*folder, "decode", {"plan"});
  ASSERT_FALSE(module.has_value());
  EXPECT_NE(module.error().message.find("libtvm_ffi.so is missing"), std::string::npos) << module.error().message;
}

class BuiltModules : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = find_flashinfer();
    if (!folder_) GTEST_SKIP() << folder_.error().message;
  }
  Result<FlashInferFolder> folder_ = infrastructure_error("not looked for");
};

TEST_F(BuiltModules, Load) {
  for (const auto& [name, run] : {std::pair{"decode", "run"},
                                  {"decode_tensor_cores", "paged_run"},
                                  {"prefill", "paged_run"},
                                  {"prefill", "ragged_run"}}) {
    const auto module = FlashInferModule::load(*folder_, name, {"plan", run});
    EXPECT_TRUE(module.has_value()) << module.error().message;
  }
  const auto wrong = FlashInferModule::load(*folder_, "decode", {"plan", "nonsense"});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().message.find("no function nonsense"), std::string::npos) << wrong.error().message;
}

TEST_F(BuiltModules, SayWhatTheyDoNotAccept) {
  const auto module = FlashInferModule::load(*folder_, "decode", {"plan"});
  ASSERT_TRUE(module.has_value()) << module.error().message;
  const auto refused = module->call(0, {}, 0, nullptr);
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().message.starts_with("FlashInfer: plan of decode: TypeError: "))
      << refused.error().message;
}

// Without a GPU a call gets as far as its arguments are right: the next thing is CUDA's runtime, which finds no driver.
TEST_F(BuiltModules, TakeTheArgumentsOfPlanAndRun) {
  for (const auto& [name, change] : {std::pair{"gqa_paged_decode_h24_kv8_d128_ps1", Json::object()},
                                     {"gqa_paged_decode_h24_kv8_d128_ps64", {{"tensor_cores", true}}},
                                     {"gqa_paged_prefill_causal_h24_kv8_d128_ps64", Json::object()},
                                     {"gqa_ragged_prefill_causal_h32_kv4_d128", Json::object()}}) {
    SCOPED_TRACE(name);
    Json description = description_of(name);
    description.update(change);
    auto attention = FlashInferGqa::read(description);
    ASSERT_TRUE(attention.has_value()) << attention.error().message;
    const auto module = attention->load(*folder_);
    ASSERT_TRUE(module.has_value()) << module.error().message;
    // No such GPU anywhere.
    constexpr int kDevice = 1000;
    const FlashInferGqa::Memory memory{.device = {candidate::abi::DeviceType::cuda, kDevice}};
    const auto planned = module->call(0, attention->plan_arguments(memory, nullptr), kDevice, nullptr);
    ASSERT_FALSE(planned.has_value());
    EXPECT_NE(planned.error().message.find("CUDA"), std::string::npos) << planned.error().message;
    EXPECT_EQ(planned.error().message.find("TypeError"), std::string::npos) << planned.error().message;

    // What planning returns is an object: without one the call ends there, all other arguments being right.
    const std::vector<std::uint64_t> addresses(8, 0);
    const auto ran = module->call(1, attention->run_arguments(memory, {}, addresses, addresses), kDevice, nullptr);
    ASSERT_FALSE(ran.has_value());
    EXPECT_NE(ran.error().message.find("argument #2"), std::string::npos) << ran.error().message;
  }
}

TEST(FlashInferGqa, RefusesWhatTheModulesAreNotBuiltFor) {
  const Json good = description_of("gqa_paged_prefill_causal_h24_kv8_d128_ps64");
  const auto read = FlashInferGqa::read(good);
  ASSERT_TRUE(read.has_value()) << read.error().message << good;
  for (const auto& [key, value] :
       {std::pair{"dtype", Json("float16")}, {"depth", 64}, {"causal", false}, {"last_pages", Json::array({1})}}) {
    Json bad = good;
    bad[key] = value;
    EXPECT_FALSE(FlashInferGqa::read(bad).has_value()) << key;
  }
}

TEST(FlashInferGqa, DecodesWithoutTensorCoresUnlessToldOrUnable) {
  using Method = FlashInferGqa::Method;
  Json description = description_of("gqa_paged_decode_h24_kv8_d128_ps1");
  EXPECT_EQ(FlashInferGqa::read(description)->method(), Method::decode);
  description["tensor_cores"] = true;
  EXPECT_EQ(FlashInferGqa::read(description)->method(), Method::decode_tensor_cores);
  description["tensor_cores"] = false;
  description["heads"] = 40;
  EXPECT_EQ(FlashInferGqa::read(description)->method(), Method::decode_tensor_cores);
}

TEST(Arguments, AreDenseTensorsAndNumbers) {
  FfiArguments arguments;
  std::int32_t memory[24]{};
  arguments.tensor(memory, FfiArguments::kHost, FfiArguments::kInt32, {2, 3, 4});
  arguments.integer(-1);
  arguments.boolean(true);
  arguments.number(0.5);
  arguments.nothing(2);
  ASSERT_EQ(arguments.list().size(), 6u);
  const auto& tensor = *arguments.list()[0].tensor;
  EXPECT_EQ(tensor.data, memory);
  ASSERT_EQ(tensor.ndim, 3);
  EXPECT_EQ(tensor.shape[2], 4);
  EXPECT_EQ(tensor.strides[0], 12);
  EXPECT_EQ(tensor.strides[1], 4);
  EXPECT_EQ(tensor.strides[2], 1);
  EXPECT_EQ(arguments.list()[1].integer, -1);
  EXPECT_EQ(arguments.list()[3].floating, 0.5);
  EXPECT_EQ(arguments.list()[5].type, candidate::abi::TypeIndex::none);
}

}  // namespace
}  // namespace ptxbench::gpu
