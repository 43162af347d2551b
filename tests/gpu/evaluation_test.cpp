// Candidates on a real GPU. Without one every test skips itself.

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/text.h"
#include "evaluation/evaluator.h"
#include "evaluator_fixture.h"
#include "gpu/executor_process.h"
#include "problem/dataset.h"

namespace ptxbench::evaluation {
namespace {

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu::has_gpu()) GTEST_SKIP() << "no GPU on this machine";
  }
  static EvaluateOptions options() {
    EvaluateOptions out = quick_options();
    out.backend = EvaluateOptions::Backend::gpu;
    out.timing = false;
    return out;
  }
  static EvaluateOptions timed_options(std::size_t calls) {
    EvaluateOptions out = options();
    out.timing = true;
    out.count_instructions = false;
    out.stop = gpu::StopRule::exactly(calls);
    return out;
  }
  static std::string gpu_candidate_source(const char* name) {
    return base::read_file(std::filesystem::path("tests/gpu/candidates") / name).value();
  }
  static const FamilyCount* family(const Evaluation& evaluation, std::string_view name) {
    if (!evaluation.instructions) return nullptr;
    for (const FamilyCount& one : evaluation.instructions->families) {
      if (one.family == name) return &one;
    }
    return nullptr;
  }
};

TEST_F(OnGpu, ExamplesPassAndAreTimed) {
  EvaluateOptions timed = options();
  timed.timing = true;
  for (const char* name : {"gemm_simt.cu", "gemm_warp_specialized.cu", "gemm_persistent_cluster.cu"}) {
    const Evaluation got = evaluate(example_source(name), small_problem(256), timed);
    EXPECT_EQ(got.verdict, Status::passed) << name << dump(got);
    ASSERT_EQ(got.performance.size(), 1u) << name;
    EXPECT_TRUE(got.performance[0].times.speedup.has_value()) << got.performance[0].no_baseline;
    EXPECT_GT(got.performance[0].times.candidate.value, 0);
    EXPECT_EQ(got.performance[0].inputs, TimedInputs::fresh);
    EXPECT_GE(got.performance[0].verified_calls, 1u);
  }
}

// O and L of a backward pass follow from the other inputs: none of them can be made anew, but all can be permuted.
TEST_F(OnGpu, BackwardPassesMeetPermutedInputs) {
  EvaluateOptions timed = timed_options(24);
  const auto dataset = problem::Dataset::load(problem::dataset_roots({}).value()).value();
  const std::string honest = example_source("attention_backward.cu");
  const std::string replayed =
      base::replace_all(honest, "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, attention_backward::run);", R"(
void replay(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, tvm::ffi::TensorView o,
            tvm::ffi::TensorView d_o, tvm::ffi::TensorView l, tvm::ffi::TensorView d_q, tvm::ffi::TensorView d_k,
            tvm::ffi::TensorView d_v) {
  static int calls = 0;
  static void* kept[3];
  void* const out[3] = {d_q.data_ptr(), d_k.data_ptr(), d_v.data_ptr()};
  const size_t bytes = 2 * q.size(0) * q.size(1) * q.size(2) * q.size(3);
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(q.device().device_type, q.device().device_id));
  const bool first = calls++ == 0;
  if (first) attention_backward::run(q, k, v, o, d_o, l, d_q, d_k, d_v);
  for (int i = 0; i < 3; ++i) {
    if (first) cudaMalloc(&kept[i], bytes);
    cudaMemcpyAsync(first ? kept[i] : out[i], first ? out[i] : kept[i], bytes, cudaMemcpyDeviceToDevice, stream);
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, replay);
)");
  ASSERT_NE(replayed, honest);
  for (const std::string name : {"mha_bwd_d128", "mha_bwd_d64"}) {
    const auto* definition = dataset.find_definition(name).value();
    const auto workload = dataset.workload_for_axes(*definition, {"B=2", "H=3", "S=330"}).value();
    const auto problem = problem::make_problem(*definition, workload).value();
    const Evaluation good = evaluate(honest, problem, timed);
    EXPECT_EQ(good.verdict, Status::passed) << name << dump(good);
    ASSERT_EQ(good.performance.size(), 1u) << name << dump(good);
    EXPECT_EQ(good.performance[0].inputs, TimedInputs::permuted);
    EXPECT_GE(good.performance[0].verified_calls, 2u);
    EXPECT_EQ(good.performance[0].verified_elements, good.performance[0].verified_calls * 3 * 2 * 16 * 64);
    // The first call's results, again and again.
    const Evaluation bad = evaluate(replayed, problem, timed);
    EXPECT_EQ(bad.verdict, Status::failed) << name << dump(bad);
    EXPECT_NE(find(bad, "timing.wrong-output"), nullptr) << name << dump(bad);
  }
}

// Unit rows, decay and scale of the delta rule and scale factors of FP8 fit any contents of the others: these are new
// in each call.
TEST_F(OnGpu, DerivedInputsThatFitAnyOthersKeepNothingFromBeingFresh) {
  EvaluateOptions timed = timed_options(24);
  const auto dataset = problem::Dataset::load(problem::dataset_roots({}).value()).value();
  const struct {
    const char *candidate, *definition, *axis;
  } cases[] = {{"gdn_decode.cu", "gdn_decode_qk4_v8_d128_k_last", "batch_size=16"},
               {"fp8_gemm.cu", "fp8_gemm_nt_1d2d_n32768_k512", "M=33"}};
  for (const auto& one : cases) {
    const auto* definition = dataset.find_definition(one.definition).value();
    const auto workload = dataset.workload_for_axes(*definition, {one.axis}).value();
    const auto problem = problem::make_problem(*definition, workload).value();
    const std::string honest = gpu_candidate_source(one.candidate);
    const Evaluation good = evaluate(honest, problem, timed);
    EXPECT_EQ(good.verdict, Status::passed) << one.candidate << dump(good);
    ASSERT_EQ(good.performance.size(), 1u) << one.candidate << dump(good);
    EXPECT_EQ(good.performance[0].inputs, TimedInputs::partly);
    EXPECT_GE(good.performance[0].verified_calls, 2u);
    EXPECT_GT(good.performance[0].verified_elements, 0u);
    const Evaluation bad =
        evaluate(base::replace_all(honest, "#define REPLAY 0  // REPLAY", "#define REPLAY 1"), problem, timed);
    EXPECT_EQ(bad.verdict, Status::failed) << one.candidate << dump(bad);
    EXPECT_NE(find(bad, "timing.wrong-output"), nullptr) << one.candidate << dump(bad);
  }
}

// What the emulator counts in PTX is what the hardware executes.
TEST_F(OnGpu, CensusAgreesWithTheEmulators) {
  for (const char* name : {"gemm_mma_cp_async.cu", "gemm_tma_wgmma.cu", "gemm_persistent_cluster.cu"}) {
    const std::string source = example_source(name);
    const Evaluation hardware = evaluate(source, small_problem(256), options());
    const Evaluation emulated = evaluate(source, small_problem(256));
    ASSERT_TRUE(hardware.instructions && emulated.instructions) << name << dump(hardware);
    EXPECT_EQ(hardware.instructions->source, "machine code");
    EXPECT_EQ(hardware.instructions->mac_share, emulated.instructions->mac_share) << name;
    EXPECT_EQ(hardware.instructions->legacy_mma_share, emulated.instructions->legacy_mma_share) << name;
    EXPECT_EQ(hardware.instructions->compat_target, emulated.instructions->compat_target) << name;
    for (const char* kind : {"wgmma", "mma.sync", "tma.load", "tma.store", "ldmatrix", "stmatrix", "cp.async"}) {
      const FamilyCount *left = family(hardware, kind), *right = family(emulated, kind);
      ASSERT_EQ(left == nullptr, right == nullptr) << name << " " << kind;
      if (left == nullptr) continue;
      EXPECT_EQ(left->warps, right->warps) << name << " " << kind;
      EXPECT_EQ(left->lanes, right->lanes) << name << " " << kind;
    }
  }
}

TEST_F(OnGpu, FaultsEndOneEvaluationAndNoOther) {
  // The number of rows chooses the fault: a wild pointer.
  const Evaluation bad = evaluate(candidate_source("device_faults.cu"), small_problem(4), options());
  EXPECT_EQ(bad.verdict, Status::failed) << dump(bad);
  EXPECT_NE(find(bad, "memory.illegal-address"), nullptr) << dump(bad);
  const Evaluation good = evaluate(example_source("gemm_simt.cu"), small_problem(64), options());
  EXPECT_EQ(good.verdict, Status::passed) << dump(good);
}

TEST_F(OnGpu, AnEndlessKernelIsEnded) {
  const Evaluation bad = evaluate(candidate_source("device_faults.cu"), small_problem(1), options());
  EXPECT_EQ(bad.verdict, Status::failed) << dump(bad);
  EXPECT_NE(find(bad, "sync.timeout"), nullptr) << dump(bad);
  const Evaluation good = evaluate(example_source("gemm_simt.cu"), small_problem(64), options());
  EXPECT_EQ(good.verdict, Status::passed) << dump(good);
}

TEST_F(OnGpu, HabitsOfHostCodeAreBorne) {
  EvaluateOptions timed = timed_options(24);
  for (const int habit : {1, 2, 3, 4, 5}) {
    const Evaluation got = evaluate(gpu_candidate_source("call_habits.cu"), small_problem(habit), timed);
    EXPECT_EQ(got.verdict, Status::passed) << habit << dump(got);
    ASSERT_EQ(got.performance.size(), 1u) << habit << dump(got);
    EXPECT_EQ(got.performance[0].times.candidate.count, 24u);
    EXPECT_GE(got.performance[0].verified_calls, 2u);
    // Only a host that wants a result has its own time in a measurement.
    EXPECT_EQ(got.performance[0].times.interrupted > 0, habit == 3 || habit == 4) << habit;
    if (habit != 5) continue;
    const std::string& printed = got.runs.at(0).host_output;
    EXPECT_EQ(printed.rfind("a call\n"), printed.size() - 7) << printed;
    EXPECT_GE(printed.size(), 7u * 29) << "the call that is compared, four that warm up, 24 that count";
  }
}

TEST_F(OnGpu, TheTunedBaselineIsNoSlower) {
  EvaluateOptions timed = timed_options(48);
  const auto problem = small_problem(256);
  const Evaluation first = evaluate(example_source("gemm_warp_specialized.cu"), problem, timed);
  timed.tuned_baseline = true;
  for (int i = 0; i < 2; ++i) {  // tried, and then known
    const Evaluation tuned = evaluate(example_source("gemm_warp_specialized.cu"), problem, timed);
    ASSERT_EQ(tuned.performance.size(), 1u) << dump(tuned);
    EXPECT_EQ(tuned.performance[0].baseline, "cuBLASLt, autotuned");
    EXPECT_EQ(first.performance.at(0).baseline, "cuBLASLt");
    ASSERT_TRUE(tuned.performance[0].times.baseline && first.performance[0].times.baseline);
    EXPECT_LT(tuned.performance[0].times.baseline->value, 1.1 * first.performance[0].times.baseline->value);
  }
}

TEST_F(OnGpu, SanitizersFindWhatIsThereAndNothingElse) {
  const std::string source = gpu_candidate_source("sanitizer_faults.cu");
  const std::vector<std::string> tools = {"memcheck", "racecheck", "initcheck", "synccheck"};
  for (std::size_t i = 0; i < tools.size(); ++i) {
    EvaluateOptions watched = options();
    watched.count_instructions = false;
    watched.sanitizer_tools = {tools[i]};
    const Evaluation faulty = evaluate(source, small_problem(static_cast<std::int64_t>(i) + 1), watched);
    EXPECT_EQ(faulty.verdict, Status::failed) << tools[i] << dump(faulty);
    const Finding* finding = find(faulty, "sanitizer." + tools[i]);
    ASSERT_NE(finding, nullptr) << tools[i] << dump(faulty);
    EXPECT_EQ(finding->place.file, "kernel.cu") << tools[i];
    EXPECT_GT(finding->place.line, 0u) << tools[i];
    ASSERT_EQ(faulty.sanitizer.size(), 1u);
    EXPECT_GT(faulty.sanitizer[0].errors, 0u);
    const Evaluation sound = evaluate(source, small_problem(5), watched);
    EXPECT_EQ(sound.verdict, Status::passed) << tools[i] << dump(sound);
    EXPECT_EQ(sound.sanitizer.at(0).errors, 0u);
  }
}

TEST_F(OnGpu, AGpuThatIsNotThereIsAnInfrastructureError) {
  EvaluateOptions wrong = options();
  wrong.gpu = 99;
  const auto got = evaluator().evaluate(example_source("gemm_simt.cu"), {small_problem(64)}, wrong);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().kind, ErrorKind::infrastructure);
  EXPECT_NE(got.error().message.find("no GPU 99"), std::string::npos) << got.error().message;
}

}  // namespace
}  // namespace ptxbench::evaluation
