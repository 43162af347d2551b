#include "evaluation/performance.h"

#include <fmt/format.h>

#include "base/text.h"

namespace ptxbench::evaluation {
namespace {

using base::Json;

Json median_json(const gpu::Median& median) {
  return Json{{"value", median.value}, {"low", median.low}, {"high", median.high}, {"count", median.count}};
}

}  // namespace

std::string_view to_string(TimedInputs inputs) {
  switch (inputs) {
    case TimedInputs::fresh:
      return "fresh";
    case TimedInputs::partly:
      return "partly-fresh";
    case TimedInputs::permuted:
      return "permuted";
    case TimedInputs::repeated:
      break;
  }
  return "repeated";
}

Json to_json(const Performance& performance) {
  Json axes = Json::object();
  for (const auto& [name, value] : performance.axes) axes[name] = value;
  const gpu::TimingSummary& times = performance.times;
  // The published numbers' libraries, so that nobody compares unlike things by accident.
  static const Json kPublished = {{"cuBLAS", "13.1"}, {"cuDNN", "9.20.0"}, {"FlashInfer", "0.6.14"}};
  Json baseline = nullptr;
  if (times.baseline) {
    baseline = Json{{"name", performance.baseline},
                    {"version", performance.baseline_version},
                    {"latency_ms", median_json(*times.baseline)}};
  }
  return Json{{"workload", performance.workload.empty() ? Json(nullptr) : Json(performance.workload)},
              {"axes", axes},
              {"latency_ms", times.candidate.count == 0 ? Json(nullptr) : median_json(times.candidate)},
              {"baseline", baseline},
              {"baseline_missing", performance.no_baseline},
              {"published_baselines", kPublished},
              {"speedup", times.speedup ? median_json(*times.speedup) : Json(nullptr)},
              {"floor_ms", performance.floor},
              {"timer", "events"},
              {"timer_disagreement", times.timer_disagreement},
              {"interrupted_calls", times.interrupted},
              {"inputs", to_string(performance.inputs)},
              {"verified",
               {{"status", !performance.verified                ? "failed"
                           : performance.verified_elements == 0 ? "unknown"
                                                                : "passed"},
                {"calls", performance.verified_calls},
                {"elements", performance.verified_elements}}},
              {"gpu_seconds", performance.gpu_seconds},
              {"kernel_seconds", performance.kernel_seconds},
              {"seconds", performance.seconds},
              {"device", performance.device},
              {"clocks", performance.clocks}};
}

std::string describe(const Performance& performance) {
  const gpu::TimingSummary& times = performance.times;
  if (times.candidate.count == 0) return "not measured";
  std::string text = base::format_seconds(times.candidate.value / 1e3);
  if (times.speedup) {
    text += fmt::format(", {:.3f}x of {} {} ({:.3f} to {:.3f}, {} calls)", times.speedup->value, performance.baseline,
                        performance.baseline_version, times.speedup->low, times.speedup->high, times.candidate.count);
  } else {
    text += fmt::format(" ({} calls); no baseline: {}", times.candidate.count, performance.no_baseline);
  }
  return text;
}

}  // namespace ptxbench::evaluation
