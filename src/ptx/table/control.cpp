#include "ptx/table/groups.h"
#include "ptx/table/table.h"

namespace ptxbench::ptx::table {
namespace {

constexpr const char* kControl = "Control Flow Instructions";
constexpr const char* kMisc = "Miscellaneous Instructions";

constexpr InstructionForm kRows[] = {
    {Op::bra, "{.uni}", "L", 10, "sm_50", kControl},
    {Op::brx_idx, "{.uni}", "r:u32, T", 60, "sm_50", kControl},
    {Op::call, "{.uni}", "C", 10, "sm_50", kControl},
    {Op::ret, "{.uni}", "", 10, "sm_50", kControl},
    {Op::exit, "", "", 10, "sm_50", kControl},
    {Op::trap, "", "", 10, "sm_50", kMisc},
    {Op::brkpt, "", "", 10, "sm_50", kMisc},
    {Op::pmevent, "", "i(0..15)", 14, "sm_50", kMisc},
    {Op::pmevent, ".mask", "i(0..65535)", 30, "sm_50", kMisc},
    {Op::nanosleep, ".u32", "s:u32", 63, "sm_70", kMisc},
    {Op::setmaxnreg, "(.inc|.dec).sync.aligned.u32", "i(24..256/8)", 80, "sm_90a", kMisc},
};

}  // namespace

std::span<const InstructionForm> control_rows() { return kRows; }

std::vector<std::span<const InstructionForm>> families() {
  return {integer_rows(), float_rows(),           compare_rows(), convert_rows(), memory_rows(), atomic_rows(),
          async_rows(),   synchronisation_rows(), matrix_rows(),  control_rows(), video_rows(),  texture_rows()};
}

}  // namespace ptxbench::ptx::table
