#pragma once

#include "emulator/warp.h"

namespace ptxbench::emulator {

/// Sums over the clusters that ran.
struct LaunchTotals {
  std::vector<uint64_t> block_counts, guard_counts;
  uint64_t instructions = 0, tensor_core_macs = 0, legacy_mma_macs = 0, tma_bytes = 0, asynchronous = 0;
  uint64_t clusters_run = 0;
  std::optional<Fault> fault;
};

/// Runs the clusters `indices` (all of them if empty) on `threads` threads, with at most `resident` clusters in flight.
/// `proving`: Launch::unproven then says whether what ran is proved free of races (touches.h), and Launch::undo takes
/// its stores back.
LaunchTotals run_clusters(Launch& launch, const std::vector<uint32_t>& indices, unsigned threads, uint32_t resident,
                          bool proving);

}  // namespace ptxbench::emulator
