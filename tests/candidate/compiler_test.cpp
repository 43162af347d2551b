#include "candidate/compiler.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"
#include "base/text.h"
#include "candidate/abi.h"
#include "candidate/elf_symbols.h"
#include "candidate/identity.h"

namespace ptxbench::candidate {
namespace {

constexpr const char* kGood = R"(#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

__global__ void fill(float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = 1.0f;
}

void run(tvm::ffi::TensorView out) {
  if (out.ndim() != 1) TVM_FFI_THROW(ValueError) << "one dimension, not " << out.ndim();
  const std::vector<int64_t> shape(out.shape().begin(), out.shape().end());
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(out.device().device_type, out.device().device_id));
  fill<<<1, 32, 0, stream>>>(static_cast<float*>(out.data_ptr()), static_cast<int>(shape[0]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
)";

constexpr const char* kBadPtx = R"(#include <tvm/ffi/tvm_ffi.h>
__device__ __forceinline__ void arrive(unsigned address) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], ;" ::"r"(address));
}
__global__ void k() {
  arrive(16);
}
void run() { k<<<1, 1>>>(); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
)";

/// ptxas says how long it took.
std::string without_times(std::string_view log) {
  std::string text;
  for (const std::string_view line : base::split_lines(log)) {
    if (line.find("Compile time") == std::string_view::npos) text += std::string(line) + "\n";
  }
  return text;
}

class CompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto compiler = Compiler::create();
    if (!compiler) GTEST_SKIP() << compiler.error().message;
    compiler_.emplace(std::move(*compiler));
  }
  std::optional<Compiler> compiler_;
};

TEST_F(CompilerTest, MakesLibraryPtxAndCubin) {
  const auto compilation = compiler_->compile(kGood);
  ASSERT_TRUE(compilation) << compilation.error().message;
  ASSERT_TRUE(compilation->report.succeeded()) << compilation->report.log;
  EXPECT_EQ(compilation->report.headers, HeaderSet::lean);
  EXPECT_TRUE(compilation->static_findings.empty());
  ASSERT_TRUE(compilation->artifact);
  const auto ptx = base::read_file(compilation->artifact->ptx());
  ASSERT_TRUE(ptx);
  EXPECT_NE(ptx->find(".target sm_90a"), std::string::npos);
  EXPECT_NE(ptx->find(".loc"), std::string::npos) << "line information is needed to point into the source";
  const auto cubin = base::read_file(compilation->artifact->cubin());
  ASSERT_TRUE(cubin);
  EXPECT_TRUE(cubin->starts_with("\177ELF"));
  ASSERT_EQ(compilation->report.kernels.size(), 1u);
  EXPECT_EQ(compilation->report.kernels[0].demangled, "fill(float*, int)");
  EXPECT_GT(compilation->report.kernels[0].registers, 0);

  const auto again = compiler_->compile(kGood);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->report.cached);
  EXPECT_EQ(again->artifact->id, compilation->artifact->id);
}

TEST_F(CompilerTest, SideBySideGivesWhatNvccGives) {
  const std::string good = kGood;
  const auto changed = [&](std::string_view from, std::string_view to) { return base::replace_all(good, from, to); };
  const std::string sources[] = {
      "#warning here\n__device__ static int counter;\n" + good,
      kBadPtx,
      "#include \"missing.h\"\n" + good,
      changed("1.0f", "undeclared"),
      // An error that g++ alone finds.
      "#include <tvm/ffi/tvm_ffi.h>\nstatic int x __attribute__((alias(\"nothing\")));\n" + good,
  };
  for (const std::string& source : sources) {
    CompileOptions options;
    options.use_cache = false;
    options.headers = HeaderChoice::lean;
    const auto compile = [&](bool side_by_side) {
      options.side_by_side = side_by_side;
      auto compilation = compiler_->compile(source, options);
      EXPECT_TRUE(compilation) << compilation.error().message;
      std::vector<std::string> made;
      if (compilation->artifact) {
        const Identity identity = *identity_of(*compilation->artifact);
        made = {identity.behaviour, identity.places};
        // Both name the folder in which they were made, and line tables say when the source was written.
        for (const auto& file : {compilation->artifact->ptx(), compilation->artifact->cubin()}) {
          std::string bytes = *base::read_file(file);
          for (const auto& [before, count] : {std::pair(std::string("ptxbench-compile-"), std::size_t{6}),
                                              {std::string("\0kernel.cu\0", 11), std::size_t{6}}}) {
            for (auto at = bytes.find(before); at != std::string::npos; at = bytes.find(before, at + 1)) {
              bytes.replace(at + before.size(), count, count, 'X');
            }
          }
          made.push_back(std::move(bytes));
        }
      }
      return std::pair(std::move(compilation->report), made);
    };
    const auto [whole, whole_made] = compile(false);
    const auto [parts, parts_made] = compile(true);
    EXPECT_EQ(parts.status, whole.status) << parts.log;
    EXPECT_EQ(without_times(parts.log), without_times(whole.log));
    EXPECT_EQ(parts.flags, whole.flags);
    EXPECT_TRUE(parts_made == whole_made) << source;
  }
}

TEST_F(CompilerTest, IdentityIsThatOfTheCodeNotOfTheText) {
  const auto identity = [&](const std::string& source) {
    const auto compilation = compiler_->compile(source);
    EXPECT_TRUE(compilation && compilation->artifact) << source;
    const auto made = identity_of(*compilation->artifact);
    EXPECT_TRUE(made) << made.error().message;
    return made.value_or(Identity{});
  };
  const auto changed = [](std::string_view from, std::string_view to) {
    std::string source = kGood;
    source.replace(source.find(from), from.size(), to);
    return source;
  };
  const Identity first = identity(kGood);
  // Another comment, no line moved.
  const Identity commented = identity(changed("float* out, int n) {", "float*   out, int n) {  // fills"));
  EXPECT_EQ(commented.behaviour, first.behaviour);
  EXPECT_EQ(commented.places, first.places);
  // The exception holds the number of its line.
  EXPECT_NE(identity(changed("__global__", "\n__global__")).behaviour, first.behaviour);
  // Host code alone, device code alone.
  const Identity launched = identity(changed("<<<1, 32, 0", "<<<1, 64, 0"));
  EXPECT_NE(launched.behaviour, first.behaviour);
  EXPECT_EQ(launched.places, first.places);
  EXPECT_NE(identity(changed("out[i] = 1.0f", "out[i] = 2.0f")).behaviour, first.behaviour);
}

TEST_F(CompilerTest, TheLibraryCanBeCalled) {
  const auto compilation = compiler_->compile(kGood);
  ASSERT_TRUE(compilation);
  ASSERT_TRUE(compilation->artifact) << compilation->report.log;
  // Loaded first, these satisfy the candidate's needs by name, as the runner does it.
  const auto cudart = compiler_->toolchain().cuda.library_dir() / "libcudart.so.13";
  ASSERT_NE(dlopen(cudart.c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  void* ffi = dlopen(compiler_->toolchain().ffi_runtime.c_str(), RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(ffi, nullptr) << dlerror();
  void* library = dlopen(compilation->artifact->library().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto entry = reinterpret_cast<abi::EntryFunction>(dlsym(library, abi::kEntrySymbol));
  ASSERT_NE(entry, nullptr);
  std::int64_t shape[2] = {4, 4};
  abi::Tensor tensor;
  tensor.ndim = 2;
  tensor.shape = shape;
  abi::Any argument;
  argument.type = abi::TypeIndex::tensor_pointer;
  argument.tensor = &tensor;
  abi::Any result;
  ASSERT_EQ(entry(nullptr, &argument, 1, &result), -1);
  void* error = nullptr;
  reinterpret_cast<abi::MoveErrorFunction>(dlsym(ffi, abi::kMoveErrorSymbol))(&error);
  ASSERT_NE(error, nullptr);
  const auto* object = static_cast<const abi::ErrorObject*>(error);
  EXPECT_EQ(std::string(object->message.data, object->message.size), "one dimension, not 2");
  EXPECT_NE(std::string(object->backtrace.data, object->backtrace.size).find("kernel.cu\", line 10"),
            std::string::npos);
  reinterpret_cast<abi::ReleaseFunction>(dlsym(ffi, abi::kReleaseSymbol))(error);
}

TEST_F(CompilerTest, PtxErrorsNameTheSourceLine) {
  const auto compilation = compiler_->compile(kBadPtx);
  ASSERT_TRUE(compilation) << compilation.error().message;
  EXPECT_EQ(compilation->report.status, CompileStatus::failed);
  EXPECT_FALSE(compilation->artifact);
  ASSERT_FALSE(compilation->report.messages.empty()) << compilation->report.log;
  EXPECT_EQ(compilation->report.messages[0].rule, "compile.ptx_error");
  EXPECT_EQ(compilation->report.messages[0].where.file, "kernel.cu");
  EXPECT_EQ(compilation->report.messages[0].where.line, 3);
  ASSERT_FALSE(compilation->report.messages[0].inlined_from.empty());
  EXPECT_EQ(compilation->report.messages[0].inlined_from[0].line, 6);
}

TEST_F(CompilerTest, TimeIsLimited) {
  CompileOptions options;
  options.wall_limit = std::chrono::seconds(0);
  const auto compilation = compiler_->compile("// never cached\n__global__ void k();\n", options);
  ASSERT_TRUE(compilation) << compilation.error().message;
  EXPECT_EQ(compilation->report.status, CompileStatus::timed_out);
}

TEST_F(CompilerTest, EverythingThatMattersIsInTheId) {
  CompileOptions lean;
  lean.headers = HeaderChoice::lean;
  EXPECT_NE(compiler_->artifact_id("a", {}), compiler_->artifact_id("b", {}));
  if (compiler_->toolchain().upstream) {
    EXPECT_NE(compiler_->artifact_id("a", {}), compiler_->artifact_id("a", lean));
  }
  Toolchain other = compiler_->toolchain();
  other.cuda.version = "13.0.99";
  EXPECT_NE(Compiler(other, compiler_->cache()).artifact_id("a", {}), compiler_->artifact_id("a", {}));
}

TEST(CompilerSetup, MissingToolkitNamesTheRemedy) {
  const auto nowhere = base::TempDir::create();
  ASSERT_TRUE(nowhere);
  setenv("PTXBENCH_FORCE_WHEEL_CUDA", "1", 1);
  setenv("PTXBENCH_HOME", nowhere->path().c_str(), 1);
  const auto compiler = Compiler::create();
  unsetenv("PTXBENCH_FORCE_WHEEL_CUDA");
  unsetenv("PTXBENCH_HOME");
  ASSERT_FALSE(compiler);
  EXPECT_EQ(compiler.error().kind, ErrorKind::infrastructure);
  EXPECT_NE(compiler.error().message.find("doctor"), std::string::npos) << compiler.error().message;
}

TEST(CompilerHelpers, FindsStandardHeadersThatUpstreamBringsIn) {
  EXPECT_EQ(std_header_macros("std::vector<std::string> x; std::vector<int> y;"),
            (std::vector<std::string>{"PTXBENCH_STD_STRING", "PTXBENCH_STD_VECTOR"}));
  EXPECT_TRUE(std_header_macros("// std::vector\nconst char* s = \"std::string\"; std::size_t n;").empty());
}

TEST(CompilerHelpers, OnlyHeaderTroubleIsRetried) {
  const auto blamed = [](const char* output) {
    CompileReport report;
    parse_compiler_output(output, "", report);
    return lean_headers_to_blame(report, "");
  };
  EXPECT_TRUE(blamed("kernel.cu(4): error: namespace \"tvm::ffi\" has no member \"String\"\n"));
  EXPECT_TRUE(blamed("/x/include/tvm/ffi/function.h(70): error: incomplete type is not allowed\n"));
  EXPECT_TRUE(blamed("kernel.cu:2:10: fatal error: tvm/ffi/container/map.h: No such file or directory\n"));
  EXPECT_TRUE(blamed("kernel.cu(9): error: namespace \"std\" has no member \"regex\"\n"));
  EXPECT_FALSE(blamed("kernel.cu(4): error: identifier \"foo\" is undefined\n"));
  EXPECT_FALSE(blamed("ptxas ./kernel.ptx, line 11; error   : Unknown modifier '.tvm'\n"));
}

TEST(CompilerHelpers, Targets) {
  EXPECT_EQ(*parse_target("sm_90a"), Target::sm_90a);
  EXPECT_EQ(*parse_target("Hopper"), Target::sm_90a);
  EXPECT_FALSE(parse_target("sm_75"));
}

}  // namespace
}  // namespace ptxbench::candidate
