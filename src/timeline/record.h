#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emulator/device.h"
#include "emulator/observer.h"

/// What the warps of a cluster did that bears on when they could go on: plain data, filled by the recorder and read by
/// the schedule.
namespace ptxbench::timeline {

inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// Instructions between two steps of a warp, with the memory they touched. A load's latency is paid once per segment.
struct Segment {
  std::uint64_t instructions = 0;
  std::uint64_t global_loads = 0, global_bytes = 0;  ///< loads, stores and atomics; bytes of all lanes
  std::uint64_t shared_loads = 0, shared_bytes = 0;
  std::uint32_t first_site = kNone, last_site = kNone;  ///< Site::instruction, of what was seen of them
};

/// Opens once all that was recorded for it has happened: a phase of an mbarrier, a round of a CTA or cluster barrier, a
/// committed group of asynchronous operations.
struct Gate {
  enum class Kind : std::uint8_t { mbarrier, cta_barrier, cluster_barrier, group };
  Kind kind = Kind::mbarrier;
  std::uint32_t cta = 0;  ///< rank of the CTA it belongs to
  std::uint64_t name =
      0;  ///< mbarrier: offset in the CTA's shared memory, as the kernel sees it; CTA barrier: its number
  std::uint64_t phase = 0;            ///< phase, round or group
  emulator::Completion completion{};  ///< group: of what
  std::uint32_t previous = kNone;     ///< group: the one committed before, which is complete first
  std::uint32_t parts = 0;            ///< arrivals and completions recorded
  std::uint64_t arrivals = 0;         ///< counted as the barrier counts
  std::int64_t bytes = 0;             ///< transaction bytes that arrived
  bool unended = false;               ///< somebody was waiting for it when the launch ended
};

/// An asynchronous operation.
struct Operation {
  emulator::AsyncKind kind{};
  std::uint32_t site = kNone;
  std::uint32_t cta = 0;           ///< rank of the CTA that issued it
  std::uint64_t bytes = 0;         ///< moved: the larger of what it reads and what it writes in one CTA
  bool store = false;              ///< from shared to global memory
  std::uint32_t destinations = 0;  ///< CTAs whose shared memory it writes: bits by rank
  std::uint32_t n = 0, k = 0;      ///< wgmma: 64 x n x k, per warp a quarter of the rows
  std::uint32_t element_bytes = 0;
  bool a_in_registers = false;
  std::vector<std::uint32_t> gates;  ///< that wait for it
};

/// One step of a warp, after `before`.
struct Step {
  enum class Kind : std::uint8_t { issue, arrive, wait, exit };
  Kind kind = Kind::exit;
  std::uint32_t warp = 0;  ///< CTA rank * warps per CTA + warp
  std::uint32_t site = kNone;
  std::uint32_t target = kNone;  ///< issue: operation; arrive and wait: gate
  bool reads_only = false;       ///< wait: for the sources of a group, not its results
  bool stays = false;            ///< wait: it had not ended when the launch did
  Segment before;
};

struct ClusterRecord {
  std::uint32_t index = 0;  ///< linear in the grid
  std::vector<Step> steps;  ///< in the order of the emulated run, which is one of those that are legal
  std::vector<Gate> gates;
  std::vector<Operation> operations;
  bool truncated = false;  ///< there was more than is kept
  bool finished = false;   ///< all of its threads came to their end
};

struct LaunchRecord {
  std::uint64_t number = 0;  ///< of the run, from 0
  std::string kernel;
  std::uint32_t grid[3]{}, block[3]{}, cluster[3]{};
  std::uint32_t warps_per_cta = 0, ctas_per_cluster = 1;
  std::uint64_t clusters_run = 0, clusters_total = 0;
  double issue_cycles = 1;  ///< of a scheduler per instruction, on average (issue_cost.h)
  std::optional<emulator::Fault> fault;
  std::optional<std::uint32_t> faulted_cluster;
  std::vector<ClusterRecord> clusters;
  std::map<std::uint32_t, emulator::CodePlace> places;  ///< of the sites above
};

}  // namespace ptxbench::timeline
