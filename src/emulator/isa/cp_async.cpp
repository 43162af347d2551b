#include <cstring>

#include "emulator/isa/async_groups.h"
#include "emulator/isa/mbarrier.h"

/// Non-bulk cp.async (PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy"): 4, 8 or 16 bytes per
/// lane from global to the CTA's shared memory, tracked by per-thread groups or an mbarrier.
namespace ptxbench::emulator {

using ptx::Mod;
using ptx::Op;
using ptx::StateSpace;
using ptx::Type;

namespace {

struct CopyOp {
  MemoryOp destination, source;
  uint32_t bytes = 0;
  bool has_source_size = false, has_ignore = false;
  ValueOperand source_size, ignore;
};

/// One warp instruction in flight.
struct LaneCopies {
  uint32_t lanes = 0;
  uint32_t bytes = 0;
  Cta* cta = nullptr;
  uint64_t id = 0;
  std::array<std::byte*, kLanes> destination{};
  std::array<const std::byte*, kLanes> source{};
  std::array<uint8_t, kLanes> source_bytes{};

  void run(Cluster& cluster) const {
    for_each_lane(lanes, [&](unsigned lane) {
      const uint32_t copied = source_bytes[lane];
      if (copied != 0) std::memcpy(destination[lane], source[lane], copied);
      if (copied < bytes) std::memset(destination[lane] + copied, 0, bytes - copied);
    });
    ++cta->shared_version;
    ++cluster.progress;
    send_effect(cluster, id, AsyncEffect::reads_done);
    send_effect(cluster, id, AsyncEffect::writes_done);
  }
};

const Inst* copy(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const CopyOp*>(inst.extra);
  Cluster& cluster = *warp.cluster;
  LaneCopies copies;
  copies.lanes = warp.mask;
  copies.bytes = op.bytes;
  copies.cta = warp.cta;
  LanePointers destination;
  if (!resolve_lanes(warp, inst, op.destination, destination, op.bytes)) return nullptr;
  const bool partial = op.has_source_size || op.has_ignore;
  LanePointers source;
  if (!partial && !resolve_lanes(warp, inst, op.source, source, op.bytes)) return nullptr;
  for (uint32_t lanes = warp.mask; lanes != 0; lanes &= lanes - 1) {
    const unsigned lane = first_lane(lanes);
    copies.destination[lane] = destination.at<std::byte>(lane);
    if (!partial) {
      copies.source[lane] = source.at<std::byte>(lane);
      copies.source_bytes[lane] = static_cast<uint8_t>(op.bytes);
      continue;
    }
    uint64_t size = op.has_ignore ? (op.ignore.get(warp, lane) != 0 ? 0 : op.bytes) : op.source_size.get(warp, lane);
    if (size > op.bytes) {
      return warp.fault(inst, "async.size",
                        fmt::format("cp.async of {} bytes with a source size of {}", op.bytes, size),
                        "the source size must not exceed the copy size", 0, 1u << lane);
    }
    copies.source_bytes[lane] = static_cast<uint8_t>(size);
    // Bytes that are not read need not exist, but the address must be aligned all the same.
    if (size != 0) {
      copies.source[lane] = resolve_address(warp, inst, StateSpace::global, lane_address(warp, op.source, lane), size,
                                            op.bytes, false, lane);
      if (copies.source[lane] == nullptr) return nullptr;
    }
  }
  copies.id = cluster.async.next_id();
  if (cluster.launch->observer != nullptr) {
    // Range i belongs to the i-th active lane.
    std::vector<ByteRange> reads, writes;
    for_each_lane(warp.mask, [&](unsigned lane) {
      reads.push_back(
          {locate(op.source.space, lane_address(warp, op.source, lane)).address, copies.source_bytes[lane]});
      writes.push_back({locate(op.destination.space, lane_address(warp, op.destination, lane)).address, op.bytes});
    });
    IssueDescription description;
    description.kind = AsyncKind::cp_async;
    description.completion = Completion::cp_async_group;
    description.completion_target = open_group(warp, GroupFamily::cp_async, first_lane(warp.mask));
    description.source = Space::global;
    description.destination = Space::shared;
    send_issue(cluster, origin_of(warp, inst, warp.mask), copies.id, description, reads, writes);
  }
  if (cluster.async.eager()) {
    copies.run(cluster);
    return &inst + 1;
  }
  const auto operation = cluster.async.submit(cluster, copies.id, nullptr, [copies](Cluster& c) { copies.run(c); });
  join_group(warp, GroupFamily::cp_async, warp.mask, operation);
  return &inst + 1;
}

struct ArriveOp {
  MemoryOp barrier;
  bool increments = true;
};

const Inst* arrive_after_copies(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const ArriveOp*>(inst.extra);
  Cluster& cluster = *warp.cluster;
  for (uint32_t lanes = warp.mask; lanes != 0; lanes &= lanes - 1) {
    const unsigned lane = first_lane(lanes);
    const uint64_t raw = lane_address(warp, op.barrier, lane);
    const Located where = locate(op.barrier.space, raw);
    if (where.space != Space::shared || (where.address >> kCtaRankShift) != warp.cta->rank) {
      return warp.fault(inst, "mbarrier.space",
                        fmt::format("the mbarrier address {:#x} is not in the shared memory of the executing CTA", raw),
                        "use a barrier of the executing CTA", raw, 1u << lane);
    }
    const Origin origin = origin_of(warp, inst, 1u << lane);
    const uint64_t address = where.address, id = cluster.async.next_id();
    if (op.increments) {
      MbarrierChange change;
      change.more_pending = 1;
      if (!mbarrier_apply(cluster, origin, address, change)) return warp.leave(Stop::fault, nullptr);
    }
    auto awaited = operations_in_flight(warp, GroupFamily::cp_async, lane);
    cluster.async.submit(cluster, id, nullptr, [awaited = std::move(awaited), origin, address, id](Cluster& c) {
      for (const auto& operation : awaited) c.async.complete(c, *operation);
      MbarrierChange change;
      change.arrivals = 1;
      change.semantics = Semantics::release;
      change.operation = id;
      mbarrier_apply(c, origin, address, change);
    });
    if (cluster.fault) return warp.leave(Stop::fault, nullptr);
  }
  return &inst + 1;
}

void bind_copy(Decoder& decoder, const ptx::Instruction& instruction) {
  const auto& operands = instruction.operands;
  CopyOp op;
  const auto bytes = Decoder::immediate(operands.at(2));
  if (!bytes) throw std::runtime_error("cp.async with a size that is not a constant");
  op.bytes = static_cast<uint32_t>(*bytes);
  op.destination = address_operand(decoder, operands.at(0), StateSpace::shared, op.bytes, AccessKind::write);
  op.source = address_operand(decoder, operands.at(1), StateSpace::global, op.bytes);
  const size_t extra = operands.size() - (instruction.has(Mod::L2_cache_hint) ? 1 : 0);
  if (extra > 3) {
    const ptx::Operand& last = operands.at(3);
    const bool is_predicate = last.kind == ptx::OperandKind::reg && decoder.operand_bits(last, Type::u32) == 1;
    if (is_predicate) {
      op.has_ignore = true;
      op.ignore = {decoder.predicate(last), 1};
    } else {
      op.has_source_size = true;
      op.source_size = value_operand(decoder, last, Type::u32);
    }
  }
  decoder.emit({&copy, &copy}).extra = decoder.keep(std::move(op));
}

void bind_commit(Decoder& decoder, const ptx::Instruction&) { bind_commit_group(decoder, GroupFamily::cp_async); }
void bind_wait(Decoder& decoder, const ptx::Instruction& instruction) {
  const bool all = instruction.op == Op::cp_async_wait_all;
  bind_wait_group(decoder, GroupFamily::cp_async, all ? 0 : instruction.operands.at(0).bits, false, all);
}
void bind_arrive(Decoder& decoder, const ptx::Instruction& instruction) {
  ArriveOp op;
  op.barrier = address_operand(decoder, instruction.operands.at(0), instruction.space(), 8, AccessKind::atomic);
  op.increments = !instruction.has(Mod::noinc);
  decoder.emit({&arrive_after_copies, &arrive_after_copies}).extra = decoder.keep(std::move(op));
}

}  // namespace

void register_cp_async(BinderTable& table) {
  table.set(Op::cp_async, &bind_copy);
  table.set(Op::cp_async_commit_group, &bind_commit);
  table.set(Op::cp_async_wait_group, &bind_wait);
  table.set(Op::cp_async_wait_all, &bind_wait);
  table.set(Op::cp_async_mbarrier_arrive, &bind_arrive);
}

}  // namespace ptxbench::emulator
