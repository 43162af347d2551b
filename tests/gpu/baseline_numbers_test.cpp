// On a GPU: whether baselines compute what the problems ask for, and how long they take. What is timed beside a
// candidate must be the same work.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "evaluation/gpu_run.h"
#include "gpu/baseline.h"
#include "gpu/executor_process.h"
#include "problem/comparison.h"
#include "problem/dataset.h"
#include "problem/reference.h"

namespace ptxbench::gpu {
namespace {

using base::Json;
using problem::Tensor;

const problem::Dataset& shipped() {
  static const problem::Dataset kData = *problem::Dataset::load(*problem::dataset_roots({}));
  return kData;
}

class Baselines : public testing::Test {
 protected:
  std::unique_ptr<Device> device_;

  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU on this machine";
    auto device = Device::open(0);
    ASSERT_TRUE(device.has_value()) << device.error().message;
    device_ = std::make_unique<Device>(std::move(*device));
  }
  void TearDown() override {
    for (const CUdeviceptr block : blocks_) cuda().cuMemFree(block);
  }

  const Driver& cuda() const { return device_->driver(); }

  CUdeviceptr allocate(std::uint64_t bytes) {
    CUdeviceptr block = 0;
    EXPECT_EQ(cuda().cuMemAlloc(&block, std::max<std::uint64_t>(8, bytes)), CUDA_SUCCESS);
    blocks_.push_back(block);
    return block;
  }

  CUdeviceptr upload(const Tensor& tensor) {
    const CUdeviceptr block = allocate(tensor.bytes());
    EXPECT_EQ(cuda().cuMemcpyHtoDAsync(block, tensor.data(), tensor.bytes(), device_->stream()), CUDA_SUCCESS);
    return block;
  }

  /// Runs the baseline of a workload: its outputs against the truth, of large ones of some rows, and its time. Once for
  /// each of `changes`, which are merged into the description.
  void check(const problem::Definition& definition, const problem::Workload& workload,
             const std::vector<Json>& changes = {Json::object()}) {
    const auto problem = *problem::make_problem(definition, workload);
    SCOPED_TRACE(problem.title());
    const auto inputs = problem::make_inputs(problem, {});
    ASSERT_TRUE(inputs.has_value()) << inputs.error().message;
    std::vector<std::uint64_t> addresses;
    addresses.reserve(inputs->size());
    for (const Tensor& input : *inputs) addresses.push_back(upload(input));
    for (const Json& change : changes) {
      SCOPED_TRACE(change.dump());
      Json description = evaluation::baseline_for(problem, *inputs);
      ASSERT_FALSE(description.is_null());
      description.update(change);
      auto baseline = make_baseline(*device_, description);
      if (!baseline && baseline.error().message.find("not installed") != std::string::npos)
        GTEST_SKIP() << baseline.error().message;
      ASSERT_TRUE(baseline.has_value()) << baseline.error().message;
      auto outputs = *problem::make_outputs(problem);
      std::vector<std::uint64_t> results;
      results.reserve(outputs.size());
      for (const Tensor& output : outputs) results.push_back(upload(output));
      const auto ran = (*baseline)->run(addresses, results);
      ASSERT_TRUE(ran.has_value()) << ran.error().message;
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        ASSERT_EQ(cuda().cuMemcpyDtoHAsync(outputs[i].data(), results[i], outputs[i].bytes(), device_->stream()),
                  CUDA_SUCCESS);
      }
      ASSERT_TRUE(device_->synchronize("the baseline").has_value());
      compare(problem, *inputs, outputs);
      time(problem, **baseline, addresses, results, change);
    }
    for (const CUdeviceptr block : blocks_) cuda().cuMemFree(block);
    blocks_.clear();
  }

  /// Stored workloads first: their times are what is asked for most.
  void check_all(const char* name, const std::vector<Json>& changes = {Json::object()}) {
    const problem::Definition& definition = **shipped().find_definition(name);
    for (const problem::Workload& workload : shipped().workloads(name)) check(definition, workload, changes);
    for (const problem::Workload& workload : shipped().checks(name)) check(definition, workload, changes);
  }

  void check_axes(const char* name, const std::vector<std::string>& axes) {
    const problem::Definition& definition = **shipped().find_definition(name);
    const auto workload = shipped().workload_for_axes(definition, axes);
    ASSERT_TRUE(workload.has_value()) << workload.error().message;
    check(definition, *workload);
  }

 private:
  static void compare(const problem::Problem& problem, const std::vector<Tensor>& inputs,
                      std::vector<Tensor>& outputs) {
    problem::TruthRequest request = problem::request_for(problem, inputs);
    // The first, some middle and the last rows of each leading extent's worth: requests and heads of all kinds.
    constexpr std::int64_t kRows = 96, kPlaces = 5;
    for (const Tensor& output : outputs) {
      const auto columns = static_cast<std::int64_t>(output.row_length());
      const std::int64_t rows = static_cast<std::int64_t>(output.count) / columns;
      auto& tiles = request.tiles.emplace_back();
      if (rows <= kRows * kPlaces) {
        tiles.push_back({0, rows, 0, columns});
        continue;
      }
      for (std::int64_t place = 0; place < kPlaces; ++place) {
        const std::int64_t begin = (rows - kRows) * place / (kPlaces - 1);
        tiles.push_back({begin, begin + kRows, 0, columns});
      }
    }
    const auto truth = (*problem::find_reference(problem.definition))(request);
    ASSERT_TRUE(truth.has_value()) << truth.error().message;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      // FlashInfer's logarithm of an empty sum is a number near -50000.
      if (problem.definition.outputs[i].name == "lse") {
        for (float& value : outputs[i].as<float>()) value = value < -40000 ? -INFINITY : value;
      }
      problem::CompareOptions options;
      options.known = request.tiles[i];
      options.term_norms = truth->term_norms[i];
      options.diagnose = false;
      const auto result = problem::compare(outputs[i], truth->outputs[i].as<float>(),
                                           problem::limits_for(problem.definition, i), options);
      EXPECT_EQ(result.verdict, problem::Verdict::passed) << problem::describe(result);
    }
  }

  /// Each run after a flush of the cache that also lets the host get ahead.
  void time(const problem::Problem& problem, Baseline& baseline, const std::vector<std::uint64_t>& inputs,
            const std::vector<std::uint64_t>& outputs, const Json& change) {
    constexpr std::size_t kFlushBytes = std::size_t{512} << 20;
    constexpr int kRuns = 20;
    const CUdeviceptr flush = allocate(kFlushBytes);
    CUevent begin = nullptr, end = nullptr;
    ASSERT_EQ(cuda().cuEventCreate(&begin, CU_EVENT_DEFAULT), CUDA_SUCCESS);
    ASSERT_EQ(cuda().cuEventCreate(&end, CU_EVENT_DEFAULT), CUDA_SUCCESS);
    std::vector<float> times;
    for (int run = 0; run < kRuns; ++run) {
      cuda().cuMemsetD8Async(flush, static_cast<unsigned char>(run), kFlushBytes, device_->stream());
      cuda().cuEventRecord(begin, device_->stream());
      ASSERT_TRUE(baseline.run(inputs, outputs).has_value());
      cuda().cuEventRecord(end, device_->stream());
      ASSERT_TRUE(device_->synchronize("the baseline").has_value());
      float milliseconds = 0;
      ASSERT_EQ(cuda().cuEventElapsedTime(&milliseconds, begin, end), CUDA_SUCCESS);
      times.push_back(milliseconds);
    }
    cuda().cuEventDestroy(begin);
    cuda().cuEventDestroy(end);
    std::sort(times.begin(), times.end());
    fmt::print("[   TIME   ] {:9.2f} us  {} {}  {} {}\n", 1e3 * static_cast<double>(times[kRuns / 2]), baseline.name(),
               baseline.version(), problem.title(), change.empty() ? "" : change.dump());
    std::fflush(stdout);
  }

  std::vector<CUdeviceptr> blocks_;
};

TEST_F(Baselines, FlashInferDecodes) {
  for (const char* name : {"gqa_paged_decode_h24_kv8_d128_ps1", "gqa_paged_decode_h24_kv8_d128_ps64",
                           "gqa_paged_decode_h32_kv4_d128_ps1", "gqa_paged_decode_h32_kv8_d128_ps1"}) {
    check_all(name, {Json::object(), Json::object({{"tensor_cores", true}})});
  }
}

TEST_F(Baselines, FlashInferPrefillsFromPages) {
  for (const char* name : {"gqa_paged_prefill_causal_h24_kv8_d128_ps1", "gqa_paged_prefill_causal_h24_kv8_d128_ps64",
                           "gqa_paged_prefill_causal_h32_kv8_d128_ps1"}) {
    check_all(name);
  }
}

TEST_F(Baselines, FlashInferPrefillsRaggedRequests) {
  for (const char* name : {"gqa_ragged_prefill_causal_h24_kv8_d128", "gqa_ragged_prefill_causal_h32_kv4_d128",
                           "gqa_ragged_prefill_causal_h32_kv8_d128"}) {
    check_all(name);
  }
}

TEST_F(Baselines, FlashInferSaysWhatItWasNotBuiltFor) {
  const problem::Definition& definition = **shipped().find_definition("gqa_ragged_prefill_causal_h32_kv4_d128");
  const auto problem = *problem::make_problem(definition, shipped().checks(definition.name)[0]);
  Json description = evaluation::baseline_for(problem, *problem::make_inputs(problem, {}));
  description["causal"] = false;
  const auto baseline = make_baseline(*device_, description);
  ASSERT_FALSE(baseline.has_value());
  EXPECT_NE(baseline.error().message.find("not for bfloat16, depth 128, prefill"), std::string::npos)
      << baseline.error().message;
}

TEST_F(Baselines, CublasLtMultiplies) { check_axes("gemm_n7168_k5120", {"M=512"}); }

TEST_F(Baselines, CudnnAttends) {
  check_axes("mha_with_lse_d128", {"S=512"});
  check_axes("mha_with_lse_d128_causal", {"S=512"});
}

TEST_F(Baselines, CudnnDifferentiates) { check_axes("mha_bwd_d128_causal", {"S=512"}); }

}  // namespace
}  // namespace ptxbench::gpu
