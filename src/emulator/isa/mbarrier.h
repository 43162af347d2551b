#pragma once

#include <cstdint>

#include "emulator/isa/engine.h"

/// mbarrier objects (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
namespace ptxbench::emulator {

inline constexpr uint32_t kMbarrierMaxCount = (1u << 20) - 1;

/// The 64-bit word in shared memory:
///
///   bits  0..19  pending arrivals of the current phase
///   bits 20..39  expected arrivals of the next phase
///   bits 40..60  transaction count, 21-bit two's complement
///   bits 61..62  phases completed since init, modulo 4; bit 61 is the parity of the current phase
///   bit  63      1: initialised
///
/// The state token that mbarrier.arrive returns is this word as it was before the arrival.
struct MbarrierState {
  uint32_t pending = 0;
  uint32_t expected = 0;
  int32_t transactions = 0;
  uint32_t phase = 0;
  bool live = false;

  static constexpr MbarrierState decode(uint64_t word) {
    MbarrierState state;
    state.pending = static_cast<uint32_t>(word) & kMbarrierMaxCount;
    state.expected = static_cast<uint32_t>(word >> 20) & kMbarrierMaxCount;
    const auto raw = static_cast<uint32_t>(word >> 40) & 0x1fffffu;
    state.transactions = static_cast<int32_t>(raw << 11) >> 11;
    state.phase = static_cast<uint32_t>(word >> 61) & 3;
    state.live = (word >> 63) != 0;
    return state;
  }
  constexpr uint64_t encode() const {
    return uint64_t{pending} | uint64_t{expected} << 20 | (static_cast<uint64_t>(transactions) & 0x1fffffu) << 40 |
           uint64_t{phase & 3} << 61 | uint64_t{live} << 63;
  }
};

/// One operation on a barrier: what changes, and how it is reported.
struct MbarrierChange {
  uint32_t arrivals = 0;
  bool drop = false;          ///< also lowers the expected count of later phases
  bool no_complete = false;   ///< the arrival may not end the phase
  uint32_t more_pending = 0;  ///< cp.async.mbarrier.arrive without .noinc
  int64_t expect_bytes = 0;
  int64_t complete_bytes = 0;
  Semantics semantics = Semantics::relaxed;
  Scope scope = Scope::cta;
  uint64_t operation = 0;  ///< id of the asynchronous operation that signals, 0 for a thread
};

/// Applies a change to the barrier at a shared::cluster address; completes the phase when nothing is pending. `before`,
/// if not null, receives the state token. False: a fault was recorded (mbarrier.uninitialised, mbarrier.overwritten,
/// mbarrier.underflow, mbarrier.tx-overflow, mbarrier.no-complete, memory.*).
bool mbarrier_apply(Cluster& cluster, const Origin& origin, uint64_t address, const MbarrierChange& change,
                    uint64_t* before = nullptr);

/// complete_tx by an asynchronous operation.
inline bool mbarrier_complete_tx(Cluster& cluster, const Origin& origin, uint64_t address, uint64_t bytes,
                                 uint64_t operation) {
  MbarrierChange change;
  change.complete_bytes = static_cast<int64_t>(bytes);
  change.scope = Scope::cluster;
  change.operation = operation;
  return mbarrier_apply(cluster, origin, address, change);
}

/// Whether a live, unspoilt barrier is at the address: for checks when an operation that will signal it is issued.
/// Records a fault if not.
bool mbarrier_check(Cluster& cluster, const Origin& origin, uint64_t address);

}  // namespace ptxbench::emulator
