#include "service/evaluate_options.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "gpu/sanitizer.h"

namespace ptxbench::service {
namespace {

using base::Json;

constexpr std::array<std::string_view, 18> kMembers{
    "seed",   "seeds",    "threads",         "completion",  "tensor_cores", "tolerance",
    "full",   "hazards",  "sample_clusters", "budget",      "host_seconds", "require",
    "target", "language", "timing",          "timed_calls", "sanitize",     "baseline"};
constexpr double kMostHostSeconds = 86400;
constexpr unsigned kMostSeeds = 1000;

Result<void> parse_words(const Json& json, std::string_view path, evaluation::EvaluateOptions& options) {
  const auto word = [&](std::string_view key) { return base::optional_field<std::string>(json, key, path); };
  const auto completion = word("completion");
  if (!completion) return tl::unexpected<Error>(completion.error());
  if (*completion) {
    if (**completion == "eager") {
      options.completion = emulator::CompletionPolicy::eager;
    } else if (**completion == "lazy") {
      options.completion = emulator::CompletionPolicy::lazy;
    } else if (**completion == "random") {
      options.completion = emulator::CompletionPolicy::random;
    } else {
      return input_error("{}.completion: eager, lazy or random, not '{}'", path, **completion);
    }
  }
  const auto cores = word("tensor_cores");
  if (!cores) return tl::unexpected<Error>(cores.error());
  if (*cores && **cores != "fast" && **cores != "exact") {
    return input_error("{}.tensor_cores: fast or exact, not '{}'", path, **cores);
  }
  options.exact_tensor_cores = *cores && **cores == "exact";
  const auto tolerance = word("tolerance");
  if (!tolerance) return tl::unexpected<Error>(tolerance.error());
  if (*tolerance && **tolerance != "strict" && **tolerance != "reference") {
    return input_error("{}.tolerance: strict or reference, not '{}'", path, **tolerance);
  }
  if (*tolerance && **tolerance == "reference") options.tolerance = problem::Tolerance::reference;
  const auto baseline = word("baseline");
  if (!baseline) return tl::unexpected<Error>(baseline.error());
  if (*baseline && **baseline != "first" && **baseline != "tuned") {
    return input_error("{}.baseline: first or tuned, not '{}'", path, **baseline);
  }
  options.tuned_baseline = *baseline && **baseline == "tuned";
  const auto hazards = word("hazards");
  if (!hazards) return tl::unexpected<Error>(hazards.error());
  if (*hazards) {
    const auto parsed = evaluation::parse_hazards(**hazards);
    if (!parsed) return input_error("{}.hazards: {}", path, parsed.error().message);
    options.hazards = *parsed;
  }
  const auto target = word("target");
  if (!target) return tl::unexpected<Error>(target.error());
  if (*target) {
    const auto parsed = candidate::parse_target(**target);
    if (!parsed) return input_error("{}.target: {}", path, parsed.error().message);
    options.compile.target = *parsed;
  }
  const auto language = word("language");
  if (!language) return tl::unexpected<Error>(language.error());
  if (*language) {
    const auto parsed = candidate::parse_language(**language);
    if (!parsed) return input_error("{}.language: {}", path, parsed.error().message);
    options.compile.language = *parsed;
  }
  return {};
}

Result<void> parse_numbers(const Json& json, std::string_view path, evaluation::EvaluateOptions& options) {
  const auto seed = base::optional_field<std::uint64_t>(json, "seed", path);
  if (!seed) return tl::unexpected<Error>(seed.error());
  options.seed = seed->value_or(options.seed);
  const auto seeds = base::optional_field<unsigned>(json, "seeds", path);
  if (!seeds) return tl::unexpected<Error>(seeds.error());
  options.seeds = seeds->value_or(0);
  if (options.seeds > kMostSeeds) return input_error("{}.seeds: at most {}", path, kMostSeeds);
  const auto threads = base::optional_field<unsigned>(json, "threads", path);
  if (!threads) return tl::unexpected<Error>(threads.error());
  options.threads = threads->value_or(0);
  const auto budget = base::optional_field<std::uint64_t>(json, "budget", path);
  if (!budget) return tl::unexpected<Error>(budget.error());
  options.instruction_budget = budget->value_or(0);
  const auto sample = base::optional_field<unsigned>(json, "sample_clusters", path);
  if (!sample) return tl::unexpected<Error>(sample.error());
  options.sample_clusters = *sample;
  const auto full = base::optional_field<bool>(json, "full", path);
  if (!full) return tl::unexpected<Error>(full.error());
  options.full = full->value_or(false);
  if (options.full && options.sample_clusters) {
    return input_error("{}: 'full' and 'sample_clusters' exclude each other", path);
  }
  const auto timing = base::optional_field<bool>(json, "timing", path);
  if (!timing) return tl::unexpected<Error>(timing.error());
  options.timing = timing->value_or(true);
  const auto calls = base::optional_field<std::size_t>(json, "timed_calls", path);
  if (!calls) return tl::unexpected<Error>(calls.error());
  if (*calls) {
    if (**calls == 0 || **calls > evaluation::kMostTimedCalls)
      return input_error("{}.timed_calls: between 1 and {}", path, evaluation::kMostTimedCalls);
    options.stop = gpu::StopRule::exactly(**calls);
  }
  const auto host = base::optional_field<double>(json, "host_seconds", path);
  if (!host) return tl::unexpected<Error>(host.error());
  if (*host) {
    if (!(**host >= 0.1 && **host <= kMostHostSeconds)) {
      return input_error("{}.host_seconds: between 0.1 and {}", path, kMostHostSeconds);
    }
    options.host.idle = std::chrono::milliseconds(static_cast<std::int64_t>(**host * 1000));
  }
  return {};
}

}  // namespace

Result<evaluation::EvaluateOptions> parse_evaluate_options(const Json& json, std::string_view path) {
  evaluation::EvaluateOptions options;
  if (json.is_null()) return options;
  if (!json.is_object()) return input_error("{}: an object is needed, found {}", path, base::json_type_name(json));
  for (const auto& member : json.items()) {
    if (std::find(kMembers.begin(), kMembers.end(), member.key()) == kMembers.end()) {
      return input_error("{}.{}: no such option{}", path, member.key(), base::did_you_mean(member.key(), kMembers));
    }
  }
  if (auto parsed = parse_words(json, path, options); !parsed) return tl::unexpected<Error>(parsed.error());
  if (auto parsed = parse_numbers(json, path, options); !parsed) return tl::unexpected<Error>(parsed.error());
  if (const Json* tools = base::optional_member(json, "sanitize"); tools != nullptr) {
    if (!tools->is_array()) return input_error("{}.sanitize: a list is needed", path);
    for (const Json& one : *tools) {
      const auto tool = base::json_as<std::string>(one, fmt::format("{}.sanitize", path));
      if (!tool) return tl::unexpected<Error>(tool.error());
      if (!gpu::is_sanitizer_tool(*tool))
        return input_error("{}.sanitize: memcheck, racecheck, initcheck or synccheck, not '{}'", path, *tool);
      options.sanitizer_tools.push_back(*tool);
    }
  }
  if (const Json* require = base::optional_member(json, "require"); require != nullptr) {
    if (!require->is_array()) return input_error("{}.require: a list is needed", path);
    for (const Json& one : *require) {
      const auto text = base::json_as<std::string>(one, fmt::format("{}.require", path));
      if (!text) return tl::unexpected<Error>(text.error());
      if (auto applied = evaluation::apply_requirement(*text, options); !applied)
        return input_error("{}.require: {}", path, applied.error().message);
    }
  }
  return options;
}

}  // namespace ptxbench::service
