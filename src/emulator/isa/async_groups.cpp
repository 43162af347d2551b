#include "emulator/isa/async_groups.h"

#include <map>

#include "emulator/definedness.h"

namespace ptxbench::emulator {
namespace {

struct Groups {
  std::vector<ThreadAsyncState::Group>& committed;
  ThreadAsyncState::Group& open;
  uint64_t& retired;
};

Groups groups_of(Warp& warp, GroupFamily family, unsigned lane) {
  ThreadAsyncState& state = warp.async[lane];
  if (family == GroupFamily::cp_async) return {state.cp_async, state.cp_async_open, state.cp_async_retired};
  return {state.bulk, state.bulk_open, state.bulk_retired};
}

Completion completion_of(GroupFamily family) {
  return family == GroupFamily::cp_async ? Completion::cp_async_group : Completion::bulk_group;
}

bool finished(const ThreadAsyncState::Group& group) {
  for (const auto& operation : group.operations) {
    if (!operation->done) return false;
  }
  return true;
}

/// Lanes by a number each of them has: warp-level events are split where lanes differ.
template <class Number>
std::map<uint64_t, uint32_t> lanes_by(uint32_t lanes, Number number) {
  std::map<uint64_t, uint32_t> result;
  for_each_lane(lanes, [&](unsigned lane) { result[number(lane)] |= 1u << lane; });
  return result;
}

struct GroupOp {
  GroupFamily family{};
  uint64_t keep = 0;  ///< groups that may stay in flight
  bool reads_only = false;
  bool all = false;  ///< wait_all: the open group too
};

const Inst* commit_group(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const GroupOp*>(inst.extra);
  if (Observer* observer = warp.cluster->launch->observer) {
    for (const auto& [group, lanes] :
         lanes_by(warp.mask, [&](unsigned lane) { return open_group(warp, op.family, lane); })) {
      observer->on_group_commit(agent_of(warp, lanes), site_of(warp, inst), completion_of(op.family), group);
    }
  }
  for_each_lane(warp.mask, [&](unsigned lane) {
    Groups groups = groups_of(warp, op.family, lane);
    // Without a full wait finished groups would pile up: `wait_group.read` is all that a store pipeline needs.
    size_t done = 0;
    while (done < groups.committed.size() && finished(groups.committed[done])) ++done;
    groups.committed.erase(groups.committed.begin(), groups.committed.begin() + static_cast<std::ptrdiff_t>(done));
    groups.retired += done;
    if (groups.committed.empty() && finished(groups.open)) {
      groups.open.operations.clear();
      ++groups.retired;
    } else {
      groups.committed.push_back(std::move(groups.open));
      groups.open = {};
    }
  });
  return &inst + 1;
}

const Inst* wait_group(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const GroupOp*>(inst.extra);
  Cluster& cluster = *warp.cluster;
  auto finish = [&](const ThreadAsyncState::Group& group) {
    for (const auto& operation : group.operations) {
      op.reads_only ? cluster.async.complete_reads(cluster, *operation) : cluster.async.complete(cluster, *operation);
    }
  };
  std::array<uint64_t, kLanes> through{};  // one past the last group that is complete afterwards
  for_each_lane(warp.mask, [&](unsigned lane) {
    Groups groups = groups_of(warp, op.family, lane);
    const uint64_t committed = groups.retired + groups.committed.size();
    through[lane] = committed > op.keep ? committed - op.keep : 0;
    size_t complete = 0;
    while (complete < groups.committed.size() && groups.retired + complete < through[lane])
      finish(groups.committed[complete++]);
    if (!op.reads_only) {
      groups.committed.erase(groups.committed.begin(),
                             groups.committed.begin() + static_cast<std::ptrdiff_t>(complete));
      groups.retired += complete;
    }
    if (op.all) {
      finish(groups.open);
      groups.open.operations.clear();
      through[lane] = committed + 1;
    }
  });
  if (Observer* observer = cluster.launch->observer) {
    for (const auto& [end, lanes] : lanes_by(warp.mask, [&](unsigned lane) { return through[lane]; })) {
      if (end == 0) continue;  // nothing was waited for
      GroupWaitEvent event;
      event.agent = agent_of(warp, lanes);
      event.site = site_of(warp, inst);
      event.kind = completion_of(op.family);
      event.group = end - 1;
      event.reads_only = op.reads_only;
      event.all = op.all;
      observer->on_group_wait(event);
    }
  }
  return next_unless_faulted(warp, inst);
}

}  // namespace

uint64_t open_group(const Warp& warp, GroupFamily family, unsigned lane) {
  const ThreadAsyncState& state = warp.async[lane];
  return family == GroupFamily::cp_async ? state.cp_async_retired + state.cp_async.size()
                                         : state.bulk_retired + state.bulk.size();
}

void join_group(Warp& warp, GroupFamily family, uint32_t lanes, const std::shared_ptr<AsyncOperation>& operation) {
  if (operation->done) return;
  for_each_lane(lanes, [&](unsigned lane) { groups_of(warp, family, lane).open.operations.push_back(operation); });
}

std::vector<std::shared_ptr<AsyncOperation>> operations_in_flight(const Warp& warp, GroupFamily family, unsigned lane) {
  const ThreadAsyncState& state = warp.async[lane];
  std::vector<std::shared_ptr<AsyncOperation>> result;
  auto add = [&](const ThreadAsyncState::Group& group) {
    for (const auto& operation : group.operations) {
      if (!operation->done) result.push_back(operation);
    }
  };
  for (const auto& group : family == GroupFamily::cp_async ? state.cp_async : state.bulk) add(group);
  add(family == GroupFamily::cp_async ? state.cp_async_open : state.bulk_open);
  return result;
}

void bind_commit_group(Decoder& decoder, GroupFamily family) {
  decoder.emit({&commit_group, &commit_group}).extra = decoder.keep(GroupOp{family, 0, false, false});
}

void bind_wait_group(Decoder& decoder, GroupFamily family, uint64_t keep, bool reads_only, bool all) {
  decoder.emit({&wait_group, &wait_group}).extra = decoder.keep(GroupOp{family, keep, reads_only, all});
}

void send_issue(Cluster& cluster, const Origin& origin, uint64_t id, const IssueDescription& description,
                std::span<const ByteRange> reads, std::span<const ByteRange> writes) {
  Observer* observer = cluster.launch->observer;
  if (observer == nullptr) return;
  AsyncIssueEvent event;
  event.id = id;
  event.agent = origin.agent;
  event.site = origin.site;
  event.kind = description.kind;
  event.completion = description.completion;
  event.completion_target = description.completion_target;
  if (description.completion == Completion::mbarrier) {
    const auto barrier = cluster.async.mbarriers.find(description.completion_target);
    if (barrier != cluster.async.mbarriers.end()) event.completion_phase = barrier->second.phases;
  }
  event.source_space = description.source;
  event.destination_space = description.destination;
  event.reads = reads;
  event.writes = writes;
  event.tensor_map = description.tensor_map;
  event.layout[0] = description.layout;
  observer->on_async_issue(event);
  if (Definedness* definedness = cluster.launch->definedness) {
    definedness->issue(cluster, event, {description.map, description.coordinates, description.shared_offset},
                       description.element_bytes);
  }
}

}  // namespace ptxbench::emulator
