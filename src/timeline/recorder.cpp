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

}  // namespace

struct Recorder::WarpState {
  std::uint64_t done = 0;  ///< instructions up to the last step
  Segment open;
  /// Asks again and again for a phase that is not complete: what it executes meanwhile is waiting.
  bool polling = false;
  std::uint64_t polled_address = 0;
  Segment before_poll;
  std::uint32_t poll_site = kNone, poll_gate = kNone;
  /// Entered a barrier that was not complete.
  std::uint32_t blocked_gate = kNone, blocked_site = kNone;
  Segment before_block;
};

struct Recorder::Running {
  ClusterRecord record;
  std::uint32_t program = 0, warps_per_cta = 1, threads_left = 0;
  std::vector<WarpState> warps;
  std::map<std::tuple<Gate::Kind, std::uint32_t, std::uint64_t, std::uint64_t, std::uint64_t>, std::uint32_t> gates;
  std::map<std::uint64_t, std::uint64_t> epochs;  ///< by mbarrier: how often it was initialised
  std::unordered_map<std::uint64_t, std::uint32_t> operations;
  /// Asynchronous operations of threads that no commit has taken yet, and the last group committed.
  struct Groups {
    std::vector<std::uint32_t> open;
    std::map<std::uint64_t, std::uint32_t> gates;
    std::uint32_t last = kNone;
  };
  std::map<std::tuple<std::uint32_t, std::uint32_t, Completion>, Groups> groups;
  std::unordered_map<std::uint32_t, std::uint32_t> rest_of_block;
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
    return gate(Gate::Kind::mbarrier, static_cast<std::uint32_t>(address >> kCtaShift), (address & kOffsetMask) - std::min<std::uint64_t>(address & kOffsetMask, emulator::kReservedSharedBytes), phase,
                epochs[address]);
  }
  Groups& groups_of(const Agent& agent, Completion kind) {
    // wgmma groups belong to the warp, the others to a thread; lanes that act together stay together.
    const std::uint32_t lane = kind == Completion::wgmma_group || agent.lanes == 0
                                   ? 0
                                   : static_cast<std::uint32_t>(std::countr_zero(agent.lanes));
    return groups[{agent.cta_rank * warps_per_cta + agent.warp, lane, kind}];
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
  unfinished_.clear();
}

Recorder::Running* Recorder::running_of(const Agent& agent) {
  if (!recording_) return nullptr;
  Running* running = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto [found, added] = running_.try_emplace(agent.cluster);
    std::unique_ptr<Running>& place = found->second;
    if (added) {
      place = std::make_unique<Running>();
      place->record.index = agent.cluster;
      place->program = current_.program;
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
  step.warp = agent.cta_rank * running.warps_per_cta + agent.warp;
  step.site = site.instruction;
  step.target = target;
  step.reads_only = reads_only;
  step.before = segment(running, warp, agent, site);
  warp.polling = false;
  running.record.steps.push_back(step);
  if (running.record.steps.size() >= options_.steps_per_cluster) {
    running.record.truncated = true;
    running.full = true;
  }
}

void Recorder::on_access(const emulator::AccessEvent& event) {
  Running* running = running_of(event.agent);
  if (running == nullptr) return;
  Segment& open = warp_of(*running, event.agent).open;
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
      const std::uint32_t gate =
          warp.blocked_gate != kNone ? warp.blocked_gate : gate_of(event.generation - std::min<std::uint64_t>(event.generation, 1));
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
          running->record.operations[operation->second].gates.push_back(index);
          return;
        }
      }
      step(*running, event.agent, event.site, Step::Kind::arrive, index);
      return;
    }
    case MbarrierAction::wait_failure: {
      if (warp.polling && warp.polled_address == event.address) {
        segment(*running, warp, event.agent, event.site);
        return;
      }
      warp.before_poll = segment(*running, warp, event.agent, event.site);
      warp.polling = true;
      warp.polled_address = event.address;
      warp.poll_site = event.site.instruction;
      warp.poll_gate = running->mbarrier_gate(event.address, event.phase);
      return;
    }
    case MbarrierAction::wait_success: {
      const bool polled = warp.polling && warp.polled_address == event.address;
      const std::uint32_t gate =
          event.phase == 0 ? kNone : running->mbarrier_gate(event.address, event.phase - 1);
      step(*running, event.agent, event.site, Step::Kind::wait, gate);
      if (polled) running->record.steps.back().before = std::exchange(warp.before_poll, {});
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
  if (grouped) running->groups_of(event.agent, event.completion).open.push_back(index);
  step(*running, event.agent, event.site, Step::Kind::issue, index);
}

void Recorder::on_group_commit(const Agent& agent, Site, Completion kind, std::uint64_t group) {
  Running* running = running_of(agent);
  if (running == nullptr) return;
  Running::Groups& groups = running->groups_of(agent, kind);
  const auto index = static_cast<std::uint32_t>(running->record.gates.size());
  Gate gate;
  gate.kind = Gate::Kind::group;
  gate.cta = agent.cta_rank;
  gate.phase = group;
  gate.completion = kind;
  gate.previous = groups.last;
  gate.parts = static_cast<std::uint32_t>(groups.open.size());
  running->record.gates.push_back(gate);
  for (const std::uint32_t operation : groups.open) running->record.operations[operation].gates.push_back(index);
  groups.open.clear();
  groups.gates[group] = index;
  groups.last = index;
}

void Recorder::on_group_wait(const emulator::GroupWaitEvent& event) {
  Running* running = running_of(event.agent);
  if (running == nullptr || event.none) return;
  Running::Groups& groups = running->groups_of(event.agent, event.kind);
  const auto found = groups.gates.upper_bound(event.group);
  const std::uint32_t gate = found == groups.gates.begin() ? kNone : std::prev(found)->second;
  step(*running, event.agent, event.site, Step::Kind::wait, gate, event.reads_only);
}

void Recorder::on_exit(const Agent& agent, Site site) {
  if (Running* running = running_of(agent)) step(*running, agent, site, Step::Kind::exit, kNone);
  if (!recording_) return;
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Running>& running = running_[agent.cluster];
  if (running == nullptr) return;
  const auto lanes = static_cast<std::uint32_t>(std::popcount(agent.lanes));
  running->threads_left -= std::min(running->threads_left, lanes);
  if (running->threads_left == 0 && !wanted(agent.cluster)) running.reset();
}

bool Recorder::wanted(std::uint32_t cluster) const {
  return std::find(options_.clusters.begin(), options_.clusters.end(), cluster) != options_.clusters.end();
}

void Recorder::close(Running& running) {
  const bool finished = running.threads_left == 0;
  running.record.finished = finished;
  if (finished) return;
  for (std::size_t warp = 0; warp < running.warps.size(); ++warp) {
    WarpState& state = running.warps[warp];
    Step step;
    step.kind = Step::Kind::wait;
    step.warp = static_cast<std::uint32_t>(warp);
    step.stays = true;
    if (state.polling) {
      step.site = state.poll_site;
      step.target = state.poll_gate;
      step.before = state.before_poll;
    } else if (state.blocked_gate != kNone) {
      step.site = state.blocked_site;
      step.target = state.blocked_gate;
    } else {
      continue;
    }
    running.record.steps.push_back(step);
  }
}

void Recorder::on_launch_end(const emulator::LaunchEvent& event) {
  const std::lock_guard lock(mutex_);
  if (!recording_) return;
  for (auto& [cluster, running] : running_) {
    if (running == nullptr) continue;
    close(*running);
    if (wanted(cluster)) {
      kept_.push_back(std::move(running->record));
    } else if (!running->record.finished) {
      unfinished_.push_back(std::move(running->record));
    }
  }
  running_.clear();
  current_ = event;
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
  if (report.fault && !unfinished_.empty()) {
    const auto index_of = [&](const std::uint32_t (&cta)[3]) {
      std::uint64_t index = 0;
      for (int d = 2; d >= 0; --d) {
        const std::uint32_t size = std::max(1U, launch.cluster[d]);
        index = index * (launch.grid[d] / size) + cta[d] / size;
      }
      return index;
    };
    const std::uint64_t faulted = index_of(report.fault->cta);
    const auto found = std::find_if(unfinished_.begin(), unfinished_.end(),
                                    [&](const ClusterRecord& one) { return one.index == faulted; });
    if (found != unfinished_.end()) launch.clusters.push_back(std::move(*found));
  }
  std::sort(launch.clusters.begin(), launch.clusters.end(),
            [](const ClusterRecord& a, const ClusterRecord& b) { return a.index < b.index; });
  const auto place = [&](std::uint32_t site) {
    if (site == kNone || device_ == nullptr) return;
    const auto [found, added] = launch.places.try_emplace(site);
    if (added) found->second = device_->describe({current_.program, site});
  };
  for (const ClusterRecord& cluster : launch.clusters) {
    for (const Step& step : cluster.steps) {
      place(step.site);
      place(step.before.first_site);
      place(step.before.last_site);
    }
  }
  kept_.clear();
  unfinished_.clear();
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
