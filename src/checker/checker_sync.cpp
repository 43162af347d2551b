#include <algorithm>
#include <bit>

#include "checker/checker_state.h"

namespace ptxbench::checker {

void Checker::State::fence(const emulator::FenceEvent& event) {
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
      warp.for_each_class(
          lanes, [&](LaneClass& one) { one.knowledge.inits.advance(warp.timeline(), one.lanes & lanes, warp.now()); });
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

void Checker::State::barrier(const emulator::BarrierEvent& event) {
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
  if (event.kind == BarrierKind::grid_dependency) {
    grid_dependency(event, warp);
    return;
  }
  auto& phases =
      event.kind == BarrierKind::cta ? cluster.barriers[{event.agent.cta_rank, event.id}] : cluster.cluster_arrivals;
  if (event.action == BarrierAction::arrive) {
    Knowledge news = warp.publish(lanes);
    if (event.semantics == Semantics::relaxed) {
      Knowledge only_inits;
      only_inits.inits = news.inits;
      news = std::move(only_inits);
    }
    BarrierArrivals& arrivals = phases[event.generation];
    arrivals.knowledge.join(news);
    // Accepted practice: each thread fences, all meet, and one of them signals for all.
    if (event.semantics != Semantics::relaxed) arrivals.released.join(warp.released(lanes));
    return;
  }
  if (event.action != BarrierAction::wait_end || event.generation == 0) return;
  const auto found = phases.find(event.generation - 1);
  if (found != phases.end()) {
    const bool met = event.semantics != Semantics::relaxed && event.kind == BarrierKind::cta;
    warp.acquire(lanes, found->second.knowledge, met);
    warp.take_over(lanes, found->second.released);
  }
  // Nobody can come back to a phase before the last two.
  while (!phases.empty() && phases.begin()->first + 2 < event.generation) phases.erase(phases.begin());
}

void Checker::State::mbarrier(const emulator::MbarrierEvent& event) {
  Cluster& cluster = cluster_of(event.agent);
  WarpThreads& warp = warp_of(cluster, event.agent);
  Mbarrier& barrier = cluster.mbarriers[event.address];
  if (barrier.timeline == 0) barrier.timeline = new_timeline({event.agent.cluster, rank_of(event.address)});
  if (event.action == MbarrierAction::init) {
    if (barrier.live) {
      // Compilers that join two barriers in one place do this (Triton's warp specialisation): nobody can have seen
      // either.
      const bool harmless =
          !barrier.used && barrier.init_on == warp.timeline() && barrier.init_lanes == event.agent.lanes;
      Finding found = finding("mbarrier.reinitialised", harmless ? Severity::note : Severity::error, event.agent,
                              event.site, Space::shared, event.address, 8);
      found.message = harmless ? "an mbarrier that nobody has used is initialised again by the same threads"
                               : "a live mbarrier is initialised again";
      found.fix = "initialise it once, or mbarrier.inval it before its memory is used for another purpose";
      found.other = Party{sites_[barrier.init_site], "initialises it", event.agent.cluster, event.agent.cta_rank, 0, 0};
      add(std::move(found));
      barrier.again = harmless;
    } else {
      barrier.again = false;
    }
    barrier.live = true;
    barrier.used = false;
    barrier.base += static_cast<Time>(event.phase);
    barrier.arrivals.clear();
    barrier.arrived = {};
    barrier.init_on = warp.timeline();
    barrier.init_at = warp.now();
    barrier.init_lanes = event.agent.lanes;
    barrier.init_site = site_number(event.site);
    barrier.init_reported = false;
    return;
  }
  barrier.used = true;
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
        Arrivals& arrivals = barrier.arrivals[event.phase];
        const Knowledge news = warp.publish(event.agent.lanes);
        // PTX ISA, mbarrier.arrive: .cta reaches the threads of the arriving one's own CTA. Without a scope, remote
        // arrivals are accepted practice.
        if (rank_of(event.address) == event.agent.cta_rank) {
          arrivals.own.join(news);
        } else if (event.scope == Scope::cta) {
          arrivals.narrow.join(news.seen);
        } else {
          arrivals.peers.join(news);
        }
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
      // The phases before this one are over: nothing is added to what they brought.
      while (!barrier.arrivals.empty() && barrier.arrivals.begin()->first < event.phase) {
        barrier.arrived.join(barrier.arrivals.begin()->second);
        barrier.arrivals.erase(barrier.arrivals.begin());
      }
      if (event.semantics != Semantics::relaxed) {
        const Arrivals& arrived = barrier.arrived;
        warp.acquire(event.agent.lanes, arrived.own, false);
        if (event.scope != Scope::cta) warp.acquire(event.agent.lanes, arrived.peers, false);
        if (ctas_ > 1) {
          warp.for_each_class(event.agent.lanes, [&](LaneClass& one) {
            one.knowledge.narrow.join(arrived.narrow);
            if (event.scope == Scope::cta) one.knowledge.narrow.join(arrived.peers.seen);
          });
        }
      }
      warp.advance(event.agent.lanes, barrier.timeline, barrier.base + static_cast<Time>(event.phase));
      barrier.observed = std::max(barrier.observed, barrier.base + static_cast<Time>(event.phase));
      barrier.waits[warp_index(event.agent)] = {++serial_, site_number(event.site)};
      break;
    }
    default:
      break;
  }
}

void Checker::State::acquire_locations(Cluster& cluster, const emulator::AccessEvent& event, WarpThreads& warp,
                                       const Position& position, Reach reach) {
  const Locations& locations = locations_of(cluster, event.space);
  if (locations.empty()) return;
  for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    const auto found = locations.find(event.addresses[lane]);
    if (found == locations.end()) continue;
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

void Checker::State::publish_locations(Cluster& cluster, const emulator::AccessEvent& event, WarpThreads& warp,
                                       const Position& position, Reach reach, bool atomic) {
  Locations& locations = locations_of(cluster, event.space);
  if (reach == Reach::none && locations.empty()) return;
  std::optional<Knowledge> released;
  if (releases(event.semantics)) released = warp.publish(event.agent.lanes);
  for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    const uint64_t key = event.addresses[lane];
    const auto found = locations.find(key);
    // Only read-modify-write operations continue what earlier releases handed on.
    if (found != locations.end() && !atomic) found->second.clear();
    if (reach == Reach::none) continue;
    std::vector<Release>& releases = locations[key];
    const auto hand_on = [&](const Knowledge& knowledge, Reach as_far_as) {
      const auto same = std::find_if(releases.begin(), releases.end(), [&](const Release& other) {
        return other.reach == as_far_as && other.position.cluster == position.cluster &&
               other.position.cta == position.cta;
      });
      if (same != releases.end()) {
        same->knowledge.join(knowledge);
      } else {
        releases.push_back({knowledge, as_far_as, position});
      }
    };
    if (released) {
      hand_on(*released, reach);
      continue;
    }
    warp.for_each_class(1u << lane, [&](LaneClass& one) {
      // What a fence of the full reach covers, every nearer one covers as well.
      const Knowledge* farther = nullptr;
      for (const Reach level : {Reach::gpu, Reach::cluster, Reach::cta}) {
        const Knowledge* ready = level <= reach ? one.released.within(level) : nullptr;
        if (ready == nullptr || (farther != nullptr && farther->seen.same_as(ready->seen))) continue;
        hand_on(*ready, level);
        farther = ready;
      }
    });
    if (releases.empty()) locations.erase(key);
  }
}

void Checker::State::check_init_seen(const Agent& agent, const Site& site, uint64_t address, WarpThreads& warp,
                                     Mbarrier& barrier) {
  if (!barrier.live || barrier.init_reported || barrier.init_on == 0) return;
  warp.for_each_context(agent.lanes, [&](uint32_t lanes, const Knowledge& knowledge) {
    if (barrier.init_reported) return;
    if (barrier.init_on == warp.timeline() && (lanes & ~barrier.init_lanes) == 0) return;
    if (knowledge.seen.covers(barrier.init_on, barrier.init_lanes, barrier.init_at) ||
        knowledge.inits.covers(barrier.init_on, barrier.init_lanes, barrier.init_at)) {
      return;
    }
    barrier.init_reported = true;
    // In another run it uses the first initialisation, and loses what it did.
    Finding found = finding(barrier.again ? "mbarrier.reinitialised" : "mbarrier.init-not-visible", Severity::error,
                            agent, site, Space::shared, address, 8);
    found.message = barrier.again ? "the mbarrier is initialised again, and this thread may use it before"
                                  : "the mbarrier is used by a thread that nothing orders after its initialisation";
    found.fix = barrier.again ? "initialise it once, before the barrier that leads to its first use"
                : ctas_ > 1   ? "after mbarrier.init: fence.mbarrier_init.release.cluster, then a cluster barrier that "
                                "every user waits for"
                              : "put a block barrier (__syncthreads) between mbarrier.init and the first use";
    found.other = party_of(barrier.init_on, barrier.init_lanes, barrier.init_site, "initialises it");
    add(std::move(found));
  });
}

}  // namespace ptxbench::checker
