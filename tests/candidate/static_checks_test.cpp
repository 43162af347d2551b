#include "candidate/static_checks.h"

#include <gtest/gtest.h>

namespace ptxbench::candidate {
namespace {

std::vector<std::string> rules(const std::vector<StaticFinding>& findings) {
  std::vector<std::string> names;
  for (const auto& finding : findings) names.push_back(finding.rule + " " + finding.subject);
  return names;
}

TEST(StaticChecks, FindsVendorLibrariesInTheSource) {
  const auto findings = check_source(
      "#include <cublas_v2.h>\n#  include \"cudnn.h\"\nvoid f() {\n  cublasCreate(&h);\n  cutlass::gemm();\n}\n");
  EXPECT_EQ(rules(findings),
            (std::vector<std::string>{"candidate.banned_library cublas_v2.h", "candidate.banned_library cudnn.h",
                                      "candidate.banned_library cublasCreate", "candidate.banned_library cutlass"}));
  EXPECT_EQ(findings[0].line, 1);
  EXPECT_EQ(findings[2].line, 4);
}

TEST(StaticChecks, FollowsLineDirectives) {
  const auto findings = check_source(
      "int x;\n#line 1 \"tiles.cu\"\n\nvoid f() { cublasCreate(&h); }\n#line 3 \"kernel.cu\"\ndlopen(0, 1);\n");
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].file, "tiles.cu");
  EXPECT_EQ(findings[0].line, 2);
  EXPECT_EQ(findings[1].file, "kernel.cu");
  EXPECT_EQ(findings[1].line, 3);
}

TEST(StaticChecks, IgnoresTalkAndLookalikes) {
  EXPECT_TRUE(check_source("// faster than cublasGemmEx()\nconst char* s = \"cudnnCreate()\";\n"
                           "int cublas_time = 0; int cublas = cublas_time;\n#include <cuda_runtime.h>\n")
                  .empty());
}

TEST(StaticChecks, FindsCodeLoading) {
  EXPECT_EQ(rules(check_source("void* h = dlopen(name, 1);\ncuModuleLoadData(&m, image);\n")),
            (std::vector<std::string>{"candidate.loads_code dlopen", "candidate.loads_code cuModuleLoadData"}));
}

TEST(StaticChecks, JudgesTheLibrary) {
  DynamicSymbols symbols;
  symbols.exported = {"__tvm_ffi_run"};
  symbols.undefined = {"TVMFFIEnvGetStream", "cudaLaunchKernel", "memcpy"};
  symbols.needed = {"libcudart.so.13", "libc.so.6", "libtvm_ffi.so"};
  EXPECT_TRUE(check_library(symbols).empty());

  symbols.exported = {"__tvm_ffi_other"};
  symbols.undefined = {"cublasCreate_v2", "dlsym", "cuLinkCreate_v2"};
  symbols.needed = {"libcublas.so.13"};
  EXPECT_EQ(rules(check_library(symbols)),
            (std::vector<std::string>{"candidate.no_entry __tvm_ffi_run", "candidate.banned_library cublasCreate_v2",
                                      "candidate.loads_code dlsym", "candidate.loads_code cuLinkCreate_v2",
                                      "candidate.banned_library libcublas.so.13"}));
}

}  // namespace
}  // namespace ptxbench::candidate
