#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "timeline/record.h"

/// When the steps of a cluster would happen on an SM that works as the cost model says. The emulator has no clock: what
/// waits for what is the kernel's own, how long things take is the model's. docs/timeline.md says what it leaves out.
namespace ptxbench::timeline {

/// In cycles of an SM, from probes on an H200 (docs/hardware-notes.md, "Costs for timelines"), but for `instruction`,
/// which was chosen, and the rate of products, which is NVIDIA's.
struct CostModel {
  double instruction = 2.5;            ///< of one warp, from one PTX instruction to the next
  double issue_slot = 1;               ///< of one of the SM's four schedulers: factor of LaunchRecord::issue_cycles
  double global_latency = 280;         ///< until a load's value is there, from L2
  double global_bytes_per_cycle = 42;  ///< of one SM while all of them load
  double shared_latency = 29;
  double shared_bytes_per_cycle = 128;
  double tma_latency = 325;         ///< from the issue of a small tensor copy to its completion, from L2
  double tma_alone = 106;           ///< bytes per cycle into one SM that no other SM competes with
  double tma_bytes_per_cycle = 35;  ///< into one SM while all of them copy
  double wgmma_latency = 50;        ///< until a result is there, beside the time of the products
  double macs_per_cycle = 2048;     ///< 16-bit products of an SM; others by their size
  double wake = 55;                 ///< from the opening of a gate to the next instruction of who waits for it
  double remote = 450;              ///< an arrival at another CTA of the cluster
};

/// What happened on a track from `begin` to `end`, in cycles since the cluster's start.
struct Span {
  enum class Kind : std::uint8_t { run, wait, copy, product, phase };
  Kind kind = Kind::run;
  double begin = 0, end = 0;
  std::uint32_t site = kNone;       ///< of the step that ends it, or of the operation's issue
  std::uint32_t last_site = kNone;  ///< run: the last instruction
  std::uint32_t target = kNone;     ///< wait and phase: gate; copy and product: operation
  const Step* step = nullptr;       ///< run and wait
  bool unended = false;             ///< wait and phase: nothing that was recorded ends it
};

/// An arrow: the end of one span let another one end.
struct Release {
  bool by_operation = false;
  std::uint32_t source = 0;  ///< operation, or warp
  double at = 0;             ///< when the source did it
  std::uint32_t warp = 0;    ///< that waited
  double end = 0;            ///< of its wait
};

struct ClusterSchedule {
  const ClusterRecord* record = nullptr;
  std::uint32_t warps = 0;
  std::vector<std::vector<Span>> of_warp;  ///< by warp of the cluster, without overlaps
  std::vector<Span> of_operation;          ///< by operation; those not issued have end < begin
  std::vector<Span> of_gate;               ///< mbarrier phases: from the phase before to the opening
  std::vector<Release> releases;
  double cycles = 0;
  double product_cycles = 0;  ///< tensor cores at work, sum over CTAs
  double copy_bytes = 0;      ///< moved by bulk and tensor copies
};

ClusterSchedule schedule(const LaunchRecord& launch, const ClusterRecord& cluster, const CostModel& model = {});

}  // namespace ptxbench::timeline
