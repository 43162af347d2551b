#include "timeline/recorder.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <utility>

#include "timeline/issue_cost.h"

namespace ptxbench::timeline {

using emulator::AccessKind;
using emulator::Agent;
using emulator::AsyncKind;
using emulator::BarrierAction;
using emulator::BarrierKind;
using emulator::Completion;
using emulator::MbarrierAction;
using emulator::Site;
using emulator::Space;

namespace {

constexpr std::uint64_t kCtaShift = 24;
constexpr std::uint64_t kOffsetMask = (std::uint64_t{1} << kCtaShift) - 1;

std::uint64_t bytes_of(std::span<const emulator::ByteRange> ranges) {
  std::uint64_t bytes = 0;
  for (const emulator::ByteRange& range : ranges) bytes += range.bytes;
  return bytes;
}

Segment joined(const Segment& first, const Segment& second) {
  Segment both = first;
  both.instructions += second.instructions;
  both.global_loads += second.global_loads;
  both.global_bytes += second.global_bytes;
  both.shared_loads += second.shared_loads;
  both.shared_bytes += second.shared_bytes;
  if (both.first_site == kNone) both.first_site = second.first_site;
  both.last_site = second.last_site;
  return both;
}

/// Names come from the module, once for each of thousands of slices.
emulator::CodePlace shortened(emulator::CodePlace place) {
  constexpr std::size_t kMost = 200;
  const auto cut = [](std::string& text) {
    if (text.size() > kMost) text = "..." + text.substr(text.size() - kMost);
  };
  cut(place.kernel);
  cut(place.file);
  cut(place.instruction);
  for (auto& [file, line] : place.called_from) cut(file);
  return place;
}

}  // namespace

struct Recorder::WarpState {
  std::uint64_t done = 0;   ///< instructions up to the last step
  std::uint64_t begun = 0;  ///< instructions up to the last memory access
  std::uint32_t access_site = kNone;
  Segment open;
  /// Asks again and again for a phase that is not complete: what it executes meanwhile is waiting.
  bool polling = false;
  std::uint64_t polled_address = 0;
  Segment before_poll;
  std::uint32_t poll_site = kNone, poll_gate = kNone;
  /// Entered a barrier that was not complete.
  std::uint32_t blocked_gate = kNone, blocked_site = kNone;
};

struct Recorder::Running {
  ClusterRecord record;
  std::uint32_t warps_per_cta = 1, threads_left = 0;
  std::vector<WarpState> warps;
  std::map<std::tuple<Gate::Kind, std::uint32_t, std::uint64_t, std::uint64_t, std::uint64_t>, std::uint32_t> gates;
  std::map<std::uint64_t, std::uint64_t> epochs;  ///< by mbarrier: how often it was initialised
  std::unordered_map<std::uint64_t, std::uint32_t> operations;
  /// Of one thread (of a warp, for wgmma): operations that no commit has taken yet, and the groups since the last wait.
  struct Groups {
    std::vector<std::uint32_t> open;
    std::map<std::uint64_t, std::uint32_t> gates;
    std::uint32_t last = kNone;
    std::uint32_t last_operation = kNone;
  };
  std::map<std::tuple<std::uint32_t, std::uint32_t, Completion>, Groups> groups;
  std::unordered_map<std::uint32_t, std::uint32_t> rest_of_block;
  std::size_t links = 0;    ///< entries of Operation::gates
  std::size_t counted = 0;  ///< of RecorderOptions::most_of_all
  bool full = false;

  std::uint32_t gate(Gate::Kind kind, std::uint32_t cta, std::uint64_t name, std::uint64_t phase,
                     std::uint64_t epoch = 0) {
    const auto [found, added] =
        gates.try_emplace({kind, cta, name, phase, epoch}, static_cast<std::uint32_t>(record.gates.size()));
    if (added) {
      Gate gate;
      gate.kind = kind;
      gate.cta = cta;
      gate.name = name;
      gate.phase = phase;
      record.gates.push_back(gate);
    }
    return found->second;
  }
  std::uint32_t mbarrier_gate(std::uint64_t address, std::uint64_t phase) {
    const std::uint64_t offset = address & kOffsetMask;
    return gate(Gate::Kind::mbarrier, static_cast<std::uint32_t>(address >> kCtaShift),
                offset - std::min<std::uint64_t>(offset, emulator::kReservedSharedBytes), phase, epochs[address]);
  }
  void link(std::uint32_t operation, std::uint32_t gate_index) {
    record.operations[operation].gates.push_back(gate_index);
    ++links;
  }
  std::uint32_t warp_index(const Agent& agent) const { return agent.cta_rank * warps_per_cta + agent.warp; }
  /// wgmma groups belong to the warp, the others to each thread.
  template <class Body>
  void for_each_owner(const Agent& agent, Completion kind, const Body& body) {
    const std::uint32_t lanes = kind == Completion::wgmma_group ? 1 : agent.lanes;
    for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
      body(groups[{warp_index(agent), static_cast<std::uint32_t>(std::countr_zero(left)), kind}]);
    }
  }
  /// Closes the open groups of these threads to one gate.
  void close_group(const Agent& agent, Completion kind, std::uint64_t group) {
    std::vector<std::uint32_t> members;
    std::uint32_t previous = kNone;
    for_each_owner(agent, kind, [&](Groups& own) {
      members.insert(members.end(), own.open.begin(), own.open.end());
      own.open.clear();
      if (own.last != kNone && (previous == kNone || own.last > previous)) previous = own.last;
    });
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    std::uint32_t index = previous;
    if (!members.empty()) {
      index = static_cast<std::uint32_t>(record.gates.size());
      Gate gate;
      gate.kind = Gate::Kind::group;
      gate.cta = agent.cta_rank;
      gate.phase = group;
      gate.completion = kind;
      gate.previous = previous;
      gate.parts = static_cast<std::uint32_t>(members.size());
      record.gates.push_back(gate);
      for (const std::uint32_t member : members) link(member, index);
    }
    // An empty group is complete when the one before it is.
    for_each_owner(agent, kind, [&](Groups& own) {
      own.last = index;
      if (index == kNone) return;
      // Of groups that nobody waits for only the last ones are kept.
      constexpr std::size_t kMostGroups = 256;
      own.gates[group] = index;
      if (own.gates.size() > kMostGroups) own.gates.erase(own.gates.begin());
    });
  }
};

Recorder::Recorder(RecorderOptions options) : options_(std::move(options)) {}
Recorder::~Recorder() = default;

void Recorder::on_launch_begin(const emulator::LaunchEvent& event) {
  const std::lock_guard lock(mutex_);
  recording_ = launches_.size() < options_.launches;
  if (!recording_) ++left_out_;
  current_ = event;
  const std::uint32_t ctas = event.cluster[0] * event.cluster[1] * event.cluster[2];
  threads_per_cluster_ = event.block[0] * event.block[1] * event.block[2] * std::max(1U, ctas);
  running_.clear();
  kept_.clear();
}

Recorder::Running* Recorder::running_of(const Agent& agent) {
  if (!recording_ || !wanted(agent.cluster)) return nullptr;
  Running* running = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto [found, added] = running_.try_emplace(agent.cluster);
    std::unique_ptr<Running>& place = found->second;
    if (added) {
      place = std::make_unique<Running>();
      place->record.index = agent.cluster;
      place->threads_left = threads_per_cluster_;
      const std::uint32_t threads = current_.block[0] * current_.block[1] * current_.block[2];
      place->warps_per_cta = (threads + 31) / 32;
      place->warps.resize(std::size_t{place->warps_per_cta} * (threads_per_cluster_ / std::max(1U, threads)));
    }
    running = place.get();
  }
  return running == nullptr || running->full ? nullptr : running;
}

Recorder::WarpState& Recorder::warp_of(Running& running, const Agent& agent) {
  return running.warps[std::size_t{agent.cta_rank} * running.warps_per_cta + agent.warp];
}

std::uint32_t Recorder::rest_of_block(Running& running, Site site) const {
  const auto [found, added] = running.rest_of_block.try_emplace(site.instruction, 0);
  if (added && device_ != nullptr) found->second = device_->rest_of_block(site);
  return found->second;
}

Segment Recorder::segment(Running& running, WarpState& warp, const Agent& agent, Site site) {
  Segment segment = std::exchange(warp.open, {});
  // The instruction of the event itself belongs to what comes before it.
  const std::uint64_t rest = rest_of_block(running, site);
  const std::uint64_t now = agent.begun - std::min(agent.begun, rest == 0 ? 0 : rest - 1);
  segment.instructions = now - std::min(now, warp.done);
  warp.done = std::max(warp.done, now);
  if (segment.first_site == kNone) segment.first_site = site.instruction;
  segment.last_site = site.instruction;
  return segment;
}

void Recorder::step(Running& running, const Agent& agent, Site site, Step::Kind kind, std::uint32_t target,
                    bool reads_only) {
  WarpState& warp = warp_of(running, agent);
  Step step;
  step.kind = kind;
  step.warp = running.warp_index(agent);
  step.site = site.instruction;
  step.target = target;
  step.reads_only = reads_only;
  step.before = segment(running, warp, agent, site);
  if (std::exchange(warp.polling, false)) {
    // It did something else than to wait for what it had asked for: all of it was work.
    step.before = joined(std::exchange(warp.before_poll, {}), step.before);
  }
  running.record.steps.push_back(step);
  bound(running);
}

void Recorder::bound(Running& running) {
  const std::size_t size = running.record.steps.size() + running.record.gates.size() + running.record.operations.size();
  recorded_ += size - running.counted;
  running.counted = size;
  if (size < options_.most_of_cluster && recorded_ < options_.most_of_all) return;
  running.record.truncated = true;
  running.full = true;
}

void Recorder::on_access(const emulator::AccessEvent& event) {
  Running* running = running_of(event.agent);
  if (running == nullptr) return;
  WarpState& warp = warp_of(*running, event.agent);
  const std::uint64_t rest = rest_of_block(*running, event.site);
  warp.begun = event.agent.begun - std::min(event.agent.begun, rest == 0 ? 0 : rest - 1);
  warp.access_site = event.site.instruction;
  Segment& open = warp.open;
  if (open.first_site == kNone) open.first_site = event.site.instruction;
  const std::uint64_t bytes = std::uint64_t{event.bytes} * static_cast<unsigned>(std::popcount(event.agent.lanes));
  const bool loads = event.kind != AccessKind::write;
  if (event.space == Space::global || event.space == Space::local) {
    open.global_loads += loads ? 1 : 0;
    open.global_bytes += bytes;
  } else if (event.space == Space::shared) {
    open.shared_loads += loads ? 1 : 0;
    open.shared_bytes += bytes;
  }
}

void Recorder::on_barrier(const emulator::BarrierEvent& event) {
  if (event.kind != BarrierKind::cta && event.kind != BarrierKind::cluster) return;
  Running* running = running_of(event.agent);
  if (running == nullptr) return;
  const bool cta = event.kind == BarrierKind::cta;
  WarpState& warp = warp_of(*running, event.agent);
  const auto gate_of = [&](std::uint64_t round) {
    return running->gate(cta ? Gate::Kind::cta_barrier : Gate::Kind::cluster_barrier, cta ? event.agent.cta_rank : 0,
                         event.id, round);
  };
  switch (event.action) {
    case BarrierAction::arrive: {
      const std::uint32_t gate = gate_of(event.generation);
      ++running->record.gates[gate].parts;
      running->record.gates[gate].arrivals += static_cast<unsigned>(std::popcount(event.agent.lanes));
      step(*running, event.agent, event.site, Step::Kind::arrive, gate);
      return;
    }
    case BarrierAction::wait_begin:
      warp.blocked_gate = gate_of(event.generation);
      warp.blocked_site = event.site.instruction;
      return;
    case BarrierAction::wait_end: {
      // The round before the one that is pending now.
      const std::uint32_t gate = gate_of(event.generation - std::min<std::uint64_t>(event.generation, 1));
      warp.blocked_gate = kNone;
      step(*running, event.agent, event.site, Step::Kind::wait, gate);
      return;
    }
  }
}

void Recorder::on_mbarrier(const emulator::MbarrierEvent& event) {
  Running* running = running_of(event.agent);
  if (running == nullptr) return;
  WarpState& warp = warp_of(*running, event.agent);
  switch (event.action) {
    case MbarrierAction::init:
      ++running->epochs[event.address];
      return;
    case MbarrierAction::invalidate:
    case MbarrierAction::expect_tx:
      return;
    case MbarrierAction::arrive:
    case MbarrierAction::arrive_drop:
    case MbarrierAction::complete_tx: {
      const std::uint32_t index = running->mbarrier_gate(event.address, event.phase);
      Gate& gate = running->record.gates[index];
      ++gate.parts;
      if (event.action == MbarrierAction::complete_tx) {
        gate.bytes += event.bytes;
      } else {
        gate.arrivals += event.count;
      }
      if (event.completed_by != 0) {
        const auto operation = running->operations.find(event.completed_by);
        if (operation != running->operations.end()) {
          running->link(operation->second, index);
          bound(*running);
          return;
        }
        // cp.async.mbarrier.arrive: once the copies of its threads are there, of which the last ones stand for all.
        std::vector<std::uint32_t> last;
        running->for_each_owner(event.agent, Completion::cp_async_group, [&](const Running::Groups& own) {
          if (own.last_operation != kNone && std::find(last.begin(), last.end(), own.last_operation) == last.end())
            last.push_back(own.last_operation);
        });
        if (!last.empty()) {
          gate.parts += static_cast<std::uint32_t>(last.size() - 1);
          for (const std::uint32_t one : last) running->link(one, index);
          bound(*running);
          return;
        }
      }
      step(*running, event.agent, event.site, Step::Kind::arrive, index);
      return;
    }
    case MbarrierAction::wait_failure: {
      const Segment before = segment(*running, warp, event.agent, event.site);
      if (warp.polling && warp.polled_address == event.address) return;
      warp.before_poll = warp.polling ? joined(warp.before_poll, before) : before;
      warp.polling = true;
      warp.polled_address = event.address;
      warp.poll_site = event.site.instruction;
      warp.poll_gate = running->mbarrier_gate(event.address, event.phase);
      bound(*running);
      return;
    }
    case MbarrierAction::wait_success: {
      const std::uint32_t gate = event.phase == 0 ? kNone : running->mbarrier_gate(event.address, event.phase - 1);
      if (warp.polling && warp.polled_address == event.address) {
        segment(*running, warp, event.agent, event.site);
        // What it did before it asked is put back where a step's work is.
        warp.polling = false;
        warp.open = std::exchange(warp.before_poll, {});
        const std::uint64_t instructions = warp.open.instructions;
        step(*running, event.agent, event.site, Step::Kind::wait, gate);
        running->record.steps.back().before.instructions = instructions;
        return;
      }
      step(*running, event.agent, event.site, Step::Kind::wait, gate);
      return;
    }
  }
}

void Recorder::on_async_issue(const emulator::AsyncIssueEvent& event) {
  Running* running = running_of(event.agent);
  if (running == nullptr) return;
  const auto index = static_cast<std::uint32_t>(running->record.operations.size());
  Operation operation;
  operation.kind = event.kind;
  operation.site = event.site.instruction;
  operation.cta = event.agent.cta_rank;
  operation.store = event.source_space == Space::shared && event.destination_space == Space::global;
  if (event.kind == AsyncKind::wgmma) {
    operation.n = event.layout[1].mn;
    operation.k = event.layout[1].k;
    operation.element_bytes = std::max(1U, event.layout[1].element_bytes);
    operation.a_in_registers = event.a_reads == 0;
  } else {
    std::uint64_t written = bytes_of(event.writes);
    if (event.destination_space == Space::shared) {
      for (const emulator::ByteRange& range : event.writes)
        operation.destinations |= 1U << (range.address >> kCtaShift & 31);
      written /= static_cast<unsigned>(std::max(1, std::popcount(operation.destinations)));
    }
    operation.bytes = std::max(bytes_of(event.reads), written);
  }
  running->record.operations.push_back(std::move(operation));
  running->operations[event.id] = index;
  const bool grouped = event.completion == Completion::bulk_group || event.completion == Completion::cp_async_group ||
                       event.completion == Completion::wgmma_group;
  if (grouped) {
    running->for_each_owner(event.agent, event.completion, [&](Running::Groups& own) {
      own.open.push_back(index);
      own.last_operation = index;
    });
  }
  step(*running, event.agent, event.site, Step::Kind::issue, index);
}

void Recorder::on_group_commit(const Agent& agent, Site, Completion kind, std::uint64_t group) {
  Running* running = running_of(agent);
  if (running == nullptr) return;
  running->close_group(agent, kind, group);
  bound(*running);
}

void Recorder::on_group_wait(const emulator::GroupWaitEvent& event) {
  Running* running = running_of(event.agent);
  if (running == nullptr || event.none) return;
  if (event.all) running->close_group(event.agent, event.kind, event.group);
  std::uint32_t gate = kNone;
  running->for_each_owner(event.agent, event.kind, [&](Running::Groups& own) {
    const auto after = own.gates.upper_bound(event.group);
    if (after == own.gates.begin()) return;
    const auto found = std::prev(after);
    if (gate == kNone || found->second > gate) gate = found->second;
    if (!event.reads_only) own.gates.erase(own.gates.begin(), found);
  });
  step(*running, event.agent, event.site, Step::Kind::wait, gate, event.reads_only);
}

void Recorder::on_exit(const Agent& agent, Site site) {
  if (!recording_ || !wanted(agent.cluster)) return;
  if (Running* running = running_of(agent)) step(*running, agent, site, Step::Kind::exit, kNone);
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(agent.cluster);
  if (found == running_.end()) return;
  const auto lanes = static_cast<std::uint32_t>(std::popcount(agent.lanes));
  found->second->threads_left -= std::min(found->second->threads_left, lanes);
}

bool Recorder::wanted(std::uint32_t cluster) const {
  return std::find(options_.clusters.begin(), options_.clusters.end(), cluster) != options_.clusters.end();
}

void Recorder::close(Running& running) {
  running.record.finished = running.threads_left == 0;
  // Where the record stops before the launch does, what the warps did then is not known.
  if (running.record.finished || running.record.truncated) return;
  for (std::size_t warp = 0; warp < running.warps.size(); ++warp) {
    WarpState& state = running.warps[warp];
    Step step;
    step.warp = static_cast<std::uint32_t>(warp);
    // Memory accesses since its last step, or since it last asked for a phase: it was at work, as far as they tell.
    const bool works = state.open.first_site != kNone;
    if (works) {
      step.kind = Step::Kind::exit;
      step.site = state.access_site;
      Segment work = state.open;
      work.last_site = state.access_site;
      work.instructions = std::max<std::uint64_t>(1, state.begun - std::min(state.begun, state.done));
      step.before = state.polling ? joined(state.before_poll, work) : work;
      running.record.steps.push_back(step);
    }
    // Of a warp that has diverged some lanes may wait while others worked.
    const bool polls = state.polling && !works;
    if (!polls && state.blocked_gate == kNone) continue;
    step.kind = Step::Kind::wait;
    step.stays = true;
    step.site = polls ? state.poll_site : state.blocked_site;
    step.target = polls ? state.poll_gate : state.blocked_gate;
    step.before = polls ? state.before_poll : Segment();
    if (step.target != kNone) running.record.gates[step.target].unended = true;
    running.record.steps.push_back(step);
  }
}

void Recorder::on_launch_end(const emulator::LaunchEvent& event) {
  const std::lock_guard lock(mutex_);
  if (!recording_) return;
  for (auto& [cluster, running] : running_) {
    close(*running);
    kept_.push_back(std::move(running->record));
  }
  running_.clear();
  current_ = event;
}

void Recorder::clear() {
  const std::lock_guard lock(mutex_);
  launches_.clear();
  number_ = left_out_ = 0;
  recorded_ = 0;
  missed_fault_.reset();
}

void Recorder::add(const emulator::LaunchReport& report) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = number_++;
  if (!recording_) return;
  LaunchRecord launch;
  launch.number = number;
  launch.kernel = report.kernel;
  std::copy_n(current_.grid, 3, launch.grid);
  std::copy_n(current_.block, 3, launch.block);
  std::copy_n(current_.cluster, 3, launch.cluster);
  const std::uint32_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  launch.warps_per_cta = (threads + 31) / 32;
  launch.ctas_per_cluster = std::max(1U, threads_per_cluster_ / std::max(1U, threads));
  launch.clusters_run = report.clusters_run;
  launch.clusters_total = report.clusters_total;
  launch.issue_cycles = average_issue_cycles(report);
  launch.fault = report.fault;
  launch.clusters = std::move(kept_);
  if (report.fault) {
    std::uint64_t faulted = 0;
    for (int d = 2; d >= 0; --d) {
      const std::uint32_t size = std::max(1U, launch.cluster[d]);
      faulted = faulted * (launch.grid[d] / size) + report.fault->cta[d] / size;
    }
    launch.faulted_cluster = static_cast<std::uint32_t>(faulted);
    if (!wanted(*launch.faulted_cluster)) missed_fault_ = launch.faulted_cluster;
  }
  std::sort(launch.clusters.begin(), launch.clusters.end(),
            [](const ClusterRecord& a, const ClusterRecord& b) { return a.index < b.index; });
  const auto place = [&](std::uint32_t site) {
    if (site == kNone || device_ == nullptr) return;
    const auto [found, added] = launch.places.try_emplace(site);
    if (added) found->second = shortened(device_->describe({current_.program, site}));
  };
  for (const ClusterRecord& cluster : launch.clusters) {
    for (const Step& step : cluster.steps) {
      place(step.site);
      place(step.before.first_site);
      place(step.before.last_site);
    }
  }
  kept_.clear();
  launches_.push_back(std::move(launch));
}

Result<std::unique_ptr<Recording>> Recording::start(emulator::DeviceOptions device, RecorderOptions options) {
  std::unique_ptr<Recording> recording(new Recording(std::move(options)));
  device.observer = &recording->recorder_;
  auto made = emulator::Device::create(std::move(device));
  if (!made) return tl::unexpected<Error>(made.error());
  recording->device_ = std::move(*made);
  recording->recorder_.attach(*recording->device_);
  return recording;
}

std::vector<LaunchRecord> Recorder::take() { return std::move(launches_); }

}  // namespace ptxbench::timeline
