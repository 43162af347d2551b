#include "service/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <limits>

#include "base/text.h"

namespace ptxbench::service {
namespace {

using base::Json;

constexpr std::size_t kMaxLogBytes = std::size_t{64} << 10;

/// What a GPU would show as a kernel or a host that does not come back.
constexpr std::array<std::string_view, 3> kEndless{"host.timeout", "sync.deadlock", "sync.budget"};

std::string stage_status(const Json& evaluation, std::string_view name) {
  for (const Json& stage : evaluation.at("stages")) {
    if (stage.at("name") == name) return stage.at("status").get<std::string>();
  }
  return "skipped";
}

/// Numbers, and the words that stand for those that JSON cannot write.
double number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

struct Errors {
  double absolute = 0, relative = 0;
};

/// The largest of all outputs of all runs.
Errors largest_errors(const Json& evaluation) {
  Errors largest;
  const auto raise = [](double& to, double value) {
    if (std::isnan(value) || value > to) to = std::isnan(to) ? to : value;
  };
  for (const Json& run : evaluation.at("runs")) {
    for (const Json& output : run.at("outputs")) {
      const Json& compat = output.at("compat");
      raise(largest.absolute, number_of(compat.at("max_absolute_error")));
      raise(largest.relative, number_of(compat.at("max_relative_error")));
    }
  }
  return largest;
}

bool has_endless_finding(const Json& evaluation) {
  return std::any_of(evaluation.at("findings").begin(), evaluation.at("findings").end(), [](const Json& finding) {
    return finding.at("severity") == "error" &&
           std::find(kEndless.begin(), kEndless.end(), finding.at("rule").get<std::string>()) != kEndless.end();
  });
}

std::string status_of(const Json& evaluation) {
  const std::string verdict = evaluation.at("verdict").at("status").get<std::string>();
  if (verdict == "passed") return "PASSED";
  if (stage_status(evaluation, "compile") != "passed") return "COMPILE_ERROR";
  if (stage_status(evaluation, "execute") != "passed") {
    return has_endless_finding(evaluation) ? "TIMEOUT" : "RUNTIME_ERROR";
  }
  if (stage_status(evaluation, "correctness") == "failed") return "INCORRECT_NUMERICAL";
  return "RUNTIME_ERROR";  // a finding stands, or something decisive is unknown; the log says which
}

std::string time_text(double unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

/// What was measured on a GPU; null when nothing was.
const Json* measured(const Json& evaluation) {
  const Json* list = base::optional_member(evaluation, "performance");
  return list != nullptr && list->is_array() && !list->empty() && list->front().is_object() ? &list->front() : nullptr;
}

/// The median of a measured quantity. Not measured is null, never 0.
Json median_of(const Json* object, std::string_view key) {
  const Json* median = object != nullptr && object->is_object() ? base::optional_member(*object, key) : nullptr;
  const Json* value = median != nullptr && median->is_object() ? base::optional_member(*median, "value") : nullptr;
  return value != nullptr && value->is_number() ? *value : Json(nullptr);
}

Json performance_of(const Json& evaluation) {
  const Json* performance = measured(evaluation);
  const Json* baseline = performance == nullptr ? nullptr : base::optional_member(*performance, "baseline");
  return Json{{"latency_ms", median_of(performance, "latency_ms")},
              {"reference_latency_ms", median_of(baseline, "latency_ms")},
              {"speedup_factor", median_of(performance, "speedup")}};
}

/// The same for every request: where and with what it ran.
Json environment_of(const Json& evaluation) {
  std::string hardware = fmt::format("PTXBench {} ({})", evaluation.at("backend").value("name", "emulator"),
                                     evaluation.value("target", "sm_90a"));
  if (const Json* performance = measured(evaluation); performance != nullptr) {
    const Json* device = base::optional_member(*performance, "device");
    if (device != nullptr && device->is_object()) hardware = device->value("name", hardware);
  }
  Json libs = Json::object();
  const Json* compile = base::optional_member(evaluation, "compile");
  const std::string compiler = compile == nullptr ? "" : compile->value("compiler", "");
  // "nvcc 13.0.88", or "triton 3.6.0, ptxas 13.0.88".
  for (const std::string_view part : base::split(compiler, ',')) {
    const std::string_view tool = base::trim(part);
    const std::size_t space = tool.find(' ');
    if (space == std::string_view::npos) continue;
    libs[tool.starts_with("triton ") ? "triton" : "cuda"] = std::string(tool.substr(space + 1));
  }
  return Json{{"hardware", hardware}, {"libs", libs}};
}

}  // namespace

Json trace_evaluation(const Json& answer, const Tolerances& tolerances) {
  const std::string time = time_text(answer.value("timestamp", 0.0));
  if (answer.contains("timed_out")) {
    return Json{
        {"status", "TIMEOUT"},
        {"environment", {{"hardware", "PTXBench"}, {"libs", Json::object()}}},
        {"timestamp", time},
        {"log", fmt::format("did not end within the {:g} s that the request allows", answer.value("timed_out", 0.0))},
        {"correctness", nullptr},
        {"performance", nullptr}};
  }
  const Json& evaluation = answer.at("evaluation");
  std::string status = status_of(evaluation);
  std::string log = status == "PASSED" ? "" : answer.value("text", "");
  const Errors errors = largest_errors(evaluation);
  const double atol = std::min(tolerances.atol.value_or(Tolerances::kDefault), Tolerances::kDefault);
  const double rtol = std::min(tolerances.rtol.value_or(Tolerances::kDefault), Tolerances::kDefault);
  const bool tighter = atol < Tolerances::kDefault || rtol < Tolerances::kDefault;
  if (status == "PASSED" && tighter && !(errors.absolute <= atol) && !(errors.relative <= rtol)) {
    status = "INCORRECT_NUMERICAL";
    log = fmt::format(
        "passes the service's rule, but not the request's: largest absolute error {:.3g} (atol {:g}), "
        "largest relative error {:.3g} (rtol {:g})",
        errors.absolute, atol, errors.relative, rtol);
  }
  if (answer.value("screened", false)) {
    log = "stopped by the check on the emulator, before any GPU:\n" + log;
  }
  const Json correctness{{"max_relative_error", number_json(errors.relative)},
                         {"max_absolute_error", number_json(errors.absolute)},
                         {"extra", nullptr}};
  const bool compared = status == "PASSED" || status == "INCORRECT_NUMERICAL";
  return Json{{"status", status},
              {"environment", environment_of(evaluation)},
              {"timestamp", time},
              {"log", base::shorten_middle(log, kMaxLogBytes)},
              {"correctness", compared ? correctness : Json(nullptr)},
              {"performance", status == "PASSED" ? performance_of(evaluation) : Json(nullptr)}};
}

}  // namespace ptxbench::service
