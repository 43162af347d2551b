#include "evaluation/run_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/text.h"
#include "evaluation/findings.h"
#include "problem/attention.h"
#include "problem/gemm.h"
#include "problem/gqa.h"
#include "problem/triage.h"

namespace ptxbench::evaluation {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Finding execution_finding(std::string rule, std::string message, std::string remedy) {
  Finding finding;
  finding.rule = std::move(rule);
  finding.stage = StageName::execute;
  finding.message = std::move(message);
  finding.remedy = std::move(remedy);
  return finding;
}

void add_texts(std::vector<std::string>& into, const std::set<std::string>& texts) {
  for (const std::string& text : texts) {
    if (std::find(into.begin(), into.end(), text) == into.end()) into.push_back(text);
  }
}

/// "0-127 and 192-255" of the rows that hold poison.
std::string unwritten_rows(const problem::Tensor& tensor) {
  const std::uint64_t columns = std::max<std::uint64_t>(1, tensor.row_length());
  const std::uint64_t rows = tensor.count / columns;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (std::uint64_t row = 0; row < rows; ++row) {
    bool any = false;
    for (std::uint64_t column = 0; column < columns && !any; ++column)
      any = problem::is_poison(tensor, row * columns + column);
    if (!any) continue;
    if (!ranges.empty() && ranges.back().second + 1 == row) {
      ranges.back().second = row;
    } else {
      ranges.emplace_back(row, row);
    }
  }
  std::string text;
  constexpr std::size_t kShown = 4;
  for (std::size_t i = 0; i < std::min(kShown, ranges.size()); ++i) {
    if (!text.empty()) text += ", ";
    text += ranges[i].first == ranges[i].second ? fmt::format("{}", ranges[i].first)
                                                : fmt::format("{}-{}", ranges[i].first, ranges[i].second);
  }
  if (ranges.size() > kShown) text += fmt::format(" and {} more ranges", ranges.size() - kShown);
  return text;
}

std::uint64_t rows_of(const problem::Tensor& tensor) {
  return tensor.count / std::max<std::uint64_t>(1, tensor.row_length());
}

/// If the rows up to some are written as a whole and the others not at all: how many are.
std::optional<std::uint64_t> written_rows(const problem::Tensor& tensor) {
  const std::uint64_t columns = std::max<std::uint64_t>(1, tensor.row_length());
  std::uint64_t first = tensor.count;
  for (std::uint64_t i = 0; i < tensor.count; ++i) {
    const bool poison = problem::is_poison(tensor, i);
    if (poison && first == tensor.count) first = i;
    if (!poison && first != tensor.count) return std::nullopt;
  }
  if (first % columns != 0) return std::nullopt;
  return first / columns;
}

/// "repeats every 4 rows and 8 columns: of rows 0-3 and columns 0-7, written are ...", if what was not written does so.
std::string unwritten_pattern(const problem::Tensor& tensor) {
  const std::uint64_t columns = std::max<std::uint64_t>(1, tensor.row_length()), rows = tensor.count / columns;
  const auto poison = [&](std::uint64_t row, std::uint64_t column) {
    return problem::is_poison(tensor, row * columns + column);
  };
  const auto repeats = [&](std::uint64_t height, std::uint64_t width) {
    for (std::uint64_t row = 0; row < rows; ++row) {
      for (std::uint64_t column = 0; column < columns; ++column) {
        if (poison(row, column) != poison(row % height, column % width)) return false;
      }
    }
    return true;
  };
  for (const std::uint64_t height : {1, 2, 4, 8, 16}) {
    for (const std::uint64_t width : {1, 2, 4, 8, 16}) {
      if (height * width == 1 || rows < 2 * height || columns < 2 * width || !repeats(height, width)) continue;
      std::string text = fmt::format(
          "this repeats every {} rows and {} columns; of each such block these are written:", height, width);
      for (std::uint64_t row = 0; row < height; ++row) {
        std::string list;
        for (std::uint64_t column = 0; column < width; ++column) {
          if (!poison(row, column)) list += fmt::format("{}{}", list.empty() ? "" : ",", column);
        }
        if (!list.empty()) text += fmt::format(" row {} columns {};", row, list);
      }
      text.pop_back();
      return text;
    }
  }
  return "";
}

Finding unwritten_finding(const problem::Tensor& tensor, std::uint64_t count) {
  Finding finding;
  finding.rule = "memory.unwritten";
  finding.stage = StageName::correctness;
  finding.message = count == tensor.count ? fmt::format("output {}: no element was written", tensor.name)
                                          : fmt::format("output {}: {} of {} elements were never written (in rows {})",
                                                        tensor.name, count, tensor.count, unwritten_rows(tensor));
  finding.place.output = tensor.name;
  finding.remedy = problem::remedy_for("unwritten_region");
  if (const auto last = written_rows(tensor); last && *last < rows_of(tensor)) {
    finding.message +=
        *last == 0 ? "" : fmt::format("; rows 0-{} were written, nothing from row {} on", *last - 1, *last);
    finding.remedy = "round the grid up so that the last, partial tile is there too: (rows + tile - 1) / tile";
  } else if (const std::string pattern = unwritten_pattern(tensor); !pattern.empty()) {
    finding.message += "; " + pattern;
    finding.remedy =
        "check the row and column that each lane and register of a tile is stored to: several threads store to the "
        "same "
        "place and none to these";
  }
  return finding;
}

/// Wrong numbers, under the rule of the explanation that convinces most.
Finding numeric_finding(const problem::TensorComparison& result, const std::vector<LaunchSummary>& launches) {
  constexpr double kConvincing = 0.5;
  Finding finding;
  finding.rule = "numeric.mismatch";
  finding.stage = StageName::correctness;
  finding.message = problem::describe(result);
  finding.place.output = result.name;
  std::string_view pattern;
  for (const problem::Hypothesis& one : result.hypotheses) {
    // Elements nobody wrote have a finding of their own.
    if (one.pattern == "unwritten_region" || one.confidence < kConvincing) continue;
    pattern = one.pattern;
    finding.rule = problem::rule_for(pattern);
    break;
  }
  finding.remedy = problem::remedy_for(pattern);
  const bool one_kernel =
      !launches.empty() && std::all_of(launches.begin(), launches.end(), [&](const LaunchSummary& launch) {
        return launch.kernel == launches.front().kernel;
      });
  if (one_kernel) finding.place.kernel = launches.front().kernel;
  return finding;
}

std::uint64_t count_poison(const problem::Tensor& tensor) {
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < tensor.count; ++i) count += problem::is_poison(tensor, i) ? 1 : 0;
  return count;
}

std::uint64_t elements_of(const std::vector<problem::Tile>& tiles) {
  std::uint64_t count = 0;
  for (const problem::Tile& tile : tiles) {
    count += static_cast<std::uint64_t>((tile.row_end - tile.row_begin) * (tile.column_end - tile.column_begin));
  }
  return count;
}

}  // namespace

void judge_execution(const DeviceObservation& observation, Run& run, std::vector<Finding>& findings,
                     Fidelity& fidelity) {
  run.launches = observation.launches;
  run.sampled = observation.launches_cut > 0;
  run.host_output =
      base::shorten_middle(observation.host.process.stdout_text + observation.host.process.stderr_text, 8192);
  fidelity.warp_instructions += observation.census.warp_instructions();
  add_texts(fidelity.approximate, observation.shim.approximate);
  add_texts(fidelity.unsupported, observation.shim.unsupported);

  std::vector<Finding> mine;
  bool cannot_tell = !observation.shim.unsupported.empty();
  std::string reason;
  if (observation.shim.fault) {
    Finding finding = fault_finding(*observation.shim.fault);
    const bool waits = finding.rule == "sync.deadlock" || finding.rule == "sync.budget";
    if (waits && run.sampled) {
      // Another cluster, which did not run, may have been the one to release it.
      finding.severity = Severity::note;
      finding.message += "\nonly a sample of the clusters ran: what it waits for may be in another one";
      finding.remedy += finding.remedy.empty() ? "" : "; ";
      finding.remedy += "run all clusters with --full, or a smaller workload with --axis";
      cannot_tell = true;
      reason = finding.rule + " on a sample of the clusters";
    }
    mine.push_back(std::move(finding));
  }
  for (Finding& finding : diagnostic_findings(observation.shim)) {
    // A refused copy is reported below, with what was wrong about it.
    if (finding.rule == "memory.copy" && !observation.backend.written_by_host.empty()) continue;
    mine.push_back(std::move(finding));
  }
  for (const std::string& name : observation.backend.written_by_host) {
    mine.push_back(execution_finding("host.writes-tensor", fmt::format("host code tried to write tensor {}", name),
                                     "compute results on the device; inputs must stay as they are"));
  }
  for (const std::string& message : observation.backend.failed_allocations) {
    Finding finding = execution_finding("launch.out-of-memory", message, "allocate less device memory");
    finding.severity = Severity::note;  // a candidate may handle it
    mine.push_back(std::move(finding));
  }
  for (Finding& finding : mine) {
    if (!is_unsupported(finding)) continue;
    cannot_tell = true;
    finding.severity = Severity::warning;
    if (reason.empty()) reason = finding.rule;
  }
  const bool explained =
      std::any_of(mine.begin(), mine.end(), [](const Finding& one) { return one.severity != Severity::note; }) ||
      cannot_tell;
  for (Finding& finding : host_findings(observation.host, explained)) mine.push_back(std::move(finding));
  const bool has_work =
      observation.outputs.empty() || std::any_of(observation.outputs.begin(), observation.outputs.end(),
                                                 [](const problem::Tensor& output) { return output.count > 0; });
  if (observation.host.finished() && observation.backend.launches == 0 && !explained && has_work) {
    mine.push_back(execution_finding("host.no-launch", "run() returned without launching a kernel",
                                     "launch the kernel, and check the result of every CUDA call"));
  }
  for (const std::string& name : observation.changed_inputs) {
    mine.push_back(execution_finding("memory.input-modified", fmt::format("input {} was changed", name),
                                     "write to outputs and to memory of your own only"));
  }
  for (const std::string& name : observation.overrun_tensors) {
    mine.push_back(execution_finding("memory.overrun", fmt::format("bytes behind tensor {} were changed", name),
                                     "check the bounds of the last tile"));
  }
  std::uint64_t output_bytes = 0;
  for (const problem::Tensor& output : observation.outputs) output_bytes += output.bytes();
  if (observation.backend.host_bytes > cuda_shim::GuardedBackend::most_host_bytes(output_bytes)) {
    mine.push_back(execution_finding(
        "host.copies",
        fmt::format("host code copied {} to the device, which could carry results computed on the host",
                    base::format_bytes(observation.backend.host_bytes)),
        "compute on the device; small tables and tensor maps are fine"));
  }

  const auto error =
      std::find_if(mine.begin(), mine.end(), [](const Finding& one) { return one.severity == Severity::error; });
  // An error that the emulator saw before it met something it does not know still counts; what follows from that does
  // not.
  const bool fault_first =
      observation.shim.fault && !observation.shim.fault->rule.starts_with("unsupported.") && !cannot_tell;
  if (cannot_tell && !fault_first) {
    run.execute = Status::unknown;
    run.reason = reason.empty() ? "something is not modelled" : reason;
  } else if (error != mine.end()) {
    run.execute = Status::failed;
    run.reason = error->rule;
  } else if (observation.host.cancelled) {
    run.execute = Status::unknown;
    run.reason = "cancelled";
  } else if (!observation.host.finished()) {
    run.execute = Status::failed;
    run.reason = mine.empty() ? "the call did not finish" : mine.back().rule;
  } else {
    run.execute = Status::passed;
  }
  for (Finding& finding : mine) findings.push_back(std::move(finding));
}

std::optional<std::vector<problem::Tile>> written_tiles(const problem::Tensor& tensor, std::size_t limit) {
  const auto columns = static_cast<std::int64_t>(std::max<std::uint64_t>(1, tensor.row_length()));
  const auto rows = static_cast<std::int64_t>(tensor.count) / columns;
  std::vector<problem::Tile> done;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> open;  // column interval -> first row
  for (std::int64_t row = 0; row < rows; ++row) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> here;
    for (std::int64_t column = 0; column < columns;) {
      const auto poison = [&](std::int64_t at) {
        return problem::is_poison(tensor, static_cast<std::uint64_t>(row * columns + at));
      };
      if (poison(column)) {
        ++column;
        continue;
      }
      const std::int64_t first = column;
      while (column < columns && !poison(column)) ++column;
      const std::pair interval(first, column);
      const auto above = open.find(interval);
      here[interval] = above == open.end() ? row : above->second;
      if (above != open.end()) open.erase(above);
    }
    for (const auto& [interval, first_row] : open) done.push_back({first_row, row, interval.first, interval.second});
    if (done.size() + here.size() > limit) return std::nullopt;
    open = std::move(here);
  }
  for (const auto& [interval, first_row] : open) done.push_back({first_row, rows, interval.first, interval.second});
  return done;
}

Result<CorrectnessTimes> judge_correctness(const DeviceObservation& observation, const CorrectnessInput& input,
                                           Run& run, std::vector<Finding>& findings) {
  CorrectnessTimes times;
  const problem::Definition& definition = input.problem.definition;
  const auto unknown = [&](std::string reason) {
    run.correctness = Status::unknown;
    run.reason = std::move(reason);
    run.coverage = 0;
  };

  std::vector<std::vector<problem::Tile>> tiles;  // per output; empty unless sampled
  std::uint64_t total = 0, known = 0;
  for (const problem::Tensor& output : observation.outputs) total += output.count;
  if (run.sampled) {
    if (!observation.backend.filled.empty()) {
      unknown(
          fmt::format("output {} was filled before the kernel ran, so what the sampled clusters wrote cannot be told; "
                      "use --full or --axis",
                      observation.backend.filled.front()));
      return times;
    }
    for (const problem::Tensor& output : observation.outputs) {
      if (output.count == 0) {
        tiles.emplace_back();
        continue;
      }
      if (!problem::has_poison(output.dtype)) {
        unknown(fmt::format("what sampled clusters wrote cannot be told in outputs of type {}; use --full or --axis",
                            problem::to_string(output.dtype)));
        return times;
      }
      auto written = written_tiles(output);
      if (!written) {
        unknown("the sampled clusters wrote too scattered elements; use --full or --axis");
        return times;
      }
      if (written->empty()) {
        unknown(observation.outputs.size() == 1
                    ? std::string("none of the sampled clusters wrote any output element")
                    : fmt::format("none of the sampled clusters wrote any element of output {}", output.name));
        return times;
      }
      known += elements_of(*written);
      tiles.push_back(std::move(*written));
    }
  } else {
    known = total;
  }
  run.coverage = total == 0 ? 1 : static_cast<double>(known) / static_cast<double>(total);

  const auto reference = problem::find_reference(definition);
  if (!reference && input.truth == nullptr) {
    unknown(fmt::format("{}, and {}", problem::no_reference_message(definition),
                        input.no_truth.empty() ? "its own was not run" : input.no_truth));
    if (run.sampled) return times;
    for (const problem::Tensor& output : observation.outputs) {
      const std::uint64_t poison = count_poison(output);
      if (poison == 0) continue;
      findings.push_back(unwritten_finding(output, poison));
      run.correctness = Status::failed;
      run.reason = "memory.unwritten";
    }
    return times;
  }

  problem::TruthRequest request = problem::request_for(input.problem, input.inputs);
  request.tiles = tiles;
  request.threads = input.threads;
  problem::Truth computed;
  const problem::Truth* truth = input.truth;
  if (truth == nullptr) {
    const auto started = Clock::now();
    auto made = (*reference)(request);
    if (!made) return tl::unexpected<Error>(made.error());
    computed = std::move(*made);
    truth = &computed;
    times.truth = seconds_since(started);
  }

  const auto started = Clock::now();
  const auto operands = problem::gemm_operands(request);
  problem::CompareOptions options;
  options.threads = input.threads;
  // A Python reference rounds as it likes: only the rule that was made for such references applies.
  options.tolerance = reference ? input.tolerance : problem::Tolerance::reference;
  options.matched_ratio = problem::reference_matched_ratio(definition);
  if (operands) {
    options.a = &operands->first;
    options.b = &operands->second;
  }
  run.correctness = Status::passed;
  for (std::size_t i = 0; i < observation.outputs.size(); ++i) {
    const problem::Tensor& output = observation.outputs[i];
    const auto limits = problem::limits_for(definition, i);
    if (run.sampled) options.known = tiles[i];
    options.term_norms = truth->term_norms[i];
    const auto attention = problem::attention_operands(request, i);
    options.attention = attention ? &*attention : nullptr;
    const auto gqa = problem::gqa_operands(request, i);
    options.gqa = gqa ? &*gqa : nullptr;
    problem::TensorComparison result = problem::compare(output, truth->outputs[i].as<float>(), limits, options);
    if (run.sampled && result.verdict == problem::Verdict::failed && i < observation.changed_last.size() &&
        observation.changed_last[i].count != 0) {
      // What earlier kernels wrote there may have been meant to be overwritten by clusters that were left out.
      const problem::Tensor& last = observation.changed_last[i];
      auto own = written_tiles(last);
      if (own) {
        options.known = std::move(*own);
        result = problem::compare(last, truth->outputs[i].as<float>(), limits, options);
      }
      if (!own) {
        result.verdict = problem::Verdict::unknown;
        result.note = fmt::format(
            "output {} is wrong somewhere, and what the sampled clusters of the last kernel wrote of it is too "
            "scattered to be told from what earlier kernels did; use --full or --axis",
            output.name);
      } else if (result.verdict != problem::Verdict::failed) {
        result.verdict = problem::Verdict::unknown;
        result.note = fmt::format(
            "output {} is right where the sampled clusters of the last kernel wrote it, and wrong elsewhere, where "
            "earlier kernels did: whether the rest of the last kernel writes there as well takes --full",
            output.name);
      }
    }
    if (result.unwritten > 0) findings.push_back(unwritten_finding(output, result.unwritten));
    if (result.verdict == problem::Verdict::failed) {
      Finding finding = numeric_finding(result, observation.launches);
      if (run.correctness != Status::failed) run.reason = result.unwritten > 0 ? "memory.unwritten" : finding.rule;
      run.correctness = Status::failed;
      if (result.unwritten == 0 || result.wrong > result.unwritten) findings.push_back(std::move(finding));
    } else if (result.verdict == problem::Verdict::unknown && run.correctness == Status::passed) {
      run.correctness = Status::unknown;
      run.reason = result.note;
    }
    run.outputs.push_back(std::move(result));
  }
  times.compare = seconds_since(started);
  return times;
}

}  // namespace ptxbench::evaluation
