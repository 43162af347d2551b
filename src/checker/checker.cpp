#include "checker/checker.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "checker/shadow.h"
#include "checker/threads.h"
#include "checker/undefined.h"

namespace ptxbench::checker {

using emulator::Agent;
using emulator::AsyncKind;
using emulator::BarrierAction;
using emulator::BarrierKind;
using emulator::Completion;
using emulator::FenceKind;
using emulator::MbarrierAction;
using emulator::Scope;
using emulator::Semantics;
using emulator::Site;
using emulator::Space;

namespace {

Reach reach_of(Semantics semantics, Scope scope) {
  if (semantics == Semantics::weak) return Reach::none;
  if (semantics == Semantics::volatile_) return Reach::gpu;
  switch (scope) {
    case Scope::cta:
      return Reach::cta;
    case Scope::cluster:
      return Reach::cluster;
    default:
      return Reach::gpu;
  }
}

bool releases(Semantics s) { return s == Semantics::release || s == Semantics::acq_rel || s == Semantics::sc; }
bool acquires(Semantics s) { return s == Semantics::acquire || s == Semantics::acq_rel || s == Semantics::sc; }

bool within(Reach reach, const Position& a, const Position& b) {
  if (reach == Reach::gpu) return true;
  if (a.cluster != b.cluster) return false;
  return reach == Reach::cluster || (reach == Reach::cta && a.cta == b.cta);
}

const char* name_of(AsyncKind kind) {
  switch (kind) {
    case AsyncKind::cp_async:
      return "cp.async";
    case AsyncKind::bulk_copy:
      return "bulk copy";
    case AsyncKind::tensor_copy:
      return "TMA copy";
    case AsyncKind::bulk_reduce:
      return "bulk reduction";
    case AsyncKind::tensor_reduce:
      return "TMA reduction";
    case AsyncKind::wgmma:
      return "wgmma";
    case AsyncKind::st_async:
      return "st.async";
    case AsyncKind::red_async:
      return "red.async";
    case AsyncKind::prefetch:
      return "prefetch";
  }
  return "operation";
}

/// A strong write and what it hands on.
struct Release {
  Knowledge knowledge;
  Reach reach{};
  Position position;
};

/// A wgmma of one warp between issue and wait.
struct RegistersInFlight {
  uint64_t group = 0;
  std::vector<uint32_t> accumulators, fragments;  ///< sorted
  uint32_t site = 0;
  bool committed = false;
  uint32_t waited_for = 0;  ///< site of a wait that came while it was not committed
};

struct WarpRegisters {
  std::vector<RegistersInFlight> in_flight;
  std::map<uint32_t, uint32_t> written;  ///< since the last wgmma.fence: register, site
};

/// A group wait of some thread of a warp, to explain what it did not cover.
constexpr size_t kRememberedWaits = 64;
struct GroupWait {
  uint64_t serial = 0;
  bool reads_only = false;
};

struct Output {
  std::string name;
  uint64_t address = 0, bytes = 0;
  uint32_t element_bytes = 1;
  std::vector<bool> written;  ///< by byte
  struct Writer {
    Timeline timeline = 0;
    uint32_t lane = 0, site = 0;
    bool plain = false;
  };
  std::vector<Writer> writers;  ///< by element: the last thread that stored to it in this launch
};

struct Mbarrier {
  bool live = false;
  Timeline timeline = 0;  ///< phases completed, over all initialisations
  Time base = 0;          ///< phases of earlier initialisations
  // The initialising thread.
  Timeline init_on = 0;
  Time init_at = 0;
  uint32_t init_lanes = 0;
  uint32_t init_site = 0;
  bool init_reported = false;
  std::map<uint64_t, Knowledge> arrivals;  ///< by phase
  // The phase that is going on, as far as the transaction bytes tell.
  uint64_t ledger_phase = 0;
  int64_t expected = 0, completed = 0;
  uint32_t expect_site = 0;
  Agent expect_agent;
  Time observed = 0;  ///< the latest time that any wait has seen
  /// By warp: when a wait on this barrier last succeeded, and where.
  std::map<uint32_t, std::pair<uint64_t, uint32_t>> waits;
};

struct OperationInfo {
  AsyncKind kind{};
  Completion completion{};
  uint64_t group = 0;       ///< or the mbarrier's address
  uint64_t phase = 0;       ///< of the mbarrier at the issue
  uint64_t serial = 0;      ///< of the issue, among all events
  bool tensor_map = false;  ///< the access to a tensor map that belongs to the operation
  uint32_t site = 0;
  Agent agent;
};

struct WarpgroupIssue {
  Knowledge knowledge;
  unsigned warps = 0;
};

/// How a CTA of a cluster ends while others use its shared memory.
struct CtaEnd {
  struct Use {
    uint32_t lanes = 0;
    Time time = 0;
    uint32_t site = 0;
    uint64_t address = 0;
  };
  std::map<Timeline, Use> uses;  ///< the last use by each warp of another CTA
  Knowledge known;               ///< to the threads that have exited
  std::vector<uint32_t> live;    ///< by warp
  uint32_t live_warps = 0;
  uint32_t exit_site = 0;
};

struct Cluster {
  uint32_t index = 0;
  std::vector<WarpThreads> warps;
  std::map<std::pair<uint32_t, uint32_t>, std::map<uint64_t, Knowledge>> barriers;  ///< (CTA, id) -> phase -> arrivals
  std::map<uint64_t, Knowledge> cluster_arrivals;
  std::map<uint64_t, Mbarrier> mbarriers;
  std::unordered_map<uint64_t, std::vector<uint32_t>> operations;  ///< event id -> numbers in the operation table
  std::map<uint32_t, Timeline> cp_async, bulk_reads, bulk_writes;  ///< by warp
  std::map<std::tuple<uint32_t, unsigned>, uint64_t> bulk_issued;  ///< (warp, lane) -> groups with operations
  std::map<std::tuple<uint32_t, unsigned>, uint64_t> cp_issued;
  std::map<uint32_t, Timeline> wgmma;                                             ///< by warpgroup
  std::map<std::pair<uint32_t, uint64_t>, WarpgroupIssue> wgmma_issues;           ///< (warpgroup, sequence number)
  std::map<uint32_t, uint64_t> wgmma_sequence;                                    ///< by warp
  std::map<std::pair<uint32_t, uint64_t>, Knowledge> wgmma_groups;                ///< (warpgroup, group)
  std::map<uint32_t, WarpRegisters> registers;                                    ///< by warp
  std::map<std::pair<uint32_t, Completion>, std::vector<GroupWait>> group_waits;  ///< by warp, oldest first
  std::unique_ptr<Shadow> shared;
  std::vector<CtaEnd> ends;  ///< by rank
};

}  // namespace

class Checker::State {
 public:
  explicit State(CheckerOptions options) : options_(std::move(options)) {
    operations_.emplace_back();
    infos_.emplace_back();
    sites_.push_back({});
  }

  // --- launches
  void launch_begin(const emulator::LaunchEvent& event) {
    launch_ = event;
    streams_.insert(event.stream);
    if (streams_.size() == 2) {
      unknown.insert("kernels were launched on several streams: races between them are not looked for (race.stream)");
    }
    ctas_ = std::max(1u, event.cluster[0]) * std::max(1u, event.cluster[1]) * std::max(1u, event.cluster[2]);
    const uint32_t threads = event.block[0] * event.block[1] * event.block[2];
    warps_per_cta_ = (threads + 31) / 32;
    last_lanes_ = threads % 32 == 0 ? kAllLanes : (1u << (threads % 32)) - 1;
    clusters_.clear();
    operations_.resize(1);
    infos_.resize(1);
    next_timeline_ = 1;
    timeline_places_.assign(1, {});
    locations_.clear();
    handed_over_.clear();
    for (Output& output : outputs_) std::fill(output.writers.begin(), output.writers.end(), Output::Writer{});
    fenced_[0].clear();
    fenced_[1].clear();
    last_cluster_ = nullptr;
    // Everything before the launch is ordered before it.
    global_ = std::make_unique<Shadow>(
        ShadowSpace::global, operations_, [this](Timeline t) { return position_of(t); },
        [this](const Report& report) { conflict(Space::global, report); }, options_.crowd);
  }

  void launch_end() {
    for (auto& [index, cluster] : clusters_) {
      for (const auto& [address, barrier] : cluster->mbarriers) {
        if (!barrier.live || barrier.expected == barrier.completed || barrier.expect_site == 0) continue;
        bool in_flight = false;
        for (size_t number = 1; number < infos_.size() && !in_flight; ++number) {
          const OperationInfo& info = infos_[number];
          in_flight = info.completion == Completion::mbarrier && info.group == address &&
                      info.agent.cluster == cluster->index && operations_[number].writes_at == Operation::kPending;
        }
        if (in_flight) continue;
        Finding found = finding("mbarrier.tx-mismatch", Severity::error, barrier.expect_agent,
                                sites_[barrier.expect_site], Space::shared, address, 8);
        found.party.what = "announces the bytes";
        found.message =
            fmt::format("{} bytes were announced in this phase of the mbarrier and {} came: the phase cannot end",
                        barrier.expected, barrier.completed);
        found.fix =
            "make expect_tx the sum of the bytes of all copies that complete on the barrier in the phase (a copy "
            "counts its full box)";
        add(std::move(found));
      }
      // Operations of a kernel that was stopped are not left behind by it.
      if (std::any_of(cluster->ends.begin(), cluster->ends.end(),
                      [](const CtaEnd& end) { return end.live_warps != 0; }))
        continue;
      for (const auto& [id, numbers] : cluster->operations) {
        for (const uint32_t number : numbers) {
          const OperationInfo& info = infos_[number];
          if (info.completion != Completion::mbarrier || info.tensor_map) continue;
          // Whether it happened to be complete is chance: nobody waited for it.
          const auto barrier = cluster->mbarriers.find(info.group);
          const Time at = operations_[number].writes_at;
          if (at == Operation::kPending || (barrier != cluster->mbarriers.end() && at > barrier->second.observed)) {
            unfinished(info);
          }
        }
      }
    }
    clusters_.clear();
    global_.reset();
  }

  // --- accesses
  void access(const emulator::AccessEvent& event) {
    last_issue_ = {};
    if (stopped_ || (event.space != Space::shared && event.space != Space::global)) return;
    Cluster& cluster = cluster_of(event.agent);
    WarpThreads& warp = warp_of(cluster, event.agent);
    const bool shared = event.space == Space::shared;
    Shadow& shadow = shared ? *cluster.shared : *global_;
    const Reach reach = reach_of(event.semantics, event.scope);
    const Position position{event.agent.cluster, event.agent.cta_rank};
    const bool atomic = event.kind == emulator::AccessKind::atomic;
    const bool writes = event.kind != emulator::AccessKind::read;
    const bool reads = event.kind != emulator::AccessKind::write;
    if (atomic && std::popcount(event.agent.lanes) > 1) {
      // The lanes' read-modify-writes come one after another, and each continues what the one before released.
      emulator::AccessEvent one = event;
      for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
        one.agent.lanes = rest & (0u - rest);
        access(one);
      }
      return;
    }
    // What a strong read brings comes before the access itself.
    if (reach != Reach::none && reads) acquire_locations(event, warp, position, reach);

    Access access;
    access.timeline = warp.timeline();
    access.time = warp.take();
    access.site = site_number(event.site);
    access.kind = atomic ? AccessKind::atomic : writes ? AccessKind::write : AccessKind::read;
    if (shared && ctas_ > 1) use_peers(cluster, event);
    access.reach = reach;
    access.unit = static_cast<uint8_t>(std::min<uint32_t>(event.bytes, 255));
    access.read_only = event.proxy == emulator::Proxy::read_only;
    access.proxy = event.proxy == emulator::Proxy::async        ? ProxyKind::async
                   : event.proxy == emulator::Proxy::tensor_map ? ProxyKind::tensor_map
                                                                : ProxyKind::generic;
    pieces_.clear();
    warp.for_each_context(event.agent.lanes, [&](uint32_t lanes, const Knowledge& knowledge) {
      for (const bool unchanged : {false, true}) {
        const uint32_t some = lanes & (unchanged ? event.unchanged : ~event.unchanged);
        access.unchanged = unchanged;
        if (some != 0) cut({&knowledge, position}, access, some, event.addresses, event.bytes);
      }
    });
    if (pieces_.size() == 1 || disjoint(event)) {
      for (const Piece& piece : pieces_) shadow.touch(piece.context, piece.access, piece.address, piece.bytes);
    } else {
      for (const Shadow::Step step : {Shadow::Step::check, Shadow::Step::remember}) {
        for (const Piece& piece : pieces_) shadow.touch(piece.context, piece.access, piece.address, piece.bytes, step);
      }
    }
    if (!writes && !shared && !outputs_.empty()) forget_writers(event);
    if (writes && !shared) {
      for (uint32_t rest = event.agent.lanes; rest != 0 && !outputs_.empty(); rest &= rest - 1)
        mark_output(event.addresses[std::countr_zero(rest)], event.bytes);
      if (!outputs_.empty()) mark_writers(event, warp, access.site, !atomic);
    }
    if (writes) publish_locations(event, warp, position, reach, atomic);
    bound_memory(cluster);
  }

  void fence(const emulator::FenceEvent& event) {
    last_issue_ = {};
    Cluster& cluster = cluster_of(event.agent);
    WarpThreads& warp = warp_of(cluster, event.agent);
    const uint32_t lanes = event.agent.lanes;
    switch (event.kind) {
      case FenceKind::thread:
        warp.fence(lanes, reach_of(Semantics::acq_rel, event.scope));
        break;
      case FenceKind::proxy_async:
        warp.fence_proxy(lanes, event.shared_space, event.global_space);
        if (event.shared_space) fenced_[0].insert(warp.timeline());
        if (event.global_space) fenced_[1].insert(warp.timeline());
        break;
      case FenceKind::mbarrier_init:
        warp.for_each_class(lanes, [&](LaneClass& one) {
          one.knowledge.inits.advance(warp.timeline(), one.lanes & lanes, warp.now());
        });
        break;
      case FenceKind::proxy_tensor_map:
        if (acquires(event.semantics)) {
          warp.for_each_class(lanes, [&](LaneClass& one) {
            one.knowledge.fenced_map.join(one.knowledge.seen);
            one.knowledge.fenced_map.advance(warp.timeline(), one.lanes & lanes, warp.now());
          });
        }
        // Both directions are fences of the ordinary kind as well.
        warp.fence(lanes, reach_of(Semantics::acq_rel, event.scope));
        break;
      case FenceKind::wgmma:
        cluster.registers[warp_index(event.agent)].written.clear();
        break;
      case FenceKind::proxy_alias:
        break;
    }
  }

  void barrier(const emulator::BarrierEvent& event) {
    last_issue_ = {};
    Cluster& cluster = cluster_of(event.agent);
    WarpThreads& warp = warp_of(cluster, event.agent);
    const uint32_t lanes = event.agent.lanes;
    if (event.kind == BarrierKind::warp) {
      if (event.action != BarrierAction::arrive) return;
      const Knowledge together = warp.publish(lanes);
      warp.acquire(lanes, together, true);
      return;
    }
    if (event.kind == BarrierKind::grid_dependency) return;
    auto& phases =
        event.kind == BarrierKind::cta ? cluster.barriers[{event.agent.cta_rank, event.id}] : cluster.cluster_arrivals;
    if (event.action == BarrierAction::arrive) {
      Knowledge news = warp.publish(lanes);
      if (event.semantics == Semantics::relaxed) {
        Knowledge only_inits;
        only_inits.inits = news.inits;
        news = std::move(only_inits);
      }
      phases[event.generation].join(news);
      return;
    }
    if (event.action != BarrierAction::wait_end || event.generation == 0) return;
    const auto found = phases.find(event.generation - 1);
    if (found != phases.end()) {
      const bool met = event.semantics != Semantics::relaxed && event.kind == BarrierKind::cta;
      warp.acquire(lanes, found->second, met);
    }
    // Nobody can come back to a phase before the last two.
    while (!phases.empty() && phases.begin()->first + 2 < event.generation) phases.erase(phases.begin());
  }

  void mbarrier(const emulator::MbarrierEvent& event) {
    Cluster& cluster = cluster_of(event.agent);
    WarpThreads& warp = warp_of(cluster, event.agent);
    Mbarrier& barrier = cluster.mbarriers[event.address];
    if (barrier.timeline == 0) barrier.timeline = new_timeline({event.agent.cluster, rank_of(event.address)});
    if (event.action == MbarrierAction::init) {
      if (barrier.live) {
        Finding found = finding("mbarrier.reinitialised", Severity::error, event.agent, event.site, Space::shared,
                                event.address, 8);
        found.message = "a live mbarrier is initialised again";
        found.fix = "initialise it once, or mbarrier.inval it before its memory is used for another purpose";
        found.other =
            Party{sites_[barrier.init_site], "initialises it", event.agent.cluster, event.agent.cta_rank, 0, 0};
        add(std::move(found));
      }
      barrier.live = true;
      barrier.base += static_cast<Time>(event.phase);
      barrier.arrivals.clear();
      barrier.init_on = warp.timeline();
      barrier.init_at = warp.now();
      barrier.init_lanes = event.agent.lanes;
      barrier.init_site = site_number(event.site);
      barrier.init_reported = false;
      return;
    }
    if (event.completed_by == 0) check_init_seen(event.agent, event.site, event.address, warp, barrier);
    if (barrier.ledger_phase != event.phase) {
      barrier.ledger_phase = event.phase;
      barrier.expected = barrier.completed = 0;
    }
    if (ctas_ > 1 && event.completed_by == 0) use_peer(cluster, event.agent, event.site, event.address);
    switch (event.action) {
      case MbarrierAction::invalidate:
        barrier.live = false;
        barrier.base += static_cast<Time>(event.phase);
        break;
      case MbarrierAction::arrive:
      case MbarrierAction::arrive_drop:
        if (event.completed_by != 0) {
          arrive_for_copies(cluster, event, barrier);
        } else if (event.semantics != Semantics::relaxed) {
          barrier.arrivals[event.phase].join(warp.publish(event.agent.lanes));
        }
        break;
      case MbarrierAction::expect_tx:
        barrier.expected += event.bytes;
        barrier.expect_site = site_number(event.site);
        barrier.expect_agent = event.agent;
        break;
      case MbarrierAction::complete_tx:
        barrier.completed += event.bytes;
        if (event.completed_by != 0) complete(cluster, event, barrier);
        break;
      case MbarrierAction::wait_success: {
        Knowledge news;
        for (const auto& [phase, arrivals] : barrier.arrivals) {
          if (phase < event.phase && event.semantics != Semantics::relaxed) news.join(arrivals);
        }
        news.seen.advance(barrier.timeline, kAllLanes, barrier.base + static_cast<Time>(event.phase));
        warp.acquire(event.agent.lanes, news, false);
        barrier.observed = std::max(barrier.observed, barrier.base + static_cast<Time>(event.phase));
        barrier.waits[warp_index(event.agent)] = {++serial_, site_number(event.site)};
        // What the phases before the last one brought is known to whoever completed it, in all sane programs; keeping
        // two costs little and loses nothing there.
        while (barrier.arrivals.size() > 4) {
          Knowledge oldest = std::move(barrier.arrivals.begin()->second);
          barrier.arrivals.erase(barrier.arrivals.begin());
          barrier.arrivals.begin()->second.join(oldest);
        }
        break;
      }
      default:
        break;
    }
  }

  // --- asynchronous operations
  void issue(const emulator::AsyncIssueEvent& event) {
    if (stopped_ || event.kind == AsyncKind::prefetch) return;
    Cluster& cluster = cluster_of(event.agent);
    WarpThreads& warp = warp_of(cluster, event.agent);
    if (event.kind == AsyncKind::wgmma) {
      issue_wgmma(cluster, warp, event);
      return;
    }
    Access access;
    access.timeline = warp.timeline();
    access.time = warp.now();
    access.site = site_number(event.site);
    access.proxy = event.kind == AsyncKind::cp_async ? ProxyKind::generic : ProxyKind::async;
    const Position position{event.agent.cluster, event.agent.cta_rank};
    const Knowledge knowledge = warp.publish(event.agent.lanes);
    const Context context{&knowledge, position};

    OperationInfo info;
    info.kind = event.kind;
    info.completion = event.completion;
    info.group = event.completion_target;
    info.site = access.site;
    info.agent = event.agent;
    info.phase = event.completion_phase;
    info.serial = ++serial_;
    Operation operation;
    const uint32_t index = warp_index(event.agent);
    switch (event.completion) {
      case Completion::cp_async_group:
        operation.per_lane = true;
        operation.reads_on = operation.writes_on = timeline_in(cluster.cp_async, index, position);
        operation.reads_at = operation.writes_at = static_cast<Time>(event.completion_target) + 1;
        remember_issue(cluster.cp_issued, event);
        break;
      case Completion::bulk_group:
        operation.reads_on = timeline_in(cluster.bulk_reads, index, position);
        operation.writes_on = timeline_in(cluster.bulk_writes, index, position);
        operation.per_lane = true;
        operation.reads_at = operation.writes_at = static_cast<Time>(event.completion_target) + 1;
        remember_issue(cluster.bulk_issued, event);
        break;
      default:
        break;
    }
    // One instruction of a whole warp that is the same for all lanes: the hardware executes it once.
    IssueKey key{event.site.instruction, warp.timeline(), same_work(event)};
    const bool repeated = key == last_issue_ && (last_issue_lanes_ & event.agent.lanes) == 0;
    last_issue_lanes_ = repeated ? last_issue_lanes_ | event.agent.lanes : event.agent.lanes;
    last_issue_ = key;
    std::vector<uint32_t>& numbers = cluster.operations[event.id];
    const auto enter = [&](uint64_t barrier) {
      if (event.completion == Completion::mbarrier) {
        info.group = barrier;
        if (const auto target = cluster.mbarriers.find(barrier); target != cluster.mbarriers.end())
          check_init_seen(event.agent, event.site, barrier, warp, target->second);
      }
      operations_.push_back(operation);
      infos_.push_back(info);
      numbers.push_back(static_cast<uint32_t>(operations_.size() - 1));
      return numbers.back();
    };
    access.operation = enter(event.completion_target);
    if (repeated) return;
    access.lanes = event.agent.lanes;
    const bool by_lane = event.kind == AsyncKind::cp_async;
    const auto lane_of = [&](size_t i) {
      uint32_t lanes = event.agent.lanes;
      for (; i != 0; --i) lanes &= lanes - 1;
      return lanes & (0u - lanes);
    };
    access.kind = AccessKind::read;
    if (event.tensor_map != 0) {
      // The map's 128 bytes are read through a proxy of their own, until the operation is complete.
      Access map = access;
      map.proxy = ProxyKind::tensor_map;
      OperationInfo of_map = info;
      of_map.tensor_map = true;
      operations_.push_back(operation);
      infos_.push_back(of_map);
      numbers.push_back(static_cast<uint32_t>(operations_.size() - 1));
      map.operation = numbers.back();
      global_->touch(context, map, event.tensor_map, 128);
    }
    const auto layout = static_cast<uint8_t>(1 + event.layout[0].swizzle_bytes / 16);
    for (size_t i = 0; i < event.reads.size(); ++i) {
      if (event.reads[i].bytes == 0) continue;
      if (by_lane) access.lanes = lane_of(i);
      shadow_of(cluster, event.source_space).touch(context, access, event.reads[i].address, event.reads[i].bytes);
    }
    const bool reduces = event.kind == AsyncKind::bulk_reduce || event.kind == AsyncKind::tensor_reduce ||
                         event.kind == AsyncKind::red_async;
    access.kind = reduces ? AccessKind::reduce : AccessKind::write;
    if (event.kind == AsyncKind::tensor_copy && event.destination_space == Space::shared) access.layout = layout;
    if (event.destination_space == Space::global) {
      for (const emulator::ByteRange& range : event.writes) {
        if (!outputs_.empty()) mark_output(range.address, range.bytes);
      }
    }
    for (size_t i = 0; i < event.writes.size(); ++i) {
      if (event.writes[i].bytes == 0) continue;
      if (by_lane) access.lanes = lane_of(i);
      if (event.completion == Completion::mbarrier && event.destination_space == Space::shared) {
        // With multicast each CTA's part completes on that CTA's barrier.
        const uint64_t barrier =
            (uint64_t{rank_of(event.writes[i].address)} << 24) | (event.completion_target & 0xffffff);
        if (barrier != infos_[access.operation].group) {
          access.operation = 0;
          for (const uint32_t number : numbers) {
            if (infos_[number].group == barrier) access.operation = number;
          }
          if (access.operation == 0) access.operation = enter(barrier);
        }
      }
      shadow_of(cluster, event.destination_space)
          .touch(context, access, event.writes[i].address, event.writes[i].bytes);
    }
    bound_memory(cluster);
  }

  void group_wait(const emulator::GroupWaitEvent& event) {
    last_issue_ = {};
    Cluster& cluster = cluster_of(event.agent);
    WarpThreads& warp = warp_of(cluster, event.agent);
    const uint32_t index = warp_index(event.agent);
    const Position position{event.agent.cluster, event.agent.cta_rank};
    const auto through = static_cast<Time>(event.group) + 1;
    std::vector<GroupWait>& waits = cluster.group_waits[{index, event.kind}];
    if (waits.size() >= kRememberedWaits) waits.erase(waits.begin(), waits.begin() + kRememberedWaits / 2);
    waits.push_back({++serial_, event.reads_only});
    const auto each_lane = [&](Timeline timeline) {
      warp.for_each_class(event.agent.lanes,
                          [&](LaneClass& one) { one.knowledge.seen.advance(timeline, one.lanes, through); });
    };
    switch (event.kind) {
      case Completion::cp_async_group:
        each_lane(timeline_in(cluster.cp_async, index, position));
        break;
      case Completion::bulk_group:
        each_lane(timeline_in(cluster.bulk_reads, index, position));
        if (!event.reads_only) each_lane(timeline_in(cluster.bulk_writes, index, position));
        break;
      case Completion::wgmma_group: {
        const uint32_t group = warpgroup_of(event.agent);
        auto& flying = cluster.registers[index].in_flight;
        if (!event.none) {
          std::erase_if(flying,
                        [&](const RegistersInFlight& one) { return one.committed && one.group <= event.group; });
        }
        for (RegistersInFlight& one : flying) {
          if (!one.committed && one.waited_for == 0) one.waited_for = site_number(event.site);
        }
        if (event.none) break;
        Knowledge news;
        // What the four warps knew when they issued: the hardware runs the operation when all have.
        for (auto it = cluster.wgmma_groups.lower_bound({group, 0});
             it != cluster.wgmma_groups.end() && it->first.first == group && it->first.second <= event.group;) {
          news.join(it->second);
          // The other warps of the warpgroup wait for it as well.
          if (it->first.second + 4 < event.group) {
            it = cluster.wgmma_groups.erase(it);
          } else {
            ++it;
          }
        }
        news.seen.advance(timeline_in(cluster.wgmma, group, position), kAllLanes, through);
        warp.acquire(event.agent.lanes, news, false);
        break;
      }
      default:
        break;
    }
  }

  /// A warp's lanes may use the shared memory of several CTAs at once.
  void use_peers(Cluster& cluster, const emulator::AccessEvent& event) {
    for (uint32_t rest = event.agent.lanes; rest != 0;) {
      const uint64_t address = event.addresses[std::countr_zero(rest)];
      Agent same_cta = event.agent;
      same_cta.lanes = 0;
      for (uint32_t others = rest; others != 0; others &= others - 1) {
        if (rank_of(event.addresses[std::countr_zero(others)]) == rank_of(address))
          same_cta.lanes |= others & (0u - others);
      }
      use_peer(cluster, same_cta, event.site, address);
      rest &= ~same_cta.lanes;
    }
  }

  /// `agent` uses the shared memory of the CTA that `address` belongs to.
  void use_peer(Cluster& cluster, const Agent& agent, Site site, uint64_t address) {
    const uint32_t rank = rank_of(address);
    if (rank == agent.cta_rank || rank >= cluster.ends.size()) return;
    CtaEnd& end = cluster.ends[rank];
    const WarpThreads& warp = warp_of(cluster, agent);
    if (end.live_warps == 0) {
      report_exit(agent, site, address, end.exit_site);
      return;
    }
    CtaEnd::Use& use = end.uses[warp.timeline()];
    if (use.time != warp.now()) use.lanes = 0;
    use = {use.lanes | agent.lanes, warp.now(), site_number(site), address};
  }

  void report_exit(const Agent& agent, Site site, uint64_t address, uint32_t exit_site) {
    Finding found = finding("sync.exit", Severity::error, agent, site, Space::shared, address, 1);
    found.party.what = "uses the shared memory of another CTA";
    found.message = "nothing keeps the other CTA from exiting before its shared memory is used";
    found.fix = "a cluster barrier after the last remote access, before any CTA of the cluster exits";
    found.other = Party{sites_[exit_site], "exits", agent.cluster, rank_of(address), 0, 0};
    add(std::move(found));
  }

  void end_lanes(Cluster& cluster, WarpThreads& warp, const Agent& agent, Site site) {
    CtaEnd& end = cluster.ends[agent.cta_rank];
    end.known.join(warp.publish(agent.lanes));
    uint32_t& live = end.live[agent.warp];
    live &= ~agent.lanes;
    if (live != 0 || --end.live_warps != 0) return;
    end.exit_site = site_number(site);
    for (const auto& [timeline, use] : end.uses) {
      if (end.known.seen.covers(timeline, use.lanes, use.time)) continue;
      const Place& place = timeline_places_[timeline];
      Agent user;
      user.cluster = agent.cluster;
      user.cta_rank = place.position.cta;
      user.warp = place.warp;
      user.lanes = use.lanes;
      report_exit(user, sites_[use.site], use.address, end.exit_site);
    }
  }

  void group_commit(const Agent& agent, Completion kind, uint64_t group) {
    if (kind != Completion::wgmma_group) return;
    for (RegistersInFlight& one : cluster_of(agent).registers[warp_index(agent)].in_flight) {
      if (one.group == group) one.committed = true;
    }
  }

  void registers(const emulator::RegisterEvent& event) {
    Cluster& cluster = cluster_of(event.agent);
    WarpRegisters& mine = cluster.registers[warp_index(event.agent)];
    const auto touches = [](const std::vector<uint32_t>& set, std::span<const uint32_t> some) {
      return std::any_of(some.begin(), some.end(),
                         [&](uint32_t reg) { return std::binary_search(set.begin(), set.end(), reg); });
    };
    for (RegistersInFlight& one : mine.in_flight) {
      const bool reads = touches(one.accumulators, event.reads);
      const bool writes = touches(one.accumulators, event.writes) || touches(one.fragments, event.writes);
      if (!reads && !writes) continue;
      const bool forgotten = !one.committed && one.waited_for != 0;
      Finding found = finding(forgotten ? "wgmma.not-committed" : "wgmma.in-flight", Severity::error, event.agent,
                              event.site, Space::registers, 0, 0);
      found.party.what = writes ? "writes a register of it" : "reads an accumulator of it";
      found.message = forgotten ? "the wgmma was never committed, so the wait that was executed does not cover it"
                                : "a register of a wgmma is touched before the wait that covers the wgmma";
      found.fix = forgotten ? "wgmma.commit_group after the last wgmma of the group, before wgmma.wait_group"
                            : "wgmma.commit_group and a wgmma.wait_group that covers it, before the registers are used";
      found.other = Party{sites_[one.site],     "is in flight",   event.agent.cluster,
                          event.agent.cta_rank, event.agent.warp, kAllLanes};
      if (forgotten) {
        found.party.site = sites_[one.waited_for];
        found.party.what = "waits, but not for this wgmma";
      }
      add(std::move(found));
    }
    const uint32_t site = site_number(event.site);
    for (const uint32_t reg : event.writes) mine.written[reg] = site;
  }

  void exited(const Agent& agent, Site site) {
    Cluster& cluster = cluster_of(agent);
    WarpThreads& warp = warp_of(cluster, agent);
    const uint32_t index = warp_index(agent);
    for (const RegistersInFlight& one : cluster.registers[index].in_flight) {
      Finding found = finding(one.committed ? "async.unfinished" : "wgmma.not-committed", Severity::error, agent,
                              sites_[one.site], Space::registers, 0, 0);
      found.message = one.committed ? "a warp exits while a wgmma it issued may still be in flight"
                                    : "a warp exits with a wgmma that was never committed";
      found.fix = "wgmma.commit_group and wgmma.wait_group 0 before the end";
      if (one.waited_for != 0) {
        found.other = found.party;
        found.party.site = sites_[one.waited_for];
        found.party.what = "waits";
      } else {
        found.other = Party{site, "exits", agent.cluster, agent.cta_rank, agent.warp, agent.lanes};
      }
      if (!one.committed && one.waited_for != 0)
        found.message = "a wgmma was never committed, so the wait that was executed does not cover it";
      add(std::move(found));
      break;
    }
    cluster.registers[index].in_flight.clear();
    end_lanes(cluster, warp, agent, site);
    for (uint32_t rest = agent.lanes; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(rest));
      warp.for_each_context(1u << lane, [&](uint32_t, const Knowledge& knowledge) {
        unwaited_groups(cluster, agent, site, lane, index, knowledge, cluster.bulk_issued, cluster.bulk_reads, "bulk");
        unwaited_groups(cluster, agent, site, lane, index, knowledge, cluster.cp_issued, cluster.cp_async, "cp.async");
      });
    }
  }

  void watch_output(std::string name, uint64_t address, uint64_t bytes, uint32_t element_bytes) {
    outputs_.push_back(
        {std::move(name), address, bytes, std::max(1u, element_bytes), std::vector<bool>(bytes, false), {}});
    outputs_.back().writers.resize(bytes / outputs_.back().element_bytes);
  }

  void finish_outputs() {
    for (const Output& output : outputs_) {
      uint64_t missing = 0, first = 0;
      for (uint64_t e = output.bytes / output.element_bytes; e-- > 0;) {
        bool written = true;
        for (uint32_t b = 0; b < output.element_bytes; ++b)
          written = written && output.written[e * output.element_bytes + b];
        if (written) continue;
        ++missing;
        first = e;
      }
      if (missing == 0) continue;
      Finding found;
      found.rule = "memory.unwritten";
      found.message = fmt::format("{} of {} elements of {} were never written; the first is element {}", missing,
                                  output.bytes / output.element_bytes, output.name, first);
      found.fix = "write every element of the output, the tail tiles too";
      found.space = Space::global;
      found.address = output.address + first * output.element_bytes;
      found.bytes = output.element_bytes;
      add(std::move(found));
    }
    outputs_.clear();
  }

  void undefined_use(const emulator::UndefinedEvent& event) { add(undefined_finding(event)); }

  std::vector<Finding> findings;
  uint64_t dropped = 0;
  std::set<std::string> unknown;

 private:
  struct IssueKey {
    uint32_t instruction = 0;
    Timeline warp = 0;
    uint64_t work = 0;
    bool operator==(const IssueKey&) const = default;
  };
  /// Equal for operations that move the same bytes to the same places.
  static uint64_t same_work(const emulator::AsyncIssueEvent& event) {
    uint64_t hash = event.completion_target * 0x9e3779b97f4a7c15ull + event.tensor_map;
    for (const auto* ranges : {&event.reads, &event.writes}) {
      for (const emulator::ByteRange& range : *ranges)
        hash = (hash ^ range.address) * 0x9e3779b97f4a7c15ull + range.bytes;
    }
    return hash;
  }
  static uint32_t rank_of(uint64_t shared_address) { return static_cast<uint32_t>(shared_address >> 24); }
  uint32_t warp_index(const Agent& agent) const { return agent.cta_rank * warps_per_cta_ + agent.warp; }
  uint32_t warpgroup_of(const Agent& agent) const {
    return agent.cta_rank * ((warps_per_cta_ + 3) / 4) + agent.warp / 4;
  }

  Cluster& cluster_of(const Agent& agent) {
    if (last_cluster_ != nullptr && last_cluster_->index == agent.cluster && clusters_.size() == last_count_)
      return *last_cluster_;
    std::unique_ptr<Cluster>& cluster = clusters_[agent.cluster];
    if (cluster == nullptr) {
      cluster = std::make_unique<Cluster>();
      cluster->index = agent.cluster;
      for (uint32_t cta = 0; cta < ctas_; ++cta) {
        for (uint32_t w = 0; w < warps_per_cta_; ++w) {
          const Timeline timeline = new_timeline({agent.cluster, cta}, w);
          cluster->warps.emplace_back(timeline, w + 1 == warps_per_cta_ ? last_lanes_ : kAllLanes, Knowledge{});
        }
      }
      cluster->ends.resize(ctas_);
      for (CtaEnd& end : cluster->ends) {
        end.live.assign(warps_per_cta_, kAllLanes);
        end.live.back() = last_lanes_;
        end.live_warps = warps_per_cta_;
      }
      cluster->shared = std::make_unique<Shadow>(
          ShadowSpace::shared, operations_, [this](Timeline t) { return position_of(t); },
          [this](const Report& report) { conflict(Space::shared, report); }, options_.crowd);
    }
    last_cluster_ = cluster.get();
    last_count_ = clusters_.size();
    return *cluster;
  }
  WarpThreads& warp_of(Cluster& cluster, const Agent& agent) { return cluster.warps[warp_index(agent)]; }

  struct Place {
    Position position;
    uint32_t warp = 0;
  };
  Timeline new_timeline(Position position, uint32_t warp = 0) {
    timeline_places_.push_back({position, warp});
    return next_timeline_++;
  }
  Position position_of(Timeline timeline) const { return timeline_places_[timeline].position; }
  Timeline timeline_in(std::map<uint32_t, Timeline>& timelines, uint32_t key, Position position) {
    Timeline& timeline = timelines[key];
    if (timeline == 0) timeline = new_timeline(position);
    return timeline;
  }
  Shadow& shadow_of(Cluster& cluster, Space space) { return space == Space::shared ? *cluster.shared : *global_; }

  uint32_t site_number(const Site& site) {
    const uint64_t key = (uint64_t{site.program} << 32) | site.instruction;
    auto [it, inserted] = site_numbers_.try_emplace(key, static_cast<uint32_t>(sites_.size()));
    if (inserted) sites_.push_back(site);
    return it->second;
  }

  /// Splits a warp's access into runs of lanes with consecutive addresses, and lanes that share an address.
  void cut(const Context& context, Access access, uint32_t lanes, const uint64_t* addresses, uint32_t bytes) {
    if (bytes == 0) return;
    const auto first = static_cast<unsigned>(std::countr_zero(lanes));
    bool all_same = true;
    for (uint32_t rest = lanes & (lanes - 1); rest != 0 && all_same; rest &= rest - 1)
      all_same = addresses[std::countr_zero(rest)] == addresses[first];
    if (all_same) {
      access.lanes = lanes;
      access.lane_shift = Access::kEveryLane;
      pieces_.push_back({context, access, addresses[first], bytes});
      return;
    }
    const bool sliceable = std::has_single_bit(bytes) && bytes <= 32;
    for (uint32_t rest = lanes; rest != 0;) {
      const auto lane = static_cast<unsigned>(std::countr_zero(rest));
      unsigned count = 1;
      while (sliceable && lane + count < 32 && (rest >> (lane + count) & 1) != 0 &&
             addresses[lane + count] == addresses[lane] + uint64_t{count} * bytes) {
        ++count;
      }
      if (count > 1 && addresses[lane] % bytes == 0) {
        access.first_lane = static_cast<int8_t>(lane);
        access.lane_shift = static_cast<uint8_t>(std::countr_zero(bytes));
        pieces_.push_back({context, access, addresses[lane], bytes * count});
        rest &= count == 32 ? 0u : ~(((1u << count) - 1u) << lane);
        continue;
      }
      uint32_t same = 0;
      for (uint32_t others = rest; others != 0; others &= others - 1) {
        const auto other = static_cast<unsigned>(std::countr_zero(others));
        if (addresses[other] == addresses[lane]) same |= 1u << other;
      }
      access.lanes = same;
      access.lane_shift = Access::kEveryLane;
      pieces_.push_back({context, access, addresses[lane], bytes});
      rest &= ~same;
    }
  }

  /// Lanes in order touch bytes in order: no two of them the same ones.
  static bool disjoint(const emulator::AccessEvent& event) {
    uint64_t end = 0;
    for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
      const uint64_t address = event.addresses[std::countr_zero(rest)];
      if (address < end) return false;
      end = address + event.bytes;
    }
    return true;
  }

  // --- strong locations
  uint64_t location_key(const emulator::AccessEvent& event, unsigned lane) const {
    // Shared addresses are far below global ones; clusters have different shared memories.
    return event.space == Space::shared ? (uint64_t{event.agent.cluster} << 34) | event.addresses[lane] | (1ull << 63)
                                        : event.addresses[lane];
  }

  void acquire_locations(const emulator::AccessEvent& event, WarpThreads& warp, const Position& position, Reach reach) {
    if (locations_.empty()) return;
    for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(rest));
      const auto found = locations_.find(location_key(event, lane));
      if (found == locations_.end()) continue;
      for (const Release& release : found->second) {
        if (!within(release.reach, release.position, position) || !within(reach, position, release.position)) {
          warp.for_each_class(1u << lane, [&](LaneClass& one) { one.knowledge.narrow.join(release.knowledge.seen); });
          continue;
        }
        if (acquires(event.semantics)) {
          warp.acquire(1u << lane, release.knowledge, false);
        } else {
          warp.for_each_class(1u << lane, [&](LaneClass& one) {
            if (!one.observed) one.observed.emplace();
            one.observed->join(release.knowledge);
          });
        }
      }
    }
  }

  void publish_locations(const emulator::AccessEvent& event, WarpThreads& warp, const Position& position, Reach reach,
                         bool atomic) {
    if (reach == Reach::none && locations_.empty()) return;
    std::optional<Knowledge> released;
    if (releases(event.semantics)) released = warp.publish(event.agent.lanes);
    for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(rest));
      const uint64_t key = location_key(event, lane);
      const auto found = locations_.find(key);
      // Only read-modify-write operations continue what earlier releases handed on.
      if (found != locations_.end() && !atomic) found->second.clear();
      if (reach == Reach::none) continue;
      Release release;
      release.position = position;
      release.reach = reach;
      if (released) {
        release.knowledge = *released;
      } else {
        bool fenced = false;
        warp.for_each_class(1u << lane, [&](LaneClass& one) {
          if (!one.released) return;
          fenced = true;
          release.knowledge = *one.released;
          release.reach = std::min(reach, one.released_reach);
        });
        if (!fenced) continue;
      }
      std::vector<Release>& releases = locations_[key];
      const auto same = std::find_if(releases.begin(), releases.end(), [&](const Release& other) {
        return other.reach == release.reach && other.position.cluster == position.cluster &&
               other.position.cta == position.cta;
      });
      if (same != releases.end()) {
        same->knowledge.join(release.knowledge);
      } else {
        releases.push_back(std::move(release));
      }
    }
  }

  // --- mbarriers
  void check_init_seen(const Agent& agent, const Site& site, uint64_t address, WarpThreads& warp, Mbarrier& barrier) {
    if (!barrier.live || barrier.init_reported || barrier.init_on == 0) return;
    warp.for_each_context(agent.lanes, [&](uint32_t lanes, const Knowledge& knowledge) {
      if (barrier.init_reported) return;
      if (barrier.init_on == warp.timeline() && (lanes & ~barrier.init_lanes) == 0) return;
      if (knowledge.seen.covers(barrier.init_on, barrier.init_lanes, barrier.init_at) ||
          knowledge.inits.covers(barrier.init_on, barrier.init_lanes, barrier.init_at)) {
        return;
      }
      barrier.init_reported = true;
      Finding found = finding("mbarrier.init-not-visible", Severity::error, agent, site, Space::shared, address, 8);
      found.message = "the mbarrier is used by a thread that nothing orders after its initialisation";
      found.fix = ctas_ > 1 ? "after mbarrier.init: fence.mbarrier_init.release.cluster, then a cluster barrier that "
                              "every user waits for"
                            : "put a block barrier (__syncthreads) between mbarrier.init and the first use";
      found.other = party_of(barrier.init_on, barrier.init_lanes, barrier.init_site, "initialises it");
      add(std::move(found));
    });
  }

  void arrive_for_copies(Cluster& cluster, const emulator::MbarrierEvent& event, Mbarrier& barrier) {
    // cp.async.mbarrier.arrive: the copies its thread had issued are complete for whoever waits.
    Knowledge news;
    const uint32_t index = warp_index(event.agent);
    for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(rest));
      const auto issued = cluster.cp_issued.find({index, lane});
      if (issued == cluster.cp_issued.end()) continue;
      news.seen.advance(timeline_in(cluster.cp_async, index, {event.agent.cluster, event.agent.cta_rank}), 1u << lane,
                        static_cast<Time>(issued->second));
      handed_over_.insert({event.agent.cluster, index, lane});
    }
    barrier.arrivals[event.phase].join(news);
  }

  void complete(Cluster& cluster, const emulator::MbarrierEvent& event, Mbarrier& barrier) {
    const auto found = cluster.operations.find(event.completed_by);
    if (found == cluster.operations.end()) return;
    for (const uint32_t number : found->second) {
      if (infos_[number].group != event.address) continue;
      const OperationInfo& info = infos_[number];
      if (event.phase > info.phase && !info.tensor_map && rank_of(event.address) == info.agent.cta_rank) {
        Finding late = finding("mbarrier.tx-mismatch", Severity::error, info.agent, sites_[info.site], Space::shared,
                               event.address, 8);
        late.party.what = fmt::format("{} brings {} bytes", name_of(info.kind), event.bytes);
        late.message =
            "bytes arrive after the phase they were asked for was over: the phase expected fewer bytes than its copies "
            "bring";
        late.fix = "let expect_tx announce the bytes of all copies that complete on this barrier in the phase";
        if (barrier.expect_site != 0) {
          late.other = Party{sites_[barrier.expect_site],   "announces the bytes",     barrier.expect_agent.cluster,
                             barrier.expect_agent.cta_rank, barrier.expect_agent.warp, barrier.expect_agent.lanes};
          std::swap(late.party, *late.other);
        }
        add(std::move(late));
      }
      Operation& operation = operations_[number];
      operation.reads_on = operation.writes_on = barrier.timeline;
      operation.reads_at = operation.writes_at = barrier.base + static_cast<Time>(event.phase) + 1;
    }
  }

  // --- wgmma
  void issue_wgmma(Cluster& cluster, WarpThreads& warp, const emulator::AsyncIssueEvent& event) {
    const uint32_t group = warpgroup_of(event.agent);
    check_registers(cluster, event);
    const uint64_t sequence = cluster.wgmma_sequence[warp_index(event.agent)]++;
    WarpgroupIssue& issue = cluster.wgmma_issues[{group, sequence}];
    Access access;
    access.timeline = warp.timeline();
    access.time = warp.now();
    access.site = site_number(event.site);
    access.proxy = ProxyKind::async;
    access.lanes = kAllLanes;
    issue.knowledge.join(warp.publish(kAllLanes));
    const uint32_t first = event.agent.warp / 4 * 4;
    const uint32_t wanted = std::min(4u, warps_per_cta_ - first);
    if (++issue.warps < wanted) return;
    const Position position{event.agent.cluster, event.agent.cta_rank};
    Operation operation;
    operation.reads_on = operation.writes_on = timeline_in(cluster.wgmma, group, position);
    operation.reads_at = operation.writes_at = static_cast<Time>(event.completion_target) + 1;
    OperationInfo info;
    info.kind = event.kind;
    info.completion = event.completion;
    info.group = event.completion_target;
    info.site = access.site;
    info.agent = event.agent;
    info.serial = ++serial_;
    operations_.push_back(operation);
    infos_.push_back(info);
    access.operation = static_cast<uint32_t>(operations_.size() - 1);
    const Context context{&issue.knowledge, position};
    for (size_t i = 0; i < event.reads.size(); ++i) {
      access.layout = static_cast<uint8_t>(1 + event.layout[i < event.a_reads ? 0 : 1].swizzle_bytes / 16);
      cluster.shared->touch(context, access, event.reads[i].address, event.reads[i].bytes);
    }
    cluster.wgmma_groups[{group, event.completion_target}].join(issue.knowledge);
    cluster.wgmma_issues.erase({group, sequence});
    bound_memory(cluster);
  }

  void check_registers(Cluster& cluster, const emulator::AsyncIssueEvent& event) {
    WarpRegisters& mine = cluster.registers[warp_index(event.agent)];
    RegistersInFlight issued;
    issued.group = event.completion_target;
    issued.site = site_number(event.site);
    for (const emulator::ByteRange& reg : event.writes)
      issued.accumulators.push_back(static_cast<uint32_t>(reg.address));
    for (const emulator::ByteRange& reg : event.register_reads)
      issued.fragments.push_back(static_cast<uint32_t>(reg.address));
    std::sort(issued.accumulators.begin(), issued.accumulators.end());
    std::sort(issued.fragments.begin(), issued.fragments.end());
    if (!mine.written.empty()) {
      for (const auto* set : {&issued.accumulators, &issued.fragments}) {
        for (const uint32_t reg : *set) {
          const auto written = mine.written.find(reg);
          if (written == mine.written.end()) continue;
          Finding found = finding("wgmma.fence", Severity::error, event.agent, event.site, Space::registers, 0, 0);
          found.party.what = set == &issued.fragments ? "uses the register as A" : "uses the register as accumulator";
          found.message =
              "a register of this wgmma was written by an ordinary instruction, with no wgmma.fence in between";
          found.fix = "wgmma.fence.sync.aligned between the write and the wgmma";
          found.other = Party{sites_[written->second], "writes the register", event.agent.cluster,
                              event.agent.cta_rank,    event.agent.warp,      kAllLanes};
          add(std::move(found));
          mine.written.clear();
          break;
        }
        if (mine.written.empty()) break;
      }
    }
    // Batches on the same accumulators are one piece of work.
    for (RegistersInFlight& one : mine.in_flight) {
      if (one.group == issued.group && one.accumulators == issued.accumulators && one.fragments == issued.fragments) {
        one.site = issued.site;
        return;
      }
    }
    mine.in_flight.push_back(std::move(issued));
  }

  void mark_writers(const emulator::AccessEvent& event, const WarpThreads& warp, uint32_t site, bool plain) {
    for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
      for (Output& output : outputs_) {
        if (event.addresses[lane] < output.address || event.addresses[lane] >= output.address + output.bytes) continue;
        const uint64_t first = (event.addresses[lane] - output.address) / output.element_bytes;
        const uint64_t last = (event.addresses[lane] - output.address + event.bytes - 1) / output.element_bytes;
        for (uint64_t e = first; e <= last && e < output.writers.size(); ++e) {
          Output::Writer& writer = output.writers[e];
          const bool other = writer.timeline != 0 && (writer.timeline != warp.timeline() || writer.lane != lane);
          if (other && writer.plain && plain) {
            Agent agent = event.agent;
            agent.lanes = 1u << lane;
            Finding found = finding("memory.doubly-written", Severity::note, agent, event.site, Space::global,
                                    event.addresses[lane], event.bytes);
            found.party.what = "writes again";
            found.message = "an output element is written by more than one thread";
            found.fix = "let one thread own each element";
            found.other = party_of(writer.timeline, 1u << writer.lane, writer.site, "wrote it before");
            add(std::move(found));
          }
          writer = {warp.timeline(), lane, site, plain};
        }
      }
    }
  }

  /// A value that was read is built upon: what is written next is no second opinion.
  void forget_writers(const emulator::AccessEvent& event) {
    for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
      const uint64_t address = event.addresses[std::countr_zero(rest)];
      for (Output& output : outputs_) {
        if (address < output.address || address >= output.address + output.bytes) continue;
        const uint64_t first = (address - output.address) / output.element_bytes;
        const uint64_t last = (address - output.address + event.bytes - 1) / output.element_bytes;
        for (uint64_t e = first; e <= last && e < output.writers.size(); ++e) output.writers[e] = {};
      }
    }
  }

  void mark_output(uint64_t address, uint64_t bytes) {
    for (Output& output : outputs_) {
      const uint64_t begin = std::max(address, output.address);
      const uint64_t end = std::min(address + bytes, output.address + output.bytes);
      for (uint64_t at = begin; at < end; ++at) output.written[at - output.address] = true;
    }
  }

  // --- findings
  static void remember_issue(std::map<std::tuple<uint32_t, unsigned>, uint64_t>& issued,
                             const emulator::AsyncIssueEvent& event, uint32_t index) {
    for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1)
      issued[{index, static_cast<unsigned>(std::countr_zero(rest))}] = event.completion_target + 1;
  }
  void remember_issue(std::map<std::tuple<uint32_t, unsigned>, uint64_t>& issued,
                      const emulator::AsyncIssueEvent& event) {
    remember_issue(issued, event, warp_index(event.agent));
  }

  void unwaited_groups(Cluster& cluster, const Agent& agent, Site site, unsigned lane, uint32_t index,
                       const Knowledge& knowledge, std::map<std::tuple<uint32_t, unsigned>, uint64_t>& issued,
                       std::map<uint32_t, Timeline>& timelines, const char* what) {
    const auto found = issued.find({index, lane});
    if (found == issued.end()) return;
    const auto timeline = timelines.find(index);
    if (timeline == timelines.end()) return;
    if (knowledge.seen.covers(timeline->second, 1u << lane, static_cast<Time>(found->second))) return;
    if (&timelines == &cluster.cp_async && handed_over_.contains({agent.cluster, index, lane})) return;
    Agent one = agent;
    one.lanes = 1u << lane;
    Finding result = finding("async.unfinished", Severity::error, one, site, Space::shared, 0, 0);
    result.message = fmt::format("a thread exits while {} copies it issued may still be in flight", what);
    result.fix = std::string(what) == "bulk"
                     ? "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read 0 before the end"
                     : "cp.async.wait_all before the end";
    for (size_t i = infos_.size(); i-- > 1;) {
      const OperationInfo& info = infos_[i];
      if (info.agent.cluster == agent.cluster && info.agent.cta_rank == agent.cta_rank &&
          info.agent.warp == agent.warp && (info.agent.lanes >> lane & 1) != 0 &&
          info.completion != Completion::mbarrier) {
        result.other = Party{sites_[info.site], fmt::format("{} issued", name_of(info.kind)),
                             agent.cluster,     agent.cta_rank,
                             agent.warp,        info.agent.lanes};
        // The operation is what has to be waited for: it is the place to look at.
        std::swap(result.party, *result.other);
        break;
      }
    }
    issued.erase(found);
    add(std::move(result));
  }

  void unfinished(const OperationInfo& info) {
    Finding result =
        finding("async.unfinished", Severity::error, info.agent, sites_[info.site], Space::shared, info.group, 8);
    result.message =
        fmt::format("the kernel ends while a {} that signals this mbarrier is still in flight", name_of(info.kind));
    result.fix = "wait for the mbarrier's phase before the threads exit";
    add(std::move(result));
  }

  Party party_of(Timeline timeline, uint32_t lanes, uint32_t site, std::string what) const {
    const Place& place = timeline_places_[timeline];
    return {sites_[site], std::move(what), place.position.cluster, place.position.cta, place.warp, lanes};
  }

  std::string describe(const Access& access) const {
    const char* verb = access.kind == AccessKind::read    ? "reads"
                       : access.kind == AccessKind::write ? "writes"
                                                          : "updates";
    if (access.operation != 0) return fmt::format("{} {}", name_of(infos_[access.operation].kind), verb);
    return verb;
  }

  void conflict(Space space, const Report& report) {
    std::string rule, message, fix;
    Severity severity = Severity::error;
    const Access &earlier = report.earlier, &later = report.later;
    const Position from = position_of(earlier.timeline), to = position_of(later.timeline);
    switch (report.conflict) {
      case Conflict::race:
        if (space == Space::global) {
          rule = earlier.timeline == later.timeline ? "race.warp" : "race.global";
        } else if (from.cta != to.cta) {
          rule = "race.cluster";
        } else {
          rule = earlier.timeline == later.timeline && later.operation == 0 ? "race.warp" : "race.shared";
        }
        message = "two accesses to the same bytes, one of them a write, and nothing orders them";
        fix = rule == "race.warp"      ? "put bar.warp.sync (__syncwarp) between them"
              : rule == "race.cluster" ? "put a cluster barrier between them"
              : rule == "race.shared"
                  ? (later.operation != 0
                         ? "let the issuing thread wait (barrier or mbarrier) for the earlier access before it issues "
                           "the operation"
                         : "put a barrier between them (__syncthreads, or the mbarrier that hands the buffer over)")
                  : "order them: a release/acquire hand-off, or one kernel after the other";
        break;
      case Conflict::equal_writes:
        rule = "race.equal-writes";
        severity = Severity::note;
        message = "two writes race, but of equal bytes";
        fix = "let one thread write, or ignore this note if the value is the same by design";
        break;
      case Conflict::layout:
        rule = "wgmma.layout";
        message = fmt::format("the copy wrote the tile with a {}-byte swizzle, the wgmma descriptor reads it with {}",
                              (earlier.layout - 1) * 16, (later.layout - 1) * 16);
        fix = "use the same swizzle in the tensor map and in the descriptor";
        break;
      case Conflict::scope:
        rule = "race.scope";
        message = "the scope of a fence, release, acquire or atomic does not reach the thread on the other side";
        fix = from.cluster != to.cluster ? "use .gpu scope" : "use .cluster scope";
        break;
      case Conflict::read_only_path:
        rule = "race.readonly";
        message =
            "ld.global.nc reads bytes that the same kernel writes: it may return old data even after synchronisation";
        fix = "load them with an ordinary ld (no const __restrict__, no __ldg)";
        break;
      case Conflict::unfenced:
        if (later.proxy == ProxyKind::tensor_map) {
          rule = "proxy.tensor-map";
          message =
              "the tensor map was written on the device and no tensor-map fence makes the change known to its proxy";
          fix =
              "fence.proxy.tensormap::generic.release after the change; fence.proxy.tensormap::generic.acquire [map], "
              "128 by the thread that uses it";
          break;
        }
        rule = unfenced_rule(space, report);
        // Both Triton and CUTLASS feed wgmma through cp.async without a fence; the ISA asks for one.
        if (earlier.operation != 0) severity = options_.pedantic ? Severity::warning : Severity::note;
        message =
            rule == "proxy.fence-space" ? "a proxy fence lies between these generic writes and the operation, but it "
                                          "names another state space"
            : rule == "proxy.fence-early"
                ? "a proxy fence was executed, but before its thread knew of these generic writes: it does not cover "
                  "them"
                : "the async proxy is not made aware of these generic writes: no proxy fence lies between them and the "
                  "operation";
        fix =
            space == Space::shared
                ? "fence.proxy.async.shared::cta by the writing threads, before the barrier that leads to the operation"
                : "fence.proxy.async.global by the writing threads, before the barrier that leads to the operation";
        break;
      case Conflict::fence_by_other:
        rule = "proxy.fence-late";
        severity = options_.pedantic ? Severity::warning : Severity::note;
        message = "the only proxy fence is executed by another thread than the writer, after they synchronised";
        fix = "let the writing threads execute fence.proxy.async before the barrier";
        break;
      case Conflict::in_flight_read:
        rule = in_flight_rule(earlier, later, "async.unwaited-read");
        message =
            rule == "mbarrier.stale-phase"
                ? "a wait on the mbarrier succeeded, but for a phase that was over before this operation was issued"
            : rule == "async.wrong-group" ? "the group wait that was executed leaves this operation's group in flight"
            : rule == "async.read-wait"
                ? "only a .read wait was executed: it frees the source and says nothing about the writes"
                : "bytes are read that an operation in flight is writing: its completion was not observed";
        fix = wait_advice(earlier);
        break;
      case Conflict::in_flight_overwrite:
        rule = infos_[earlier.operation].tensor_map ? "race.tensor-map"
                                                    : in_flight_rule(earlier, later, "async.overwritten");
        message = fmt::format("bytes are overwritten that an operation in flight still {}",
                              earlier.writes() ? "writes" : "reads");
        fix = wait_advice(earlier);
        break;
    }
    Finding result;
    result.rule = std::move(rule);
    result.severity = severity;
    result.message = std::move(message);
    result.fix = std::move(fix);
    result.party = party_of(later.timeline, later.lanes, later.site, describe(later));
    result.other = party_of(earlier.timeline, earlier.lanes, earlier.site, describe(earlier));
    if (result.rule == "mbarrier.stale-phase") {
      // The access is where it shows; the wait is what is wrong.
      const OperationInfo& info = infos_[earlier.operation];
      const Place& place = timeline_places_[later.timeline];
      const auto& waits = clusters_.at(info.agent.cluster)->mbarriers.at(info.group).waits;
      const auto wait = waits.find(place.position.cta * warps_per_cta_ + place.warp);
      if (wait != waits.end()) {
        result.party.site = sites_[wait->second.second];
        result.party.what = "waits and succeeds at once";
      }
    }
    result.space = space;
    result.address = report.address;
    result.bytes = report.bytes;
    result.launch = launch_.launch;
    add(std::move(result));
  }

  std::string unfenced_rule(Space space, const Report& report) const {
    if (report.other_space_fenced) return "proxy.fence-space";
    const std::set<Timeline>& fenced = fenced_[space == Space::shared ? 0 : 1];
    const bool some = fenced.contains(report.earlier.timeline) || fenced.contains(report.later.timeline);
    return some ? "proxy.fence-early" : "proxy.async";
  }

  /// What the threads did instead of the wait that was needed, if that tells more.
  std::string in_flight_rule(const Access& earlier, const Access& later, const char* otherwise) {
    const OperationInfo& info = infos_[earlier.operation];
    const auto found = clusters_.find(info.agent.cluster);
    if (found == clusters_.end()) return otherwise;
    Cluster& cluster = *found->second;
    if (info.completion == Completion::mbarrier) {
      const auto barrier = cluster.mbarriers.find(info.group);
      const Place& place = timeline_places_[later.timeline];
      if (barrier == cluster.mbarriers.end() || place.position.cluster != info.agent.cluster) return otherwise;
      const auto wait = barrier->second.waits.find(place.position.cta * warps_per_cta_ + place.warp);
      return wait != barrier->second.waits.end() && wait->second.first > info.serial ? "mbarrier.stale-phase"
                                                                                     : otherwise;
    }
    const auto waits = cluster.group_waits.find({warp_index(info.agent), info.completion});
    if (waits == cluster.group_waits.end()) return otherwise;
    const auto wait = std::find_if(waits->second.begin(), waits->second.end(),
                                   [&](const GroupWait& one) { return one.serial > info.serial; });
    if (wait == waits->second.end()) return otherwise;
    // A wait came after the issue: either it did not reach far enough, or its news did not get to the other thread.
    if (wait->reads_only && earlier.writes()) return "async.read-wait";
    if (later.timeline == earlier.timeline) return "async.wrong-group";
    const Operation& operation = operations_[earlier.operation];
    const Timeline on = earlier.writes() ? operation.writes_on : operation.reads_on;
    const Time at = earlier.writes() ? operation.writes_at : operation.reads_at;
    bool known_to_issuer = false;
    cluster.warps[warp_index(info.agent)].for_each_context(earlier.lanes, [&](uint32_t, const Knowledge& knowledge) {
      known_to_issuer =
          known_to_issuer || knowledge.seen.covers(on, operation.per_lane ? earlier.lanes : kAllLanes, at);
    });
    return known_to_issuer ? otherwise : "async.wrong-group";
  }

  std::string wait_advice(const Access& earlier) const {
    const OperationInfo& info = infos_[earlier.operation];
    switch (info.completion) {
      case Completion::mbarrier:
        return "wait for the phase of the mbarrier that the operation completes on, with the right parity";
      case Completion::bulk_group:
        return earlier.writes() ? "cp.async.bulk.wait_group (not .read) by the issuing thread, then a barrier"
                                : "cp.async.bulk.wait_group.read by the issuing thread, then a barrier";
      case Completion::cp_async_group:
        return "cp.async.wait_group with a count that covers the copy, then a barrier";
      case Completion::wgmma_group:
        return "wgmma.wait_group with a count that covers it before the buffer is handed back";
      default:
        return "wait for the operation";
    }
  }

  Finding finding(std::string rule, Severity severity, const Agent& agent, Site site, Space space, uint64_t address,
                  uint32_t bytes) const {
    Finding result;
    result.rule = std::move(rule);
    result.severity = severity;
    result.party = {site, "", agent.cluster, agent.cta_rank, agent.warp, agent.lanes};
    result.space = space;
    result.address = address;
    result.bytes = bytes;
    result.launch = launch_.launch;
    return result;
  }

  void add(Finding found) {
    const auto number = [](const Site& site) { return (uint64_t{site.program} << 32) | site.instruction; };
    const auto key = std::tuple(found.rule, number(found.party.site), found.other ? number(found.other->site) : ~0ull);
    const auto [it, inserted] = known_.try_emplace(key, findings.size());
    if (!inserted) {
      if (it->second < findings.size()) ++findings[it->second].occurrences;
      return;
    }
    if (findings.size() >= options_.max_findings) {
      ++dropped;
      return;
    }
    findings.push_back(std::move(found));
    if (options_.on_found) options_.on_found(findings.back());
  }

  void bound_memory(const Cluster& cluster) {
    if ((++touches_ & 0xfff) != 0) return;
    size_t bytes =
        global_->memory() + cluster.shared->memory() + operations_.size() * (sizeof(Operation) + sizeof(OperationInfo));
    if (clusters_.size() > 1) bytes += (clusters_.size() - 1) * cluster.shared->memory();
    if (bytes < options_.shadow_bytes) return;
    stopped_ = true;
    unknown.insert(fmt::format("the shadow state reached its bound of {} MiB: later accesses were not checked",
                               options_.shadow_bytes >> 20));
  }

  CheckerOptions options_;
  emulator::LaunchEvent launch_;
  uint32_t ctas_ = 1, warps_per_cta_ = 1, last_lanes_ = kAllLanes;
  std::map<uint32_t, std::unique_ptr<Cluster>> clusters_;
  Cluster* last_cluster_ = nullptr;
  size_t last_count_ = 0;
  std::unique_ptr<Shadow> global_;
  std::vector<Operation> operations_;
  std::vector<OperationInfo> infos_;
  Timeline next_timeline_ = 1;
  std::vector<Place> timeline_places_;
  std::unordered_map<uint64_t, std::vector<Release>> locations_;
  std::unordered_map<uint64_t, uint32_t> site_numbers_;
  std::vector<Site> sites_;
  std::set<Timeline> fenced_[2];  ///< warps that executed a proxy fence: of shared, of global memory
  std::vector<Output> outputs_;
  std::set<uint64_t> streams_;
  uint64_t serial_ = 0;
  IssueKey last_issue_;
  uint32_t last_issue_lanes_ = 0;
  std::set<std::tuple<uint32_t, uint32_t, unsigned>> handed_over_;
  std::map<std::tuple<std::string, uint64_t, uint64_t>, size_t> known_;
  struct Piece {
    Context context;
    Access access;
    uint64_t address = 0;
    uint32_t bytes = 0;
  };
  std::vector<Piece> pieces_;  ///< of the access at hand
  uint64_t touches_ = 0;
  bool stopped_ = false;
};

Checker::Checker(CheckerOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Checker::~Checker() = default;

void Checker::on_launch_begin(const emulator::LaunchEvent& event) { state_->launch_begin(event); }
void Checker::on_launch_end(const emulator::LaunchEvent&) { state_->launch_end(); }
void Checker::on_access(const emulator::AccessEvent& event) { state_->access(event); }
void Checker::on_fence(const emulator::FenceEvent& event) { state_->fence(event); }
void Checker::on_barrier(const emulator::BarrierEvent& event) { state_->barrier(event); }
void Checker::on_mbarrier(const emulator::MbarrierEvent& event) { state_->mbarrier(event); }
void Checker::on_async_issue(const emulator::AsyncIssueEvent& event) { state_->issue(event); }
void Checker::on_async_effect(uint64_t, emulator::AsyncEffect) {}
void Checker::on_registers(const emulator::RegisterEvent& event) { state_->registers(event); }
void Checker::on_group_commit(const Agent& agent, Site, Completion kind, uint64_t group) {
  state_->group_commit(agent, kind, group);
}
void Checker::watch_output(std::string name, uint64_t address, uint64_t bytes, uint32_t element_bytes) {
  state_->watch_output(std::move(name), address, bytes, element_bytes);
}
void Checker::finish_outputs() { state_->finish_outputs(); }
void Checker::on_group_wait(const emulator::GroupWaitEvent& event) { state_->group_wait(event); }
void Checker::on_undefined_use(const emulator::UndefinedEvent& event) { state_->undefined_use(event); }
void Checker::on_exit(const Agent& agent, Site site) { state_->exited(agent, site); }
const std::vector<Finding>& Checker::findings() const { return state_->findings; }
uint64_t Checker::findings_dropped() const { return state_->dropped; }
const std::set<std::string>& Checker::unknown() const { return state_->unknown; }

}  // namespace ptxbench::checker
