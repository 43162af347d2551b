#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "checker/checker_state.h"

namespace ptxbench::checker {

namespace {

/// Equal for operations that move the same bytes to the same places.
uint64_t same_work(const emulator::AsyncIssueEvent& event) {
  uint64_t hash = event.completion_target * 0x9e3779b97f4a7c15ull + event.tensor_map;
  for (const auto* ranges : {&event.reads, &event.writes}) {
    for (const emulator::ByteRange& range : *ranges)
      hash = (hash ^ range.address) * 0x9e3779b97f4a7c15ull + range.bytes;
  }
  return hash;
}

}  // namespace

void Checker::State::issue(const emulator::AsyncIssueEvent& event) {
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
  if (by_lane) {
    for (size_t i = 0; i < event.reads.size(); ++i) {
      access.lanes = lane_of(i);
      shadow_of(cluster, event.source_space).touch(context, access, event.reads[i].address, event.reads[i].bytes);
    }
  } else {
    shadow_of(cluster, event.source_space).touch(context, access, event.reads);
  }
  if (event.source_space == Space::global && !overlaps_.empty()) {
    for (const emulator::ByteRange& range : event.reads)
      compare_with_overlaps(context, access, event.agent.lanes, range.address, range.bytes);
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
  for (size_t i = 0, next = 0; i < event.writes.size(); i = next) {
    next = i + 1;
    if (event.writes[i].bytes == 0) continue;
    if (by_lane) {
      access.lanes = lane_of(i);
    } else {
      const uint32_t rank = rank_of(event.writes[i].address);
      while (next < event.writes.size() && rank_of(event.writes[next].address) == rank) ++next;
    }
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
    const auto parts = event.writes.subspan(i, next - i);
    shadow_of(cluster, event.destination_space).touch(context, access, parts);
    if (event.destination_space == Space::global && !overlaps_.empty()) {
      for (const emulator::ByteRange& part : parts)
        compare_with_overlaps(context, access, event.agent.lanes, part.address, part.bytes);
    }
    if (event.destination_space != Space::shared) continue;
    for (const emulator::ByteRange& part : parts) {
      if (event.kind == AsyncKind::tensor_copy) {
        cluster.tiles.copied(part.address, part.bytes, event.layout[0], event.tensor_map, access.site);
      } else {
        cluster.tiles.written(part.address, part.bytes);
      }
    }
  }
  bound_memory(cluster);
}

void Checker::State::group_wait(const emulator::GroupWaitEvent& event) {
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
        std::erase_if(flying, [&](const RegistersInFlight& one) { return one.committed && one.group <= event.group; });
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

void Checker::State::group_commit(const Agent& agent, Completion kind, uint64_t group) {
  if (kind != Completion::wgmma_group) return;
  for (RegistersInFlight& one : cluster_of(agent).registers[warp_index(agent)].in_flight) {
    if (one.group == group) one.committed = true;
  }
}

void Checker::State::registers(const emulator::RegisterEvent& event) {
  Cluster& cluster = cluster_of(event.agent);
  WarpRegisters& mine = cluster.registers[warp_index(event.agent)];
  const auto touches = [](const std::vector<uint32_t>& set, std::span<const uint32_t> some) {
    return std::any_of(some.begin(), some.end(),
                       [&](uint32_t reg) { return std::binary_search(set.begin(), set.end(), reg); });
  };
  for (RegistersInFlight& one : mine.in_flight) {
    const auto &accumulators = one.named->accumulators, &fragments = one.named->fragments;
    const bool reads = touches(accumulators, event.reads);
    const bool writes = touches(accumulators, event.writes) || touches(fragments, event.writes);
    if (!reads && !writes) continue;
    const bool forgotten = !one.committed && one.waited_for != 0;
    Finding found = finding(forgotten ? "wgmma.not-committed" : "wgmma.in-flight", Severity::error, event.agent,
                            event.site, Space::registers, 0, 0);
    found.party.what = writes ? "writes a register of it" : "reads an accumulator of it";
    found.message = forgotten ? "the wgmma was never committed, so the wait that was executed does not cover it"
                              : "a register of a wgmma is touched before the wait that covers the wgmma";
    found.fix = forgotten ? "wgmma.commit_group after the last wgmma of the group, before wgmma.wait_group"
                          : "wgmma.commit_group and a wgmma.wait_group that covers it, before the registers are used";
    found.other =
        Party{sites_[one.site], "is in flight", event.agent.cluster, event.agent.cta_rank, event.agent.warp, kAllLanes};
    if (forgotten) {
      found.party.site = sites_[one.waited_for];
      found.party.what = "waits, but not for this wgmma";
    }
    add(std::move(found));
  }
  const uint32_t site = site_number(event.site);
  for (const uint32_t reg : event.writes) mine.written[reg] = site;
}

void Checker::State::arrive_for_copies(Cluster& cluster, const emulator::MbarrierEvent& event, Mbarrier& barrier) {
  // cp.async.mbarrier.arrive: the copies its thread had issued are complete for whoever waits.
  Knowledge news;
  const uint32_t index = warp_index(event.agent);
  for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    const auto issued = cluster.cp_issued.find({index, lane});
    if (issued == cluster.cp_issued.end()) continue;
    news.seen.advance(timeline_in(cluster.cp_async, index, {event.agent.cluster, event.agent.cta_rank}), 1u << lane,
                      static_cast<Time>(issued->second));
    cluster.handed_over.insert({index, lane});
  }
  barrier.arrivals[event.phase].own.join(news);
}

void Checker::State::complete(Cluster& cluster, const emulator::MbarrierEvent& event, Mbarrier& barrier) {
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

void Checker::State::issue_wgmma(Cluster& cluster, WarpThreads& warp, const emulator::AsyncIssueEvent& event) {
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
  const uint32_t first = event.agent.warp / 4 * 4;
  const uint32_t wanted = std::min(4u, warps_per_cta_ - first);
  issue.knowledge[event.agent.warp - first] = warp.publish_whole(issue.states[event.agent.warp - first]);
  if (++issue.warps < wanted) return;
  WarpgroupKnowledge& together = cluster.wgmma_knowledge[group];
  if (!std::equal(std::begin(issue.states), std::end(issue.states), std::begin(together.states))) {
    std::copy(std::begin(issue.states), std::end(issue.states), std::begin(together.states));
    together.knowledge = issue.knowledge[0];
    for (uint32_t w = 1; w < wanted; ++w) together.knowledge.join(issue.knowledge[w]);
  }
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
  const Context context{&together.knowledge, position};
  for (const unsigned operand : {0u, 1u}) {
    access.layout = static_cast<uint8_t>(1 + event.layout[operand].swizzle_bytes / 16);
    cluster.shared->touch(context, access,
                          operand == 0 ? event.reads.first(event.a_reads) : event.reads.subspan(event.a_reads));
  }
  if (event.a_reads != 0) check_tile(cluster, event, event.layout[0], "A");
  check_tile(cluster, event, event.layout[1], "B");
  cluster.wgmma_groups[{group, event.completion_target}].join(together.knowledge);
  cluster.wgmma_issues.erase({group, sequence});
  bound_memory(cluster);
}

void Checker::State::check_tile(Cluster& cluster, const emulator::AsyncIssueEvent& event,
                                const emulator::AsyncIssueEvent::TileLayout& layout, const char* operand) {
  const auto mismatch = cluster.tiles.check(layout);
  if (!mismatch) return;
  Finding found = finding("wgmma.layout", Severity::error, event.agent, event.site, Space::shared, layout.start, 16);
  found.party.what = fmt::format("reads the tile as operand {}", operand);
  found.message = mismatch->message;
  found.fix = mismatch->fix;
  found.other = Party{sites_[mismatch->copy_site], "TMA copy writes", event.agent.cluster, event.agent.cta_rank, 0, 0};
  add(std::move(found));
}

const WgmmaRegisters& Checker::State::registers_of(const emulator::AsyncIssueEvent& event, uint32_t site) {
  const auto same = [](const std::vector<uint32_t>& known, std::span<const emulator::ByteRange> ranges) {
    return std::equal(known.begin(), known.end(), ranges.begin(), ranges.end(),
                      [](uint32_t reg, const emulator::ByteRange& range) { return reg == range.address; });
  };
  auto& sets = wgmma_registers_[site];
  for (const auto& set : sets) {
    if (same(set->given[0], event.writes) && same(set->given[1], event.register_reads)) return *set;
  }
  auto set = std::make_unique<WgmmaRegisters>();
  const auto given = [](std::span<const emulator::ByteRange> ranges) {
    std::vector<uint32_t> result;
    result.reserve(ranges.size());
    for (const emulator::ByteRange& reg : ranges) result.push_back(static_cast<uint32_t>(reg.address));
    return result;
  };
  set->given[0] = set->accumulators = given(event.writes);
  set->given[1] = set->fragments = given(event.register_reads);
  std::sort(set->accumulators.begin(), set->accumulators.end());
  std::sort(set->fragments.begin(), set->fragments.end());
  sets.push_back(std::move(set));
  return *sets.back();
}

void Checker::State::check_registers(Cluster& cluster, const emulator::AsyncIssueEvent& event) {
  WarpRegisters& mine = cluster.registers[warp_index(event.agent)];
  RegistersInFlight issued;
  issued.group = event.completion_target;
  issued.site = site_number(event.site);
  issued.named = &registers_of(event, issued.site);
  if (!mine.written.empty()) {
    for (const auto* set : {&issued.named->accumulators, &issued.named->fragments}) {
      for (const uint32_t reg : *set) {
        const auto written = mine.written.find(reg);
        if (written == mine.written.end()) continue;
        Finding found = finding("wgmma.fence", Severity::error, event.agent, event.site, Space::registers, 0, 0);
        found.party.what =
            set == &issued.named->fragments ? "uses the register as A" : "uses the register as accumulator";
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
    const bool same = one.named == issued.named || (one.named->accumulators == issued.named->accumulators &&
                                                    one.named->fragments == issued.named->fragments);
    if (one.group == issued.group && same) {
      one.site = issued.site;
      return;
    }
  }
  mine.in_flight.push_back(std::move(issued));
}

void Checker::State::unwaited_groups(Cluster& cluster, const Agent& agent, Site site, unsigned lane, uint32_t index,
                                     const Knowledge& knowledge, IssuedGroups& issued,
                                     std::map<uint32_t, Timeline>& timelines, const char* what) {
  const auto found = issued.find({index, lane});
  if (found == issued.end()) return;
  const auto timeline = timelines.find(index);
  if (timeline == timelines.end()) return;
  if (knowledge.seen.covers(timeline->second, 1u << lane, static_cast<Time>(found->second))) return;
  if (&timelines == &cluster.cp_async && cluster.handed_over.contains({index, lane})) return;
  Agent one = agent;
  one.lanes = 1u << lane;
  Finding result = finding("async.unfinished", Severity::error, one, site, Space::shared, 0, 0);
  result.message = fmt::format("a thread exits while {} copies it issued may still be in flight", what);
  result.fix = std::string(what) == "bulk"
                   ? "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read 0 before the end"
                   : "cp.async.wait_all before the end";
  for (size_t i = infos_.size(); i-- > 1;) {
    const OperationInfo& info = infos_[i];
    if (info.agent.cluster == agent.cluster && info.agent.cta_rank == agent.cta_rank && info.agent.warp == agent.warp &&
        (info.agent.lanes >> lane & 1) != 0 && info.completion != Completion::mbarrier) {
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

void Checker::State::remember_issue(IssuedGroups& issued, const emulator::AsyncIssueEvent& event) {
  const uint32_t index = warp_index(event.agent);
  for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1)
    issued[{index, static_cast<unsigned>(std::countr_zero(rest))}] = event.completion_target + 1;
}

}  // namespace ptxbench::checker
