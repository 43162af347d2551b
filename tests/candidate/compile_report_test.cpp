#include "candidate/compile_report.h"

#include <gtest/gtest.h>

namespace ptxbench::candidate {
namespace {

// The shape of what nvcc 13.0 writes; positions of the .loc lines below are counted by hand.
constexpr const char* kPtx = R"(.version 9.0
.target sm_90a
.visible .entry _Z1kPf(
	.param .u64 _Z1kPf_param_0
)
{
	.reg .b32 	%r<7>;
	.loc	1 6 3
	.loc	1 3 3, function_name $L__info_string0, inlined_at 1 6 3
	// begin inline asm
	mbarrier.frobnicate.shared::cta.b64 [%r1], 1;
	// end inline asm
	.loc	2 8 5
	ret;
}
.visible .entry _Z1jv(
)
{
	ret;
}
	.file	1 "/tmp/somewhere/kernel.cu"
	.file	2 "/opt/x/include/tvm/ffi/error.h"
)";

TEST(PtxLineMap, FollowsLocDirectives) {
  const PtxLineMap map(kPtx);
  const auto place = map.find(11);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->where.file, "kernel.cu");
  EXPECT_EQ(place->where.line, 3);
  EXPECT_EQ(place->where.column, 3);
  ASSERT_EQ(place->inlined_from.size(), 1u);
  EXPECT_EQ(place->inlined_from[0].file, "kernel.cu");
  EXPECT_EQ(place->inlined_from[0].line, 6);
  EXPECT_EQ(place->text, "mbarrier.frobnicate.shared::cta.b64 [%r1], 1;");
  EXPECT_EQ(map.find(14)->where.file, "tvm/ffi/error.h");
  EXPECT_FALSE(map.find(19)) << "another function must not inherit a position";
  EXPECT_FALSE(map.find(0));
  EXPECT_FALSE(map.find(1000));
}

TEST(CompileReport, PtxasErrorsPointIntoTheSource) {
  CompileReport report;
  parse_compiler_output(
      "ptxas ./kernel.ptx, line 11; error   : Unknown modifier '.frobnicate'\n"
      "ptxas fatal   : Ptx assembly aborted due to errors\n",
      kPtx, report);
  ASSERT_EQ(report.messages.size(), 1u);
  const auto& message = report.messages[0];
  EXPECT_EQ(message.level, MessageLevel::error);
  EXPECT_EQ(message.rule, "compile.ptx_error");
  EXPECT_EQ(message.where.line, 3);
  EXPECT_EQ(message.ptx_line, 11);
  EXPECT_EQ(message.text, "Unknown modifier '.frobnicate'");
  const std::string summary = report.summary();
  EXPECT_NE(summary.find("kernel.cu:3:3: ptxas: Unknown modifier '.frobnicate'"), std::string::npos) << summary;
  EXPECT_NE(summary.find("called from kernel.cu:6"), std::string::npos) << summary;
}

TEST(CompileReport, ReadsResourceUseAndSpills) {
  CompileReport report;
  parse_compiler_output(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function '_ZN4gemm6kernelEPKfi' for 'sm_90a'\n"
      "ptxas info    : Function properties for _ZN4gemm6kernelEPKfi\n"
      "    2968 bytes stack frame, 2980 bytes spill stores, 3864 bytes spill loads\n"
      "ptxas info    : Used 64 registers, used 2 barriers, 2968 bytes cumulative stack size, 33792 bytes smem\n"
      "ptxas info    : Function properties for _Z6helperv\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Compile time = 218.123 ms\n",
      "", report);
  ASSERT_EQ(report.kernels.size(), 2u);
  const auto& kernel = report.kernels[0];
  EXPECT_EQ(kernel.demangled, "gemm::kernel(float const*, int)");
  EXPECT_TRUE(kernel.entry);
  EXPECT_EQ(kernel.registers, 64);
  EXPECT_EQ(kernel.barriers, 2);
  EXPECT_EQ(kernel.static_shared_bytes, 33792);
  EXPECT_EQ(kernel.spill_store_bytes, 2980);
  EXPECT_EQ(kernel.spill_load_bytes, 3864);
  EXPECT_FALSE(report.kernels[1].entry);
  ASSERT_EQ(report.messages.size(), 1u);
  EXPECT_EQ(report.messages[0].rule, "compile.spill");
  EXPECT_EQ(report.messages[0].level, MessageLevel::info);
}

TEST(CompileReport, AdvisoriesGetTheirRules) {
  const std::pair<const char*, const char*> kCases[] = {
      {"(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.",
       "launch.setmaxnreg_ignored"},
      {"(C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register "
       "resources for the wgmma pipeline in the function '_Z1kPf'",
       "wgmma.serialized"},
      {"(C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions "
       "defining accumulator registers of a wgmma between start and end of the pipeline stage in the function '_Z1kPf'",
       "wgmma.serialized"},
      {"(C7517) warpgroup.wait is injected in around line 11 by compiler to allow use of registers defined by GMMA in "
       "function '_Z1kPf'",
       "wgmma.injected_wait"},
      {"(C7519) warpgroup.arrive is injected in around line 11 by compiler to allow use of registers in GMMA in "
       "function '_Z1kPf'",
       "wgmma.injected_arrive"},
      {"(C9999) something new", "compile.advisory"}};
  for (const auto& [text, rule] : kCases) {
    CompileReport report;
    parse_compiler_output(std::string("ptxas info    : ") + text + "\n", kPtx, report);
    ASSERT_EQ(report.messages.size(), 1u) << text;
    EXPECT_EQ(report.messages[0].rule, rule);
    EXPECT_EQ(report.messages[0].code, std::string(text).substr(1, 5));
    EXPECT_EQ(report.messages[0].level, MessageLevel::info);
    if (std::string_view(text).find("_Z1kPf") != std::string_view::npos) {
      EXPECT_EQ(report.messages[0].function, "_Z1kPf");
    }
    if (std::string_view(text).find("line 11") != std::string_view::npos) {
      EXPECT_EQ(report.messages[0].where.line, 3) << "the PTX line is mapped to the source";
    }
  }
}

TEST(CompileReport, ReadsFrontEndAndHostCompiler) {
  CompileReport report;
  parse_compiler_output(
      "kernel.cu(7): error: identifier \"foo\" is undefined\n"
      "  p[threadIdx.x]=foo(1);\n"
      "                 ^\n"
      "\n"
      "kernel.cu(9): warning #177-D: variable \"x\" was declared but never referenced\n"
      "  int x;\n"
      "      ^\n"
      "\n"
      "1 error detected in the compilation of \"kernel.cu\".\n"
      "kernel.cu:1:10: fatal error: nothing.h: No such file or directory\n"
      "/opt/p/src/candidate/include/tvm/ffi/function.h(70): error: incomplete type\n",
      "", report);
  ASSERT_EQ(report.messages.size(), 4u);
  EXPECT_EQ(report.messages[0].tool, "nvcc");
  EXPECT_EQ(report.messages[0].where.line, 7);
  EXPECT_EQ(report.messages[0].excerpt, "p[threadIdx.x]=foo(1);");
  EXPECT_EQ(report.messages[1].level, MessageLevel::warning);
  EXPECT_EQ(report.messages[1].code, "177-D");
  EXPECT_EQ(report.messages[2].tool, "gcc");
  EXPECT_EQ(report.messages[2].where.column, 10);
  EXPECT_EQ(report.messages[3].where.file, "tvm/ffi/function.h");
  EXPECT_EQ(report.summary(1),
            "kernel.cu:7: nvcc: identifier \"foo\" is undefined\n    p[threadIdx.x]=foo(1);\n"
            "and 2 more\n");
}

TEST(CompileReport, NamesUndefinedSymbolsOnce) {
  CompileReport report;
  parse_linker_output(
      "/usr/bin/ld: kernel.o: in function `f()':\n"
      "tmpxft:(.text+0x8): undefined reference to `cublasCreate_v2'\n"
      "tmpxft:(.text+0x18): undefined reference to `cublasCreate_v2'\n"
      "collect2: error: ld returned 1 exit status\n",
      report);
  ASSERT_EQ(report.messages.size(), 1u);
  EXPECT_EQ(report.messages[0].function, "cublasCreate_v2");
  EXPECT_EQ(report.messages[0].rule, "compile.link_error");
}

TEST(CompileReport, JsonOfAnotherSchemaIsRefused) {
  EXPECT_FALSE(compile_report_from_json(base::Json{{"schema", "ptxbench.compile/9"}}, "x"));
  EXPECT_FALSE(compile_report_from_json(base::Json::object(), "x"));
  EXPECT_FALSE(compile_report_from_json(base::Json{{"schema", "ptxbench.compile/1"}, {"status", 4}}, "x"));
}

}  // namespace
}  // namespace ptxbench::candidate
