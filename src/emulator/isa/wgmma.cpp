#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "emulator/definedness.h"
#include "emulator/isa/async_groups.h"
#include "emulator/isa/wgmma_queue.h"
#include "emulator/tensor/operand_ranges.h"

/// wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
namespace ptxbench::emulator {

using ptx::Mod;
using ptx::Op;
using ptx::OperandKind;
using ptx::Type;

namespace {

const Inst* masked(Warp& warp, const Inst& inst) { return converge(warp, inst, "wgmma.divergent"); }

bool same_for_all(Warp& warp, const ValueOperand& operand, uint64_t& value) {
  if (operand.bits == 1) {
    const uint32_t mask = *warp.slot<uint32_t>(operand.slot.offset);
    value = mask & 1;
    return mask == 0 || mask == kFullMask;
  }
  value = operand.get(warp, 0);
  if (operand.slot.shape == Shape::uniform) return true;
  const auto* lanes = warp.slot<uint64_t>(operand.slot.offset);
  return std::all_of(lanes, lanes + kLanes, [&](uint64_t lane) { return lane == value; });
}

/// One operand of an instruction.
struct Operand {
  uint64_t descriptor = 0;
  MatrixMajor major{};
  unsigned element_bytes = 2, mn = 0, k = 0;
  OperandSet set() const { return {{&descriptor, 1}, major, element_bytes, mn, k, 0}; }
};
Operand operand_a(const WgmmaShape& shape, uint64_t descriptor) {
  return {descriptor, shape.a_major, element_bytes(shape.a_type), 64, shape.k()};
}
Operand operand_b(const WgmmaShape& shape, uint64_t descriptor) {
  return {descriptor, shape.b_major, element_bytes(shape.b_type), shape.n, shape.k()};
}

/// One past the highest address an operand can reach: the last piece of the canonical layout, and the rest of its 128
/// bytes, within which the swizzle permutes.
uint64_t operand_end(const Operand& operand) {
  const MatrixDescriptor d = MatrixDescriptor::decode(operand.descriptor);
  const uint64_t line = line_bytes(d.swizzle), sbo = d.stride_offset, lbo = d.leading_offset;
  const bool swizzled = d.swizzle != MatrixSwizzle::none;
  const uint64_t k_bytes = uint64_t{operand.k} * operand.element_bytes,
                 mn_bytes = uint64_t{operand.mn} * operand.element_bytes;
  uint64_t last = 7 * line;
  if (operand.major == MatrixMajor::k_major) {
    last += (operand.mn / 8 - 1) * sbo + (swizzled ? k_bytes - 1 : (k_bytes / 16 - 1) * lbo + 15);
  } else {
    last += swizzled ? (operand.k / 8 - 1) * sbo + (mn_bytes - 1) / line * lbo + line - 1
                     : (operand.k / 8 - 1) * lbo + (mn_bytes / 16 - 1) * sbo + 15;
  }
  return ((d.start_address + last) | 127) + 1;
}

/// Whether an operand lies in the CTA's shared memory: by the bounds of its layout, exactly when those are in doubt.
bool check_operand(Warp& warp, const Inst& inst, const Operand& operand, const char* name) {
  const Cta& cta = *warp.cta;
  const MatrixDescriptor d = MatrixDescriptor::decode(operand.descriptor);
  if (d.start_address >= kReservedSharedBytes && operand_end(operand) <= cta.shared_bytes) return true;
  for (const SharedRange& range : operand_ranges(operand.set())) {
    if (range.address >= kReservedSharedBytes && range.address + range.bytes <= cta.shared_bytes) continue;
    warp.fault(inst, "memory.out-of-bounds",
               fmt::format(
                   "wgmma operand {}: its descriptor (start {:#x}, leading offset {}, stride offset {}) reaches shared "
                   "addresses {:#x} to {:#x}, outside the CTA's {:#x} to {:#x}",
                   name, d.start_address, d.leading_offset, d.stride_offset, range.address, range.address + range.bytes,
                   kReservedSharedBytes, cta.shared_bytes),
               "check the descriptor: addresses and offsets are in units of 16 bytes, the start is the low 18 bits of "
               "the shared "
               "address",
               range.address);
    return false;
  }
  return true;
}

void send_wgmma(Warp& warp, const Inst& inst, const WgmmaOp& op, const IssuedWgmma& issued) {
  Observer* observer = warp.cluster->launch->observer;
  if (observer == nullptr) return;
  const uint64_t base = uint64_t{warp.cta->rank} << kCtaRankShift;
  // A main loop issues the same few operations again and again.
  struct Operands {
    std::vector<ByteRange> reads;
    uint32_t a_reads = 0;
    AsyncIssueEvent::TileLayout layout[2];
  };
  using Key = std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, uint64_t>;
  thread_local std::map<Key, Operands> known;
  const WgmmaShape& shape = op.shape;
  const uint64_t form = uint64_t{shape.n} | uint64_t{shape.a_in_registers} << 16 |
                        static_cast<uint64_t>(shape.a_major) << 17 | static_cast<uint64_t>(shape.b_major) << 18 |
                        static_cast<uint64_t>(shape.a_type) << 24 | static_cast<uint64_t>(shape.b_type) << 32;
  const Key key{issued.step.a_descriptor, issued.step.b_descriptor, form, base, uint64_t{shape.k()}};
  auto found = known.find(key);
  if (found == known.end()) {
    constexpr size_t kMaxKnown = 4096;
    if (known.size() >= kMaxKnown) known.clear();
    Operands operands;
    const auto add = [&](const Operand& operand, unsigned index) {
      for (const SharedRange& range : operand_ranges(operand.set()))
        operands.reads.push_back({base + range.address, range.bytes});
      const MatrixDescriptor descriptor = MatrixDescriptor::decode(operand.descriptor);
      const uint32_t line = line_bytes(descriptor.swizzle);
      AsyncIssueEvent::TileLayout& layout = operands.layout[index];
      layout.swizzle_bytes = line == 16 ? 0 : line;
      layout.mn_major = operand.major == MatrixMajor::mn_major;
      layout.start = base + descriptor.start_address;
      layout.leading_offset = descriptor.leading_offset;
      layout.stride_offset = descriptor.stride_offset;
      layout.base_offset = descriptor.base_offset;
      layout.mn = operand.mn;
      layout.k = operand.k;
      layout.element_bytes = operand.element_bytes;
    };
    if (!shape.a_in_registers) add(operand_a(shape, issued.step.a_descriptor), 0);
    operands.a_reads = static_cast<uint32_t>(operands.reads.size());
    add(operand_b(shape, issued.step.b_descriptor), 1);
    found = known.emplace(key, std::move(operands)).first;
  }
  const Operands& operands = found->second;
  AsyncIssueEvent event;
  event.layout[0] = operands.layout[0];
  event.layout[1] = operands.layout[1];
  event.a_reads = operands.a_reads;
  event.id = issued.id;
  event.agent = agent_of(warp, kFullMask);
  event.site = site_of(warp, inst);
  event.kind = AsyncKind::wgmma;
  event.completion = Completion::wgmma_group;
  event.completion_target = warp.wgmma.committed;
  event.source_space = Space::shared;
  event.destination_space = Space::registers;
  event.reads = operands.reads;
  event.writes = op.d_ranges;
  event.register_reads = op.a_ranges;
  event.accumulates = issued.step.scale_d;
  observer->on_async_issue(event);
  if (Definedness* definedness = warp.cluster->launch->definedness) {
    const std::span<const uint32_t> a(op.a);
    definedness->issue_wgmma(warp, event, op.shape, issued.step, op.d,
                             op.shape.a_in_registers ? a : std::span<const uint32_t>{});
  }
}

const Inst* multiply(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const WgmmaOp*>(inst.extra);
  if (warpgroup_of(warp).empty()) {
    return warp.fault(
        inst, "wgmma.partial",
        fmt::format(
            "warp {} executes wgmma, but the CTA's {} warps hold no complete warpgroup (four warps starting at a "
            "multiple of four) around it",
            warp.index, warp.cta->warps.size()),
        "launch a multiple of 128 threads and let whole warpgroups execute wgmma");
  }
  IssuedWgmma issued;
  issued.op = &op;
  uint64_t scale = 0;
  bool uniform = same_for_all(warp, op.b_descriptor, issued.step.b_descriptor) && same_for_all(warp, op.scale_d, scale);
  if (!op.shape.a_in_registers) uniform = same_for_all(warp, op.a_descriptor, issued.step.a_descriptor) && uniform;
  if (!uniform) {
    return warp.fault(inst, "wgmma.divergent",
                      "the lanes of the warp pass different matrix descriptors or scale-d predicates",
                      "compute descriptors from warp-uniform values");
  }
  issued.step.scale_d = scale != 0;
  if (!op.shape.a_in_registers && !check_operand(warp, inst, operand_a(op.shape, issued.step.a_descriptor), "A")) {
    return nullptr;
  }
  if (!check_operand(warp, inst, operand_b(op.shape, issued.step.b_descriptor), "B")) return nullptr;
  WgmmaQueue& queue = wgmma_queue(warp);
  constexpr size_t kMostOpen = 1u << 16;
  if (queue.open.size() >= kMostOpen) {
    return warp.fault(inst, "unsupported.instruction", fmt::format("{} wgmma operations in one group", kMostOpen),
                      "commit groups of bounded size with wgmma.commit_group");
  }
  issued.frame = warp.frame;
  issued.function = warp.frame->function;
  issued.id = warp.cluster->async.next_id();
  if (op.shape.a_in_registers && warp.cluster->async.eager()) {
    issued.captured = static_cast<uint32_t>(queue.fragments.size());
    CapturedFragment& fragment = queue.fragments.emplace_back();
    for (size_t i = 0; i < 4; ++i)
      std::copy_n(warp.slot<uint32_t>(op.a[i]), kLanes, fragment.words.data() + i * kLanes);
  }
  for (const uint64_t word : {issued.step.a_descriptor, issued.step.b_descriptor, uint64_t{issued.step.scale_d},
                              uint64_t{op.shape.n} << 8 | static_cast<uint64_t>(op.shape.a_type)}) {
    queue.open_hash = (queue.open_hash ^ word) * 0x9e3779b97f4a7c15ull;
  }
  send_wgmma(warp, inst, op, issued);
  queue.open.push_back(issued);
  warp.cluster->tensor_core_macs += uint64_t{16} * op.shape.n * op.shape.k();
  warp.side_effect();
  return &inst + 1;
}

const Inst* commit(Warp& warp, const Inst& inst) {
  WgmmaQueue& queue = wgmma_queue(warp);
  if (Observer* observer = warp.cluster->launch->observer) {
    observer->on_group_commit(agent_of(warp, kFullMask), site_of(warp, inst), Completion::wgmma_group,
                              warp.wgmma.committed);
  }
  queue.groups.push_back(std::move(queue.open));
  queue.open.clear();
  queue.hashes.push_back(queue.open_hash);
  if (queue.hashes.size() > 1u << 16) {
    queue.hashes.pop_front();
    ++queue.hash_base;
  }
  queue.open_hash = 0;
  ++warp.wgmma.committed;
  warp.side_effect();
  constexpr size_t kMostGroups = 1024;
  if (warp.cluster->async.completes_at_once()) {
    execute_wgmma_groups(warp, warp.wgmma.committed);
  } else if (queue.groups.size() > kMostGroups) {
    execute_wgmma_groups(warp, warp.wgmma.committed - kMostGroups);
  }
  return next_unless_faulted(warp, inst);
}

/// Whether the four warps did the same in the groups before `end`.
bool same_groups(std::span<Warp* const> warps, uint64_t end) {
  for (uint64_t group = wgmma_queue(*warps[0]).hash_base; group < end; ++group) {
    for (Warp* warp : warps) {
      const WgmmaQueue& queue = wgmma_queue(*warp);
      if (group < queue.hash_base || group - queue.hash_base >= queue.hashes.size()) continue;
      const WgmmaQueue& first = wgmma_queue(*warps[0]);
      if (queue.hashes[group - queue.hash_base] != first.hashes[group - first.hash_base]) return false;
    }
  }
  for (Warp* warp : warps) {
    WgmmaQueue& queue = wgmma_queue(*warp);
    while (queue.hash_base < end && !queue.hashes.empty()) {
      queue.hashes.pop_front();
      ++queue.hash_base;
    }
  }
  return true;
}

const Inst* wait(Warp& warp, const Inst& inst) {
  const auto keep = static_cast<uint64_t>(inst.imm);
  const uint64_t end = warp.wgmma.committed > keep ? warp.wgmma.committed - keep : 0;
  if (end > warp.wgmma.retired) {
    const auto warps = warpgroup_of(warp);
    for (const Warp* other : warps) {
      if (other->wgmma.committed >= end) continue;
      if (other->live == 0) {
        return warp.fault(
            inst, "wgmma.partial",
            fmt::format("warp {} of the warpgroup exited after {} wgmma groups; warp {} waits for group {}",
                        other->index, other->wgmma.committed, warp.index, end),
            "let all four warps of the warpgroup execute the same wgmma instructions");
      }
      warp.fragment().wait_generation = end;
      return warp.block(FragmentState::async_group, &inst);
    }
    if (!warps.empty() && !same_groups(warps, end)) {
      return warp.fault(
          inst, "wgmma.partial",
          "the warps of this warpgroup issued different wgmma operations (shapes, descriptors or scale-d) in one group",
          "a wgmma is one operation of four warps: pass them the same descriptors and take the same branches");
    }
    for (Warp* other : warps) {
      execute_wgmma_groups(*other, end);
    }
    if (warp.cluster->fault) return warp.leave(Stop::fault, nullptr);
    warp.wgmma.retired = end;
  }
  if (Observer* observer = warp.cluster->launch->observer; observer != nullptr) {
    GroupWaitEvent event;
    event.agent = agent_of(warp, kFullMask);
    event.site = site_of(warp, inst);
    event.kind = Completion::wgmma_group;
    event.group = end != 0 ? end - 1 : 0;
    event.none = end == 0;
    observer->on_group_wait(event);
  }
  return &inst + 1;
}

const Inst* fence(Warp& warp, const Inst& inst) {
  if (Observer* observer = warp.cluster->launch->observer) {
    FenceEvent event;
    event.agent = agent_of(warp, kFullMask);
    event.site = site_of(warp, inst);
    event.kind = FenceKind::wgmma;
    event.global_space = false;
    observer->on_fence(event);
  }
  return &inst + 1;
}

// --- binders
// ------------------------------------------------------------------------------------------------------------

MmaType operand_type(Type type) {
  switch (type) {
    case Type::f16:
      return MmaType::f16;
    case Type::bf16:
      return MmaType::bf16;
    case Type::tf32:
      return MmaType::tf32;
    case Type::e4m3:
      return MmaType::e4m3;
    case Type::e5m2:
      return MmaType::e5m2;
    case Type::s8:
      return MmaType::s8;
    case Type::u8:
      return MmaType::u8;
    default:
      throw std::runtime_error(fmt::format("wgmma with operands of type .{} is not modelled", ptx::type_name(type)));
  }
}

void bind_multiply(Decoder& decoder, const ptx::Instruction& instruction) {
  WgmmaOp op;
  for (const Mod mod : instruction.mods) {
    if (const ptx::MatrixShape shape = ptx::mod_shape(mod); shape.m != 0) op.shape.n = shape.n;
  }
  const Type result = instruction.type(0);
  op.shape.accumulator = result == Type::f32   ? AccumulatorType::f32
                         : result == Type::f16 ? AccumulatorType::f16
                                               : AccumulatorType::s32;
  op.shape.a_type = operand_type(instruction.type(1));
  op.shape.b_type = operand_type(instruction.type(2));
  op.shape.saturate = instruction.has(Mod::satfinite);
  const auto& operands = instruction.operands;
  for (const ptx::Operand& element : operands.at(0).elements) {
    op.d.push_back(decoder.vector_destination(element, Type::b32).offset);
  }
  op.sorted_d = op.d;
  std::sort(op.sorted_d.begin(), op.sorted_d.end());
  op.shape.a_in_registers = operands.at(1).kind == OperandKind::vector;
  if (op.shape.a_in_registers) {
    if (operands[1].elements.size() != 4) throw std::runtime_error("an A fragment of other than four registers");
    for (size_t i = 0; i < 4; ++i) op.a[i] = decoder.vector_source(operands[1].elements[i], Type::b32).offset;
  } else {
    op.a_descriptor = value_operand(decoder, operands[1], Type::b64);
  }
  op.b_descriptor = value_operand(decoder, operands.at(2), Type::b64);
  op.scale_d = {decoder.predicate(operands.at(3)), 1};
  auto constant = [&](size_t index) { return static_cast<int64_t>(operands.at(index).bits); };
  if (!is_integer(op.shape.a_type)) {
    op.shape.negate_a = constant(4) == -1;
    op.shape.negate_b = constant(5) == -1;
    if (element_bytes(op.shape.a_type) == 2) {
      size_t next = 6;
      if (!op.shape.a_in_registers)
        op.shape.a_major = constant(next++) != 0 ? MatrixMajor::mn_major : MatrixMajor::k_major;
      op.shape.b_major = constant(next) != 0 ? MatrixMajor::mn_major : MatrixMajor::k_major;
    }
  }
  if (auto checked = check_wgmma(op.shape); !checked) throw std::runtime_error(checked.error().message);
  if (op.d.size() != op.shape.d_registers()) throw std::runtime_error("a D fragment of the wrong size");
  if (!is_integer(op.shape.a_type) && !is_fp8(op.shape.a_type) && !decoder.program().exact_tensor_cores) {
    decoder.approximate();
  }
  for (const uint32_t offset : op.d) op.d_ranges.push_back({offset, 4});
  if (op.shape.a_in_registers) {
    for (const uint32_t offset : op.a) op.a_ranges.push_back({offset, 4});
  }
  decoder.emit({&multiply, &masked}).extra = decoder.keep(std::move(op));
}

void bind_commit(Decoder& decoder, const ptx::Instruction&) { decoder.emit({&commit, &masked}); }
void bind_wait(Decoder& decoder, const ptx::Instruction& instruction) {
  decoder.emit({&wait, &masked}).imm = static_cast<int64_t>(instruction.operands.at(0).bits);
}
void bind_fence(Decoder& decoder, const ptx::Instruction&) { decoder.emit({&fence, &masked}); }

}  // namespace

void register_wgmma(BinderTable& table) {
  table.set(Op::wgmma_mma_async, &bind_multiply);
  table.set(Op::wgmma_commit_group, &bind_commit);
  table.set(Op::wgmma_wait_group, &bind_wait);
  table.set(Op::wgmma_fence, &bind_fence);
}

}  // namespace ptxbench::emulator
