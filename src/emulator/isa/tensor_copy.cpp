#include <algorithm>
#include <cstring>

#include "emulator/isa/bulk.h"
#include "emulator/isa/mbarrier.h"
#include "emulator/tensor/tensor_map.h"

/// Tensor copies by the TMA unit and device-side edits of tensor maps (PTX ISA, "Data Movement and Conversion
/// Instructions: Tensor copy", "Tensormap Manipulation Instructions").
namespace ptxbench::emulator {

using ptx::Mod;
using ptx::Op;
using ptx::StateSpace;
using ptx::Type;

namespace {

struct TensorOp {
  MemoryOp map, shared, barrier;
  std::vector<ValueOperand> coordinates;
  ValueOperand cta_mask;
  bool load = false, multicast = false, reduces = false;
  BulkReduction reduction{};
};

struct TensorCopy {
  Origin origin;
  uint64_t id = 0;
  TensorMap map;
  BoxCoordinates coordinates{};
  uint32_t transfer_bytes = 0;
  std::vector<SharedTarget> targets;  ///< load
  SharedWindow window;                ///< store: the CTA's shared memory, then the snapshot
  uint32_t shared_address = 0, shared_bytes = 0;
  bool reduces = false;
  BulkReduction reduction{};
  std::vector<std::byte> snapshot;

  static uint32_t offset_of(uint64_t address) { return static_cast<uint32_t>(address & ((1u << kCtaRankShift) - 1)); }

  void run_load(Cluster& cluster) {
    for (const SharedTarget& target : targets) {
      load_box(map, coordinates, {target.cta->shared, target.cta->shared_bytes}, offset_of(target.address),
               GlobalWindow{});
      ++target.cta->shared_version;
    }
    send_effect(cluster, id, AsyncEffect::reads_done);
    send_effect(cluster, id, AsyncEffect::writes_done);
    for (const SharedTarget& target : targets) {
      if (!mbarrier_complete_tx(cluster, origin, target.barrier, transfer_bytes, id)) return;
    }
  }
  void read_source(Cluster& cluster) {
    // The snapshot keeps the source's shared addresses, which decide its swizzle.
    const std::byte* source = window.base + shared_address;
    snapshot.assign(source, source + shared_bytes);
    send_effect(cluster, id, AsyncEffect::reads_done);
  }
  void run_store(Cluster& cluster) {
    const SharedWindow copy{snapshot.data() - shared_address, shared_address + shared_bytes};
    if (reduces) {
      std::lock_guard lock(global_reduction_mutex());
      reduce_box(reduction, map, coordinates, copy, shared_address, GlobalWindow{});
    } else {
      store_box(map, coordinates, copy, shared_address, GlobalWindow{});
    }
    send_effect(cluster, id, AsyncEffect::writes_done);
  }
};

/// The tensor map of a lane. False: a fault was recorded.
bool read_map(Warp& warp, const Inst& inst, const MemoryOp& operand, unsigned lane, uint64_t& address, TensorMap& map) {
  address = lane_address(warp, operand, lane);
  const Located where = locate(StateSpace::generic, address);
  if (where.space != Space::global) {
    warp.fault(
        inst, "tma.tensor-map",
        fmt::format("the tensor map at {:#x} lies in {} memory; it must be in parameter, constant or global memory",
                    address, where.space == Space::shared ? "shared" : "local"),
        "pass it as a `const __grid_constant__ CUtensorMap` parameter and use its address", address, 1u << lane);
    return false;
  }
  if (address % kTensorMapAlignment != 0) {
    warp.fault(inst, "tma.tensor-map", fmt::format("the tensor map at {:#x} is not aligned to 64 bytes", address),
               "align the CUtensorMap to 64 bytes", address, 1u << lane);
    return false;
  }
  const std::byte* bytes = resolve_address(warp, inst, StateSpace::global, address, kTensorMapBytes, 64, false, lane);
  if (bytes == nullptr) return false;
  auto result = read_tensor_map(bytes);
  if (!result) {
    warp.fault(inst, "tma.tensor-map",
               fmt::format("the tensor map at {:#x} cannot be used: {}", address, result.error().message),
               "encode the map with cuTensorMapEncodeTiled and pass the encoded object unchanged", address, 1u << lane);
    return false;
  }
  map = *result;
  return true;
}

/// Whether the whole tensor lies in one live allocation: then no box needs to be checked row by row.
bool tensor_in_memory(const AddressSpace& memory, const TensorMap& map, bool write) {
  uint64_t bytes = map.global_dims[0] * element_bytes(map.data_type);
  for (unsigned i = 1; i < map.rank; ++i) {
    uint64_t extent = 0;
    if (__builtin_mul_overflow(map.global_dims[i] - 1, map.global_strides[i - 1], &extent) ||
        __builtin_add_overflow(bytes, extent, &bytes)) {
      return false;
    }
  }
  const auto block = memory.find(map.global_address);
  return block != nullptr && !block->freed && !(write && block->read_only) &&
         bytes <= block->end() - map.global_address;
}

bool issue(Warp& warp, const Inst& inst, const TensorOp& op, unsigned lane) {
  Cluster& cluster = *warp.cluster;
  auto copy = std::make_shared<TensorCopy>();
  uint64_t map_address = 0;
  if (!read_map(warp, inst, op.map, lane, map_address, copy->map)) return false;
  const auto rank = static_cast<unsigned>(op.coordinates.size());
  for (unsigned i = 0; i < rank; ++i) copy->coordinates[i] = static_cast<int32_t>(op.coordinates[i].get(warp, lane));
  uint64_t shared = 0, barrier = kNoBarrier;
  const bool own = !op.load || op.shared.space == StateSpace::shared_cta;
  if (!shared_operand(warp, inst, op.shared, lane, own, op.load ? "destination" : "source", shared)) return false;
  if (op.load && !shared_operand(warp, inst, op.barrier, lane, false, "mbarrier", barrier)) return false;
  if (auto checked = check_box(copy->map, rank, TensorCopy::offset_of(shared), warp.cta->shared_bytes); !checked) {
    warp.fault(inst, "tma.box", checked.error().message,
               "compare the encode arguments with the instruction and its shared buffer", shared, 1u << lane);
    return false;
  }
  const BoxDirection direction = op.load ? BoxDirection::load : BoxDirection::store;
  if (auto checked = check_coordinates(copy->map, copy->coordinates, direction); !checked) {
    warp.fault(inst, "tma.coordinates", checked.error().message, "move the box: see the rule", shared, 1u << lane);
    return false;
  }
  const BoxGeometry geometry = box_geometry(copy->map);
  copy->origin = origin_of(warp, inst, 1u << lane);
  copy->transfer_bytes = geometry.transfer_bytes;
  copy->shared_bytes = geometry.shared_bytes;
  copy->shared_address = TensorCopy::offset_of(shared);
  copy->reduces = op.reduces;
  copy->reduction = op.reduction;
  if (op.reduces) {
    if (auto allowed = check_reduction(op.reduction, copy->map.data_type); !allowed) {
      warp.fault(inst, "tma.reduction", allowed.error().message,
                 "use an operation that the tensor map's element type has", map_address, 1u << lane);
      return false;
    }
  }
  if (op.load) {
    const uint32_t mask = op.multicast ? static_cast<uint32_t>(op.cta_mask.get(warp, lane)) & 0xffff : 0;
    if (!find_targets(warp, inst, lane, shared, geometry.shared_bytes, 128, barrier, op.multicast, mask, copy->targets))
      return false;
  } else {
    if (resolve_address(warp, inst, StateSpace::shared_cluster, shared, geometry.shared_bytes, 128, false, lane) ==
        nullptr) {
      return false;
    }
    copy->window = {warp.cta->shared, warp.cta->shared_bytes};
  }
  bool in_memory = tensor_in_memory(*cluster.launch->memory, copy->map, !op.load);
  if (!in_memory) {
    in_memory = true;
    for_each_global_range(copy->map, copy->coordinates, direction, [&](uint64_t address, uint64_t bytes) {
      in_memory =
          in_memory && resolve_address(warp, inst, StateSpace::global, address, bytes, 1, !op.load, lane) != nullptr;
    });
  }
  if (!in_memory) {
    if (cluster.fault) {
      cluster.fault->message =
          fmt::format("the tensor of this tensor map is larger than its memory: {}", cluster.fault->message);
      cluster.fault->remedy = "compare the encoded sizes and strides with the allocation";
    }
    return false;
  }
  copy->id = cluster.async.next_id();
  cluster.tma_bytes += geometry.transfer_bytes;
  if (cluster.launch->observer != nullptr) {
    IssueDescription description;
    description.kind = op.reduces ? AsyncKind::tensor_reduce : AsyncKind::tensor_copy;
    description.completion = op.load ? Completion::mbarrier : Completion::bulk_group;
    description.completion_target = op.load ? copy->targets[0].barrier : open_group(warp, GroupFamily::bulk, lane);
    description.source = op.load ? Space::global : Space::shared;
    description.destination = op.load ? Space::shared : Space::global;
    description.tensor_map = map_address;
    description.map = &copy->map;
    description.coordinates = &copy->coordinates;
    description.shared_offset = copy->shared_address;
    description.element_bytes = static_cast<uint32_t>(element_bytes(copy->map.data_type));
    description.layout.swizzle_bytes = swizzle_span(copy->map.swizzle);
    description.layout.row_bytes = geometry.row_bytes;
    for (unsigned i = 0; i < rank; ++i) {
      description.layout.box[i] = geometry.counts[i];
      description.layout.origin[i] = copy->coordinates[i];
    }
    std::vector<ByteRange> global, shared_ranges;
    for_each_global_range(copy->map, copy->coordinates, direction, [&](uint64_t address, uint64_t bytes) {
      global.push_back({address, static_cast<uint32_t>(bytes)});
    });
    if (op.load) {
      // A load fills the whole box, the part outside the tensor with zeros or NaNs.
      for (const SharedTarget& target : copy->targets) shared_ranges.push_back({target.address, geometry.shared_bytes});
    } else {
      // A store reads only what it does not clip.
      const uint64_t base = uint64_t{warp.cta->rank} << kCtaRankShift;
      for_each_box_run(copy->map, copy->coordinates, direction, copy->shared_address, true, [&](const BoxRun& run) {
        const uint64_t address = base + run.shared_address;
        if (!shared_ranges.empty() && shared_ranges.back().address + shared_ranges.back().bytes == address) {
          shared_ranges.back().bytes += run.bytes;
        } else {
          shared_ranges.push_back({address, run.bytes});
        }
      });
    }
    send_issue(cluster, copy->origin, copy->id, description, op.load ? global : shared_ranges,
               op.load ? shared_ranges : global);
  }
  if (op.load) {
    cluster.async.submit(cluster, copy->id, nullptr, [copy](Cluster& c) { copy->run_load(c); });
  } else {
    const auto operation = cluster.async.submit(
        cluster, copy->id, [copy](Cluster& c) { copy->read_source(c); }, [copy](Cluster& c) { copy->run_store(c); });
    join_group(warp, GroupFamily::bulk, 1u << lane, operation);
  }
  return true;
}

const Inst* tensor_copy(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const TensorOp*>(inst.extra);
  for (uint32_t lanes = warp.mask; lanes != 0; lanes &= lanes - 1) {
    if (!issue(warp, inst, op, first_lane(lanes))) return nullptr;
  }
  return next_unless_faulted(warp, inst);
}

const Inst* prefetch_tensor(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const TensorOp*>(inst.extra);
  for (uint32_t lanes = warp.mask; lanes != 0; lanes &= lanes - 1) {
    uint64_t address = 0;
    TensorMap map;
    if (!read_map(warp, inst, op.map, first_lane(lanes), address, map)) return nullptr;
  }
  return &inst + 1;
}

void read_tensor_operand(Decoder& decoder, const ptx::Operand& operand, TensorOp& op) {
  op.map = address_operand(decoder, operand, StateSpace::generic, static_cast<uint32_t>(kTensorMapBytes));
  op.map.space = StateSpace::generic;
  if (operand.elements.size() < 2) throw std::runtime_error("a tensor operand without coordinates");
  const ptx::Operand& coordinates = operand.elements[1];
  if (coordinates.kind == ptx::OperandKind::vector) {
    for (const ptx::Operand& element : coordinates.elements)
      op.coordinates.push_back(value_operand(decoder, element, Type::s32));
  } else {
    op.coordinates.push_back(value_operand(decoder, coordinates, Type::s32));
  }
}

void refuse_unmodelled(const ptx::Instruction& instruction) {
  for (const Mod mod :
       {Mod::im2col, Mod::im2col_w, Mod::im2col_w_128, Mod::im2col_no_offs, Mod::tile_gather4, Mod::tile_scatter4}) {
    if (instruction.has(mod)) {
      throw std::runtime_error(fmt::format("tensor copies of mode .{} are not modelled", ptx::modifier_text(mod)));
    }
  }
}

void bind_tensor(Decoder& decoder, const ptx::Instruction& instruction) {
  refuse_unmodelled(instruction);
  const auto& operands = instruction.operands;
  TensorOp op;
  op.reduces = instruction.op == Op::cp_reduce_async_bulk_tensor;
  op.load = instruction.has(Mod::mbarrier_complete_tx_bytes);
  op.multicast = instruction.has(Mod::multicast_cluster);
  read_tensor_operand(decoder, operands.at(op.load ? 1 : 0), op);
  op.shared =
      address_operand(decoder, operands.at(op.load ? 0 : 1), op.load ? instruction.space(0) : StateSpace::shared_cta,
                      128, op.load ? AccessKind::write : AccessKind::read);
  if (op.load) op.barrier = address_operand(decoder, operands.at(2), StateSpace::shared_cluster, 8, AccessKind::atomic);
  if (op.multicast) op.cta_mask = value_operand(decoder, operands.at(3), Type::u16);
  if (op.reduces) op.reduction = bulk_reduction(instruction);
  decoder.emit({&tensor_copy, &tensor_copy}).extra = decoder.keep(std::move(op));
}

void bind_prefetch(Decoder& decoder, const ptx::Instruction& instruction) {
  refuse_unmodelled(instruction);
  TensorOp op;
  read_tensor_operand(decoder, instruction.operands.at(0), op);
  decoder.emit({&prefetch_tensor, &prefetch_tensor}).extra = decoder.keep(std::move(op));
}

// --- device-side edits
// --------------------------------------------------------------------------------------------------

struct ReplaceOp {
  MemoryOp map;
  TensorMapField field{};
  uint32_t ordinal = 0;
  ValueOperand value;
};

const Inst* replace(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const ReplaceOp*>(inst.extra);
  observe_access(warp, inst, op.map);
  for (uint32_t lanes = warp.mask; lanes != 0; lanes &= lanes - 1) {
    const unsigned lane = first_lane(lanes);
    const uint64_t address = lane_address(warp, op.map, lane);
    std::byte* bytes = resolve_address(warp, inst, op.map.space, address, kTensorMapBytes, 64, true, lane);
    if (bytes == nullptr) return nullptr;
    TensorMap map;
    std::memcpy(&map, bytes, kTensorMapBytes);
    // Compilers also build a map from nothing: 128 zero bytes, then every field (Triton's device-side descriptors).
    if (std::all_of(bytes, bytes + kTensorMapBytes, [](std::byte byte) { return byte == std::byte{0}; })) {
      map = TensorMap{};
    }
    if (map.magic != TensorMap::kMagic) {
      return warp.fault(inst, "tma.tensor-map",
                        fmt::format("tensormap.replace at {:#x}, where no tensor map is", address),
                        "copy a tensor map encoded on the host there first, or clear the 128 bytes and set every "
                        "field, and wait until that is visible",
                        address, 1u << lane);
    }
    if (auto done = replace_field(map, op.field, op.ordinal, op.value.get(warp, lane)); !done) {
      return warp.fault(inst, "tma.tensor-map", done.error().message,
                        "see tensormap.replace for the values a field takes", address, 1u << lane);
    }
    std::memcpy(bytes, &map, kTensorMapBytes);
    if (Cta* cta = locate(op.map.space, address).space == Space::shared
                       ? warp.cluster->cta_of_shared(locate(op.map.space, address).address)
                       : nullptr) {
      ++cta->shared_version;
    }
  }
  warp.side_effect();
  return &inst + 1;
}

void bind_replace(Decoder& decoder, const ptx::Instruction& instruction) {
  struct Field {
    Mod mod;
    TensorMapField field;
    bool has_ordinal;
  };
  static constexpr Field kFields[] = {{Mod::global_address, TensorMapField::global_address, false},
                                      {Mod::rank, TensorMapField::rank, false},
                                      {Mod::box_dim, TensorMapField::box_dim, true},
                                      {Mod::global_dim, TensorMapField::global_dim, true},
                                      {Mod::global_stride, TensorMapField::global_stride, true},
                                      {Mod::element_stride, TensorMapField::element_stride, true},
                                      {Mod::elemtype, TensorMapField::elemtype, false},
                                      {Mod::interleave_layout, TensorMapField::interleave_layout, false},
                                      {Mod::swizzle_mode, TensorMapField::swizzle_mode, false},
                                      {Mod::fill_mode, TensorMapField::fill_mode, false},
                                      {Mod::swizzle_atomicity, TensorMapField::swizzle_atomicity, false}};
  for (const Field& field : kFields) {
    if (!instruction.has(field.mod)) continue;
    ReplaceOp op;
    op.map = address_operand(decoder, instruction.operands.at(0), instruction.space(),
                             static_cast<uint32_t>(kTensorMapBytes), AccessKind::write);
    op.field = field.field;
    if (field.has_ordinal) op.ordinal = static_cast<uint32_t>(instruction.operands.at(1).bits);
    op.value = value_operand(decoder, instruction.operands.at(field.has_ordinal ? 2 : 1),
                             instruction.has(Mod::type_b64) ? Type::b64 : Type::b32);
    decoder.emit({&replace, &replace}).extra = decoder.keep(std::move(op));
    return;
  }
  throw std::runtime_error("tensormap.replace of an unknown field");
}

struct FenceCopyOp {
  MemoryOp destination, source;
  Scope scope{};
};

const Inst* copy_and_fence(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const FenceCopyOp*>(inst.extra);
  const unsigned lane = first_lane(warp.mask);
  const uint64_t from = lane_address(warp, op.source, lane), to = lane_address(warp, op.destination, lane);
  const std::byte* source = resolve_address(warp, inst, op.source.space, from, kTensorMapBytes, 64, false, lane);
  if (source == nullptr) return nullptr;
  std::byte* destination = resolve_address(warp, inst, StateSpace::global, to, kTensorMapBytes, 64, true, lane);
  if (destination == nullptr) return nullptr;
  if (Observer* observer = warp.cluster->launch->observer) {
    AccessEvent access;
    uint64_t addresses[kLanes] = {};
    access.agent = agent_of(warp, 1u << lane);
    access.site = site_of(warp, inst);
    access.bytes = static_cast<uint32_t>(kTensorMapBytes);
    access.addresses = addresses;
    access.space = Space::shared;
    access.kind = AccessKind::read;
    addresses[lane] = locate(op.source.space, from).address;
    observer->on_access(access);
    access.space = Space::global;
    access.kind = AccessKind::write;
    addresses[lane] = to;
    observer->on_access(access);
    FenceEvent event;
    event.agent = agent_of(warp, warp.mask);
    event.site = access.site;
    event.kind = FenceKind::proxy_tensor_map;
    event.semantics = Semantics::release;
    event.scope = op.scope;
    event.shared_space = false;
    observer->on_fence(event);
  }
  std::memmove(destination, source, kTensorMapBytes);
  warp.side_effect();
  return &inst + 1;
}

const Inst* copy_and_fence_masked(Warp& warp, const Inst& inst) { return converge(warp, inst, "sync.divergent"); }

void bind_fence_copy(Decoder& decoder, const ptx::Instruction& instruction) {
  FenceCopyOp op;
  op.destination = address_operand(decoder, instruction.operands.at(0), StateSpace::global, 128, AccessKind::write);
  op.source = address_operand(decoder, instruction.operands.at(1), StateSpace::shared_cta, 128);
  op.scope = scope_of(instruction, Scope::gpu);
  decoder.emit({&copy_and_fence, &copy_and_fence_masked}).extra = decoder.keep(std::move(op));
}

}  // namespace

void register_tensor_map(BinderTable& table) {
  table.set(Op::cp_async_bulk_tensor, &bind_tensor);
  table.set(Op::cp_reduce_async_bulk_tensor, &bind_tensor);
  table.set(Op::cp_async_bulk_prefetch_tensor, &bind_prefetch);
  table.set(Op::tensormap_replace, &bind_replace);
  table.set(Op::tensormap_cp_fenceproxy, &bind_fence_copy);
}

}  // namespace ptxbench::emulator
