#include "emulator/warp.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/decoder.h"
#include "emulator/definedness.h"

namespace ptxbench::emulator {

namespace {
// Blocks need 128-byte alignment for the vector slots.
std::byte* aligned(std::vector<std::byte>& storage, size_t bytes) {
  storage.resize(bytes + 128);
  auto address = reinterpret_cast<uintptr_t>(storage.data());
  return storage.data() + ((128 - address % 128) % 128);
}
}  // namespace

int32_t Warp::new_join(const Join& join) {
  for (size_t i = 0; i < joins.size(); ++i) {
    if (!joins[i].in_use) {
      joins[i] = join;
      joins[i].in_use = true;
      return static_cast<int32_t>(i);
    }
  }
  joins.push_back(join);
  joins.back().in_use = true;
  return static_cast<int32_t>(joins.size()) - 1;
}

void Warp::update_join_target() {
  const int32_t j = fragment().join;
  join_target = j >= 0 && !joins[static_cast<size_t>(j)].is_call ? joins[static_cast<size_t>(j)].target : nullptr;
}

const Inst* Warp::diverge(uint32_t taken, const Inst* taken_pc, const Inst* other_pc, const Inst* join) {
  const int32_t own = fragment().join;
  const bool same =
      join != nullptr && join == join_target && own >= 0 && joins[static_cast<size_t>(own)].frame == frame;
  if (join != nullptr && !same) {
    Join fresh;
    fresh.target = join;
    fresh.frame = frame;
    fresh.pending = mask;
    fresh.parent = own;
    fragment().join = new_join(fresh);
    join_target = join;
  }
  Fragment split;
  split.pc = taken_pc;
  split.mask = taken;
  split.frame = frame;
  split.join = fragment().join;
  fragments.push_back(split);
  set_mask(mask & ~taken);
  return other_pc;
}

bool Warp::reach_join(const Inst& inst) {
  for (;;) {
    const int32_t j = fragment().join;
    if (j < 0) return true;
    Join& join = joins[static_cast<size_t>(j)];
    if (join.is_call || join.target != &inst || join.frame != frame) return true;
    join.arrived |= mask;
    join.pending &= ~mask;
    if (join.pending != 0) {
      remove_current_fragment();
      leave(Stop::switched, nullptr);
      return false;
    }
    set_mask(join.arrived);
    join.in_use = false;
    fragment().join = join.parent;
    update_join_target();
  }
}

void Warp::release_join(int32_t which) {
  Join& join = joins[static_cast<size_t>(which)];
  if (join.arrived != 0) {
    Fragment fresh;
    fresh.pc = join.target;
    fresh.mask = join.arrived;
    fresh.frame = join.frame;
    fresh.join = join.parent;
    fragments.push_back(fresh);
  }
  join.arrived = 0;
  if (join.pending == 0) join.in_use = false;
}

void Warp::drop_lanes(uint32_t lanes) {
  for (size_t i = 0; i < joins.size(); ++i) {
    Join& join = joins[i];
    if (!join.in_use || (join.pending & lanes) == 0) continue;
    join.pending &= ~lanes;
    if (join.pending == 0) release_join(static_cast<int32_t>(i));
  }
}

void Warp::remove_current_fragment() {
  fragments.erase(fragments.begin() + static_cast<std::ptrdiff_t>(current));
  current = fragments.size();
}

void Warp::use_frame(Frame* next) {
  frame = next;
  regs = next->registers;
}

void Warp::load_fragment(size_t which) {
  current = which;
  Fragment& f = fragments[which];
  set_mask(f.mask);
  use_frame(f.frame);
  poll_hash = 0;
  polled = false;
  update_join_target();
}

void Warp::init_frame(Frame& f) {
  const FunctionCode& function = *f.function;
  f.registers = aligned(f.storage, function.frame_bytes);
  std::memset(f.registers, 0, function.constants_offset);
  if (!function.constants.empty()) {
    std::memcpy(f.registers + function.constants_offset, function.constants.data(), function.constants.size());
  }
  const Launch& launch = *cluster->launch;
  for (const auto& address : function.addresses) {
    uint64_t value = 0;
    switch (address.kind) {
      case FunctionCode::AddressKind::shared_variable:
        value = (uint64_t{cta->rank} << kCtaRankShift) + launch.shared_offset[address.value];
        break;
      case FunctionCode::AddressKind::parameter:
        value = launch.parameters + address.value;
        break;
      case FunctionCode::AddressKind::local:
        value = f.local_base + address.value;
        break;
    }
    value += static_cast<uint64_t>(address.addend);
    std::memcpy(f.registers + address.offset, &value, 8);
  }
  for (const auto& special : function.specials) write_special(*this, special, f.registers);
}

Frame* Warp::push_frame(const FunctionCode& function, uint32_t local_base) {
  std::unique_ptr<Frame> owned;
  if (!spare_frames.empty()) {
    owned = std::move(spare_frames.back());
    spare_frames.pop_back();
  } else {
    owned = std::make_unique<Frame>();
  }
  Frame* f = owned.get();
  frames.push_back(std::move(owned));
  f->function = general ? &general_code(*cluster->launch->program, function) : &function;
  f->local_base = local_base;
  f->caller = nullptr;
  f->call_site = nullptr;
  init_frame(*f);
  if (definedness != nullptr) cluster->launch->definedness->start_frame(*this, *f);
  return f;
}

namespace {

/// The instruction of `to` that continues where `pc` of `from` does; both are decodings of one function.
const Inst* map_pc(const FunctionCode& from, const FunctionCode& to, const Inst* pc) {
  const auto index = static_cast<uint32_t>(pc - from.code.data());
  size_t b = from.blocks.size() - 1;
  while (from.blocks[b].first_inst > index) --b;
  if (from.blocks[b].first_inst == index) return to.code.data() + to.blocks[b].first_inst;
  auto run_of_site = [&](const FunctionCode& code) {
    const uint32_t block_end =
        b + 1 < code.blocks.size() ? code.blocks[b + 1].first_inst : static_cast<uint32_t>(code.code.size());
    uint32_t begin = code.blocks[b].first_inst + 1;
    while (begin < block_end && code.code[begin].site != pc->site) ++begin;
    uint32_t end = begin;
    while (end < block_end && code.code[end].site == pc->site) ++end;
    return std::pair(begin, end);
  };
  // An instruction may need extra preparation in one of the decodings: the first step maps to the first, later ones are
  // counted from the end.
  const auto [from_begin, from_end] = run_of_site(from);
  const auto [to_begin, to_end] = run_of_site(to);
  if (index == from_begin) return to.code.data() + to_begin;
  const uint32_t distance = from_end - index;
  return to.code.data() + (to_end >= to_begin + distance ? to_end - distance : to_begin);
}

}  // namespace

void Warp::make_general() {
  if (general) return;
  general = true;
  const Program& program = *cluster->launch->program;
  auto map = [&](const Frame& f, const Inst* pc) {
    return map_pc(*f.function, general_code(program, *f.function), pc);
  };
  for (Fragment& f : fragments) {
    f.pc = map(*f.frame, f.pc);
    if (f.state == FragmentState::warp_sync) {
      f.wait_address = reinterpret_cast<uintptr_t>(map(*f.frame, reinterpret_cast<const Inst*>(f.wait_address)));
    }
  }
  for (Join& join : joins) {
    if (join.in_use) join.target = join.is_call ? map(*join.frame, join.target - 1) + 1 : map(*join.frame, join.target);
  }
  for (auto& f : frames) {
    if (f->call_site != nullptr) f->call_site = map(*f->caller, f->call_site);
  }
  for (auto& f : frames) {
    const FunctionCode& old_code = *f->function;
    const FunctionCode& new_code = general_code(program, old_code);
    const std::vector<std::byte> old_storage = std::move(f->storage);
    const std::byte* old = f->registers;
    f->storage = {};
    f->function = &new_code;
    init_frame(*f);
    for (size_t r = 0; r < old_code.registers.size(); ++r) {
      const unsigned bits = type_bits(old_code.source->registers[r].type);
      const Slot from = old_code.registers[r], to = new_code.registers[r];
      if (bits == 1) {
        std::memcpy(f->registers + to.offset, old + from.offset, 4);
        continue;
      }
      const unsigned bytes = bits <= 16 ? 2 : bits / 8;
      if (from.shape == Shape::vector) {
        std::memcpy(f->registers + to.offset, old + from.offset, size_t{bytes} * kLanes);
      } else {
        for (unsigned lane = 0; lane < kLanes; ++lane)
          std::memcpy(f->registers + to.offset + lane * bytes, old + from.offset, bytes);
      }
    }
  }
}

void Warp::pop_frame(Frame* done) {
  auto it = std::find_if(frames.begin(), frames.end(), [&](const auto& f) { return f.get() == done; });
  spare_frames.push_back(std::move(*it));
  frames.erase(it);
}

const Inst* Warp::block(FragmentState state, const Inst* next) {
  fragment().state = state;
  return leave(Stop::blocked, next);
}

Agent agent_of(const Warp& warp, uint32_t lanes) {
  const auto left = static_cast<uint64_t>(int64_t{warp.quantum} + warp.forfeited);
  return {warp.cluster->launch->id,
          warp.cluster->index,
          warp.cta->rank,
          warp.index,
          lanes,
          warp.cluster->pace * 31 + left,
          warp.executed + (static_cast<uint64_t>(kQuantum) - left)};
}

Cta* Cluster::cta_of_shared(uint64_t shared_address) {
  const uint64_t rank = shared_address >> kCtaRankShift;
  return rank < ctas.size() ? &ctas[rank] : nullptr;
}

std::byte* Cluster::shared_pointer(uint64_t shared_address, uint32_t bytes) {
  Cta* cta = cta_of_shared(shared_address);
  const uint64_t offset = shared_address & ((1u << kCtaRankShift) - 1);
  if (cta == nullptr || offset < kReservedSharedBytes || offset + bytes > cta->shared_bytes) return nullptr;
  return cta->shared + offset;
}

void write_special(const Warp& warp, const FunctionCode::SpecialSlot& special, std::byte* registers) {
  using S = ptx::SpecialRegister;
  const Launch& launch = *warp.cluster->launch;
  const LaunchRequest& request = *launch.request;
  const uint32_t* block = request.block;
  const uint32_t first_thread = warp.index * kLanes;
  auto uniform = [&](uint64_t value) { std::memcpy(registers + special.offset, &value, 8); };
  auto lanes = [&](auto function) {
    auto* out = reinterpret_cast<uint32_t*>(registers + special.offset);
    for (uint32_t lane = 0; lane < kLanes; ++lane) out[lane] = function(lane);
  };
  const uint32_t* cluster = launch.cluster_dim;
  const Cta& cta = *warp.cta;
  const bool explicit_cluster = launch.ctas_per_cluster > 1 || launch.explicit_cluster;
  switch (special.special) {
    case S::tid_x:
      lanes([&](uint32_t l) { return (first_thread + l) % block[0]; });
      break;
    case S::tid_y:
      if (special.shape == Shape::uniform) {
        uniform(first_thread / block[0] % block[1]);
        break;
      }
      lanes([&](uint32_t l) { return (first_thread + l) / block[0] % block[1]; });
      break;
    case S::tid_z:
      if (special.shape == Shape::uniform) {
        uniform(first_thread / (block[0] * block[1]));
        break;
      }
      lanes([&](uint32_t l) { return (first_thread + l) / (block[0] * block[1]); });
      break;
    case S::laneid:
      lanes([](uint32_t l) { return l; });
      break;
    case S::lanemask_eq:
      lanes([](uint32_t l) { return 1u << l; });
      break;
    case S::lanemask_lt:
      lanes([](uint32_t l) { return (1u << l) - 1; });
      break;
    case S::lanemask_le:
      lanes([](uint32_t l) { return (2u << l) - 1; });
      break;
    case S::lanemask_gt:
      lanes([](uint32_t l) { return ~((2u << l) - 1); });
      break;
    case S::lanemask_ge:
      lanes([](uint32_t l) { return ~((1u << l) - 1); });
      break;
    case S::ntid_x:
      uniform(block[0]);
      break;
    case S::ntid_y:
      uniform(block[1]);
      break;
    case S::ntid_z:
      uniform(block[2]);
      break;
    case S::ctaid_x:
      uniform(cta.id[0]);
      break;
    case S::ctaid_y:
      uniform(cta.id[1]);
      break;
    case S::ctaid_z:
      uniform(cta.id[2]);
      break;
    case S::nctaid_x:
      uniform(request.grid[0]);
      break;
    case S::nctaid_y:
      uniform(request.grid[1]);
      break;
    case S::nctaid_z:
      uniform(request.grid[2]);
      break;
    case S::warpid:
      uniform(warp.index);
      break;
    case S::nwarpid:
      uniform(launch.warps_per_cta);
      break;
    case S::smid:
      uniform((warp.cluster->index * launch.ctas_per_cluster + cta.rank) % DeviceLimits::kSmCount);
      break;
    case S::nsmid:
      uniform(DeviceLimits::kSmCount);
      break;
    case S::gridid:
      uniform(launch.id);
      break;
    case S::is_explicit_cluster:
      uniform(explicit_cluster ? kFullMask : 0);
      break;
    case S::clusterid_x:
      uniform(warp.cluster->id[0]);
      break;
    case S::clusterid_y:
      uniform(warp.cluster->id[1]);
      break;
    case S::clusterid_z:
      uniform(warp.cluster->id[2]);
      break;
    case S::nclusterid_x:
      uniform(launch.grid_clusters[0]);
      break;
    case S::nclusterid_y:
      uniform(launch.grid_clusters[1]);
      break;
    case S::nclusterid_z:
      uniform(launch.grid_clusters[2]);
      break;
    case S::cluster_ctaid_x:
      uniform(cta.rank % cluster[0]);
      break;
    case S::cluster_ctaid_y:
      uniform(cta.rank / cluster[0] % cluster[1]);
      break;
    case S::cluster_ctaid_z:
      uniform(cta.rank / (cluster[0] * cluster[1]));
      break;
    case S::cluster_nctaid_x:
      uniform(cluster[0]);
      break;
    case S::cluster_nctaid_y:
      uniform(cluster[1]);
      break;
    case S::cluster_nctaid_z:
      uniform(cluster[2]);
      break;
    case S::cluster_ctarank:
      uniform(cta.rank);
      break;
    case S::cluster_nctarank:
      uniform(launch.ctas_per_cluster);
      break;
    case S::total_smem_size:
      uniform((launch.shared_bytes - kReservedSharedBytes + 127) / 128 * 128);  // the unit of allocation
      break;
    case S::aggr_smem_size:
      uniform(launch.shared_bytes);
      break;
    case S::dynamic_smem_size:
      uniform(request.dynamic_shared_bytes);
      break;
    case S::reserved_smem_offset_begin:
      uniform(0);
      break;
    case S::reserved_smem_offset_end:
      uniform(288);  // measured, docs/hardware-notes.md
      break;
    case S::reserved_smem_offset_cap:
      uniform(kReservedSharedBytes);
      break;
    case S::current_graph_exec:
      uniform(0);
      break;
    case S::clock:
    case S::clock_hi:
    case S::clock64:
    case S::globaltimer:
    case S::globaltimer_lo:
    case S::globaltimer_hi:
      break;  // dynamic: read by mov
    default:
      break;  // %envregN and %pmN: Decoder::special_register refuses them
  }
}

}  // namespace ptxbench::emulator
