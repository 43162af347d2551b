#include "timeline/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "base/demangle.h"
#include "base/files.h"
#include "base/gzip.h"
#include "base/json.h"
#include "base/text.h"

namespace ptxbench::timeline {
namespace {

using emulator::AsyncKind;
using emulator::CodePlace;
using emulator::Completion;

// Order of a process's threads, top to bottom.
constexpr std::uint32_t kCopies = 1'000, kProducts = 2'000, kBarriers = 3'000, kWarps = 100'000;
/// Copies of one CTA that are shown side by side; what exceeds them is only in the counter of bytes in flight.
constexpr std::size_t kCopyTracks = 32;
constexpr double kGap = 1'000;  ///< cycles between launches: they follow each other, how soon is not modelled

std::string json_text(std::string_view text) {
  return base::Json(text).dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

/// The line in the kernel's own body.
std::string line_of(const CodePlace& place) {
  const bool inlined = !place.called_from.empty();
  const std::string& file = inlined ? place.called_from.back().first : place.file;
  const std::uint32_t line = inlined ? place.called_from.back().second : place.line;
  if (line == 0) return place.ptx_line == 0 ? "?" : fmt::format("PTX line {}", place.ptx_line);
  return fmt::format("{}:{}", base::candidate_file_name(file), line);
}

std::string name_of(const Operation& operation) {
  switch (operation.kind) {
    case AsyncKind::wgmma:
      return fmt::format("wgmma m64n{}k{}", operation.n, operation.k);
    case AsyncKind::tensor_copy:
      return operation.store ? "TMA store" : std::popcount(operation.destinations) > 1 ? "TMA multicast" : "TMA load";
    case AsyncKind::tensor_reduce:
      return "TMA reduce";
    case AsyncKind::bulk_copy:
      return operation.store ? "bulk store" : "bulk copy";
    case AsyncKind::bulk_reduce:
      return "bulk reduce";
    case AsyncKind::cp_async:
      return "cp.async";
    case AsyncKind::st_async:
      return "st.async";
    case AsyncKind::red_async:
      return "red.async";
    case AsyncKind::prefetch:
      return "prefetch";
  }
  return "copy";
}

std::string name_of(const Gate& gate) {
  switch (gate.kind) {
    case Gate::Kind::mbarrier:
      return fmt::format("mbarrier shared + {:#x}", gate.name);
    case Gate::Kind::cta_barrier:
      return fmt::format("barrier {}", gate.name);
    case Gate::Kind::cluster_barrier:
      return "cluster barrier";
    case Gate::Kind::group:
      return gate.completion == Completion::wgmma_group      ? "wgmma group"
             : gate.completion == Completion::cp_async_group ? "cp.async group"
                                                             : "bulk group";
  }
  return "?";
}

class Writer {
 public:
  explicit Writer(std::size_t most) : most_(most) {}

  void metadata(std::uint32_t process, std::uint32_t thread, std::string_view what, std::string_view name) {
    open();
    fmt::format_to(out(), R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}}}})", process, thread, what,
                   json_text(name));
  }
  void order(std::uint32_t process, std::uint32_t thread) {
    open();
    fmt::format_to(out(), R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})",
                   process, thread, thread);
  }
  /// `arguments`: members of a JSON object.
  void slice(std::uint32_t process, std::uint32_t thread, std::string_view category, std::string_view name,
             double begin, double end, std::string_view arguments) {
    if (full()) return;
    open();
    fmt::format_to(out(),
                   R"({{"ph":"X","pid":{},"tid":{},"cat":"{}","name":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                   process, thread, category, json_text(name), stamp(begin), stamp(end) - stamp(begin), arguments);
  }
  void instant(std::uint32_t process, std::uint32_t thread, std::string_view name, double at,
               std::string_view arguments) {
    open();
    fmt::format_to(out(), R"({{"ph":"i","s":"p","pid":{},"tid":{},"name":{},"ts":{:.3f},"args":{{{}}}}})", process,
                   thread, json_text(name), stamp(at), arguments);
  }
  void counter(std::uint32_t process, std::string_view name, double at, double value) {
    if (full()) return;
    open();
    fmt::format_to(out(), R"({{"ph":"C","pid":{},"name":{},"ts":{:.3f},"args":{{"bytes":{:.0f}}}}})", process,
                   json_text(name), stamp(at), value);
  }
  void arrow(std::uint32_t process, std::uint32_t from, double from_time, std::uint32_t to, double to_time) {
    if (full()) return;
    const std::uint64_t id = ++arrows_;
    open();
    fmt::format_to(out(), R"({{"ph":"s","pid":{},"tid":{},"cat":"releases","name":"releases","id":{},"ts":{:.3f}}})",
                   process, from, id, stamp(from_time));
    open();
    fmt::format_to(out(),
                   R"({{"ph":"f","bp":"e","pid":{},"tid":{},"cat":"releases","name":"releases","id":{},"ts":{:.3f}}})",
                   process, to, id, stamp(to_time));
  }
  std::string take() { return std::move(text_); }
  std::uint64_t left_out() const { return left_out_; }

 private:
  /// Microseconds. Whole cycles, so that what ends when another one begins does so in the file as well.
  static double stamp(double cycles) { return static_cast<double>(std::llround(cycles)) / 1000; }
  std::back_insert_iterator<std::string> out() { return std::back_inserter(text_); }
  void open() {
    text_ += text_.empty() ? "" : ",\n";
    ++events_;
  }
  bool full() {
    constexpr std::size_t kMostBytes = std::size_t{512} << 20;
    if (events_ < most_ && text_.size() < kMostBytes) return false;
    ++left_out_;
    return true;
  }
  std::string text_;
  std::size_t most_, events_ = 0;
  std::uint64_t left_out_ = 0, arrows_ = 0;
};

class ClusterWriter {
 public:
  ClusterWriter(Writer& writer, const LaunchRecord& launch, const ClusterSchedule& schedule, std::uint32_t process,
                double offset)
      : writer_(writer),
        launch_(launch),
        schedule_(schedule),
        record_(*schedule.record),
        process_(process),
        offset_(offset) {}

  void write() {
    name();
    warps();
    operations();
    barriers();
    arrows();
    if (launch_.fault && launch_.faulted_cluster == record_.index) {
      writer_.instant(process_, warp_track(faulted_warp()),
                      launch_.fault->rule + (record_.truncated ? ", after what is shown" : ""),
                      offset_ + schedule_.cycles,
                      fmt::format(R"("message":{},"remedy":{},"at":{})", json_text(launch_.fault->message),
                                  json_text(launch_.fault->remedy), json_text(line_of(launch_.fault->place))));
    }
  }

 private:
  std::uint32_t warp_track(std::uint32_t warp) const { return kWarps + warp; }
  std::uint32_t faulted_warp() const {
    std::uint32_t rank = 0;
    for (int d = 2; d >= 0; --d) {
      const std::uint32_t size = std::max(1U, launch_.cluster[d]);
      rank = rank * size + launch_.fault->cta[d] % size;
    }
    return std::min(rank * launch_.warps_per_cta + launch_.fault->warp, schedule_.warps - 1);
  }
  /// How a wait is called that nothing ended.
  std::string_view unended() const {
    return launch_.fault && launch_.fault->rule == "sync.deadlock" ? "waits for ever: " : "waited at the end for ";
  }
  std::string cta_prefix(std::uint32_t cta) const {
    return launch_.ctas_per_cluster > 1 ? fmt::format("CTA {} ", cta) : std::string();
  }
  void track(std::uint32_t thread, const std::string& name) {
    writer_.metadata(process_, thread, "thread_name", name);
    writer_.order(process_, thread);
  }
  const CodePlace& place(std::uint32_t site) const {
    static const CodePlace kUnknown;
    const auto found = launch_.places.find(site);
    return found == launch_.places.end() ? kUnknown : found->second;
  }

  void name() {
    std::string name = fmt::format("{} #{}, cluster {} of {}", base::short_name(launch_.kernel), launch_.number,
                                   record_.index, launch_.clusters_total);
    if (record_.truncated) name += " (its beginning)";
    writer_.metadata(process_, 0, "process_name", name);
  }

  void warps() {
    for (std::uint32_t warp = 0; warp < schedule_.of_warp.size(); ++warp) {
      track(warp_track(warp),
            fmt::format("{}warp {}", cta_prefix(warp / launch_.warps_per_cta), warp % launch_.warps_per_cta));
      for (const Span& span : schedule_.of_warp[warp]) {
        if (span.kind == Span::Kind::run) {
          run(warp, span);
        } else {
          wait(warp, span);
        }
      }
    }
  }

  void run(std::uint32_t warp, const Span& span) {
    const Segment& segment = span.step->before;
    std::string arguments =
        fmt::format(R"("instructions":{},"from":{},"to":{})", segment.instructions,
                    json_text(line_of(place(span.site))), json_text(line_of(place(span.last_site))));
    if (segment.global_bytes != 0) arguments += fmt::format(R"(,"global bytes":{})", segment.global_bytes);
    if (segment.shared_bytes != 0) arguments += fmt::format(R"(,"shared bytes":{})", segment.shared_bytes);
    writer_.slice(process_, warp_track(warp), "instructions", line_of(place(span.last_site)), offset_ + span.begin,
                  offset_ + span.end, arguments);
  }

  void wait(std::uint32_t warp, const Span& span) {
    std::string what = "end";
    std::string arguments = fmt::format(R"("at":{},"instruction":{})", json_text(line_of(place(span.site))),
                                        json_text(place(span.site).instruction));
    if (span.target != kNone) {
      const Gate& gate = record_.gates[span.target];
      what = name_of(gate);
      if (gate.kind != Gate::Kind::group && gate.cta != warp / launch_.warps_per_cta)
        what += fmt::format(" of CTA {}", gate.cta);
      arguments += fmt::format(R"(,"{}":{})", gate.kind == Gate::Kind::group ? "group" : "phase", gate.phase);
      if (span.unended) {
        arguments += fmt::format(R"(,"arrived":{},"bytes arrived":{})", gate.arrivals, gate.bytes);
      }
    }
    writer_.slice(process_, warp_track(warp), "wait",
                  span.unended ? fmt::format("{}{}", unended(), what) : fmt::format("wait {}", what),
                  offset_ + span.begin, offset_ + span.end, arguments);
  }

  void operations() {
    tracks_.assign(record_.operations.size(), 0);
    std::map<std::uint32_t, std::vector<std::uint32_t>> copies;
    std::map<std::uint32_t, bool> has_products;
    for (const Step& step : record_.steps) {
      if (step.kind != Step::Kind::issue) continue;
      const Operation& operation = record_.operations[step.target];
      const Span& span = schedule_.of_operation[step.target];
      if (span.end < span.begin) continue;
      if (operation.kind != AsyncKind::wgmma) {
        copies[operation.cta].push_back(step.target);
        continue;
      }
      // The four warps of a warpgroup do the same, each on its own tensor core.
      if (step.warp % launch_.warps_per_cta % 4 != 0) continue;
      const std::uint32_t thread = kProducts + operation.cta;
      if (!std::exchange(has_products[operation.cta], true)) track(thread, cta_prefix(operation.cta) + "tensor cores");
      tracks_[step.target] = thread;
      writer_.slice(process_, thread, "wgmma", name_of(operation), offset_ + span.begin, offset_ + span.end,
                    fmt::format(R"("at":{},"warpgroup":{})", json_text(line_of(place(operation.site))),
                                step.warp % launch_.warps_per_cta / 4));
    }
    for (auto& [cta, ones] : copies) copies_of(cta, ones);
  }

  void copies_of(std::uint32_t cta, std::vector<std::uint32_t>& ones) {
    const auto span_of = [&](std::uint32_t one) -> const Span& { return schedule_.of_operation[one]; };
    std::stable_sort(ones.begin(), ones.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return span_of(a).begin < span_of(b).begin; });
    std::vector<double> busy_until;
    std::map<double, double> changes;
    for (const std::uint32_t one : ones) {
      const Span& span = span_of(one);
      const Operation& operation = record_.operations[one];
      std::size_t lane = 0;
      while (lane < busy_until.size() && busy_until[lane] > span.begin) ++lane;
      changes[span.begin] += static_cast<double>(operation.bytes);
      changes[span.end] -= static_cast<double>(operation.bytes);
      if (lane == kCopyTracks) continue;  // the counter has it
      const std::uint32_t thread =
          kCopies + cta * static_cast<std::uint32_t>(kCopyTracks) + static_cast<std::uint32_t>(lane);
      if (lane == busy_until.size()) {
        busy_until.push_back(0);
        track(thread, fmt::format("{}copies in flight {}", cta_prefix(cta), lane + 1));
      }
      busy_until[lane] = span.end;
      tracks_[one] = thread;
      std::string arguments =
          fmt::format(R"("bytes":{},"at":{})", operation.bytes, json_text(line_of(place(operation.site))));
      if (const int ctas = std::popcount(operation.destinations); ctas > 1)
        arguments += fmt::format(R"(,"CTAs":{})", ctas);
      writer_.slice(process_, thread, "copy", name_of(operation), offset_ + span.begin, offset_ + span.end, arguments);
    }
    double bytes = 0;
    for (const auto& [at, change] : changes) {
      bytes += change;
      writer_.counter(process_, cta_prefix(cta) + "bytes in flight", offset_ + at, bytes);
    }
  }

  void barriers() {
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> tracks;
    for (std::uint32_t i = 0; i < record_.gates.size(); ++i) {
      const Gate& gate = record_.gates[i];
      const Span& span = schedule_.of_gate[i];
      if (gate.kind != Gate::Kind::mbarrier || span.end < span.begin) continue;
      const auto [found, added] =
          tracks.try_emplace({gate.cta, gate.name}, kBarriers + static_cast<std::uint32_t>(tracks.size()));
      if (added) track(found->second, cta_prefix(gate.cta) + name_of(gate));
      writer_.slice(
          process_, found->second, "mbarrier",
          span.unended ? fmt::format("phase {} does not complete", gate.phase) : fmt::format("phase {}", gate.phase),
          offset_ + span.begin, offset_ + span.end,
          fmt::format(R"("arrivals":{},"bytes":{})", gate.arrivals, gate.bytes));
    }
  }

  bool has_slice(std::uint32_t warp, double at) const {
    const std::vector<Span>& spans = schedule_.of_warp[warp];
    const auto after = std::upper_bound(spans.begin(), spans.end(), at,
                                        [](double time, const Span& span) { return time < span.begin; });
    return after != spans.begin() && std::prev(after)->end >= at;
  }

  void arrows() {
    // A viewer ties an arrow to the slice that is there at that time: a cycle before the end.
    constexpr double kMoment = 1;
    for (const Release& release : schedule_.releases) {
      const std::uint32_t from = release.by_operation ? tracks_[release.source] : warp_track(release.source);
      if (from == 0) continue;  // not shown
      // A copy's slice ends with its completion; who waits for its source goes on before.
      const double done =
          release.by_operation ? std::min(release.at, schedule_.of_operation[release.source].end) : release.at;
      const double at = done - kMoment;
      if (!release.by_operation && !has_slice(release.source, at)) continue;
      writer_.arrow(process_, from, offset_ + at, warp_track(release.warp), offset_ + release.end - kMoment);
    }
  }

  Writer& writer_;
  const LaunchRecord& launch_;
  const ClusterSchedule& schedule_;
  const ClusterRecord& record_;
  std::uint32_t process_;
  double offset_;
  std::vector<std::uint32_t> tracks_;  ///< by operation; 0: it is not shown
};

std::string dims(const std::uint32_t (&d)[3]) { return fmt::format("{}x{}x{}", d[0], d[1], d[2]); }

}  // namespace

std::string chrome_trace(const std::vector<LaunchRecord>& launches, const TraceOptions& options,
                         const CostModel& model) {
  Writer writer(options.most_events);
  base::Json clusters = base::Json::array();
  std::uint32_t process = 0;
  double offset = 0;
  for (const LaunchRecord& launch : launches) {
    double longest = 0;
    for (const ClusterRecord& cluster : launch.clusters) {
      const ClusterSchedule scheduled = schedule(launch, cluster, model);
      ClusterWriter(writer, launch, scheduled, ++process, offset).write();
      longest = std::max(longest, scheduled.cycles);
      clusters.push_back({{"launch", launch.number},
                          {"kernel", base::short_name(launch.kernel)},
                          {"grid", dims(launch.grid)},
                          {"block", dims(launch.block)},
                          {"cluster", cluster.index},
                          {"cycles", std::llround(scheduled.cycles)},
                          {"tensor_core_cycles", std::llround(scheduled.product_cycles)},
                          {"copied_bytes", std::llround(scheduled.copy_bytes)},
                          {"complete", cluster.finished && !cluster.truncated}});
    }
    offset += longest + kGap;
  }
  base::Json other = {{"schema", "ptxbench.timeline/1"},
                      {"subject", options.subject},
                      {"time", "cycles of an SM by a cost model, one shown as a nanosecond; nothing was measured"},
                      {"clusters", std::move(clusters)}};
  if (options.launches_left_out != 0) other["launches_left_out"] = options.launches_left_out;
  if (writer.left_out() != 0) other["events_left_out"] = writer.left_out();
  return fmt::format("{{\"displayTimeUnit\":\"ns\",\n\"otherData\":{},\n\"traceEvents\":[\n{}\n]}}\n",
                     other.dump(-1, ' ', false, base::Json::error_handler_t::replace), writer.take());
}

Result<void> write_trace(const std::string& file, const std::vector<LaunchRecord>& launches,
                         const TraceOptions& options, const CostModel& model) {
  const std::string text = chrome_trace(launches, options, model);
  return base::write_file_atomic(file, file.ends_with(".gz") ? base::gzip(text) : text);
}

std::string summary(const std::vector<LaunchRecord>& launches, const CostModel& model) {
  std::string text;
  for (const LaunchRecord& launch : launches) {
    for (const ClusterRecord& cluster : launch.clusters) {
      const ClusterSchedule scheduled = schedule(launch, cluster, model);
      double waiting = 0, lived = 0;
      for (const std::vector<Span>& spans : scheduled.of_warp) {
        for (const Span& span : spans) {
          if (span.kind == Span::Kind::wait) waiting += span.end - span.begin;
        }
        if (!spans.empty()) lived += spans.back().end;
      }
      const double ctas = std::max(1U, launch.ctas_per_cluster);
      text += fmt::format("{} #{}, cluster {}: {:.0f} cycles by the model, warps wait {:.0f} % of them",
                          base::short_name(launch.kernel), launch.number, cluster.index, scheduled.cycles,
                          lived > 0 ? waiting / lived * 100 : 0);
      if (scheduled.product_cycles > 0)
        text += fmt::format(", tensor cores work {:.0f} %", scheduled.product_cycles / ctas / scheduled.cycles * 100);
      if (scheduled.copy_bytes > 0) text += fmt::format(", {:.0f} KiB copied", scheduled.copy_bytes / 1024);
      text += cluster.truncated ? " (only its beginning)\n" : "\n";
    }
  }
  return text;
}

}  // namespace ptxbench::timeline
