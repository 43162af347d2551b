#include "timeline/schedule.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

namespace ptxbench::timeline {
namespace {

using emulator::AsyncKind;

constexpr std::uint32_t kSchedulers = 4;  ///< of an SM
constexpr std::uint32_t kWarpsPerProduct = 4;

class Simulation {
 public:
  Simulation(const LaunchRecord& launch, const ClusterRecord& cluster, const CostModel& model)
      : cluster_(cluster),
        model_(model),
        warps_per_cta_(std::max(1U, launch.warps_per_cta)),
        issue_cycles_(launch.issue_cycles * model.issue_slot) {
    const std::uint32_t ctas = std::max(1U, launch.ctas_per_cluster);
    result_.record = &cluster;
    result_.warps = ctas * warps_per_cta_;
    result_.of_warp.resize(result_.warps);
    result_.of_operation.resize(cluster.operations.size(), Span{Span::Kind::copy, 0, -1, kNone, kNone, kNone, nullptr});
    warps_.resize(result_.warps);
    sms_.resize(ctas);
    for (std::uint32_t i = 0; i < cluster.steps.size(); ++i) warps_[cluster.steps[i].warp].steps.push_back(i);
    gates_.resize(cluster.gates.size());
    for (std::size_t i = 0; i < gates_.size(); ++i) gates_[i].left = cluster.gates[i].parts;
  }

  ClusterSchedule run() {
    for (std::uint32_t warp = 0; warp < warps_.size(); ++warp) {
      if (!warps_[warp].steps.empty()) ready_.emplace(0.0, warp);
    }
    while (!ready_.empty()) {
      const auto [time, warp] = ready_.top();
      ready_.pop();
      go_on(warp);
    }
    finish();
    return std::move(result_);
  }

 private:
  struct WarpClock {
    std::vector<std::uint32_t> steps;
    std::size_t next = 0;
    double now = 0;
    bool charged = false;    ///< the segment before step `next` is over
    double waits_since = 0;  ///< when it was
  };
  struct GateClock {
    std::uint32_t left = 0;
    double done = 0, reads_done = 0;
    bool by_operation = false;  ///< the last of its parts
    std::uint32_t source = 0;   ///< of that: operation or warp
    double source_time = 0;
    std::vector<std::uint32_t> waiting;
  };
  struct Sm {
    std::array<double, kSchedulers> slot_free{};
    std::array<double, kSchedulers> product_free{};
    double shared_free = 0, global_free = 0, copies_free = 0;
  };

  void charge(std::uint32_t index, const Step& step) {
    WarpClock& warp = warps_[index];
    const Segment& segment = step.before;
    if (segment.instructions == 0) return;
    Sm& sm = sms_[index / warps_per_cta_];
    double& slot = sm.slot_free[index % warps_per_cta_ % kSchedulers];
    const double begin = warp.now;
    const auto count = static_cast<double>(segment.instructions);
    slot = std::max(slot, begin) + count * issue_cycles_;
    double end = std::max(begin + count * model_.instruction, slot);
    if (segment.shared_bytes != 0) {
      const double cycles = static_cast<double>(segment.shared_bytes) / model_.shared_bytes_per_cycle;
      sm.shared_free = std::max(sm.shared_free, begin) + cycles;
      end = std::max(end, sm.shared_free);
      if (segment.shared_loads != 0) end += model_.shared_latency;
    }
    if (segment.global_bytes != 0) {
      const double cycles = static_cast<double>(segment.global_bytes) / model_.global_bytes_per_cycle;
      sm.global_free = std::max(sm.global_free, begin) + cycles;
      if (segment.global_loads != 0) end = std::max(end, sm.global_free) + model_.global_latency;
    }
    warp.now = end;
    result_.of_warp[index].push_back(
        {Span::Kind::run, begin, end, segment.first_site, segment.last_site, kNone, &step});
  }

  void issue(std::uint32_t index, const Step& step) {
    const Operation& operation = cluster_.operations[step.target];
    Sm& sm = sms_[index / warps_per_cta_];
    const double now = warps_[index].now;
    Span& span = result_.of_operation[step.target];
    span.site = step.site;
    span.target = step.target;
    span.begin = now;
    double reads_done = 0;
    if (operation.kind == AsyncKind::wgmma) {
      // Each warp of the group issues its 16 rows, on the tensor core of its own quarter of the SM.
      span.kind = Span::Kind::product;
      const double element = operation.element_bytes, k_bytes = operation.k * element;
      const double products = 64.0 * operation.n * operation.k * element / (2 * model_.macs_per_cycle);
      const double operands = (operation.a_in_registers ? 0 : 64 * k_bytes) + operation.n * k_bytes;
      const double cycles = std::max(products, operands / model_.shared_bytes_per_cycle);
      double& core = sm.product_free[index % warps_per_cta_ % kSchedulers];
      span.begin = std::max(core, now);
      core = span.begin + cycles;
      span.end = core;
      reads_done = core;
      result_.product_cycles += cycles / kWarpsPerProduct;
      complete(operation, step.target, span.end + model_.wgmma_latency, reads_done);
      return;
    }
    const double cycles = static_cast<double>(operation.bytes) / model_.tma_bytes_per_cycle;
    // A multicast takes the way into each of its SMs.
    double start = std::max(sm.copies_free, now);
    const auto writes = [&](std::size_t cta) { return (operation.destinations >> cta & 1) != 0; };
    for (std::size_t cta = 0; cta < sms_.size(); ++cta) {
      if (writes(cta)) start = std::max(start, sms_[cta].copies_free);
    }
    sm.copies_free = start + cycles;
    for (std::size_t cta = 0; cta < sms_.size(); ++cta) {
      if (writes(cta)) sms_[cta].copies_free = start + cycles;
    }
    reads_done = start + cycles;
    // Its own way takes the latency and its bytes at full rate; where others are ahead of it, the queue takes longer.
    span.end = std::max(reads_done, now + model_.tma_latency + static_cast<double>(operation.bytes) / model_.tma_alone);
    result_.copy_bytes += static_cast<double>(operation.bytes);
    complete(operation, step.target, span.end, operation.store ? reads_done : span.end);
  }

  void complete(const Operation& operation, std::uint32_t index, double done, double reads_done) {
    for (const std::uint32_t gate : operation.gates) contribute(gate, done, reads_done, true, index, done);
  }

  void contribute(std::uint32_t index, double done, double reads_done, bool by_operation, std::uint32_t source,
                  double source_time) {
    GateClock& gate = gates_[index];
    if (done >= gate.done) {
      gate.done = done;
      gate.by_operation = by_operation;
      gate.source = source;
      gate.source_time = source_time;
    }
    gate.reads_done = std::max(gate.reads_done, reads_done);
    if (gate.left != 0) --gate.left;
    if (gate.left != 0) return;
    for (const std::uint32_t warp : std::exchange(gate.waiting, {}))
      ready_.emplace(std::max(gate.done, warps_[warp].now), warp);
  }

  void go_on(std::uint32_t index) {
    WarpClock& warp = warps_[index];
    const Step& step = cluster_.steps[warp.steps[warp.next]];
    if (!warp.charged) {
      charge(index, step);
      warp.charged = true;
      warp.waits_since = warp.now;
      // Others may act while these instructions run: what the step itself does comes in its turn.
      ready_.emplace(warp.now, index);
      return;
    }
    switch (step.kind) {
      case Step::Kind::issue:
        issue(index, step);
        break;
      case Step::Kind::arrive: {
        const Gate& gate = cluster_.gates[step.target];
        const bool remote = gate.kind == Gate::Kind::mbarrier && gate.cta != index / warps_per_cta_;
        const double at = warp.now + (remote ? model_.remote : 0);
        contribute(step.target, at, at, false, index, warp.now);
        break;
      }
      case Step::Kind::wait:
        if (!pass(index, step)) return;
        break;
      case Step::Kind::exit:
        break;
    }
    warp.charged = false;
    ++warp.next;
    if (warp.next < warp.steps.size()) ready_.emplace(warp.now, index);
  }

  /// False: the gate is not open yet.
  bool pass(std::uint32_t index, const Step& step) {
    WarpClock& warp = warps_[index];
    if (step.stays) return false;
    if (step.target != kNone) {
      GateClock& gate = gates_[step.target];
      if (gate.left != 0) {
        gate.waiting.push_back(index);
        return false;
      }
      double done = step.reads_only ? gate.reads_done : gate.done;
      std::uint32_t last = step.target;
      if (cluster_.gates[step.target].kind == Gate::Kind::group) {
        done = std::max(done, group_done(step.target, step.reads_only, last));
      }
      if (done > warp.waits_since) {
        warp.now = done + model_.wake;
        result_.of_warp[index].push_back(
            {Span::Kind::wait, warp.waits_since, warp.now, step.site, kNone, step.target, &step});
        result_.releases.push_back({gates_[last].by_operation, gates_[last].source,
                                    step.reads_only ? done : gates_[last].source_time, index, warp.now});
      }
    }
    return true;
  }

  /// Groups complete in order: a group is done when those before it are.
  double group_done(std::uint32_t gate, bool reads_only, std::uint32_t& last) {
    double done = 0;
    // Earlier groups were waited for, or are done before this one, unless few are open: a short look back is enough.
    constexpr int kMostOpen = 64;
    for (int i = 0; gate != kNone && i < kMostOpen; ++i, gate = cluster_.gates[gate].previous) {
      const double one = reads_only ? gates_[gate].reads_done : gates_[gate].done;
      if (one > done) {
        done = one;
        last = gate;
      }
    }
    return done;
  }

  void finish() {
    for (const auto& spans : result_.of_warp) {
      if (!spans.empty()) result_.cycles = std::max(result_.cycles, spans.back().end);
    }
    for (const Span& span : result_.of_operation) result_.cycles = std::max(result_.cycles, span.end);
    for (std::uint32_t index = 0; index < warps_.size(); ++index) {
      const WarpClock& warp = warps_[index];
      if (warp.next >= warp.steps.size()) continue;
      const Step& step = cluster_.steps[warp.steps[warp.next]];
      // Something is to be seen of it even if everything else ended when it began.
      result_.cycles = std::max(result_.cycles, warp.waits_since + 1);
      result_.of_warp[index].push_back(
          {Span::Kind::wait, warp.waits_since, -1, step.site, kNone, step.target, &step, true});
    }
    for (auto& spans : result_.of_warp) {
      if (!spans.empty() && spans.back().unended) spans.back().end = result_.cycles;
    }
    // A phase of an mbarrier lasts from the end of the one before.
    result_.of_gate.resize(gates_.size(), Span{Span::Kind::phase, 0, -1, kNone, kNone, kNone, nullptr});
    std::vector<std::uint32_t> order(gates_.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Gate &x = cluster_.gates[a], &y = cluster_.gates[b];
      return std::tie(x.cta, x.name) < std::tie(y.cta, y.name);
    });
    const Gate* before = nullptr;
    double since = 0;
    for (const std::uint32_t i : order) {
      const Gate& gate = cluster_.gates[i];
      if (gate.kind != Gate::Kind::mbarrier || gate.parts == 0) continue;
      if (before == nullptr || before->cta != gate.cta || before->name != gate.name) since = 0;
      before = &gate;
      const bool open = gates_[i].left == 0 && !gate.unended;
      const double end = open ? gates_[i].done : result_.cycles;
      result_.of_gate[i] = {Span::Kind::phase, std::min(since, end), end, kNone, kNone, i, nullptr, !open};
      since = end;
    }
  }

  const ClusterRecord& cluster_;
  const CostModel& model_;
  std::uint32_t warps_per_cta_;
  double issue_cycles_;
  std::vector<WarpClock> warps_;
  std::vector<GateClock> gates_;
  std::vector<Sm> sms_;
  std::priority_queue<std::pair<double, std::uint32_t>, std::vector<std::pair<double, std::uint32_t>>, std::greater<>>
      ready_;
  ClusterSchedule result_;
};

}  // namespace

ClusterSchedule schedule(const LaunchRecord& launch, const ClusterRecord& cluster, const CostModel& model) {
  return Simulation(launch, cluster, model).run();
}

}  // namespace ptxbench::timeline
