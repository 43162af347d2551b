#include "ptx/table/groups.h"
#include "ptx/table/table.h"

namespace ptxbench::ptx::table {
namespace {

constexpr const char* kInteger = "Integer Arithmetic Instructions";
constexpr const char* kCarry = "Extended-Precision Integer Arithmetic Instructions";
constexpr const char* kLogic = "Logic and Shift Instructions";
constexpr const char* kMove = "Data Movement and Conversion Instructions";

constexpr InstructionForm kRows[] = {
    {Op::add, PTX_INT, "d:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::add, ".sat.s32", "d:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::add, "(.u16x2|.s16x2)", "d:0, r:0, r:0", 80, "sm_90", kInteger},
    {Op::sub, PTX_INT, "d:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::sub, ".sat.s32", "d:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::mul, "(.lo|.hi)" PTX_INT, "d:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::mul, ".wide(.u16|.u32|.s16|.s32)", "d:W, s:0, s:0", 10, "sm_50", kInteger},
    {Op::mad, "(.lo|.hi)" PTX_INT, "d:0, s:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::mad, ".hi.sat.s32", "d:0, s:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::mad, ".wide(.u16|.u32|.s16|.s32)", "d:W, s:0, s:0, s:W", 10, "sm_50", kInteger},
    {Op::mul24, "(.lo|.hi)" PTX_INT32, "d:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::mad24, "(.lo|.hi)" PTX_INT32, "d:0, s:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::mad24, ".hi.sat.s32", "d:0, s:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::sad, PTX_INT, "d:0, s:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::div, PTX_INT, "d:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::rem, PTX_INT, "d:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::abs, "(.s16|.s32|.s64)", "d:0, s:0", 10, "sm_50", kInteger},
    {Op::neg, "(.s16|.s32|.s64)", "d:0, s:0", 10, "sm_50", kInteger},
    {Op::min, PTX_INT, "d:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::min, ".relu.s32", "d:0, s:0, s:0", 80, "sm_90", kInteger},
    {Op::min, "(.u16x2|.s16x2)", "d:0, r:0, r:0", 80, "sm_90", kInteger},
    {Op::min, ".relu.s16x2", "d:0, r:0, r:0", 80, "sm_90", kInteger},
    {Op::max, PTX_INT, "d:0, s:0, s:0", 10, "sm_50", kInteger},
    {Op::max, ".relu.s32", "d:0, s:0, s:0", 80, "sm_90", kInteger},
    {Op::max, "(.u16x2|.s16x2)", "d:0, r:0, r:0", 80, "sm_90", kInteger},
    {Op::max, ".relu.s16x2", "d:0, r:0, r:0", 80, "sm_90", kInteger},
    {Op::popc, "(.b32|.b64)", "d:u32, s:0", 20, "sm_50", kInteger},
    {Op::clz, "(.b32|.b64)", "d:u32, s:0", 20, "sm_50", kInteger},
    {Op::bfind, "{.shiftamt}(.u32|.u64|.s32|.s64)", "d:u32, s:0", 20, "sm_50", kInteger},
    {Op::fns, ".b32", "d:b32, s:b32, s:b32, s:s32", 60, "sm_50", kInteger},
    {Op::brev, "(.b32|.b64)", "d:0, s:0", 20, "sm_50", kInteger},
    {Op::bfe, "(.u32|.u64|.s32|.s64)", "d:0, s:0, s:u32, s:u32", 20, "sm_50", kInteger},
    {Op::bfi, "(.b32|.b64)", "d:0, s:0, s:0, s:u32, s:u32", 20, "sm_50", kInteger},
    {Op::szext, "(.clamp|.wrap)" PTX_INT32, "d:0, s:0, s:u32", 76, "sm_70", kInteger},
    {Op::bmsk, "(.clamp|.wrap).b32", "d:0, s:0, s:u32", 76, "sm_70", kInteger},
    {Op::dp4a, PTX_INT32 PTX_INT32, "d:b32, s:b32, s:b32, s:b32", 50, "sm_61", kInteger},
    {Op::dp2a, "(.lo|.hi)" PTX_INT32 PTX_INT32, "d:b32, s:b32, s:b32, s:b32", 50, "sm_61", kInteger},

    {Op::add, ".cc(.u32|.s32|.u64|.s64)", "d:0, s:0, s:0", 12, "sm_50", kCarry},
    {Op::addc, "{.cc}(.u32|.s32|.u64|.s64)", "d:0, s:0, s:0", 12, "sm_50", kCarry},
    {Op::sub, ".cc(.u32|.s32|.u64|.s64)", "d:0, s:0, s:0", 12, "sm_50", kCarry},
    {Op::subc, "{.cc}(.u32|.s32|.u64|.s64)", "d:0, s:0, s:0", 12, "sm_50", kCarry},
    {Op::mad, "(.lo|.hi).cc(.u32|.s32|.u64|.s64)", "d:0, s:0, s:0, s:0", 30, "sm_50", kCarry},
    {Op::madc, "(.lo|.hi){.cc}(.u32|.s32|.u64|.s64)", "d:0, s:0, s:0, s:0", 30, "sm_50", kCarry},

    {Op::and_, "(.b16|.b32|.b64)", "d:0, s:0, s:0", 10, "sm_50", kLogic},
    {Op::and_, ".pred", "P, p, p", 10, "sm_50", kLogic},
    {Op::or_, "(.b16|.b32|.b64)", "d:0, s:0, s:0", 10, "sm_50", kLogic},
    {Op::or_, ".pred", "P, p, p", 10, "sm_50", kLogic},
    {Op::xor_, "(.b16|.b32|.b64)", "d:0, s:0, s:0", 10, "sm_50", kLogic},
    {Op::xor_, ".pred", "P, p, p", 10, "sm_50", kLogic},
    {Op::not_, "(.b16|.b32|.b64)", "d:0, s:0", 10, "sm_50", kLogic},
    {Op::not_, ".pred", "P, p", 10, "sm_50", kLogic},
    {Op::cnot, "(.b16|.b32|.b64)", "d:0, s:0", 10, "sm_50", kLogic},
    {Op::lop3, ".b32", "d:0, s:0, s:0, s:0, i(0..255)", 43, "sm_50", kLogic},
    {Op::lop3, "(.or|.and).b32", "E:0, s:0, s:0, s:0, i(0..255), p", 82, "sm_70", kLogic},
    {Op::shf, "(.l|.r)(.clamp|.wrap).b32", "d:0, s:0, s:0, s:u32", 31, "sm_50", kLogic},
    {Op::shl, "(.b16|.b32|.b64)", "d:0, s:0, s:u32", 10, "sm_50", kLogic},
    {Op::shr, "(.b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64)", "d:0, s:0, s:u32", 10, "sm_50", kLogic},

    {Op::prmt, ".b32{.f4e|.b4e|.rc8|.ecl|.ecr|.rc16}", "d:0, s:0, s:0, s:b32", 20, "sm_50", kMove},
};

}  // namespace

std::span<const InstructionForm> integer_rows() { return kRows; }

}  // namespace ptxbench::ptx::table
