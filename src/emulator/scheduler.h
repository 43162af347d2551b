#pragma once

#include <string>

#include "emulator/warp.h"

/// Runs the warps of one cluster, fairly, on the calling thread.
namespace ptxbench::emulator {

/// Prepares a cluster object (reused between clusters of a launch) for cluster number `index`.
void start_cluster(Cluster& cluster, Launch& launch, uint32_t index);

enum class ClusterStatus : uint8_t {
  finished,
  running,  ///< the slice is over, work goes on
  stuck,    ///< a fair round changed nothing: waits for another cluster, or for ever
  faulted,
};

/// Runs up to `rounds` rounds over all warps.
ClusterStatus run_cluster(Cluster& cluster, unsigned rounds);

/// Who waits for what, for the deadlock report.
/// `over_budget`: the same for a cluster whose warps may well be running.
Fault describe_deadlock(Cluster& cluster, bool over_budget = false);

// Conditions of blocked fragments, provided by the instruction families.
bool mbarrier_phase_done(Cluster& cluster, uint64_t shared_address, uint32_t parity);
std::string mbarrier_describe(Cluster& cluster, uint64_t shared_address);
bool registers_available(const Warp& warp, const Fragment& fragment);
/// True once the groups the fragment waits for are complete; under lazy policies completes them.
bool async_group_done(Warp& warp, const Fragment& fragment);
/// A warp's or warpgroup's pending wgmma work must be finished before it exits.
void finish_wgmma(Warp& warp);

}  // namespace ptxbench::emulator
