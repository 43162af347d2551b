#pragma once

#include <mutex>
#include <vector>

#include "emulator/isa/async_groups.h"
#include "emulator/tensor/tensor_box.h"

/// What linear and tensor bulk copies share.
namespace ptxbench::emulator {

inline constexpr uint64_t kNoBarrier = ~0ull;

/// One destination of a copy into the shared memory of the cluster.
struct SharedTarget {
  std::byte* pointer = nullptr;
  uint64_t address = 0;  ///< shared::cluster
  Cta* cta = nullptr;
  uint64_t barrier = kNoBarrier;  ///< that receives the bytes, shared::cluster
};

/// Resolves the destination(s) of a copy: one, or with multicast the same CTA-relative address in every CTA of the
/// mask, each with the mbarrier at the same CTA-relative address. False: a fault was recorded.
bool find_targets(Warp& warp, const Inst& inst, unsigned lane, uint64_t destination, uint32_t bytes, uint32_t alignment,
                  uint64_t barrier, bool multicast, uint32_t cta_mask, std::vector<SharedTarget>& targets);

/// The shared::cluster address of a lane's operand. False: it is elsewhere (or, with `own_cta`, another CTA's); a fault
/// was recorded.
bool shared_operand(Warp& warp, const Inst& inst, const MemoryOp& op, unsigned lane, bool own_cta, const char* what,
                    uint64_t& address);

BulkReduction bulk_reduction(const ptx::Instruction& instruction);
TensorDataType reduction_type(ptx::Type type);
std::mutex& global_reduction_mutex();

}  // namespace ptxbench::emulator
