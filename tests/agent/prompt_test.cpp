#include "agent/prompt.h"

#include <gtest/gtest.h>

#include "candidate/triton_source.h"

namespace ptxbench::agent {
namespace {

TEST(SystemMessage, NamesTheTargetAndTakesTheKnowledge) {
  const std::string text = system_message("sm_90a", "wgmma needs a fence");
  EXPECT_NE(text.find("sm_90a (Hopper)"), std::string::npos);
  EXPECT_NE(text.find("wgmma needs a fence"), std::string::npos);
  EXPECT_EQ(system_message("sm_90a", "").find("What you should know"), std::string::npos);
}

TEST(SystemMessage, ItsExampleIsAnAcceptableAnswer) {
  const auto extraction = candidate::extract_candidate(system_message("sm_90a", ""));
  ASSERT_TRUE(extraction.source) << extraction.message;
  EXPECT_NE(extraction.source->find("TVM_FFI_DLL_EXPORT_TYPED_FUNC"), std::string::npos);
}

TEST(SystemMessage, OfTritonHasAnAcceptableExampleToo) {
  const std::string text = system_message("sm_90a", "masks everywhere", candidate::Language::triton);
  EXPECT_NE(text.find("masks everywhere"), std::string::npos);
  const auto extraction = candidate::extract_candidate(text, candidate::Language::triton);
  ASSERT_TRUE(extraction.source) << extraction.message;
  for (const auto& finding : candidate::check_triton_source(*extraction.source)) ADD_FAILURE() << finding.message;
}

TEST(TaskMessage, ShowsTheDefinitionWithoutTagsAndTheShape) {
  problem::Problem problem;
  problem.definition.name = "gemm_n8_k16";
  problem.definition.op_type = "gemm";
  problem.axes = {{"M", 4}, {"N", 8}};
  const std::string text = task_message({problem});
  EXPECT_NE(text.find("gemm_n8_k16"), std::string::npos);
  EXPECT_NE(text.find("M=4, N=8"), std::string::npos);
  EXPECT_EQ(text.find("\"tags\""), std::string::npos);
  EXPECT_EQ(task_message({problem}, false).find("M=4"), std::string::npos) << "told only if it is to be";
  problem::Problem other = problem;
  other.axes["M"] = 9;
  EXPECT_NE(task_message({problem, other}).find("M=4, N=8; and at M=9, N=8"), std::string::npos);
}

}  // namespace
}  // namespace ptxbench::agent
