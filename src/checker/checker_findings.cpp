#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "checker/checker_state.h"

namespace ptxbench::checker {

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

void Checker::State::report_clash(const emulator::AccessEvent& event) {
  // CUDA C++ Programming Guide, "SIMT Architecture": when lanes of one store write to the same place, the number of
  // writes and which of them is the last are undefined. To the memory model they are two weak writes without order.
  const uint64_t address = event.addresses[std::countr_zero(event.clashing)];
  Agent agent = event.agent;
  agent.lanes = 0;
  for (uint32_t rest = event.clashing; rest != 0; rest &= rest - 1) {
    if (event.addresses[std::countr_zero(rest)] == address) agent.lanes |= rest & (0u - rest);
  }
  Finding found = finding("race.warp", Severity::error, agent, event.site, event.space, address, event.bytes);
  found.party.what = "writes, each lane another value";
  found.message = "lanes of one store write different values to the same bytes: which of them stays is not defined";
  found.fix = "let one lane write, or give each lane a place of its own";
  add(std::move(found));
}

void Checker::State::unfinished(const OperationInfo& info) {
  Finding result =
      finding("async.unfinished", Severity::error, info.agent, sites_[info.site], Space::shared, info.group, 8);
  result.message =
      fmt::format("the kernel ends while a {} that signals this mbarrier is still in flight", name_of(info.kind));
  result.fix = "wait for the mbarrier's phase before the threads exit";
  add(std::move(result));
}

Party Checker::State::party_of(Timeline timeline, uint32_t lanes, uint32_t site, std::string what) const {
  const Place& place = timeline_places_[timeline];
  return {sites_[site], std::move(what), place.position.cluster, place.position.cta, place.warp, lanes};
}

std::string Checker::State::describe(const Access& access) const {
  const char* verb = access.kind == AccessKind::read    ? "reads"
                     : access.kind == AccessKind::write ? "writes"
                                                        : "updates";
  if (access.operation != 0) return fmt::format("{} {}", name_of(infos_[access.operation].kind), verb);
  return verb;
}

void Checker::State::conflict(Space space, const Report& report) {
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
      fix = space == Space::shared
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
      message = rule == "mbarrier.stale-phase"
                    ? "a wait on the mbarrier succeeded, but for a phase that was over before this operation was issued"
                : rule == "async.wrong-group"
                    ? "the group wait that was executed leaves this operation's group in flight"
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

std::string Checker::State::unfenced_rule(Space space, const Report& report) const {
  if (report.other_space_fenced) return "proxy.fence-space";
  const std::set<Timeline>& fenced = fenced_[space == Space::shared ? 0 : 1];
  const bool some = fenced.contains(report.earlier.timeline) || fenced.contains(report.later.timeline);
  return some ? "proxy.fence-early" : "proxy.async";
}

std::string Checker::State::in_flight_rule(const Access& earlier, const Access& later, const char* otherwise) {
  const OperationInfo& info = infos_[earlier.operation];
  const auto found = clusters_.find(info.agent.cluster);
  if (found == clusters_.end()) return otherwise;
  Cluster& cluster = *found->second;
  if (info.completion == Completion::mbarrier) {
    const auto barrier = cluster.mbarriers.find(info.group);
    const Place& place = timeline_places_[later.timeline];
    if (barrier == cluster.mbarriers.end() || place.position.cluster != info.agent.cluster) return otherwise;
    const auto wait = barrier->second.waits.find(place.position.cta * warps_per_cta_ + place.warp);
    return wait != barrier->second.waits.end() && wait->second.first > info.serial ? "mbarrier.stale-phase" : otherwise;
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
    known_to_issuer = known_to_issuer || knowledge.seen.covers(on, operation.per_lane ? earlier.lanes : kAllLanes, at);
  });
  return known_to_issuer ? otherwise : "async.wrong-group";
}

std::string Checker::State::wait_advice(const Access& earlier) const {
  const OperationInfo& info = infos_[earlier.operation];
  switch (info.completion) {
    case Completion::mbarrier:
      return "wait for the phase of the mbarrier that the operation completes on, before its bytes are used or the "
             "buffer is "
             "filled again: in a ring, with a parity that changes each time round, at the full and at the empty "
             "barriers";
    case Completion::bulk_group:
      return earlier.writes() ? "cp.async.bulk.wait_group (not .read) by the issuing thread, then a barrier"
                              : "cp.async.bulk.wait_group.read by the issuing thread, then a barrier";
    case Completion::cp_async_group:
      return "cp.async.wait_group with a count that covers the copy, then a barrier";
    case Completion::wgmma_group:
      return "let wgmma.wait_group cover the wgmma that reads the buffer before the buffer is handed back (the arrive "
             "on its "
             "empty barrier) or filled again: hand back the stage whose wgmma has ended, not the one just issued";
    default:
      return "wait for the operation";
  }
}

Finding Checker::State::finding(std::string rule, Severity severity, const Agent& agent, Site site, Space space,
                                uint64_t address, uint32_t bytes) const {
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

void Checker::State::add(Finding found) {
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

}  // namespace ptxbench::checker
