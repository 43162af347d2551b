#include "ptx/table/groups.h"
#include "ptx/table/table.h"

namespace ptxbench::ptx::table {
namespace {

constexpr const char* kAsync = "Data Movement and Conversion Instructions: Asynchronous copy";
constexpr const char* kBulk = "Data Movement and Conversion Instructions: Bulk copy";
constexpr const char* kTensor = "Data Movement and Conversion Instructions: Tensor copy";
constexpr const char* kTensormap = "Tensormap Manipulation Instructions";

#define COMPLETE ".mbarrier::complete_tx::bytes"
#define DIM "(.1d|.2d|.3d|.4d|.5d)"
#define IM2COL_DIM "(.3d|.4d|.5d)"
#define MULTICAST_MASK ", s:u16?<multicast::cluster>"
#define PREFETCH "{.L2::64B|.L2::128B|.L2::256B}"

constexpr InstructionForm kRows[] = {
    {Op::cp_async, ".ca(.shared|.shared::cta).global" PTX_HINT PREFETCH,
     "a, a, i(4..4), s:u32?" PTX_POLICY " | a, a, i(8..8), s:u32?" PTX_POLICY " | a, a, i(16..16), s:u32?" PTX_POLICY
     " | a, a, i(4..16/4), p" PTX_POLICY,
     70, "sm_80", kAsync},
    {Op::cp_async, ".cg(.shared|.shared::cta).global" PTX_HINT PREFETCH,
     "a, a, i(16..16), s:u32?" PTX_POLICY " | a, a, i(16..16), p" PTX_POLICY, 70, "sm_80", kAsync},
    {Op::cp_async_commit_group, "", "", 70, "sm_80", kAsync},
    {Op::cp_async_wait_group, "", "i(0..4294967295)", 70, "sm_80", kAsync},
    {Op::cp_async_wait_all, "", "", 70, "sm_80", kAsync},
    {Op::cp_async_mbarrier_arrive, "{.noinc}{.shared|.shared::cta}.b64", "a", 70, "sm_80", kAsync},

    {Op::cp_async_bulk, ".shared::cluster.global" COMPLETE "{.multicast::cluster}" PTX_HINT,
     "a, a, s:u32(0..4294967280/16), a" MULTICAST_MASK PTX_POLICY, 80, "sm_90", kBulk},
    {Op::cp_async_bulk, ".shared::cta.global" COMPLETE PTX_HINT, "a, a, s:u32(0..4294967280/16), a" PTX_POLICY, 86,
     "sm_90", kBulk},
    {Op::cp_async_bulk, ".shared::cluster.shared::cta" COMPLETE, "a, a, s:u32(0..4294967280/16), a", 80, "sm_90",
     kBulk},
    {Op::cp_async_bulk, ".global.shared::cta.bulk_group" PTX_HINT, "a, a, s:u32(0..4294967280/16)" PTX_POLICY, 80,
     "sm_90", kBulk},
    {Op::cp_async_bulk, ".global.shared::cta.bulk_group" PTX_HINT ".cp_mask",
     "a, a, s:u32(0..4294967280/16)" PTX_POLICY ", s:b16", 86, "sm_100", kBulk},
    {Op::cp_async_bulk_prefetch, ".L2.global" PTX_HINT, "a, s:u32(0..4294967280/16)" PTX_POLICY, 80, "sm_90", kBulk},
    {Op::cp_async_bulk_commit_group, "", "", 80, "sm_90", kBulk},
    {Op::cp_async_bulk_wait_group, "{.read}", "i(0..4294967295)", 80, "sm_90", kBulk},

    {Op::cp_reduce_async_bulk, ".shared::cluster.shared::cta" COMPLETE "(.and|.or|.xor).b32",
     "a, a, s:u32(0..4294967280/16), a", 80, "sm_90", kBulk},
    {Op::cp_reduce_async_bulk, ".shared::cluster.shared::cta" COMPLETE ".add(.u32|.s32|.u64)",
     "a, a, s:u32(0..4294967280/16), a", 80, "sm_90", kBulk},
    {Op::cp_reduce_async_bulk, ".shared::cluster.shared::cta" COMPLETE "(.inc|.dec).u32",
     "a, a, s:u32(0..4294967280/16), a", 80, "sm_90", kBulk},
    {Op::cp_reduce_async_bulk, ".shared::cluster.shared::cta" COMPLETE "(.min|.max)(.u32|.s32)",
     "a, a, s:u32(0..4294967280/16), a", 80, "sm_90", kBulk},
    {Op::cp_reduce_async_bulk, ".global.shared::cta.bulk_group" PTX_HINT "(.and|.or|.xor)(.b32|.b64)",
     "a, a, s:u32(0..4294967280/16)" PTX_POLICY, 80, "sm_90", kBulk},
    {Op::cp_reduce_async_bulk, ".global.shared::cta.bulk_group" PTX_HINT ".add(.u32|.s32|.u64|.f32|.f64)",
     "a, a, s:u32(0..4294967280/16)" PTX_POLICY, 80, "sm_90", kBulk},
    {Op::cp_reduce_async_bulk, ".global.shared::cta.bulk_group" PTX_HINT "(.inc|.dec).u32",
     "a, a, s:u32(0..4294967280/16)" PTX_POLICY, 80, "sm_90", kBulk},
    {Op::cp_reduce_async_bulk, ".global.shared::cta.bulk_group" PTX_HINT "(.min|.max)(.u32|.s32|.u64|.s64|.f16|.bf16)",
     "a, a, s:u32(0..4294967280/16)" PTX_POLICY, 80, "sm_90", kBulk},
    {Op::cp_reduce_async_bulk, ".global.shared::cta.bulk_group" PTX_HINT ".add.noftz(.f16|.bf16)",
     "a, a, s:u32(0..4294967280/16)" PTX_POLICY, 80, "sm_90", kBulk},

    {Op::cp_async_bulk_tensor, DIM ".shared::cluster.global{.tile}" COMPLETE "{.multicast::cluster}" PTX_HINT,
     "a, t, a" MULTICAST_MASK PTX_POLICY, 80, "sm_90", kTensor},
    {Op::cp_async_bulk_tensor, DIM ".shared::cta.global{.tile}" COMPLETE PTX_HINT, "a, t, a" PTX_POLICY, 86, "sm_90",
     kTensor},
    {Op::cp_async_bulk_tensor, IM2COL_DIM ".shared::cluster.global.im2col" COMPLETE "{.multicast::cluster}" PTX_HINT,
     "a, t, a, s:u16*i" MULTICAST_MASK PTX_POLICY, 80, "sm_90", kTensor},
    {Op::cp_async_bulk_tensor, IM2COL_DIM ".shared::cta.global.im2col" COMPLETE PTX_HINT, "a, t, a, s:u16*i" PTX_POLICY,
     86, "sm_90", kTensor},
    {Op::cp_async_bulk_tensor,
     DIM "(.shared::cluster|.shared::cta).global(.tile::gather4|.im2col::w|.im2col::w::128)" COMPLETE
         "{.multicast::cluster}{.cta_group::1|.cta_group::2}" PTX_HINT,
     "a, t, a, s:u16*2?" MULTICAST_MASK PTX_POLICY, 86, "sm_100a", kTensor},
    {Op::cp_async_bulk_tensor, DIM ".global.shared::cta{.tile}.bulk_group" PTX_HINT, "t, a" PTX_POLICY, 80, "sm_90",
     kTensor},
    {Op::cp_async_bulk_tensor, IM2COL_DIM ".global.shared::cta.im2col_no_offs.bulk_group" PTX_HINT, "t, a" PTX_POLICY,
     80, "sm_90", kTensor},
    {Op::cp_reduce_async_bulk_tensor,
     DIM ".global.shared::cta(.add|.min|.max|.inc|.dec|.and|.or|.xor){.tile}.bulk_group" PTX_HINT, "t, a" PTX_POLICY,
     80, "sm_90", kTensor},
    {Op::cp_reduce_async_bulk_tensor,
     IM2COL_DIM ".global.shared::cta(.add|.min|.max|.inc|.dec|.and|.or|.xor).im2col_no_offs.bulk_group" PTX_HINT,
     "t, a" PTX_POLICY, 80, "sm_90", kTensor},
    {Op::cp_async_bulk_prefetch_tensor, DIM ".L2.global{.tile}" PTX_HINT, "t" PTX_POLICY, 80, "sm_90", kTensor},
    {Op::cp_async_bulk_prefetch_tensor, IM2COL_DIM ".L2.global.im2col" PTX_HINT, "t, s:u16*i" PTX_POLICY, 80, "sm_90",
     kTensor},

    {Op::tensormap_replace, ".tile.global_address{.global|.shared::cta}.b1024.b64", "a, s:b64", 83, "sm_90a",
     kTensormap},
    {Op::tensormap_replace, ".tile.rank{.global|.shared::cta}.b1024.b32", "a, s:b32", 83, "sm_90a", kTensormap},
    {Op::tensormap_replace, ".tile(.box_dim|.global_dim|.element_stride){.global|.shared::cta}.b1024.b32",
     "a, i(0..4), s:b32", 83, "sm_90a", kTensormap},
    {Op::tensormap_replace, ".tile.global_stride{.global|.shared::cta}.b1024.b64", "a, i(0..4), s:b64", 83, "sm_90a",
     kTensormap},
    {Op::tensormap_replace, ".tile.elemtype{.global|.shared::cta}.b1024.b32", "a, i(0..12)", 83, "sm_90a", kTensormap},
    {Op::tensormap_replace, ".tile.interleave_layout{.global|.shared::cta}.b1024.b32", "a, i(0..2)", 83, "sm_90a",
     kTensormap},
    {Op::tensormap_replace, ".tile.swizzle_mode{.global|.shared::cta}.b1024.b32", "a, i(0..3)", 83, "sm_90a",
     kTensormap},
    {Op::tensormap_replace, ".tile.fill_mode{.global|.shared::cta}.b1024.b32", "a, i(0..1)", 83, "sm_90a", kTensormap},
    {Op::tensormap_cp_fenceproxy, ".global.shared::cta.tensormap::generic.release" PTX_SCOPE ".sync.aligned",
     "a, a, i(128..128)", 83, "sm_90", kTensormap},
};

}  // namespace

std::span<const InstructionForm> async_rows() { return kRows; }

}  // namespace ptxbench::ptx::table
