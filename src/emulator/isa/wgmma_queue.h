#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "emulator/isa/engine.h"
#include "emulator/tensor/wgmma.h"

/// wgmma operations between issue and execution.
///
/// A wgmma is one operation of its warpgroup, but its rows are independent: each warp queues what it issued and
/// executes its own sixteen rows. Under the eager policy that happens at the warp's commit, under the lazy one not
/// before some warp of the group waits; the random policy decides by seed at each commit. A wait returns once all four
/// warps have committed the group and executed it, because the completion of the operation is that of all its rows.
namespace ptxbench::emulator {

/// Static description of one wgmma.mma_async.
struct WgmmaOp {
  WgmmaShape shape;
  ValueOperand a_descriptor, b_descriptor, scale_d;
  std::vector<uint32_t> d;  ///< register offsets in fragment order
  std::vector<uint32_t> sorted_d;
  std::vector<ByteRange> d_ranges, a_ranges;  ///< the same registers for AsyncIssueEvent
  std::array<uint32_t, 4> a{};                ///< register offsets of an A fragment
  bool same_accumulators(const WgmmaOp& other) const { return shape == other.shape && d == other.d; }
  bool touches(const WgmmaOp& other) const;
};

struct IssuedWgmma {
  const WgmmaOp* op = nullptr;
  WgmmaStep step;
  const FunctionCode* function = nullptr;
  Frame* frame = nullptr;
  uint32_t captured = ~0u;  ///< index in WgmmaQueue::fragments; ~0: A is read when the operation executes
  uint64_t id = 0;
};

struct alignas(64) CapturedFragment {
  std::array<uint32_t, 4 * kLanes> words{};
};

struct WgmmaQueue {
  std::vector<IssuedWgmma> open;                ///< issued, not committed
  std::deque<std::vector<IssuedWgmma>> groups;  ///< committed, not executed: executed .. committed-1
  std::vector<CapturedFragment> fragments;
  uint64_t executed = 0;  ///< groups
  uint64_t open_hash = 0;
  std::deque<uint64_t> hashes;  ///< what each group did, for groups hash_base ..
  uint64_t hash_base = 0;
};

WgmmaQueue& wgmma_queue(Warp& warp);
/// The four warps of the warpgroup, empty if the CTA has no complete one here.
std::span<Warp* const> warpgroup_of(const Warp& warp);
/// Executes the warp's committed groups before `end`.
void execute_wgmma_groups(Warp& warp, uint64_t end);

}  // namespace ptxbench::emulator
