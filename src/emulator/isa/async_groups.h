#pragma once

#include <memory>

#include "emulator/isa/engine.h"
#include "emulator/tensor/tensor_box.h"

/// Per-thread groups of cp.async and of bulk copies (PTX ISA, "Data Movement and Conversion Instructions: Asynchronous
/// copy", "Completion mechanisms"). Waiting for a group completes what is still in flight: as late as the program
/// allows.
namespace ptxbench::emulator {

enum class GroupFamily : uint8_t { cp_async, bulk };

/// Index of the group a lane's next operation joins.
uint64_t open_group(const Warp& warp, GroupFamily family, unsigned lane);
/// Adds an operation in flight to the open group of the lanes.
void join_group(Warp& warp, GroupFamily family, uint32_t lanes, const std::shared_ptr<AsyncOperation>& operation);
/// All operations of a lane that may still be in flight, the open group included.
std::vector<std::shared_ptr<AsyncOperation>> operations_in_flight(const Warp& warp, GroupFamily family, unsigned lane);

/// commit_group, wait_group N, wait_all of the active lanes.
void bind_commit_group(Decoder& decoder, GroupFamily family);
void bind_wait_group(Decoder& decoder, GroupFamily family, uint64_t keep, bool reads_only, bool all);

/// What is needed to describe an issued operation to the observer.
struct IssueDescription {
  AsyncKind kind{};
  Completion completion{};
  uint64_t completion_target = 0;
  Space source{}, destination{};
  uint64_t tensor_map = 0;
  AsyncIssueEvent::TileLayout layout{};  ///< of a tensor copy's box in shared memory
  const TensorMap* map = nullptr;        ///< of a tensor copy
  const BoxCoordinates* coordinates = nullptr;
  uint32_t shared_offset = 0;  ///< of a tensor copy's box
  uint32_t element_bytes = 0;  ///< of a reduction
};
void send_issue(Cluster& cluster, const Origin& origin, uint64_t id, const IssueDescription& description,
                std::span<const ByteRange> reads, std::span<const ByteRange> writes);
inline void send_effect(Cluster& cluster, uint64_t id, AsyncEffect effect) {
  if (Observer* observer = cluster.launch->observer) observer->on_async_effect(id, effect);
}

}  // namespace ptxbench::emulator
