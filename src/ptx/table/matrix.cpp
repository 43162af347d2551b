#include "ptx/table/groups.h"
#include "ptx/table/table.h"

namespace ptxbench::ptx::table {
namespace {

constexpr const char* kMma = "Warp Level Matrix Multiply-Accumulate Instructions";
constexpr const char* kWgmma = "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions";

#define SHARED "{.shared|.shared::cta}"
#define N_COMMON(k)                                                                                                   \
  ".m64n8" k "|.m64n16" k "|.m64n24" k "|.m64n32" k "|.m64n48" k "|.m64n64" k "|.m64n80" k "|.m64n96" k "|.m64n112" k \
  "|.m64n128" k "|.m64n144" k "|.m64n160" k "|.m64n176" k "|.m64n192" k "|.m64n208" k "|.m64n224" k "|.m64n240" k     \
  "|.m64n256" k
#define N_INT(k) "(" N_COMMON(k) ")"
#define N_ALL(k)                                                                                                    \
  "(" N_COMMON(k) "|.m64n40" k "|.m64n56" k "|.m64n72" k "|.m64n88" k "|.m64n104" k "|.m64n120" k "|.m64n136" k     \
                  "|.m64n152" k "|.m64n168" k "|.m64n184" k "|.m64n200" k "|.m64n216" k "|.m64n232" k "|.m64n248" k \
                  ")"

#define SCALES "p, i(-1..1/2), i(-1..1/2)"
#define FROM_SHARED(meta, rest) "d:0*D, r:u64, r:u64, " meta rest
#define FROM_REGISTERS(meta, rest) "d:0*D, r:1*A, r:u64, " meta rest
#define TRANSPOSABLE(meta) FROM_SHARED(meta, SCALES ", i(0..1), i(0..1)") " | " FROM_REGISTERS(meta, SCALES ", i(0..1)")
#define FIXED_MAJOR(meta) FROM_SHARED(meta, SCALES) " | " FROM_REGISTERS(meta, SCALES)
#define UNSCALED(meta) FROM_SHARED(meta, "p") " | " FROM_REGISTERS(meta, "p")
#define META(selectors) "r:b32, i(" selectors "), "
#define F8 "(.e4m3|.e5m2)"
#define I8 "(.s8|.u8)"
#define I4 "(.s4|.u4)"

/// `meta`: the metadata operands of sparse products, `meta8` of those whose elements have a byte.
#define WGMMA(op, k16, k8, k32, meta, meta8)                                                \
  {Op::op, N_ALL(k16) "(.f16|.f32).f16.f16", TRANSPOSABLE(meta), 80, "sm_90a", kWgmma},     \
      {Op::op, N_ALL(k16) ".f32.bf16.bf16", TRANSPOSABLE(meta), 80, "sm_90a", kWgmma},      \
      {Op::op, N_ALL(k8) ".f32.tf32.tf32", FIXED_MAJOR(meta), 80, "sm_90a", kWgmma},        \
      {Op::op, N_ALL(k32) "(.f16|.f32)" F8 F8, FIXED_MAJOR(meta8), 80, "sm_90a", kWgmma}, { \
    Op::op, N_INT(k32) "{.satfinite}.s32" I8 I8, UNSCALED(meta8), 80, "sm_90a", kWgmma      \
  }

#define MMA_OPERANDS "d:0*D, r:1*A, r:2*B, r:3*C"
#define SPARSE_OPERANDS(selectors) MMA_OPERANDS ", r:b32, i(" selectors ")"
#define MMA(rest, isa, target) \
  { Op::mma, ".aligned" rest, MMA_OPERANDS, isa, target, kMma }
#define SPARSE(rest, selectors, isa, target)                                          \
  {Op::mma_sp, ".aligned" rest, SPARSE_OPERANDS(selectors), isa, target, kMma}, {     \
    Op::mma_sp_ordered, ".aligned" rest, SPARSE_OPERANDS(selectors), 85, target, kMma \
  }

#define WMMA_SHAPES "(.m16n16k16|.m8n32k16|.m32n8k16)"
#define LAYOUT "(.row|.col)"
#define WMMA_SPACE "{.global|.shared|.shared::cta}"
#define WMMA_LOAD(op, fragment, small)                                                                              \
  {Op::op, ".aligned" LAYOUT WMMA_SHAPES WMMA_SPACE ".f16", "d:0*" fragment ", a, s:u32?", 60, "sm_70", kMma},      \
      {Op::op, ".aligned" LAYOUT WMMA_SHAPES WMMA_SPACE ".bf16", "d:0*" fragment ", a, s:u32?", 70, "sm_80", kMma}, \
      {Op::op, ".aligned" LAYOUT ".m16n16k8" WMMA_SPACE ".tf32", "d:0*" fragment ", a, s:u32?", 70, "sm_80", kMma}, \
      {Op::op, ".aligned" LAYOUT WMMA_SHAPES WMMA_SPACE I8, "d:0*" fragment ", a, s:u32?", 63, "sm_72", kMma},      \
      {Op::op, ".aligned" small ".m8n8k32" WMMA_SPACE I4, "d:0*" fragment ", a, s:u32?", 63, "sm_75", kMma},        \
      {Op::op, ".aligned" small ".m8n8k128" WMMA_SPACE ".b1", "d:0*" fragment ", a, s:u32?", 63, "sm_75", kMma}, {  \
    Op::op, ".aligned" LAYOUT ".m8n8k4" WMMA_SPACE ".f64", "d:0*" fragment ", a, s:u32?", 70, "sm_80", kMma         \
  }
#define WMMA_ACCUMULATOR(op, operands)                                                                     \
  {Op::op, ".aligned" LAYOUT WMMA_SHAPES WMMA_SPACE "(.f16|.f32|.s32)", operands, 60, "sm_70", kMma},      \
      {Op::op, ".aligned" LAYOUT ".m16n16k8" WMMA_SPACE ".f32", operands, 70, "sm_80", kMma},              \
      {Op::op, ".aligned" LAYOUT "(.m8n8k32|.m8n8k128)" WMMA_SPACE ".s32", operands, 63, "sm_75", kMma}, { \
    Op::op, ".aligned" LAYOUT ".m8n8k4" WMMA_SPACE ".f64", operands, 70, "sm_80", kMma                     \
  }

constexpr InstructionForm kRows[] = {
    {Op::ldmatrix, ".sync.aligned.m8n8(.x1|.x2|.x4){.trans}" SHARED ".b16", "d:b32*x, a", 65, "sm_75", kMma},
    {Op::ldmatrix, ".sync.aligned.m16n16(.x1|.x2).trans" SHARED ".b8", "d:b32*x2, a", 86, "sm_100a", kMma},
    {Op::ldmatrix, ".sync.aligned.m8n16(.x1|.x2|.x4)" SHARED ".b8x16(.b6x16_p32|.b4x16_p64)", "d:b32*x, a", 86,
     "sm_100a", kMma},
    {Op::stmatrix, ".sync.aligned.m8n8(.x1|.x2|.x4){.trans}" SHARED ".b16", "a, r:b32*x", 78, "sm_90", kMma},
    {Op::stmatrix, ".sync.aligned.m16n8(.x1|.x2|.x4).trans" SHARED ".b8", "a, r:b32*x", 86, "sm_100a", kMma},
    {Op::movmatrix, ".sync.aligned.m8n8.trans.b16", "d:b32, r:b32", 78, "sm_75", kMma},

    MMA(".m8n8k4" LAYOUT LAYOUT "(.f16|.f32).f16.f16.f16", 64, "sm_70"),
    MMA(".m8n8k4" LAYOUT LAYOUT ".f32.f16.f16.f32", 64, "sm_70"),
    MMA("(.m16n8k8|.m16n8k16).row.col.f16.f16.f16.f16", 65, "sm_75"),
    MMA("(.m16n8k8|.m16n8k16).row.col.f32.f16.f16.f32", 65, "sm_75"),
    MMA("(.m16n8k8|.m16n8k16).row.col.f32.bf16.bf16.f32", 70, "sm_80"),
    MMA("(.m16n8k4|.m16n8k8).row.col.f32.tf32.tf32.f32", 70, "sm_80"),
    MMA("(.m16n8k16|.m16n8k32).row.col.f32" F8 F8 ".f32", 84, "sm_89"),
    MMA("(.m16n8k16|.m16n8k32).row.col.f16" F8 F8 ".f16", 87, "sm_89"),
    MMA(".m8n8k4.row.col.f64.f64.f64.f64", 70, "sm_80"),
    MMA("(.m16n8k4|.m16n8k8|.m16n8k16).row.col.f64.f64.f64.f64", 78, "sm_90"),
    MMA("(.m8n8k16|.m16n8k16|.m16n8k32).row.col{.satfinite}.s32" I8 I8 ".s32", 65, "sm_75"),
    MMA("(.m8n8k32|.m16n8k32|.m16n8k64).row.col{.satfinite}.s32" I4 I4 ".s32", 65, "sm_75"),
    MMA("(.m8n8k128|.m16n8k128|.m16n8k256).row.col.s32.b1.b1.s32(.xor|.and).popc", 70, "sm_75"),
    SPARSE(".m16n8k16.row.col.f16.f16.f16.f16", "0..3", 71, "sm_80"),
    SPARSE(".m16n8k32.row.col.f16.f16.f16.f16", "0..1", 71, "sm_80"),
    // ptxas does not check these selectors.
    SPARSE("(.m16n8k16|.m16n8k32).row.col.f32.f16.f16.f32", "0..3", 71, "sm_80"),
    SPARSE(".m16n8k16.row.col.f32.bf16.bf16.f32", "0..3", 71, "sm_80"),
    SPARSE(".m16n8k32.row.col.f32.bf16.bf16.f32", "0..1", 71, "sm_80"),
    SPARSE(".m16n8k8.row.col.f32.tf32.tf32.f32", "0..3", 71, "sm_80"),
    SPARSE(".m16n8k16.row.col.f32.tf32.tf32.f32", "0..1", 71, "sm_80"),
    SPARSE(".m16n8k64.row.col.f32" F8 F8 ".f32", "0..0", 84, "sm_89"),
    SPARSE(".m16n8k32.row.col{.satfinite}.s32" I8 I8 ".s32", "0..1", 71, "sm_80"),
    SPARSE(".m16n8k64.row.col{.satfinite}.s32" I8 I8 ".s32", "0..0", 71, "sm_80"),
    SPARSE(".m16n8k64.row.col{.satfinite}.s32" I4 I4 ".s32", "0..1", 71, "sm_80"),
    SPARSE(".m16n8k128.row.col{.satfinite}.s32" I4 I4 ".s32", "0..0", 71, "sm_80"),

    WMMA_LOAD(wmma_load_a, "A", ".row"),
    WMMA_LOAD(wmma_load_b, "B", ".col"),
    WMMA_ACCUMULATOR(wmma_load_c, "d:0*C, a, s:u32?"),
    WMMA_ACCUMULATOR(wmma_store_d, "a, r:0*D, s:u32?"),
    {Op::wmma_mma, ".aligned" LAYOUT LAYOUT WMMA_SHAPES "(.f16|.f32)(.f16|.f32)", "d:0*D, r:f16*A, r:f16*B, r:1*C", 60,
     "sm_70", kMma},
    {Op::wmma_mma, ".aligned" LAYOUT LAYOUT WMMA_SHAPES ".s32.s8.s8.s32{.satfinite}", MMA_OPERANDS, 63, "sm_72", kMma},
    {Op::wmma_mma, ".aligned" LAYOUT LAYOUT WMMA_SHAPES ".s32.u8.u8.s32{.satfinite}", MMA_OPERANDS, 63, "sm_72", kMma},
    {Op::wmma_mma, ".aligned" LAYOUT LAYOUT WMMA_SHAPES ".f32.bf16.bf16.f32", MMA_OPERANDS, 70, "sm_80", kMma},
    {Op::wmma_mma, ".aligned" LAYOUT LAYOUT ".m16n16k8.f32.tf32.tf32.f32", MMA_OPERANDS, 70, "sm_80", kMma},
    {Op::wmma_mma, ".aligned" LAYOUT LAYOUT ".m8n8k4" PTX_OPT_RND ".f64.f64.f64.f64", MMA_OPERANDS, 70, "sm_80", kMma},
    {Op::wmma_mma, ".aligned.row.col.m8n8k32.s32.s4.s4.s32{.satfinite}", MMA_OPERANDS, 63, "sm_75", kMma},
    {Op::wmma_mma, ".aligned.row.col.m8n8k32.s32.u4.u4.s32{.satfinite}", MMA_OPERANDS, 63, "sm_75", kMma},
    {Op::wmma_mma, "(.xor|.and).popc.aligned.row.col.m8n8k128.s32.b1.b1.s32", MMA_OPERANDS, 63, "sm_75", kMma},

    WGMMA(wgmma_mma_async, "k16", "k8", "k32", "", ""),
    {Op::wgmma_mma_async, N_INT("k256") ".s32.b1.b1.and.popc", UNSCALED(""), 80, "sm_90a", kWgmma},
    WGMMA(wgmma_mma_async_sp, "k32", "k16", "k64", META("0..1"), META("0..0")),
    {Op::wgmma_fence, "", "", 80, "sm_90a", kWgmma},
    {Op::wgmma_commit_group, "", "", 80, "sm_90a", kWgmma},
    {Op::wgmma_wait_group, "", "i(0..4294967295)", 80, "sm_90a", kWgmma},
};

}  // namespace

std::span<const InstructionForm> matrix_rows() { return kRows; }

}  // namespace ptxbench::ptx::table
