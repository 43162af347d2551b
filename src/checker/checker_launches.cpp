#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "checker/checker_state.h"

namespace ptxbench::checker {

void Checker::State::launch_begin(const emulator::LaunchEvent& event) {
  launch_ = event;
  ctas_ = std::max(1u, event.cluster[0]) * std::max(1u, event.cluster[1]) * std::max(1u, event.cluster[2]);
  const uint32_t threads = event.block[0] * event.block[1] * event.block[2];
  warps_per_cta_ = (threads + 31) / 32;
  last_lanes_ = threads % 32 == 0 ? kAllLanes : (1u << (threads % 32)) - 1;
  clusters_.clear();
  running_ = 0;
  operations_.resize(1);
  infos_.resize(1);
  timeline_places_.assign(1, {});
  locations_.clear();
  for (Output& output : outputs_) std::fill(output.writers.begin(), output.writers.end(), Output::Writer{});
  fenced_[0].clear();
  fenced_[1].clear();
  last_cluster_ = nullptr;
  meet_earlier(event.order);
  begin_overlaps();
  // What the launch comes after needs no shadow.
  global_ = std::make_unique<Shadow>(
      ShadowSpace::global, operations_, [this](Timeline t) { return position_of(t); },
      [this](const Report& report) { conflict(Space::global, report); }, options_.crowd);
}

void Checker::State::launch_end() {
  for (auto& [index, cluster] : clusters_) {
    if (!cluster->over) finish_cluster(*cluster);
  }
  // Workers whose part was taken back left the launch to this state.
  if (!clusters_.empty()) worker_parts_.clear();
  clusters_.clear();
  EarlierWork work;
  work.launch = launch_.launch;
  work.global = std::move(global_);
  work.places = std::move(timeline_places_);
  work.infos = std::move(infos_);
  work.parameters = launch_.parameters;
  work.triggered = triggered_;
  work.waited = waited_before_triggers();
  if (order_ && order_->known) keep_releases(work);
  if (proved_) {
    work.proved = true;
    work.global.reset();
    work.what = "an earlier kernel";
    work.writes = std::move(proved_writes_);
  }
  timeline_places_.assign(1, {});
  infos_.assign(1, {});
  const emulator::StreamOrder* order = order_ ? &*order_ : nullptr;
  if (worker_parts_.empty()) keep_earlier(std::move(work), order);
  for (EarlierWork& part : worker_parts_) {
    part.launch = launch_.launch;
    keep_earlier(std::move(part), order);
  }
  worker_parts_.clear();
  overlaps_.clear();
}

void Checker::State::proved(std::span<const emulator::ByteRange> written) {
  worker_parts_.clear();  // of examples: the launch as a whole is known by what it wrote
  keep_proved(written);
  if (outputs_.empty()) return;
  for (const emulator::ByteRange& range : written) mark_output(range.address, range.bytes);
}

std::vector<std::unique_ptr<Checker::State>> Checker::State::fork(unsigned workers, bool outputs) const {
  constexpr uint64_t kMaxOutput = uint64_t{16} << 20;  // who wrote an element takes several times its size
  uint64_t watched = 0;
  for (const Output& output : outputs_) watched += output.bytes;
  std::vector<std::unique_ptr<State>> states;
  if (!options_.accept_workers || stopped_ || !alone() || (outputs && watched > kMaxOutput)) return states;
  for (unsigned w = 0; w < workers; ++w) {
    CheckerOptions options = options_;
    options.on_found = nullptr;
    options.shadow_bytes /= workers;
    states.push_back(std::make_unique<State>(std::move(options)));
    if (outputs) states.back()->outputs_ = outputs_;
    states.back()->launch_begin(launch_);
  }
  return states;
}

bool Checker::State::join(const std::vector<std::unique_ptr<State>>& workers) {
  std::vector<const Shadow*> shadows;
  shadows.reserve(workers.size());
  for (const auto& worker : workers) shadows.push_back(worker->global_.get());
  if (Shadow::may_conflict(shadows)) return false;
  for (const auto& worker : workers) {
    worker->launch_end();
    if (!worker->findings.empty() || worker->dropped != 0 || !worker->unknown.empty()) return false;
  }
  for (const auto& worker : workers) {
    for (EarlierWork& part : worker->earlier_) {
      part.sites = std::move(worker->sites_);
      worker_parts_.push_back(std::move(part));
    }
    for (size_t o = 0; o < worker->outputs_.size(); ++o) {
      for (size_t byte = 0; byte < outputs_[o].written.size(); ++byte) {
        if (worker->outputs_[o].written[byte]) outputs_[o].written[byte] = true;
      }
    }
  }
  return true;
}

std::set<uint64_t> Checker::State::awaited_mbarriers(const Cluster& cluster) const {
  std::set<uint64_t> awaited;
  for (const auto& [id, numbers] : cluster.operations) {
    for (const uint32_t number : numbers) {
      if (infos_[number].completion == Completion::mbarrier && operations_[number].writes_at == Operation::kPending)
        awaited.insert(infos_[number].group);
    }
  }
  return awaited;
}

void Checker::State::finish_cluster(Cluster& cluster) {
  const std::set<uint64_t> awaited = awaited_mbarriers(cluster);
  for (const auto& [address, barrier] : cluster.mbarriers) {
    if (!barrier.live || barrier.expected == barrier.completed || barrier.expect_site == 0) continue;
    if (awaited.contains(address)) continue;
    Finding found = finding("mbarrier.tx-mismatch", Severity::error, barrier.expect_agent, sites_[barrier.expect_site],
                            Space::shared, address, 8);
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
  const bool stopped =
      std::any_of(cluster.ends.begin(), cluster.ends.end(), [](const CtaEnd& end) { return end.live_warps != 0; });
  if (!stopped) {
    for (const auto& [id, numbers] : cluster.operations) {
      for (const uint32_t number : numbers) {
        const OperationInfo& info = infos_[number];
        if (info.completion != Completion::mbarrier || info.tensor_map) continue;
        // Whether it happened to be complete is chance: nobody waited for it.
        const auto barrier = cluster.mbarriers.find(info.group);
        const Time at = operations_[number].writes_at;
        if (at == Operation::kPending || (barrier != cluster.mbarriers.end() && at > barrier->second.observed)) {
          unfinished(info);
        }
      }
    }
  }
  // What other clusters may still conflict with is explained with the waits that its warps made.
  Cluster rest;
  rest.index = cluster.index;
  rest.warps = std::move(cluster.warps);
  rest.group_waits = std::move(cluster.group_waits);
  rest.shared = std::move(cluster.shared);
  rest.shared->clear();
  rest.over = true;
  cluster = std::move(rest);
  --running_;
}

void Checker::State::access(const emulator::AccessEvent& event) {
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
  if (reach != Reach::none && reads) {
    acquire_locations(cluster, event, warp, position, reach);
    if (!shared && !overlaps_.empty()) acquire_from_overlaps(event, warp);
  }

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
  if (!shared && !overlaps_.empty()) {
    for (const Piece& piece : pieces_)
      compare_with_overlaps(piece.context, piece.access, event.agent.lanes, piece.address, piece.bytes);
  }
  if (writes && shared) {
    for (const Piece& piece : pieces_) cluster.tiles.written(piece.address, piece.bytes);
  }
  if (event.clashing != 0 && reach == Reach::none) report_clash(event);
  if (!writes && !shared && !outputs_.empty()) forget_writers(event);
  if (writes && !shared) {
    for (uint32_t rest = event.agent.lanes; rest != 0 && !outputs_.empty(); rest &= rest - 1)
      mark_output(event.addresses[std::countr_zero(rest)], event.bytes);
    if (!outputs_.empty()) mark_writers(event, warp, access.site, !atomic);
  }
  if (writes) publish_locations(cluster, event, warp, position, reach, atomic);
  bound_memory(cluster);
}

void Checker::State::use_peers(Cluster& cluster, const emulator::AccessEvent& event) {
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

void Checker::State::use_peer(Cluster& cluster, const Agent& agent, Site site, uint64_t address) {
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

void Checker::State::report_exit(const Agent& agent, Site site, uint64_t address, uint32_t exit_site) {
  Finding found = finding("sync.exit", Severity::error, agent, site, Space::shared, address, 1);
  found.party.what = "uses the shared memory of another CTA";
  found.message = "nothing keeps the other CTA from exiting before its shared memory is used";
  found.fix = "a cluster barrier after the last remote access, before any CTA of the cluster exits";
  found.other = Party{sites_[exit_site], "exits", agent.cluster, rank_of(address), 0, 0};
  add(std::move(found));
}

void Checker::State::end_lanes(Cluster& cluster, WarpThreads& warp, const Agent& agent, Site site) {
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

void Checker::State::exited(const Agent& agent, Site site) {
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
  const bool last =
      std::all_of(cluster.ends.begin(), cluster.ends.end(), [](const CtaEnd& end) { return end.live_warps == 0; });
  if (last && awaited_mbarriers(cluster).empty()) finish_cluster(cluster);
}

Cluster& Checker::State::enter_cluster(const Agent& agent) {
  std::unique_ptr<Cluster>& cluster = clusters_[agent.cluster];
  if (cluster == nullptr) {
    cluster = std::make_unique<Cluster>();
    cluster->index = agent.cluster;
    ++running_;
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

Timeline Checker::State::new_timeline(Position position, uint32_t warp) {
  timeline_places_.push_back({position, warp});
  return static_cast<Timeline>(timeline_places_.size() - 1);
}

Timeline Checker::State::timeline_in(std::map<uint32_t, Timeline>& timelines, uint32_t key, Position position) {
  Timeline& timeline = timelines[key];
  if (timeline == 0) timeline = new_timeline(position);
  return timeline;
}

uint32_t Checker::State::site_number(const Site& site) {
  const uint64_t key = (uint64_t{site.program} << 32) | site.instruction;
  auto [it, inserted] = site_numbers_.try_emplace(key, static_cast<uint32_t>(sites_.size()));
  if (inserted) sites_.push_back(site);
  return it->second;
}

void Checker::State::cut(const Context& context, Access access, uint32_t lanes, const uint64_t* addresses,
                         uint32_t bytes) {
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

bool Checker::State::disjoint(const emulator::AccessEvent& event) {
  uint64_t end = 0;
  for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
    const uint64_t address = event.addresses[std::countr_zero(rest)];
    if (address < end) return false;
    end = address + event.bytes;
  }
  return true;
}

void Checker::State::bound_memory(const Cluster& cluster) {
  if ((++touches_ & 0xfff) != 0) return;
  size_t bytes = global_->memory() + earlier_bytes_ + cluster.shared->memory() +
                 operations_.size() * (sizeof(Operation) + sizeof(OperationInfo));
  if (running_ > 1) bytes += (running_ - 1) * cluster.shared->memory();
  if (bytes < options_.shadow_bytes) return;
  stopped_ = true;
  unknown.insert(fmt::format("the shadow state reached its bound of {} MiB: later accesses were not checked",
                             options_.shadow_bytes >> 20));
}

}  // namespace ptxbench::checker
