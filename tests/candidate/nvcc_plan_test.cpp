#include "candidate/nvcc_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/files.h"
#include "base/text.h"

namespace ptxbench::candidate {
namespace {

using Command = NvccPlan::Command;

/// Of `nvcc --dryrun`, with fewer options.
constexpr const char* kDryRun = R"(#$ _SPACE_= 
#$ CICC_PATH=/cuda/bin/../nvvm/bin
#$ PATH=/cuda/bin:/usr/bin
#$ INCLUDES="-I/cuda/bin/../include"  
#$ "/usr/bin"/g++ -std=c++17 -E -x c++ -D__CUDACC__  -include "cuda_runtime.h" -m64 "kernel.cu" -o "./kernel.cpp4.ii" 
#$ cudafe++ --c++17 --gen_c_file_name "./kernel.cudafe1.cpp" --gen_module_id_file --module_id_file_name "./kernel.module_id" "./kernel.cpp4.ii" 
#$ "/usr/bin"/g++ -std=c++17 -D__CUDA_ARCH__=900 -E -x c++ -m64 "kernel.cu" -o "./kernel.cpp1.ii" 
#$ "$CICC_PATH/cicc" --c++17 -arch compute_90a --include_file_name "kernel.fatbin.c" "./kernel.cpp1.ii" -o "./kernel.ptx"
#$ ptxas -arch=sm_90a -m64 -v "./kernel.ptx"  -o "./kernel.sm_90a.cubin" 
#$ fatbinary --create="./kernel.fatbin" -64 --cicc-cmdline="-ftz=0 -fmad=1 " "--image3=kind=elf,sm=90a,file=./kernel.sm_90a.cubin" "--image3=kind=ptx,sm=90a,file=./kernel.ptx" --embedded-fatbin="./kernel.fatbin.c" 
#$ "/usr/bin"/g++ -std=c++17 -c -x c++ -fPIC -m64 "./kernel.cudafe1.cpp" -o "kernel.o" 
)";

constexpr const char* kEmbedded =
    "#include \"x.h\"\nasm(\n\".section .nv_fatbin\\n\"\n\"fatbinData:\\n\"\n\".quad "
    "0x1,0x2\\n\"\n\".text\\n\");\nextern int y;\n";

TEST(NvccPlan, IsReadFromADryRun) {
  const auto plan = parse_plan(kDryRun);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->preprocess_host[0], "/usr/bin/g++");
  EXPECT_EQ(plan->preprocess_host.back(), "./kernel.cpp4.ii");
  EXPECT_EQ(plan->cicc[0], "/cuda/bin/../nvvm/bin/cicc");
  EXPECT_EQ(plan->variables.at("PATH"), "/cuda/bin:/usr/bin");
  EXPECT_EQ(plan->fatbinary,
            (Command{"fatbinary", "--create=./kernel.fatbin", "-64", "--cicc-cmdline=-ftz=0 -fmad=1 ",
                     "--image3=kind=elf,sm=90a,file=./kernel.sm_90a.cubin",
                     "--image3=kind=ptx,sm=90a,file=./kernel.ptx", "--embedded-fatbin=./kernel.fatbin.c"}));
}

TEST(NvccPlan, WhatIsUnknownIsLeftToNvcc) {
  const std::string text = kDryRun;
  const auto changed = [&](std::string_view from, std::string_view to) {
    return parse_plan(base::replace_all(text, from, to));
  };
  EXPECT_FALSE(parse_plan(""));
  EXPECT_FALSE(changed("ptxas ", "nvlink "));
  EXPECT_FALSE(changed("#$ ptxas", "#$ ptxas -arch=sm_90a x.ptx\n#$ ptxas"));
  EXPECT_FALSE(changed("#$ ptxas", "ptxas"));
  EXPECT_FALSE(changed("CICC_PATH=", "CUDA_PATH="));
  EXPECT_FALSE(changed("-D__CUDACC__", "-DX=\\\"y\\\""));
  EXPECT_FALSE(changed("-D__CUDACC__", "-DX='y'"));
  EXPECT_FALSE(changed("\"kernel.o\"", "\"kernel.o"));
}

/// Stands in for the tools: remembers what ran, and fails where asked to.
class Tools {
 public:
  explicit Tools(const std::filesystem::path& folder) : folder_(folder) {}

  Result<base::ProcessResult> operator()(const Command& command, const std::stop_token& cancel) {
    const std::string name = name_of(command);
    {
      const std::lock_guard hold(mutex_);
      names_.push_back(name);
      ++running_;
      most_ = std::max(most_, running_);
    }
    if (name == "fatbinary early") (void)base::write_file_atomic(folder_ / "early.fatbin.c", embedded);
    // Long enough to meet another one, or until cancelled.
    for (int i = 0; i < (name == endless ? 2000 : 20) && !cancel.stop_requested(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    base::ProcessResult result;
    result.exit_code = name == failing && signal == 0 ? 2 : signal == 0 || name != failing ? 0 : -1;
    result.signal = name == failing ? signal : 0;
    result.cancelled = cancel.stop_requested();
    result.stderr_text = name + ";";
    const std::lock_guard hold(mutex_);
    --running_;
    return result;
  }

  static std::string name_of(const Command& command) {
    std::string program = std::filesystem::path(command[0]).filename();
    if (program == "fatbinary") {
      const auto early = std::find(command.begin(), command.end(), "--create=early.fatbin") != command.end();
      return early ? "fatbinary early" : "fatbinary";
    }
    if (program != "g++") return program;
    for (const char* stage : {"-E", "-S", "kernel.host.s"}) {
      if (std::find(command.begin(), command.end(), stage) != command.end()) return std::string("g++ ") + stage;
    }
    return "g++ -c";
  }

  int times(std::string_view name) const { return static_cast<int>(std::count(names_.begin(), names_.end(), name)); }
  int most() const { return most_; }

  std::string embedded = kEmbedded, failing, endless;
  int signal = 0;

 private:
  std::filesystem::path folder_;
  std::mutex mutex_;
  std::vector<std::string> names_;
  int running_ = 0, most_ = 0;
};

class NvccPlanRun : public ::testing::Test {
 protected:
  Result<std::optional<base::ProcessResult>> run() {
    return run_plan(*parse_plan(kDryRun), folder_.path(),
                    [this](const Command& command, const std::stop_token& cancel) { return tools_(command, cancel); });
  }
  base::TempDir folder_ = *base::TempDir::create();
  Tools tools_{folder_.path()};
};

TEST_F(NvccPlanRun, HostAndDeviceAtOnce) {
  const auto result = run();
  ASSERT_TRUE(result && *result);
  EXPECT_TRUE((*result)->ok());
  EXPECT_EQ((*result)->stderr_text, "g++ -E;cudafe++;g++ -E;cicc;ptxas;fatbinary;g++ -S;g++ kernel.host.s;");
  EXPECT_EQ(tools_.most(), 2);
  EXPECT_EQ(
      *base::read_file(folder_.path() / "kernel.fatbin.c"),
      "#include \"x.h\"\nasm(\n\".section .nv_fatbin\\n\"\n\"fatbinData:\\n\"\n\".incbin \\\"./kernel.fatbin\\\"\\n\"\n"
      "\".text\\n\");\nextern int y;\n");
}

TEST_F(NvccPlanRun, AnotherFormOfEmbeddingIsCompiledLast) {
  tools_.embedded = "asm(\".incbin\");";
  const auto result = run();
  ASSERT_TRUE(result && *result);
  EXPECT_TRUE((*result)->ok());
  EXPECT_EQ((*result)->stderr_text, "g++ -E;cudafe++;g++ -E;cicc;ptxas;fatbinary;g++ -c;");
}

TEST_F(NvccPlanRun, StopsWhereNvccWould) {
  tools_.failing = "cudafe++";
  auto result = run();
  ASSERT_TRUE(result && *result);
  EXPECT_EQ((*result)->exit_code, 2);
  EXPECT_EQ((*result)->stderr_text, "g++ -E;cudafe++;") << "not what was said meanwhile";
  EXPECT_EQ(tools_.times("cicc"), 0);

  // Nobody waits for the host's code when there is no machine code.
  tools_.failing = "ptxas";
  tools_.endless = "g++ -S";
  const auto start = std::chrono::steady_clock::now();
  result = run();
  ASSERT_TRUE(result && *result);
  EXPECT_EQ((*result)->stderr_text, "g++ -E;cudafe++;g++ -E;cicc;ptxas;");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(tools_.times("fatbinary"), 0);

  tools_.endless.clear();
  tools_.failing = "g++ -S";
  result = run();
  ASSERT_TRUE(result && *result);
  EXPECT_EQ((*result)->stderr_text, "g++ -E;cudafe++;g++ -E;cicc;ptxas;fatbinary;g++ -S;");
  EXPECT_EQ((*result)->exit_code, 2);
}

TEST_F(NvccPlanRun, ACrashIsLeftToNvcc) {
  tools_.failing = "cicc";
  tools_.signal = 11;
  const auto result = run();
  ASSERT_TRUE(result);
  EXPECT_FALSE(*result);
}

}  // namespace
}  // namespace ptxbench::candidate
