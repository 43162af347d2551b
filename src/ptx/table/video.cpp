#include "ptx/table/groups.h"
#include "ptx/table/table.h"

namespace ptxbench::ptx::table {
namespace {

constexpr const char* kVideo = "Video Instructions";

#define SIGNS "(.u32|.s32)(.u32|.s32)(.u32|.s32)"
#define SCALAR(op)                                                                                          \
  {Op::op, SIGNS "{.sat}", "d:u32, r:u32@, s:u32@ | d:u32@, r:u32@, s:u32@, s:u32", 20, "sm_50", kVideo}, { \
    Op::op, SIGNS "{.sat}(.add|.min|.max)", "d:u32, r:u32@, s:u32@, s:u32", 20, "sm_50", kVideo             \
  }
#define SHIFT(op)                                                                                                 \
  {Op::op,                                                                                                        \
   "(.u32|.s32)(.u32|.s32).u32{.sat}(.clamp|.wrap)",                                                              \
   "d:u32, r:u32@, s:u32@ | d:u32@, r:u32@, s:u32@, s:u32",                                                       \
   20,                                                                                                            \
   "sm_50",                                                                                                       \
   kVideo},                                                                                                       \
  {                                                                                                               \
    Op::op, "(.u32|.s32)(.u32|.s32).u32{.sat}(.clamp|.wrap)(.add|.min|.max)", "d:u32, r:u32@, s:u32@, s:u32", 20, \
        "sm_50", kVideo                                                                                           \
  }
#define SIMD(op)                                                                 \
  {Op::op, SIGNS "{.sat}", "d:u32, r:u32, r:u32, r:u32", 30, "sm_50", kVideo}, { \
    Op::op, SIGNS ".add", "d:u32, r:u32, r:u32, r:u32", 30, "sm_50", kVideo      \
  }
#define COMPARE "(.eq|.ne|.lt|.le|.gt|.ge)"

constexpr InstructionForm kRows[] = {
    SCALAR(vadd),
    SCALAR(vsub),
    SCALAR(vabsdiff),
    SCALAR(vmin),
    SCALAR(vmax),
    SHIFT(vshl),
    SHIFT(vshr),
    {Op::vmad, SIGNS "{.po}{.sat}{.shr7|.shr15}", "d:u32, r:u32@, s:u32@, s:u32", 20, "sm_50", kVideo},
    {Op::vset, "(.u32|.s32)(.u32|.s32)" COMPARE, "d:u32, r:u32@, s:u32@ | d:u32@, r:u32@, s:u32@, s:u32", 20, "sm_50",
     kVideo},
    {Op::vset, "(.u32|.s32)(.u32|.s32)" COMPARE "(.add|.min|.max)", "d:u32, r:u32@, s:u32@, s:u32", 20, "sm_50",
     kVideo},
    SIMD(vadd2),
    SIMD(vsub2),
    SIMD(vavrg2),
    SIMD(vabsdiff2),
    SIMD(vmin2),
    SIMD(vmax2),
    SIMD(vadd4),
    SIMD(vsub4),
    SIMD(vavrg4),
    SIMD(vabsdiff4),
    SIMD(vmin4),
    SIMD(vmax4),
    {Op::vset2, "(.u32|.s32)(.u32|.s32)" COMPARE "{.add}", "d:u32, r:u32, r:u32, r:u32", 30, "sm_50", kVideo},
    {Op::vset4, "(.u32|.s32)(.u32|.s32)" COMPARE "{.add}", "d:u32, r:u32, r:u32, r:u32", 30, "sm_50", kVideo},
};

}  // namespace

std::span<const InstructionForm> video_rows() { return kRows; }

}  // namespace ptxbench::ptx::table
