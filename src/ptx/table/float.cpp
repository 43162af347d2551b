#include "ptx/table/groups.h"
#include "ptx/table/table.h"

namespace ptxbench::ptx::table {
namespace {

constexpr const char* kFloat = "Floating-Point Instructions";
constexpr const char* kHalf = "Half Precision Floating-Point Instructions";

#define ARITHMETIC(op)                                                               \
  {Op::op, PTX_OPT_RND "{.ftz}{.sat}.f32", "d:0, s:0, s:0", 10, "sm_50", kFloat},    \
      {Op::op, PTX_OPT_RND ".f64", "d:0, s:0, s:0", 10, "sm_50", kFloat},            \
      {Op::op, PTX_OPT_RND "{.ftz}.f32x2", "d:0, r:0, r:0", 86, "sm_100", kFloat},   \
      {Op::op, "{.rn}{.ftz}{.sat}" PTX_HALF, "d:0, r:0, r:0", 42, "sm_53", kHalf}, { \
    Op::op, "{.rn}" PTX_BHALF, "d:0, r:0, r:0", 78, "sm_90", kHalf                   \
  }

#define MIN_MAX(op)                                                                       \
  {Op::op, "{.ftz}.f32", "d:0, s:0, s:0", 10, "sm_50", kFloat},                           \
      {Op::op, "{.ftz}.NaN.f32", "d:0, s:0, s:0", 70, "sm_80", kFloat},                   \
      {Op::op, "{.ftz}{.NaN}.xorsign.abs.f32", "d:0, s:0, s:0", 72, "sm_86", kFloat},     \
      {Op::op, "{.ftz}{.NaN}{.abs}.f32", "d:0, s:0, s:0, s:0", 88, "sm_100", kFloat},     \
      {Op::op, ".f64", "d:0, s:0, s:0", 10, "sm_50", kFloat},                             \
      {Op::op, "{.ftz}{.NaN}" PTX_HALF, "d:0, r:0, r:0", 70, "sm_80", kHalf},             \
      {Op::op, "{.ftz}{.NaN}.xorsign.abs" PTX_HALF, "d:0, r:0, r:0", 72, "sm_86", kHalf}, \
      {Op::op, "{.NaN}" PTX_BHALF, "d:0, r:0, r:0", 70, "sm_80", kHalf}, {                \
    Op::op, "{.NaN}.xorsign.abs" PTX_BHALF, "d:0, r:0, r:0", 72, "sm_86", kHalf           \
  }

#define SIGN(op)                                                                                              \
  {Op::op, "{.ftz}.f32", "d:0, s:0", 10, "sm_50", kFloat}, {Op::op, ".f64", "d:0, s:0", 10, "sm_50", kFloat}, \
      {Op::op, "{.ftz}" PTX_HALF, "d:0, r:0", 60, "sm_53", kHalf}, {                                          \
    Op::op, PTX_BHALF, "d:0, r:0", 70, "sm_80", kHalf                                                         \
  }

constexpr InstructionForm kRows[] = {
    ARITHMETIC(add),
    ARITHMETIC(sub),
    ARITHMETIC(mul),
    {Op::add, PTX_OPT_RND "{.sat}.f32(.f16|.bf16)", "d:0, r:1, s:0", 86, "sm_100", kFloat},
    {Op::sub, PTX_OPT_RND "{.sat}.f32(.f16|.bf16)", "d:0, r:1, s:0", 86, "sm_100", kFloat},
    {Op::fma, PTX_RND "{.ftz}{.sat}.f32", "d:0, s:0, s:0, s:0", 20, "sm_50", kFloat},
    {Op::fma, PTX_RND ".f64", "d:0, s:0, s:0, s:0", 14, "sm_50", kFloat},
    {Op::fma, PTX_RND "{.ftz}.f32x2", "d:0, r:0, r:0, r:0", 86, "sm_100", kFloat},
    {Op::fma, PTX_RND "{.sat}.f32(.f16|.bf16)", "d:0, r:1, r:1, s:0", 86, "sm_100", kFloat},
    {Op::fma, ".rn{.ftz}{.sat}" PTX_HALF, "d:0, r:0, r:0, r:0", 42, "sm_53", kHalf},
    {Op::fma, ".rn{.ftz}.relu" PTX_HALF, "d:0, r:0, r:0, r:0", 70, "sm_80", kHalf},
    {Op::fma, ".rn{.relu}" PTX_BHALF, "d:0, r:0, r:0, r:0", 70, "sm_80", kHalf},
    {Op::fma, ".rn.oob{.relu}(.f16|.f16x2|.bf16|.bf16x2)", "d:0, r:0, r:0, r:0", 81, "sm_90", kHalf},
    {Op::mad, PTX_RND "{.ftz}{.sat}.f32", "d:0, s:0, s:0, s:0", 20, "sm_50", kFloat},
    {Op::mad, PTX_RND ".f64", "d:0, s:0, s:0, s:0", 14, "sm_50", kFloat},
    {Op::div, "(.approx|.full){.ftz}.f32", "d:0, s:0, s:0", 14, "sm_50", kFloat},
    {Op::div, PTX_RND "{.ftz}.f32", "d:0, s:0, s:0", 14, "sm_50", kFloat},
    {Op::div, PTX_RND ".f64", "d:0, s:0, s:0", 14, "sm_50", kFloat},
    SIGN(abs),
    SIGN(neg),
    MIN_MAX(min),
    MIN_MAX(max),
    {Op::rcp, ".approx{.ftz}.f32", "d:0, s:0", 14, "sm_50", kFloat},
    {Op::rcp, PTX_RND "{.ftz}.f32", "d:0, s:0", 14, "sm_50", kFloat},
    {Op::rcp, PTX_RND ".f64", "d:0, s:0", 14, "sm_50", kFloat},
    {Op::rcp, ".approx.ftz.f64", "d:0, s:0", 21, "sm_50", kFloat},
    {Op::sqrt, ".approx{.ftz}.f32", "d:0, s:0", 14, "sm_50", kFloat},
    {Op::sqrt, PTX_RND "{.ftz}.f32", "d:0, s:0", 14, "sm_50", kFloat},
    {Op::sqrt, PTX_RND ".f64", "d:0, s:0", 14, "sm_50", kFloat},
    {Op::rsqrt, ".approx{.ftz}(.f32|.f64)", "d:0, s:0", 14, "sm_50", kFloat},
    {Op::sin, ".approx{.ftz}.f32", "d:0, s:0", 14, "sm_50", kFloat},
    {Op::cos, ".approx{.ftz}.f32", "d:0, s:0", 14, "sm_50", kFloat},
    {Op::lg2, ".approx{.ftz}.f32", "d:0, s:0", 14, "sm_50", kFloat},
    {Op::ex2, ".approx{.ftz}.f32", "d:0, s:0", 14, "sm_50", kFloat},
    {Op::ex2, ".approx" PTX_HALF, "d:0, r:0", 70, "sm_75", kHalf},
    {Op::ex2, ".approx.ftz" PTX_BHALF, "d:0, r:0", 78, "sm_90", kHalf},
    {Op::tanh, ".approx.f32", "d:0, s:0", 70, "sm_75", kFloat},
    {Op::tanh, ".approx" PTX_HALF, "d:0, r:0", 70, "sm_75", kHalf},
    {Op::tanh, ".approx" PTX_BHALF, "d:0, r:0", 78, "sm_90", kHalf},
    {Op::testp, "(.finite|.infinite|.number|.notanumber|.normal|.subnormal)(.f32|.f64)", "P, s:0", 20, "sm_50", kFloat},
    {Op::copysign, "(.f32|.f64)", "d:0, s:0, s:0", 20, "sm_50", kFloat},
};

}  // namespace

std::span<const InstructionForm> float_rows() { return kRows; }

}  // namespace ptxbench::ptx::table
