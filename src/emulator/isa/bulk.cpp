#include <cstring>
#include <mutex>

#include "emulator/isa/bulk.h"
#include "emulator/isa/mbarrier.h"

/// Linear bulk copies and reductions, st.async and red.async (PTX ISA, "Data Movement and Conversion Instructions: Bulk
/// copy").
namespace ptxbench::emulator {

using ptx::Mod;
using ptx::Op;
using ptx::StateSpace;
using ptx::Type;

std::mutex& global_reduction_mutex() {
  // Clusters run on several threads; reductions into global memory are read-modify-writes.
  static std::mutex mutex;
  return mutex;
}

bool find_targets(Warp& warp, const Inst& inst, unsigned lane, uint64_t destination, uint32_t bytes, uint32_t alignment,
                  uint64_t barrier, bool multicast, uint32_t cta_mask, std::vector<SharedTarget>& targets) {
  Cluster& cluster = *warp.cluster;
  const uint32_t ctas = static_cast<uint32_t>(cluster.ctas.size());
  constexpr uint64_t kOffset = (1u << kCtaRankShift) - 1;
  if (!multicast) {
    if (barrier != kNoBarrier && (destination >> kCtaRankShift) != (barrier >> kCtaRankShift)) {
      warp.fault(inst, "tma.mbarrier",
                 fmt::format("the destination is in the shared memory of CTA rank {}, the mbarrier in that of rank {}",
                             destination >> kCtaRankShift, barrier >> kCtaRankShift),
                 "signal an mbarrier of the CTA that receives the data", barrier, 1u << lane);
      return false;
    }
    cta_mask = 1u << (destination >> kCtaRankShift & 31);
  } else if (cta_mask == 0 || (ctas < 32 && (cta_mask >> ctas) != 0)) {
    warp.fault(inst, "tma.multicast", fmt::format("multicast mask {:#06x} in a cluster of {} CTAs", cta_mask, ctas),
               "set one bit per destination CTA, by its rank in the cluster", 0, 1u << lane);
    return false;
  }
  const Origin origin = origin_of(warp, inst, 1u << lane);
  for (uint32_t left = cta_mask; left != 0; left &= left - 1) {
    const uint64_t rank = first_lane(left);
    SharedTarget target;
    target.address = multicast ? (rank << kCtaRankShift) | (destination & kOffset) : destination;
    std::byte* pointer =
        resolve_address(warp, inst, StateSpace::shared_cluster, target.address, bytes, alignment, true, lane);
    if (pointer == nullptr) return false;
    target.pointer = pointer;
    target.cta = cluster.cta_of_shared(target.address);
    target.barrier = barrier;
    if (barrier != kNoBarrier) {
      if (multicast) target.barrier = (rank << kCtaRankShift) | (barrier & kOffset);
      if (!mbarrier_check(cluster, origin, target.barrier)) {
        warp.leave(Stop::fault, nullptr);
        return false;
      }
    }
    targets.push_back(target);
  }
  return true;
}

bool shared_operand(Warp& warp, const Inst& inst, const MemoryOp& op, unsigned lane, bool own_cta, const char* what,
                    uint64_t& address) {
  const uint64_t raw = lane_address(warp, op, lane);
  const Located where = locate(op.space, raw);
  address = where.address;
  if (where.space != Space::shared || (own_cta && (address >> kCtaRankShift) != warp.cta->rank)) {
    warp.fault(inst, "tma.space",
               fmt::format("the {} address {:#x} is not in the shared memory of {}", what, raw,
                           own_cta ? "the executing CTA" : "the cluster"),
               "convert generic pointers with cvta.to.shared and use mapa for other CTAs", raw, 1u << lane);
    return false;
  }
  return true;
}

namespace {

struct BulkOp {
  MemoryOp destination, source, barrier;
  ValueOperand size, cta_mask;
  bool to_global = false, from_global = false;
  bool signals = false, multicast = false, reduces = false;
  BulkReduction reduction{};
  TensorDataType type{};
};

struct BulkCopy {
  Origin origin;
  uint64_t id = 0;
  const std::byte* source = nullptr;
  uint32_t bytes = 0;
  std::byte* global = nullptr;  ///< destination in global memory, else `targets`
  std::vector<SharedTarget> targets;
  bool reduces = false, signals = false;
  BulkReduction reduction{};
  TensorDataType type{};
  std::vector<std::byte> snapshot;  ///< of the source once it has been read

  void read(Cluster& cluster) {
    snapshot.assign(source, source + bytes);
    send_effect(cluster, id, AsyncEffect::reads_done);
  }
  void write(Cluster& cluster) {
    auto put = [&](std::byte* destination) {
      if (reduces) {
        reduce_elements(reduction, type, destination, snapshot.data(), bytes / element_bytes(type));
      } else {
        std::memcpy(destination, snapshot.data(), bytes);
      }
    };
    if (global != nullptr) {
      if (reduces) {
        std::lock_guard lock(global_reduction_mutex());
        put(global);
      } else {
        put(global);
      }
    }
    for (const SharedTarget& target : targets) {
      put(target.pointer);
      ++target.cta->shared_version;
    }
    send_effect(cluster, id, AsyncEffect::writes_done);
    if (!signals) return;
    for (const SharedTarget& target : targets) {
      if (!mbarrier_complete_tx(cluster, origin, target.barrier, bytes, id)) return;
    }
  }
};

bool issue_bulk(Warp& warp, const Inst& inst, const BulkOp& op, unsigned lane) {
  Cluster& cluster = *warp.cluster;
  const auto size = static_cast<uint32_t>(op.size.get(warp, lane));
  if (size % 16 != 0) {
    warp.fault(inst, "tma.size", fmt::format("a bulk copy of {} bytes; the size must be a multiple of 16", size),
               "round the size to 16 bytes or copy the rest with ordinary accesses", 0, 1u << lane);
    return false;
  }
  auto copy = std::make_shared<BulkCopy>();
  copy->origin = origin_of(warp, inst, 1u << lane);
  copy->bytes = size;
  copy->reduces = op.reduces;
  copy->signals = op.signals;
  copy->reduction = op.reduction;
  copy->type = op.type;
  uint64_t source = lane_address(warp, op.source, lane), destination = lane_address(warp, op.destination, lane);
  uint64_t barrier = kNoBarrier;
  if (!op.from_global && !shared_operand(warp, inst, op.source, lane, true, "source", source)) return false;
  if (!op.to_global && !shared_operand(warp, inst, op.destination, lane, op.destination.space == StateSpace::shared_cta,
                                       "destination", destination)) {
    return false;
  }
  if (op.signals && !shared_operand(warp, inst, op.barrier, lane, false, "mbarrier", barrier)) return false;
  const StateSpace source_space = op.from_global ? StateSpace::global : StateSpace::shared_cluster;
  if (size != 0) {
    copy->source = resolve_address(warp, inst, source_space, source, size, 16, false, lane);
    if (copy->source == nullptr) return false;
  }
  if (op.to_global) {
    copy->global =
        size == 0 ? nullptr : resolve_address(warp, inst, StateSpace::global, destination, size, 16, true, lane);
    if (size != 0 && copy->global == nullptr) return false;
  } else if (!find_targets(warp, inst, lane, destination, size, 16, barrier, op.multicast,
                           op.multicast ? static_cast<uint32_t>(op.cta_mask.get(warp, lane)) & 0xffff : 0,
                           copy->targets)) {
    return false;
  }
  copy->id = cluster.async.next_id();
  if (cluster.launch->observer != nullptr) {
    IssueDescription description;
    description.kind = op.reduces ? AsyncKind::bulk_reduce : AsyncKind::bulk_copy;
    description.element_bytes = op.reduces ? static_cast<uint32_t>(element_bytes(op.type)) : 0;
    description.completion = op.signals ? Completion::mbarrier : Completion::bulk_group;
    description.completion_target = op.signals ? copy->targets[0].barrier : open_group(warp, GroupFamily::bulk, lane);
    description.source = op.from_global ? Space::global : Space::shared;
    description.destination = op.to_global ? Space::global : Space::shared;
    const ByteRange reads{source, size};
    std::vector<ByteRange> writes;
    if (op.to_global) writes.push_back({destination, size});
    for (const SharedTarget& target : copy->targets) writes.push_back({target.address, size});
    send_issue(cluster, copy->origin, copy->id, description, {&reads, 1}, writes);
  }
  const auto operation = cluster.async.submit(
      cluster, copy->id, [copy](Cluster& c) { copy->read(c); }, [copy](Cluster& c) { copy->write(c); });
  if (!op.signals) join_group(warp, GroupFamily::bulk, 1u << lane, operation);
  return true;
}

const Inst* bulk(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const BulkOp*>(inst.extra);
  for (uint32_t lanes = warp.mask; lanes != 0; lanes &= lanes - 1) {
    if (!issue_bulk(warp, inst, op, first_lane(lanes))) return nullptr;
  }
  return next_unless_faulted(warp, inst);
}

const Inst* prefetch_bulk(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const BulkOp*>(inst.extra);
  for (uint32_t lanes = warp.mask; lanes != 0; lanes &= lanes - 1) {
    const unsigned lane = first_lane(lanes);
    const uint64_t size = op.size.get(warp, lane), source = lane_address(warp, op.source, lane);
    if (size % 16 != 0 || source % 16 != 0) {
      return warp.fault(inst, "tma.size",
                        fmt::format("a bulk prefetch of {} bytes at {:#x}; both must be multiples of 16", size, source),
                        "round address and size to 16 bytes", source, 1u << lane);
    }
  }
  return &inst + 1;
}

void bind_bulk(Decoder& decoder, const ptx::Instruction& instruction) {
  const auto& operands = instruction.operands;
  BulkOp op;
  const StateSpace destination = instruction.space(0), source = instruction.space(1);
  op.to_global = destination == StateSpace::global;
  op.from_global = source == StateSpace::global;
  op.reduces = instruction.op == Op::cp_reduce_async_bulk;
  op.signals = instruction.has(Mod::mbarrier_complete_tx_bytes);
  op.multicast = instruction.has(Mod::multicast_cluster);
  op.destination = address_operand(decoder, operands.at(0), destination, 16, AccessKind::write);
  op.source = address_operand(decoder, operands.at(1), source, 16);
  op.size = value_operand(decoder, operands.at(2), Type::u32);
  if (op.signals)
    op.barrier = address_operand(decoder, operands.at(3), StateSpace::shared_cluster, 8, AccessKind::atomic);
  if (op.multicast) op.cta_mask = value_operand(decoder, operands.at(4), Type::u16);
  if (instruction.has(Mod::cp_mask)) throw std::runtime_error("cp.async.bulk with .cp_mask needs sm_100");
  if (op.reduces) {
    op.reduction = bulk_reduction(instruction);
    op.type = reduction_type(instruction.type());
  }
  decoder.emit({&bulk, &bulk}).extra = decoder.keep(std::move(op));
}

void bind_prefetch(Decoder& decoder, const ptx::Instruction& instruction) {
  BulkOp op;
  op.source = address_operand(decoder, instruction.operands.at(0), StateSpace::global, 16);
  op.size = value_operand(decoder, instruction.operands.at(1), Type::u32);
  decoder.emit({&prefetch_bulk, &prefetch_bulk}).extra = decoder.keep(std::move(op));
}

// --- st.async and red.async: per lane, into the shared memory of the cluster
// ----------------------------------------------

struct RemoteOp {
  MemoryOp destination, barrier;
  std::vector<ValueOperand> values;
  uint32_t element_bytes = 0;
  bool reduces = false;
  BulkReduction reduction{};
  TensorDataType type{};
};

struct RemoteStore {
  struct Lane {
    SharedTarget target;
    std::array<std::byte, 32> data{};
  };
  Origin origin;
  uint64_t id = 0;
  uint32_t bytes = 0, element_bytes = 0;
  bool reduces = false;
  BulkReduction reduction{};
  TensorDataType type{};
  std::vector<Lane> lanes;

  void write(Cluster& cluster) {
    for (const Lane& lane : lanes) {
      if (reduces) {
        reduce_elements(reduction, type, lane.target.pointer, lane.data.data(), 1);
      } else {
        std::memcpy(lane.target.pointer, lane.data.data(), bytes);
      }
      ++lane.target.cta->shared_version;
    }
    send_effect(cluster, id, AsyncEffect::writes_done);
    for (const Lane& lane : lanes) {
      if (!mbarrier_complete_tx(cluster, origin, lane.target.barrier, bytes, id)) return;
    }
  }
};

const Inst* remote_store(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const RemoteOp*>(inst.extra);
  Cluster& cluster = *warp.cluster;
  auto store = std::make_shared<RemoteStore>();
  store->origin = origin_of(warp, inst, warp.mask);
  store->element_bytes = op.element_bytes;
  store->bytes = op.element_bytes * static_cast<uint32_t>(op.values.size());
  store->reduces = op.reduces;
  store->reduction = op.reduction;
  store->type = op.type;
  std::vector<ByteRange> writes;
  for (uint32_t lanes = warp.mask; lanes != 0; lanes &= lanes - 1) {
    const unsigned lane = first_lane(lanes);
    uint64_t destination = 0, barrier = 0;
    if (!shared_operand(warp, inst, op.destination, lane, false, "destination", destination) ||
        !shared_operand(warp, inst, op.barrier, lane, false, "mbarrier", barrier)) {
      return nullptr;
    }
    std::vector<SharedTarget> targets;
    if (!find_targets(warp, inst, lane, destination, store->bytes, store->bytes, barrier, false, 0, targets))
      return nullptr;
    RemoteStore::Lane entry;
    entry.target = targets[0];
    for (size_t v = 0; v < op.values.size(); ++v) {
      const uint64_t bits = op.values[v].get(warp, lane);
      std::memcpy(entry.data.data() + v * op.element_bytes, &bits, op.element_bytes);
    }
    store->lanes.push_back(entry);
    writes.push_back({destination, store->bytes});
  }
  store->id = cluster.async.next_id();
  IssueDescription description;
  description.kind = op.reduces ? AsyncKind::red_async : AsyncKind::st_async;
  description.element_bytes = op.element_bytes;
  description.completion = Completion::mbarrier;
  description.completion_target = store->lanes[0].target.barrier;
  description.source = Space::registers;
  description.destination = Space::shared;
  send_issue(cluster, store->origin, store->id, description, {}, writes);
  cluster.async.submit(cluster, store->id, nullptr, [store](Cluster& c) { store->write(c); });
  return next_unless_faulted(warp, inst);
}

void bind_remote_store(Decoder& decoder, const ptx::Instruction& instruction) {
  if (instruction.has(Mod::mmio)) throw std::runtime_error("st.async.mmio needs sm_100");
  const auto& operands = instruction.operands;
  RemoteOp op;
  const Type type = instruction.type();
  op.destination =
      address_operand(decoder, operands.at(0), StateSpace::shared_cluster, type_bits(type) / 8, AccessKind::write);
  op.barrier = address_operand(decoder, operands.at(2), StateSpace::shared_cluster, 8, AccessKind::atomic);
  const ptx::Operand& value = operands.at(1);
  if (value.kind == ptx::OperandKind::vector) {
    for (const ptx::Operand& element : value.elements) op.values.push_back(value_operand(decoder, element, type));
  } else {
    op.values.push_back(value_operand(decoder, value, type));
  }
  op.element_bytes = type_bits(type) / 8;
  op.reduces = instruction.op == Op::red_async;
  if (op.reduces) {
    op.reduction = bulk_reduction(instruction);
    op.type = reduction_type(type);
  }
  decoder.emit({&remote_store, &remote_store}).extra = decoder.keep(std::move(op));
}

void bind_commit(Decoder& decoder, const ptx::Instruction&) { bind_commit_group(decoder, GroupFamily::bulk); }
void bind_wait(Decoder& decoder, const ptx::Instruction& instruction) {
  bind_wait_group(decoder, GroupFamily::bulk, instruction.operands.at(0).bits, instruction.has(Mod::read), false);
}

}  // namespace

BulkReduction bulk_reduction(const ptx::Instruction& instruction) {
  for (const Mod mod : instruction.mods) {
    switch (mod) {
      case Mod::add:
        return BulkReduction::add;
      case Mod::min:
        return BulkReduction::min;
      case Mod::max:
        return BulkReduction::max;
      case Mod::inc:
        return BulkReduction::inc;
      case Mod::dec:
        return BulkReduction::dec;
      case Mod::and_:
        return BulkReduction::bit_and;
      case Mod::or_:
        return BulkReduction::bit_or;
      case Mod::xor_:
        return BulkReduction::bit_xor;
      default:
        break;
    }
  }
  throw std::runtime_error("a reduction without an operation");
}

TensorDataType reduction_type(Type type) {
  switch (type) {
    case Type::b32:
    case Type::u32:
      return TensorDataType::u32;
    case Type::s32:
      return TensorDataType::s32;
    case Type::b64:
    case Type::u64:
      return TensorDataType::u64;
    case Type::s64:
      return TensorDataType::s64;
    case Type::f16:
      return TensorDataType::f16;
    case Type::bf16:
      return TensorDataType::bf16;
    case Type::f32:
      return TensorDataType::f32;
    case Type::f64:
      return TensorDataType::f64;
    default:
      throw std::runtime_error("a reduction of this type");
  }
}

void register_bulk(BinderTable& table) {
  table.set(Op::cp_async_bulk, &bind_bulk);
  table.set(Op::cp_reduce_async_bulk, &bind_bulk);
  table.set(Op::cp_async_bulk_prefetch, &bind_prefetch);
  table.set(Op::cp_async_bulk_commit_group, &bind_commit);
  table.set(Op::cp_async_bulk_wait_group, &bind_wait);
  table.set(Op::st_async, &bind_remote_store);
  table.set(Op::red_async, &bind_remote_store);
}

}  // namespace ptxbench::emulator
