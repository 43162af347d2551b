#include "ptx/table/groups.h"
#include "ptx/table/table.h"

namespace ptxbench::ptx::table {
namespace {

constexpr const char* kSync = "Parallel Synchronization and Communication Instructions";
constexpr const char* kMbarrier = "Parallel Synchronization and Communication Instructions: mbarrier";

#define CTA_SHARED "{.shared|.shared::cta}"
#define ANY_SHARED "{.shared|.shared::cta|.shared::cluster}"
#define NEAR_SCOPE "{.cta|.cluster}"
#define PROXY_SPACE "{.global|.shared::cta|.shared::cluster}"

/// Order and scope come together or not at all.
#define ORDERED(op, prefix, orders, scopes, rest, operands, isa, target) \
  {Op::op, prefix rest, operands, isa, target, kMbarrier}, {             \
    Op::op, prefix orders scopes rest, operands, 80, "sm_90", kMbarrier  \
  }
#define ARRIVE(op)                                                                                                   \
  ORDERED(op, "", "(.release|.relaxed)", "(.cta|.cluster)", CTA_SHARED ".b64", "D:u64, a, s:u32?", 70, "sm_80"),     \
      ORDERED(op, "", "(.release|.relaxed)", "(.cta|.cluster)", ".shared::cluster.b64", "_, a, s:u32(1..1048575)?",  \
              80, "sm_90"),                                                                                          \
      ORDERED(op, ".expect_tx", "(.release|.relaxed)", "(.cta|.cluster)", CTA_SHARED ".b64", "D:u64, a, s:u32", 80,  \
              "sm_90"),                                                                                              \
      ORDERED(op, ".expect_tx", "(.release|.relaxed)", "(.cta|.cluster)", ".shared::cluster.b64", "_, a, s:u32", 80, \
              "sm_90"),                                                                                              \
      ORDERED(op, ".noComplete", ".release", ".cta", CTA_SHARED ".b64", "D:u64, a, s:u32", 70, "sm_80")
#define WAIT(op, prefix, operands, isa, target) \
  ORDERED(op, prefix, "(.acquire|.relaxed)", "(.cta|.cluster)", CTA_SHARED ".b64", operands, isa, target)

#define BARRIER(op, aligned)                                                                          \
  {Op::op, "{.cta}.sync" aligned, "s:u32(0..15), s:u32(0..4294967264/32)?", 10, "sm_50", kSync},      \
      {Op::op, "{.cta}.arrive" aligned, "s:u32(0..15), s:u32(0..4294967264/32)", 20, "sm_50", kSync}, \
      {Op::op,                                                                                        \
       "{.cta}.red.popc" aligned ".u32",                                                              \
       "d:u32, s:u32(0..15), p | d:u32, s:u32(0..15), s:u32(0..4294967264/32), p",                    \
       20,                                                                                            \
       "sm_50",                                                                                       \
       kSync},                                                                                        \
  {                                                                                                   \
    Op::op, "{.cta}.red(.and|.or)" aligned ".pred",                                                   \
        "P, s:u32(0..15), p | P, s:u32(0..15), s:u32(0..4294967264/32), p", 20, "sm_50", kSync        \
  }

constexpr InstructionForm kRows[] = {
    BARRIER(bar, ""),
    BARRIER(barrier, "{.aligned}"),
    {Op::bar_warp_sync, "", "s:u32", 60, "sm_50", kSync},
    {Op::barrier_cluster_arrive, "{.release|.relaxed}{.aligned}", "", 78, "sm_90", kSync},
    {Op::barrier_cluster_wait, "{.acquire}{.aligned}", "", 78, "sm_90", kSync},
    {Op::membar, "(.cta|.gl|.sys)", "", 14, "sm_50", kSync},
    {Op::membar, ".proxy.alias", "", 75, "sm_70", kSync},
    {Op::fence, "{.sc|.acq_rel|.acquire|.release}" PTX_SCOPE, "", 60, "sm_70", kSync},
    {Op::fence, ".acquire.sync_restrict::shared::cluster.cluster", "", 86, "sm_90", kSync},
    {Op::fence, ".release.sync_restrict::shared::cta.cluster", "", 86, "sm_90", kSync},
    {Op::fence_mbarrier_init, ".release.cluster", "", 80, "sm_90", kSync},
    {Op::fence_proxy, ".alias", "", 75, "sm_70", kSync},
    {Op::fence_proxy, ".async" PROXY_SPACE, "", 80, "sm_90", kSync},
    {Op::fence_proxy, ".tensormap::generic.release" PTX_SCOPE, "", 83, "sm_90", kSync},
    {Op::fence_proxy, ".tensormap::generic.acquire" PTX_SCOPE, "a, i(128..128)", 83, "sm_90", kSync},
    {Op::fence_proxy, ".async::generic.acquire.sync_restrict::shared::cluster.cluster", "", 86, "sm_90", kSync},
    {Op::fence_proxy, ".async::generic.release.sync_restrict::shared::cta.cluster", "", 86, "sm_90", kSync},
    {Op::vote_sync, "(.all|.any|.uni).pred", "P, p, s:u32", 60, "sm_50", kSync},
    {Op::vote_sync, ".ballot.b32", "d:0, p, s:u32", 60, "sm_50", kSync},
    {Op::match_sync, ".any.sync(.b32|.b64)", "d:b32, s:0, s:u32", 60, "sm_70", kSync},
    {Op::match_sync, ".all.sync(.b32|.b64)", "e:b32, s:0, s:u32", 60, "sm_70", kSync},
    {Op::activemask, ".b32", "d:0", 62, "sm_50", kSync},
    {Op::redux_sync, "(.add|.min|.max)(.u32|.s32)", "d:0, s:0, s:u32", 70, "sm_80", kSync},
    {Op::redux_sync, "(.and|.or|.xor).b32", "d:0, s:0, s:u32", 70, "sm_80", kSync},
    {Op::redux_sync, "(.min|.max){.abs}{.NaN}.f32", "d:0, r:0, s:u32", 86, "sm_100a", kSync},
    {Op::elect_sync, "", "E:b32, s:u32", 80, "sm_90", kSync},
    {Op::griddepcontrol, "(.launch_dependents|.wait)", "", 78, "sm_90", kSync},

    {Op::mbarrier_init, CTA_SHARED ".b64", "a, s:u32", 70, "sm_80", kMbarrier},
    {Op::mbarrier_inval, CTA_SHARED ".b64", "a", 70, "sm_80", kMbarrier},
    ORDERED(mbarrier_expect_tx, "", ".relaxed", "(.cta|.cluster)", ANY_SHARED ".b64", "a, s:u32", 80, "sm_90"),
    ORDERED(mbarrier_complete_tx, "", ".relaxed", "(.cta|.cluster)", ANY_SHARED ".b64", "a, s:u32", 80, "sm_90"),
    ARRIVE(mbarrier_arrive),
    ARRIVE(mbarrier_arrive_drop),
    {Op::mbarrier_pending_count, ".b64", "d:u32, r:u64", 70, "sm_80", kMbarrier},
    WAIT(mbarrier_test_wait, "", "P, a, r:u64", 70, "sm_80"),
    WAIT(mbarrier_test_wait, ".parity", "P, a, s:u32", 71, "sm_80"),
    WAIT(mbarrier_try_wait, "", "P, a, r:u64, s:u32?", 78, "sm_90"),
    WAIT(mbarrier_try_wait, ".parity", "P, a, s:u32, s:u32?", 78, "sm_90"),
};

}  // namespace

std::span<const InstructionForm> synchronisation_rows() { return kRows; }

}  // namespace ptxbench::ptx::table
