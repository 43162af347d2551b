#pragma once

#include <bit>
#include <cstdint>

#include "emulator/warp.h"

namespace ptxbench::emulator {

/// Host addresses of a warp's lanes for one access; only active lanes are valid.
struct LanePointers {
  alignas(64) uint64_t host[kLanes];
  template <class T>
  T* at(unsigned lane) const {
    return reinterpret_cast<T*>(host[lane]);
  }
};

/// PTX address of a lane (register value + offset), before any translation.
inline uint64_t lane_address(Warp& warp, const MemoryOp& op, unsigned lane) {
  const bool uniform = op.address.shape == Shape::uniform;
  const uint64_t base =
      op.address_bits == 32
          ? (uniform ? *warp.slot<uint32_t>(op.address.offset) : warp.slot<uint32_t>(op.address.offset)[lane])
          : (uniform ? *warp.slot<uint64_t>(op.address.offset) : warp.slot<uint64_t>(op.address.offset)[lane]);
  const uint64_t sum = base + static_cast<uint64_t>(op.offset);
  return op.address_bits == 32 ? static_cast<uint32_t>(sum) : sum;
}

/// Translates the active lanes' addresses; checks bounds and natural alignment of `op.bytes` (or `alignment` if not 0).
/// False: a fault was recorded (memory.out-of-bounds, memory.use-after-free, memory.misaligned) and the handler must
/// return null.
bool resolve_lanes(Warp& warp, const Inst& inst, const MemoryOp& op, LanePointers& pointers, uint32_t alignment = 0);

/// Translates one address that all lanes share. Null: a fault was recorded.
std::byte* resolve_uniform(Warp& warp, const Inst& inst, const MemoryOp& op, uint64_t address, uint32_t bytes,
                           uint32_t alignment);

/// Addresses v[0] + stride * lane of a whole warp: `first` is lane 0's host address. False if the pattern, the bounds
/// or the alignment do not hold (nothing is reported: the caller takes the general path).
bool resolve_strided(Warp& warp, const MemoryOp& op, uint64_t& first);

/// Translates one address of one thread, for engines that walk memory on their own (bulk copies, descriptors). `space`
/// may be generic, global, shared (of the warp's own CTA or any rank of the cluster) or local. Null: a fault was
/// recorded.
std::byte* resolve_address(Warp& warp, const Inst& inst, ptx::StateSpace space, uint64_t address, uint64_t bytes,
                           uint32_t alignment, bool write, unsigned lane);

/// Space an address of a generic access falls into, and the address inside that space's own numbering.
struct Located {
  Space space = Space::global;
  uint64_t address = 0;
};
Located locate(ptx::StateSpace space, uint64_t address);

/// Writes "buffer + offset" for people: `shared + 0x40 of CTA rank 1`, `tensor A + 1024 (of 4096 bytes)`, ...
std::string describe_address(const Launch& launch, Space space, uint64_t address);

// Tells Warp::touches, which must not be null, about an access whose addresses have been resolved.
/// Lane l of the whole warp touches `bytes` bytes at first + l * bytes.
void touch_row(Warp& warp, const std::byte* first, uint32_t bytes, const MemoryOp& op);
/// All active lanes touch the same bytes.
void touch_one(Warp& warp, const std::byte* at, uint32_t bytes, const MemoryOp& op);
void touch_lanes(Warp& warp, const LanePointers& pointers, uint32_t bytes, const MemoryOp& op);
/// The proof has failed: the launch ends soon and is taken back.
void give_up_proof(Warp& warp);

/// Lanes of one store that write to bytes which another of `lanes` writes too, with another value: same(a, b) compares
/// what two lanes store. All are aligned to their size, so that two lanes' bytes are the same ones or disjoint.
template <class Same>
uint32_t clashing_lanes(uint32_t lanes, const uint64_t* addresses, uint32_t bytes, const Same& same) {
  uint32_t clashing = 0, before = 0;
  uint64_t end = 0, met = 0;
  bool rising = true;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    const uint64_t address = addresses[lane];
    rising = rising && address >= end;
    end = address + bytes;
    // Most stores go to places that are all different: look at earlier lanes only if one may be the same.
    const uint64_t place = 1ull << (address / bytes * 0x9e3779b97f4a7c15ull >> 58);
    if (!rising && (met & place) != 0) {
      for (uint32_t others = before; others != 0; others &= others - 1) {
        const auto other = static_cast<unsigned>(std::countr_zero(others));
        if (addresses[other] == address && !same(other, lane)) clashing |= 1u << other | 1u << lane;
      }
    }
    met |= place;
    before |= 1u << lane;
  }
  return clashing;
}

/// Sends an AccessEvent for the active lanes if somebody listens.
void observe_access(Warp& warp, const Inst& inst, const MemoryOp& op, bool plain_store = false);

}  // namespace ptxbench::emulator
