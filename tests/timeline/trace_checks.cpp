#include "trace_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/json.h"

namespace ptxbench::timeline {
namespace {

constexpr double kSlack = 1e-6;

double contribution_time(const ClusterSchedule& schedule, std::uint32_t gate) {
  double last = 0;
  const ClusterRecord& record = *schedule.record;
  for (std::uint32_t i = 0; i < record.operations.size(); ++i) {
    const auto& gates = record.operations[i].gates;
    if (std::find(gates.begin(), gates.end(), gate) != gates.end()) last = std::max(last, schedule.of_operation[i].end);
  }
  // A warp arrives at the end of what it executed before, which is the first span that ends with that step.
  for (const Step& step : record.steps) {
    if (step.kind != Step::Kind::arrive || step.target != gate) continue;
    for (const Span& span : schedule.of_warp[step.warp]) {
      if (span.step == &step) last = std::max(last, span.end);
    }
  }
  return last;
}

}  // namespace

std::string fault_of(const LaunchRecord& launch, const ClusterSchedule& schedule) {
  const ClusterRecord& record = *schedule.record;
  std::vector<std::size_t> steps(schedule.warps), shown(schedule.warps);
  for (const Step& step : record.steps) ++steps[step.warp];
  for (std::uint32_t warp = 0; warp < schedule.of_warp.size(); ++warp) {
    double now = 0;
    for (const Span& span : schedule.of_warp[warp]) {
      if (span.begin < now - kSlack)
        return fmt::format("warp {}: a span begins at {} before {}", warp, span.begin, now);
      if (span.end < span.begin) return fmt::format("warp {}: a span ends at {} before it begins", warp, span.end);
      if (span.end > schedule.cycles + kSlack) return fmt::format("warp {}: a span ends after the cluster", warp);
      now = span.end;
      if (span.unended && record.finished && !record.truncated)
        return fmt::format("warp {} waits without end, but the cluster came to its end", warp);
      if (span.kind != Span::Kind::wait || span.target == kNone || span.unended) continue;
      // A wait for sources only may end earlier.
      if (!span.step->reads_only && span.end < contribution_time(schedule, span.target) - kSlack)
        return fmt::format("warp {}: a wait ends at {}, what it waits for at {}", warp, span.end,
                           contribution_time(schedule, span.target));
    }
  }
  if (record.finished && !record.truncated) {
    for (std::uint32_t i = 0; i < record.operations.size(); ++i) {
      if (schedule.of_operation[i].end < schedule.of_operation[i].begin)
        return fmt::format("operation {} has no time", i);
    }
  }
  // One tensor core does one thing at a time.
  std::map<std::uint32_t, std::vector<std::pair<double, double>>> cores;
  for (const Step& step : record.steps) {
    if (step.kind != Step::Kind::issue || record.operations[step.target].kind != emulator::AsyncKind::wgmma) continue;
    const Span& span = schedule.of_operation[step.target];
    if (span.end < span.begin) continue;
    const std::uint32_t warps = std::max(1U, launch.warps_per_cta);
    cores[step.warp / warps * 4 + step.warp % warps % 4].emplace_back(span.begin, span.end);
  }
  for (auto& [core, spans] : cores) {
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) {
      if (spans[i].first < spans[i - 1].second - kSlack)
        return fmt::format("tensor core {} does two things at once", core);
    }
  }
  return {};
}

std::string fault_of_trace(const std::string& text) {
  const auto json = base::parse_json(text, "trace");
  if (!json) return json.error().message;
  if (!json->contains("traceEvents") || !json->contains("otherData")) return "not the object format";
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> slices;
  std::set<std::pair<int, int>> named;
  std::vector<std::pair<std::pair<int, int>, double>> ends;
  std::map<std::uint64_t, int> arrows;
  std::map<std::uint64_t, double> begun;
  for (const base::Json& event : json->at("traceEvents")) {
    const std::string kind = event.at("ph");
    const std::pair<int, int> thread{event.at("pid").get<int>(), event.value("tid", 0)};
    if (kind == "M" && event.at("name") == "thread_name") named.insert(thread);
    if (kind == "X") slices[thread].emplace_back(event.at("ts").get<double>(), event.at("dur").get<double>());
    if (kind == "s" || kind == "f") {
      ends.emplace_back(thread, event.at("ts").get<double>());
      const auto id = event.at("id").get<std::uint64_t>();
      arrows[id] += kind == "s" ? 1 : 16;
      if (kind == "s") begun[id] = event.at("ts").get<double>();
      if (kind == "f" && event.at("ts").get<double>() < begun[id]) return fmt::format("arrow {} goes back in time", id);
    }
  }
  for (auto& [thread, spans] : slices) {
    if (!named.contains(thread)) return fmt::format("thread {} of process {} has no name", thread.second, thread.first);
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) {
      if (spans[i].first < spans[i - 1].first + spans[i - 1].second - 1e-7)
        return fmt::format("slices overlap on thread {}: {} + {}, {}", thread.second, spans[i - 1].first,
                           spans[i - 1].second, spans[i].first);
    }
  }
  for (const auto& [id, ones] : arrows) {
    if (ones != 17) return fmt::format("arrow {} has no two ends", id);
  }
  for (const auto& [thread, at] : ends) {
    const auto& spans = slices[thread];
    const bool inside = std::any_of(spans.begin(), spans.end(), [&, time = at](const auto& span) {
      return time >= span.first - 0.0011 && time <= span.first + span.second + 0.0011;
    });
    if (!inside) return fmt::format("an arrow at {} touches no slice of thread {}", at, thread.second);
  }
  return {};
}

}  // namespace ptxbench::timeline
