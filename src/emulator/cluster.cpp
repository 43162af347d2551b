#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "emulator/definedness.h"
#include "emulator/isa/control.h"
#include "emulator/isa/mbarrier.h"
#include "emulator/memory_access.h"
#include "emulator/scheduler.h"

namespace ptxbench::emulator {

namespace {

/// Fruitless rounds before a cluster counts as stuck: barriers and mbarriers need one round of time-outs; loops that
/// poll memory get time for bounded spinning (a counter is not visible as progress).
constexpr uint32_t kBarrierPatience = 3;
constexpr uint32_t kPollPatience = 20'000;

/// Packed wgmma operands are cached by version of shared memory across launches: no two CTAs may share one.
uint64_t new_shared_epoch() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed) << 32;
}

void run_loop(Warp& warp) {
  const Inst* inst = warp.fragments[warp.current].pc;
  warp.stop = Stop::none;
  while (inst != nullptr) {
    if (warp.mask == kFullMask) {
      // The common case stays in a tight loop: only control instructions can change the mask.
      do {
        inst = inst->full(warp, *inst);
      } while (inst != nullptr && warp.mask == kFullMask);
    } else {
      inst = inst->masked(warp, *inst);
    }
  }
}

/// The lanes of a `bar.warp.sync` need not execute the same one: what counts is the membermask (PTX ISA,
/// "bar.warp.sync"). If lanes at different ones cover it together, each goes on from where it is.
bool pass_warp_barriers(Warp& warp, const Fragment& waiting, uint32_t wanted) {
  if (!waiting.at_warp_barrier) return false;
  const uint32_t members = waiting.wait_mask;
  const auto takes_part = [&](const Fragment& f) {
    return f.state == FragmentState::warp_sync && f.at_warp_barrier && f.wait_mask == members;
  };
  uint32_t together = 0;
  for (const Fragment& f : warp.fragments) together |= takes_part(f) ? f.mask : 0;
  if ((wanted & ~together) != 0) return false;
  const auto* barrier = reinterpret_cast<const Inst*>(waiting.wait_address);
  if (Observer* observer = warp.cluster->launch->observer) {
    BarrierEvent event;
    event.agent = agent_of(warp, together);
    event.site = {warp.cluster->launch->program->id, waiting.frame->function->site_base + barrier->site};
    event.kind = BarrierKind::warp;
    for (const BarrierAction action : {BarrierAction::arrive, BarrierAction::wait_begin, BarrierAction::wait_end}) {
      event.action = action;
      observer->on_barrier(event);
    }
  }
  if (warp.touches != nullptr && together == warp.live) warp.touches->shared.warp_met(warp.index);
  for (Fragment& f : warp.fragments) {
    if (!takes_part(f)) continue;
    if (f.pc->full == &guard_handler) {
      // The retry that would have counted the guarded barrier does not take place.
      warp.guard_counts[size_t{f.pc->aux} * 2] += 1;
      warp.guard_counts[size_t{f.pc->aux} * 2 + 1] += static_cast<uint64_t>(std::popcount(f.mask));
    }
    f.pc = reinterpret_cast<const Inst*>(f.wait_address) + 1;
    f.state = FragmentState::ready;
    f.at_warp_barrier = false;
  }
  return true;
}

/// Fragments of a warp that wait at the same convergent instruction become one when they cover its membermask.
bool try_rendezvous(Warp& warp, size_t index) {
  Fragment& f = warp.fragments[index];
  const uint32_t wanted = f.wait_mask & warp.live;
  uint32_t together = f.mask;
  for (size_t i = 0; i < warp.fragments.size(); ++i) {
    const Fragment& other = warp.fragments[i];
    if (i != index && other.state == f.state && other.pc == f.pc && other.frame == f.frame &&
        other.wait_mask == f.wait_mask) {
      together |= other.mask;
    }
  }
  if ((wanted & ~together) != 0) return pass_warp_barriers(warp, f, wanted);
  // Merge everything that waits here under the innermost common join: each fragment keeps its join by splitting again
  // afterwards, so the merged fragment runs one instruction with the union of lanes.
  uint32_t joins_equal = 1;
  for (const Fragment& other : warp.fragments) {
    if (other.state == f.state && other.pc == f.pc && other.frame == f.frame && other.wait_mask == f.wait_mask &&
        other.join != f.join) {
      joins_equal = 0;
    }
  }
  const Inst* pc = f.pc;
  Frame* frame = f.frame;
  const FragmentState state = f.state;
  const uint32_t wait_mask = f.wait_mask;
  int32_t join = f.join;
  if (joins_equal == 0) {
    // Different enclosing joins: lanes that meet at a `.sync` instruction from different control paths leave those
    // joins, but not the one of the call they are in.
    while (join >= 0 && !warp.joins[static_cast<size_t>(join)].is_call)
      join = warp.joins[static_cast<size_t>(join)].parent;
    warp.make_general();
    pc = warp.fragments[index].pc;
    for (size_t i = 0; i < warp.joins.size(); ++i) {
      Join& other = warp.joins[i];
      if (!other.in_use || other.is_call || other.frame != frame || (other.pending & together) == 0) continue;
      other.pending &= ~together;
      if (other.pending == 0) warp.release_join(static_cast<int32_t>(i));
    }
  }
  Fragment merged;
  merged.pc = pc;
  merged.frame = frame;
  merged.mask = together;
  merged.join = join;
  std::erase_if(warp.fragments, [&](const Fragment& other) {
    return other.state == state && other.pc == pc && other.frame == frame && other.wait_mask == wait_mask;
  });
  warp.fragments.push_back(merged);
  return true;
}

/// Wakes a blocked fragment whose condition holds. True if it may run.
bool wake(Warp& warp, size_t index) {
  Fragment& f = warp.fragments[index];
  bool ready = false;
  switch (f.state) {
    case FragmentState::ready:
      return true;
    case FragmentState::barrier:
      ready = warp.cta->barriers[f.wait_id].generation != f.wait_generation;
      break;
    case FragmentState::mbarrier:
      ready = f.timed_out || mbarrier_phase_done(*warp.cluster, f.wait_address, f.wait_parity);
      break;
    case FragmentState::cluster_barrier:
      ready = warp.cluster->barrier.generation != f.wait_generation;
      break;
    case FragmentState::async_group:
      ready = async_group_done(warp, f);
      break;
    case FragmentState::register_pool:
      ready = registers_available(warp, f);
      break;
    case FragmentState::grid_dependency:
      ready = true;
      break;
    case FragmentState::warp_sync:
    case FragmentState::rendezvous:
      return try_rendezvous(warp, index);
  }
  if (ready) f.state = FragmentState::ready;
  return ready;
}

struct RoundResult {
  bool computed = false;  ///< some fragment used its whole quantum without polling
  bool polled = false;    ///< some fragment polls memory
};

/// Runs every ready fragment of a warp once.
void run_warp(Warp& warp, RoundResult& result) {
  uint32_t done_lanes = 0;
  int64_t spent = 0;
  for (;;) {
    // Fragments that keep splitting and meeting again never reach the end of a quantum; the other warps get their turn
    // all the same.
    if (spent > 4 * kQuantum) {
      result.computed = true;
      return;
    }
    size_t next = warp.fragments.size();
    for (size_t i = 0; i < warp.fragments.size(); ++i) {
      if ((warp.fragments[i].mask & ~done_lanes) == 0) continue;
      if (const FragmentState state = warp.fragments[i].state; state != FragmentState::ready) {
        if (!wake(warp, i)) continue;
        if (state == FragmentState::warp_sync || state == FragmentState::rendezvous) {
          i = static_cast<size_t>(-1);  // the merged fragment has another place in the list
          continue;
        }
      }
      next = i;
      break;
    }
    if (next == warp.fragments.size()) return;
    warp.load_fragment(next);
    const uint64_t progress = warp.cluster->progress;
    warp.quantum = kQuantum;
    warp.forfeited = 0;
    const uint64_t old_hash = warp.fragments[next].poll_hash;
    run_loop(warp);
    const int32_t ran = std::max<int32_t>(0, kQuantum - warp.quantum - warp.forfeited);
    warp.cluster->instructions += static_cast<uint64_t>(ran);
    warp.executed += static_cast<uint64_t>(ran);
    warp.quantum = kQuantum;
    warp.forfeited = 0;
    const uint64_t turn = uint64_t{warp.cta->rank} << 48 | uint64_t{warp.index} << 40 | uint64_t{next & 0xff} << 32;
    warp.cluster->pace = (warp.cluster->pace ^ (turn | static_cast<uint32_t>(ran))) * 0x9e3779b97f4a7c15ull + 1;
    spent += ran;
    if (warp.stop == Stop::fault) return;
    if (warp.stop == Stop::yield || warp.stop == Stop::blocked) {
      Fragment& f = warp.fragments[warp.current];
      f.pc = warp.resume;
      f.mask = warp.mask;
      f.frame = warp.frame;
      if (std::exchange(warp.parted, false)) warp.make_general();
      done_lanes |= f.mask;
      if (warp.polled) {
        if (f.poll_hash != warp.poll_hash) {
          f.poll_hash = warp.poll_hash;
          if (old_hash != 0) ++warp.cluster->progress;  // it read something new
        }
        if (warp.stop == Stop::yield) result.polled = true;
      } else if (warp.stop == Stop::yield && warp.cluster->progress == progress) {
        result.computed = true;
      }
    }
  }
}

}  // namespace

void start_cluster(Cluster& cluster, Launch& launch, uint32_t index) {
  cluster.launch = &launch;
  cluster.index = index;
  const uint32_t* grid = launch.grid_clusters;
  cluster.id[0] = index % grid[0];
  cluster.id[1] = index / grid[0] % grid[1];
  cluster.id[2] = index / (grid[0] * grid[1]);
  cluster.shared_stride = (launch.shared_bytes + 1023) / 1024 * 1024;
  const size_t shared_bytes = size_t{cluster.shared_stride} * launch.ctas_per_cluster;
  if (cluster.shared_storage.size() < shared_bytes + 1024) cluster.shared_storage.resize(shared_bytes + 1024);
  auto base = reinterpret_cast<uintptr_t>(cluster.shared_storage.data());
  std::byte* shared = cluster.shared_storage.data() + (1024 - base % 1024) % 1024;
  std::memset(shared, 0, shared_bytes);
  cluster.ctas.resize(launch.ctas_per_cluster);
  cluster.warps.resize(size_t{launch.ctas_per_cluster} * launch.warps_per_cta);
  cluster.block_counts.assign(size_t{launch.program->counters} * 2 + 2, 0);
  cluster.guard_counts.assign(size_t{launch.program->guard_counters} * 2 + 2, 0);
  cluster.barrier = {};
  cluster.barrier.expected_threads = launch.ctas_per_cluster * launch.threads_per_cta;
  cluster.progress = 0;
  cluster.fruitless_rounds = 0;
  cluster.instructions = 0;
  cluster.pace = 0;
  cluster.clock_reads = 0;
  cluster.charged = false;
  cluster.tensor_core_macs = cluster.legacy_mma_macs = cluster.tma_bytes = 0;
  cluster.fault.reset();
  cluster.live_warps = static_cast<uint32_t>(cluster.warps.size());
  if (cluster.touches != nullptr) cluster.touches->shared.start(launch.shared_bytes, launch.warps_per_cta);
  cluster.async.reset(launch.completion == CompletionPolicy::eager, launch.completion == CompletionPolicy::random,
                      launch.seed + index);
  for (uint32_t rank = 0; rank < launch.ctas_per_cluster; ++rank) {
    Cta& cta = cluster.ctas[rank];
    cta.cluster = &cluster;
    cta.rank = rank;
    const uint32_t* dim = launch.cluster_dim;
    cta.id[0] = cluster.id[0] * dim[0] + rank % dim[0];
    cta.id[1] = cluster.id[1] * dim[1] + rank / dim[0] % dim[1];
    cta.id[2] = cluster.id[2] * dim[2] + rank / (dim[0] * dim[1]);
    cta.shared = shared + size_t{rank} * cluster.shared_stride;
    cta.shared_bytes = launch.shared_bytes;
    cta.warps.clear();
    for (auto& barrier : cta.barriers) {
      barrier = CtaBarrier{};
    }
    cta.live_warps = launch.warps_per_cta;
    cta.register_pool = launch.register_pool;
    cta.shared_version = new_shared_epoch();
    if (launch.definedness != nullptr) launch.definedness->start_cta(cta);
    for (uint32_t w = 0; w < launch.warps_per_cta; ++w) {
      Warp& warp = cluster.warps[rank * launch.warps_per_cta + w];
      warp.cta = &cta;
      warp.cluster = &cluster;
      warp.index = w;
      warp.shared_begin = (rank << kCtaRankShift) + kReservedSharedBytes;
      warp.shared_span = launch.shared_bytes - kReservedSharedBytes;
      warp.shared_origin = cta.shared - (uint64_t{rank} << kCtaRankShift);
      warp.general = !launch.aligned_warps;
      warp.parted = false;
      const uint32_t threads = std::min(kLanes, launch.threads_per_cta - w * kLanes);
      warp.live = threads == kLanes ? kFullMask : (1u << threads) - 1;
      warp.fragments.clear();
      warp.joins.clear();
      for (auto& frame : warp.frames) warp.spare_frames.push_back(std::move(frame));
      warp.frames.clear();
      warp.local_stride = launch.local_stride;
      warp.local.assign(size_t{launch.local_stride} * kLanes, std::byte{0});
      if (launch.definedness != nullptr) launch.definedness->start_warp(warp);
      for (auto& state : warp.async) {
        if (state.cp_async_retired != 0 || state.bulk_retired != 0 || !state.cp_async.empty() || !state.bulk.empty() ||
            !state.cp_async_open.operations.empty() || !state.bulk_open.operations.empty()) {
          state = ThreadAsyncState{};
        }
      }
      warp.wgmma = WarpgroupState{};
      warp.executed = 0;
      warp.quantum = kQuantum;
      warp.forfeited = 0;
      warp.registers_per_thread = launch.registers_per_thread;
      warp.block_counts = cluster.block_counts.data();
      warp.guard_counts = cluster.guard_counts.data();
      warp.touches = cluster.touches;
      warp.allocation_cache = AllocationCache{};
      cta.warps.push_back(&warp);
      Frame* frame = warp.push_frame(*launch.kernel, 0);
      Fragment first;
      first.pc = frame->function->code.data();
      first.mask = warp.live;
      first.frame = frame;
      warp.fragments.push_back(first);
    }
  }
}

ClusterStatus run_cluster(Cluster& cluster, unsigned rounds) {
  Launch& launch = *cluster.launch;
  for (unsigned round = 0; round < rounds; ++round) {
    if (launch.stopped.load(std::memory_order_relaxed)) return ClusterStatus::running;
    const uint64_t before = cluster.progress;
    const uint64_t instructions = cluster.instructions;
    RoundResult result;
    for (Warp& warp : cluster.warps) {
      if (warp.live == 0) continue;
      if (launch.stopped.load(std::memory_order_relaxed)) return ClusterStatus::running;
      run_warp(warp, result);
      if (cluster.fault) return ClusterStatus::faulted;
    }
    // Starting a CTA costs about as much: a grid of billions of empty ones is an endless loop, too.
    constexpr uint64_t kCtaCharge = 256;
    const uint64_t charge = std::exchange(cluster.charged, true) ? 0 : kCtaCharge * launch.ctas_per_cluster;
    const uint64_t ran = cluster.instructions - instructions + charge;
    if (launch.instructions.fetch_add(ran, std::memory_order_relaxed) + ran > launch.instruction_budget) {
      Fault fault = describe_deadlock(cluster, true);
      fault.rule = "sync.budget";
      fault.message = fmt::format("the launch used up its budget of {} warp instructions: an endless loop?\n{}",
                                  launch.instruction_budget, fault.message);
      fault.remedy = "look for a loop whose exit condition never becomes true, or raise the instruction budget";
      cluster.fault = std::move(fault);
      return ClusterStatus::faulted;
    }
    if (cluster.live_warps == 0) {
      for (Warp& warp : cluster.warps) finish_wgmma(warp);
      cluster.async.complete_all(cluster);
      return cluster.fault ? ClusterStatus::faulted : ClusterStatus::finished;
    }
    if (cluster.progress != before || result.computed) {
      cluster.fruitless_rounds = 0;
      continue;
    }
    if (cluster.async.complete_one(cluster)) {
      if (cluster.fault) return ClusterStatus::faulted;
      cluster.fruitless_rounds = 0;
      continue;
    }
    // Nothing moved. Lanes that wait for diverged siblings may go ahead (independent thread scheduling promises
    // progress), and suspended try_waits may return false.
    bool released = false;
    for (Warp& warp : cluster.warps) {
      for (size_t j = 0; j < warp.joins.size(); ++j) {
        if (warp.joins[j].in_use && warp.joins[j].arrived != 0 && warp.joins[j].pending != 0 &&
            !warp.joins[j].is_call) {
          warp.make_general();
          warp.release_join(static_cast<int32_t>(j));
          released = true;
        }
      }
    }
    if (released) {
      cluster.fruitless_rounds = 0;
      continue;
    }
    for (Warp& warp : cluster.warps) {
      for (Fragment& f : warp.fragments) {
        if (f.state == FragmentState::mbarrier) f.timed_out = true;
      }
    }
    const uint32_t patience = result.polled ? kPollPatience : kBarrierPatience;
    if (++cluster.fruitless_rounds >= patience) return ClusterStatus::stuck;
  }
  return ClusterStatus::running;
}

Fault describe_deadlock(Cluster& cluster, bool over_budget) {
  const Launch& launch = *cluster.launch;
  struct Group {
    std::vector<uint32_t> warps;
    uint32_t lanes = 0;
    std::string text;
    CodePlace place;
  };
  std::map<std::pair<uint32_t, std::string>, Group> groups;  // by CTA rank and description
  Fault fault;
  int chosen = 0;
  fault.rule = "sync.deadlock";
  for (Warp& warp : cluster.warps) {
    for (Fragment& f : warp.fragments) {
      const uint32_t site = f.pc != nullptr ? f.frame->function->site_base + f.pc->site : 0;
      const CodePlace place = launch.describe({launch.program->id, site});
      std::string what;
      switch (f.state) {
        case FragmentState::barrier: {
          const CtaBarrier& barrier = warp.cta->barriers[f.wait_id];
          uint32_t arrived = 0;
          for (size_t w = 0; w < warp.cta->warps.size(); ++w) {
            if (barrier.arrived[w] != 0) ++arrived;
          }
          what = barrier.expected != 0
                     ? fmt::format("for barrier {} ({} warps arrived, {} threads expected)", f.wait_id, arrived,
                                   barrier.expected)
                     : fmt::format("for barrier {} ({} of {} warps arrived)", f.wait_id, arrived, warp.cta->live_warps);
          break;
        }
        case FragmentState::mbarrier:
          what = fmt::format("for phase parity {} of the mbarrier at {}: {}", f.wait_parity,
                             describe_address(launch, Space::shared, f.wait_address),
                             mbarrier_describe(cluster, f.wait_address));
          break;
        case FragmentState::cluster_barrier:
          what = fmt::format("for the cluster barrier ({} of {} threads arrived)", cluster.barrier.arrived_threads,
                             cluster.barrier.expected_threads);
          break;
        case FragmentState::warp_sync:
        case FragmentState::rendezvous:
          what = fmt::format("for lanes {:#010x} of its warp to reach this instruction",
                             f.wait_mask & warp.live & ~f.mask);
          break;
        case FragmentState::register_pool:
          what = "for registers (setmaxnreg.inc)";
          break;
        case FragmentState::async_group:
          what = "for the other warps of its warpgroup to issue and commit the same wgmma group";
          fault.rule = "wgmma.partial";
          break;
        case FragmentState::grid_dependency:
          what = "for the preceding grid";
          break;
        case FragmentState::ready:
          what = over_budget ? "for nothing: it runs" : "in a loop that polls memory nobody changes";
          break;
      }
      std::string at =
          place.line != 0 ? fmt::format("{}:{}", place.file, place.line) : fmt::format("PTX line {}", place.ptx_line);
      for (const auto& [file, line] : place.called_from) at += fmt::format(", called from {}:{}", file, line);
      Group& group = groups[{warp.cta->rank, fmt::format("{} at {} ({})", what, at, place.instruction)}];
      group.warps.push_back(warp.index);
      group.lanes |= f.mask;
      group.place = place;
      // Of several waits the one that explains most is shown: a barrier that misses bytes, then any mbarrier.
      int weight = 1;
      std::string advice =
          "find who should have arrived or sent the bytes: compare the barrier's counts with the arrivals the code "
          "makes";
      if (f.state == FragmentState::mbarrier) {
        weight = 2;
        if (const std::byte* word = cluster.shared_pointer(f.wait_address, 8)) {
          uint64_t bits = 0;
          std::memcpy(&bits, word, sizeof bits);
          const MbarrierState state = MbarrierState::decode(bits);
          if (state.live && state.pending == 0 && state.transactions > 0) {
            weight = 3;
            advice = fmt::format(
                "{} bytes were expected beyond what the copies bring: make expect_tx the sum of the boxes "
                "that complete on this barrier, or issue the missing copy",
                state.transactions);
          } else if (state.live && state.pending > 0 && state.pending < state.expected) {
            // Some came: the count is wrong, or a participant left early. Who waits elsewhere waits because of that.
            weight = 4;
            advice = fmt::format(
                "{} of the {} arrivals that the mbarrier at {} was initialised for never come ({} did): give "
                "mbarrier.init "
                "the number of arrivals that one phase really gets, or let the missing threads arrive",
                state.pending, state.expected, describe_address(launch, Space::shared, f.wait_address),
                state.expected - state.pending);
          } else if (state.live && state.pending > 0) {
            advice = fmt::format(
                "no arrival came in this phase of the mbarrier at {}: see who should arrive, and whether that thread "
                "waits "
                "itself, left early, or the waiting thread asks for the wrong parity",
                describe_address(launch, Space::shared, f.wait_address));
          }
        }
      }
      if (weight > chosen) {
        chosen = weight;
        fault.remedy = advice;
        fault.place = place;
        fault.warp = warp.index;
        fault.lanes = f.mask;
        std::copy(warp.cta->id, warp.cta->id + 3, fault.cta);
        if (f.state == FragmentState::mbarrier) fault.address = f.wait_address;
      }
    }
  }
  fault.message = over_budget ? "where the warps are:" : "no warp can make progress:";
  for (const auto& [key, group] : groups) {
    std::string warps;
    for (size_t i = 0; i < group.warps.size(); ++i) {
      size_t j = i;
      while (j + 1 < group.warps.size() && group.warps[j + 1] == group.warps[j] + 1) ++j;
      if (!warps.empty()) warps += ',';
      warps += j > i ? fmt::format("{}-{}", group.warps[i], group.warps[j]) : fmt::format("{}", group.warps[i]);
      i = j;
    }
    const Cta& cta = cluster.ctas[key.first];
    fault.message += fmt::format("\n  CTA ({},{},{}) warp {} lanes {:#010x} waits {}", cta.id[0], cta.id[1], cta.id[2],
                                 warps, group.lanes, key.second);
  }
  return fault;
}

}  // namespace ptxbench::emulator
