// The estimate of tokens: exact counts of a real vocabulary are beside each text (tests/knowledge/fit_tokens.py).
#include "knowledge/tokens.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace ptxbench::knowledge {
namespace {

struct Text {
  const char* text;
  double exact;
};
constexpr Text kTexts[] = {
    {R"x(DEVICE void mbar_arrive(uint32_t bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
)x",
     43},
    {R"x(Every thread that touches the data waits itself, or a barrier after the waiting thread passes it on. Keep stage and parity in a `Ring` and flip the parity when the stage wraps around.
)x",
     39},
    {R"x(| operands | k | n | majorness |
|---|---|---|---|
| bf16, f16 | 16 | 8 to 256 in steps of 8 | each of A and B in shared memory K-major or MN-major |
)x",
     60},
    {R"x(  for (int step = 0; step < steps; ++step) {
    const uint32_t stage = step % kStages, tile = tiles + stage * kStageBytes;
    mbar_wait(smem(&full[stage]), step / kStages % 2);
    wgmma_fence();
)x",
     66},
    {R"x("%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
)x",
     54},
};

TEST(Tokens, StaysNearExactCounts) {
  double estimated = 0, exact = 0;
  for (const auto& [text, count] : kTexts) {
    const auto estimate = static_cast<double>(estimate_tokens(text));
    EXPECT_NEAR(estimate / count, 1.0, 0.25) << text;
    estimated += estimate;
    exact += count;
  }
  EXPECT_NEAR(estimated / exact, 1.0, 0.08);
}

TEST(Tokens, GrowsWithTheTextAndTakesAnyBytes) {
  EXPECT_EQ(estimate_tokens(""), 0u);
  std::mt19937 random(5);
  std::string text;
  std::size_t before = 0;
  for (int i = 0; i < 2000; ++i) {
    text += static_cast<char>(random());
    const std::size_t now = estimate_tokens(text);
    EXPECT_LE(now, text.size() + 3);
    EXPECT_GE(now + 1, before);
    before = now;
  }
}

}  // namespace
}  // namespace ptxbench::knowledge
