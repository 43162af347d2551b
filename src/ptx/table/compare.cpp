#include "ptx/table/groups.h"
#include "ptx/table/table.h"

namespace ptxbench::ptx::table {
namespace {

constexpr const char* kCompare = "Comparison and Selection Instructions";
constexpr const char* kHalf = "Half Precision Comparison Instructions";

#define BIT_OPS "(.eq|.ne)"
#define SIGNED_OPS "(.eq|.ne|.lt|.le|.gt|.ge)"
#define UNSIGNED_OPS "(.eq|.ne|.lt|.le|.gt|.ge|.lo|.ls|.hi|.hs)"
#define FLOAT_OPS "(.eq|.ne|.lt|.le|.gt|.ge|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan)"
#define BOOL "(.and|.or|.xor)"
#define DEST "(.u32|.s32|.f32)"

#define SETP(ops, rest, section, isa, target)                       \
  {Op::setp, ops rest, "Q, s:0, s:0", isa, target, section}, {      \
    Op::setp, ops BOOL rest, "Q, s:0, s:0, p", isa, target, section \
  }
#define SETP_HALF(rest, destination, isa, target)                                  \
  {Op::setp, FLOAT_OPS rest, destination ", r:0, r:0", isa, target, kHalf}, {      \
    Op::setp, FLOAT_OPS BOOL rest, destination ", r:0, r:0, p", isa, target, kHalf \
  }
#define SET(ops, rest)                                                \
  {Op::set, ops rest, "d:0, s:1, s:1", 10, "sm_50", kCompare}, {      \
    Op::set, ops BOOL rest, "d:0, s:1, s:1, p", 10, "sm_50", kCompare \
  }
#define SET_HALF(rest, isa, target)                                      \
  {Op::set, FLOAT_OPS rest, "d:0, r:1, r:1", isa, target, kHalf}, {      \
    Op::set, FLOAT_OPS BOOL rest, "d:0, r:1, r:1, p", isa, target, kHalf \
  }

constexpr InstructionForm kRows[] = {
    SETP(BIT_OPS, "(.b16|.b32|.b64)", kCompare, 10, "sm_50"),
    SETP(SIGNED_OPS, "(.s16|.s32|.s64)", kCompare, 10, "sm_50"),
    SETP(UNSIGNED_OPS, "(.u16|.u32|.u64)", kCompare, 10, "sm_50"),
    SETP(FLOAT_OPS, "{.ftz}.f32", kCompare, 10, "sm_50"),
    SETP(FLOAT_OPS, ".f64", kCompare, 10, "sm_50"),
    SETP_HALF("{.ftz}.f16", "P", 42, "sm_53"),
    SETP_HALF("{.ftz}.f16x2", "Q", 42, "sm_53"),
    SETP_HALF(".bf16", "P", 78, "sm_90"),
    SETP_HALF(".bf16x2", "Q", 78, "sm_90"),
    SET(BIT_OPS, DEST "(.b16|.b32|.b64)"),
    SET(SIGNED_OPS, DEST "(.s16|.s32|.s64)"),
    SET(UNSIGNED_OPS, DEST "(.u16|.u32|.u64)"),
    SET(FLOAT_OPS, "{.ftz}" DEST ".f32"),
    SET(FLOAT_OPS, DEST ".f64"),
    SET_HALF("{.ftz}(.f16|.u16|.s16|.u32|.s32).f16", 42, "sm_53"),
    SET_HALF("{.ftz}(.f16x2|.u32|.s32).f16x2", 42, "sm_53"),
    SET_HALF("(.bf16|.u16|.s16|.u32|.s32).bf16", 78, "sm_90"),
    SET_HALF("(.bf16x2|.u32|.s32).bf16x2", 78, "sm_90"),
    {Op::selp, PTX_ANY, "d:0, s:0, s:0, p", 10, "sm_50", kCompare},
    {Op::slct, PTX_ANY ".s32", "d:0, s:0, s:0, s:1", 10, "sm_50", kCompare},
    {Op::slct, "{.ftz}" PTX_ANY ".f32", "d:0, s:0, s:0, s:1", 10, "sm_50", kCompare},
};

}  // namespace

std::span<const InstructionForm> compare_rows() { return kRows; }

}  // namespace ptxbench::ptx::table
