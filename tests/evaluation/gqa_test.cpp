// Grouped-query attention from end to end: int32 inputs and a scalar, derived or stored, and an output that may be
// infinite.
#include <fstream>

#include "base/files.h"
#include "base/text.h"
#include "evaluator_fixture.h"
#include "problem/dataset.h"

namespace ptxbench::evaluation {
namespace {

const problem::Dataset& shipped() {
  static const problem::Dataset kData = *problem::Dataset::load(*problem::dataset_roots({}));
  return kData;
}

constexpr const char* kDecode = "gqa_paged_decode_h24_kv8_d128_ps1";

std::vector<problem::Problem> checks_of(const char* name) {
  const problem::Definition& definition = **shipped().find_definition(name);
  std::vector<problem::Problem> problems;
  for (const problem::Workload& workload : shipped().checks(name)) {
    problems.push_back(*problem::make_problem(definition, workload));
  }
  return problems;
}

/// `source` with the line that holds `marker` replaced.
std::string with_line(std::string source, std::string_view marker, const std::string& line) {
  const std::size_t at = source.find(marker), begin = source.rfind('\n', at) + 1, end = source.find('\n', at);
  EXPECT_NE(at, std::string::npos) << marker;
  return source.replace(begin, end - begin, line);
}

std::string kernel(bool prefill, bool paged, bool last_page) {
  std::string source = candidate_source("gqa.cu");
  source = with_line(source, "// PREFILL", fmt::format("#define PREFILL {}", prefill ? 1 : 0));
  source = with_line(source, "// PAGED", fmt::format("#define PAGED {}", paged ? 1 : 0));
  return with_line(source, "// LAST PAGE", fmt::format("#define LAST_PAGE {}", last_page ? 1 : 0));
}

EvaluateOptions options() {
  EvaluateOptions quick = quick_options();
  quick.instruction_budget = 0;
  return quick;
}

Evaluation judged(const std::string& source, const std::vector<problem::Problem>& problems) {
  const auto result = evaluator().evaluate(source, problems, options());
  if (!result) throw std::runtime_error(result.error().message);
  return *result;
}

TEST(Gqa, TheExampleIsRight) {
  EvaluateOptions two = options();
  two.seeds = 2;
  const auto problems = checks_of(kDecode);
  ASSERT_EQ(problems.size(), 3u);
  const auto result = evaluator().evaluate(example_source("attention_paged_decode.cu"), problems, two);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->verdict, Status::passed) << dump(*result);
  EXPECT_TRUE(result->findings.empty()) << dump(*result);
  EXPECT_EQ(result->runs.size(), 6u);
}

TEST(Gqa, EveryKindIsJudged) {
  for (const auto& [name, prefill, paged, last_page] :
       {std::tuple{"gqa_paged_decode_h24_kv8_d128_ps64", false, true, true},
        {"gqa_paged_prefill_causal_h24_kv8_d128_ps1", true, true, false},
        {"gqa_paged_prefill_causal_h24_kv8_d128_ps64", true, true, true},
        {"gqa_ragged_prefill_causal_h32_kv4_d128", true, false, false}}) {
    const Evaluation result = judged(kernel(prefill, paged, last_page), checks_of(name));
    EXPECT_EQ(result.verdict, Status::passed) << dump(result);
    EXPECT_EQ(result.runs.size(), 2u);
  }
}

TEST(Gqa, MistakesAreNamed) {
  const auto expect = [](const char* name, const std::string& source, const char* rule) {
    std::vector<problem::Problem> problems = checks_of(name);
    const Evaluation result = judged(source, {problems[1]});
    EXPECT_EQ(result.verdict, Status::failed) << dump(result);
    EXPECT_NE(find(result, rule), nullptr) << rule << "\n" << dump(result);
  };
  const char* name = "gqa_paged_prefill_causal_h24_kv8_d128_ps1";
  const std::string right = kernel(true, true, false);
  expect(name, with_line(right, "// HEAD", "  const int kv_head = head % call.kv_heads;"), "numeric.head-group");
  expect(name, with_line(right, "// SLOT", ""), "numeric.page-table");
  expect(name, with_line(right, "// MASK", "  seen = min(place + 1, keys);"), "numeric.causal-offset");
  expect(name, with_line(right, "// LSE", "  if (threadIdx.x == 0) call.lse[row] = top + logf(total);"),
         "numeric.lse-base");
  expect("gqa_paged_decode_h24_kv8_d128_ps64", with_line(kernel(false, true, true), "// KEYS", ""),
         "numeric.extra-keys");
}

// A request without keys: zeros are no logarithm of nothing.
TEST(Gqa, EmptyRequestsHaveToBeInfinite) {
  const auto problems = checks_of(kDecode);
  std::string source = base::replace_all(example_source("attention_paged_decode.cu"),
                                         "top + log2f(sum) : negative_infinity()", "top + log2f(sum) : 0.0f");
  const Evaluation result = judged(source, {problems[2]});
  EXPECT_EQ(result.verdict, Status::failed) << dump(result);
  EXPECT_NE(find(result, "numeric.empty-request"), nullptr) << dump(result);
}

TEST(Gqa, SamplesAreJudgedWhereTheyWereWritten) {
  const problem::Definition& definition = **shipped().find_definition(kDecode);
  const auto workload =
      shipped().workload_for_axes(definition, {"batch_size=6", "num_pages=300", "len_indptr=7", "num_kv_indices=200"});
  ASSERT_TRUE(workload) << workload.error().message;
  EvaluateOptions sampled = options();
  sampled.sample_clusters = 2;
  const auto problem = *problem::make_problem(definition, *workload);
  const Evaluation result = evaluate(example_source("attention_paged_decode.cu"), problem, sampled);
  EXPECT_EQ(result.stage(StageName::correctness).status, Status::passed) << dump(result);
  ASSERT_EQ(result.runs.size(), 1u);
  EXPECT_TRUE(result.runs[0].sampled);
  EXPECT_LT(result.runs[0].coverage, 0.5);
  const Evaluation wrong = evaluate(
      base::replace_all(example_source("attention_paged_decode.cu"), "top + log2f(sum)", "top + log2f(sum) + 0.01f"),
      problem, sampled);
  EXPECT_EQ(wrong.verdict, Status::failed) << dump(wrong);
}

// As in folders of others: offsets and pages from a file. What does not fit is an error of the data, not of the kernel.
TEST(Gqa, StoredIndicesArriveAndBrokenOnesAreRefused) {
  const auto folder = *base::TempDir::create();
  const problem::Definition& definition = **shipped().find_definition(kDecode);
  const auto judge_with = [&](const std::vector<std::int32_t>& values) {
    std::ofstream out(folder.path() / "b.safetensors", std::ios::binary);
    const std::string header =
        R"({"kv_indptr":{"dtype":"I32","shape":[4],"data_offsets":[0,16]},"kv_indices":{"dtype":"I32","shape":[5],"data_offsets":[16,36]}})";
    const std::uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header;
    out.write(reinterpret_cast<const char*>(values.data()), 36);
    out.close();
    problem::Workload workload;
    workload.uuid = fmt::format("stored {}", values.back());
    workload.root = folder.path().string();
    workload.axes = {{"batch_size", 3}, {"num_pages", 8}, {"len_indptr", 4}, {"num_kv_indices", 5}};
    for (const char* name : {"kv_indptr", "kv_indices"}) {
      workload.inputs.emplace_back(name, problem::SafetensorsInput{"b.safetensors", name});
    }
    workload.inputs.emplace_back("sm_scale", problem::ScalarInput{0.25});
    return evaluator().evaluate(example_source("attention_paged_decode.cu"),
                                {*problem::make_problem(definition, workload)}, options());
  };
  const auto right = judge_with({0, 3, 3, 5, 7, 2, 0, 6, 1});
  ASSERT_TRUE(right) << right.error().message;
  EXPECT_EQ(right->verdict, Status::passed) << dump(*right);
  const auto wrong = judge_with({0, 3, 3, 5, 7, 2, 0, 6, 8});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("page 8"), std::string::npos) << wrong.error().message;
}

}  // namespace
}  // namespace ptxbench::evaluation
