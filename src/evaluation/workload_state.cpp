#include "evaluation/workload_state.h"

#include "evaluation/python_reference.h"

#include <algorithm>
#include <chrono>

#include "base/hash.h"

namespace ptxbench::evaluation {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Everything that inputs and truth follow from.
std::string key_of(const problem::Problem& problem, const problem::InputOptions& options) {
  base::Sha256 hash;
  hash.update_field(problem::to_json(problem.definition).dump(-1, ' ', false, base::Json::error_handler_t::replace));
  hash.update_field(problem::to_json(problem.workload).dump(-1, ' ', false, base::Json::error_handler_t::replace));
  hash.update_field(problem.workload.root);
  hash.update_field(std::to_string(options.seed)).update_field(problem::to_string(options.distribution));
  return hash.hex();
}

std::uint64_t bytes_of(const std::vector<problem::Tensor>& tensors) {
  std::uint64_t bytes = 0;
  for (const problem::Tensor& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

}  // namespace

std::shared_ptr<WorkloadCache::Entry> WorkloadCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry->key == key; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    entries_.push_front(std::make_shared<Entry>());
    entries_.front()->key = key;
  }
  return entries_.front();
}

void WorkloadCache::trim() {
  const std::lock_guard lock(mutex_);
  std::uint64_t total = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    total += (*entry)->bytes;
    // The newest stays whatever its size: somebody is using it.
    entry = entry != entries_.begin() && total > max_bytes_ ? entries_.erase(entry) : std::next(entry);
  }
}

Result<std::shared_ptr<const WorkloadState>> WorkloadCache::get(const problem::Problem& problem,
                                                                const problem::InputOptions& options, bool with_truth,
                                                                std::stop_token cancel) {
  const std::shared_ptr<Entry> entry = find(key_of(problem, options));
  std::unique_lock lock(entry->making);
  if (entry->state == nullptr) {
    const auto started = Clock::now();
    auto inputs = problem::make_inputs(problem, options);
    if (!inputs) return tl::unexpected<Error>(inputs.error());
    entry->state = std::make_shared<WorkloadState>();
    entry->state->inputs = std::move(*inputs);
    entry->state->inputs_seconds = seconds_since(started);
    entry->bytes = bytes_of(entry->state->inputs);
  }
  const auto reference = problem::find_reference(problem.definition);
  if ((with_truth || !reference) && !entry->state->truth && (entry->state->no_truth.empty() || entry->try_again)) {
    const auto started = Clock::now();
    // Others may be reading the state that has no truth yet: it is replaced, not changed.
    auto complete = std::make_shared<WorkloadState>();
    complete->inputs_seconds = entry->state->inputs_seconds;
    if (reference) {
      auto truth = (*reference)(problem::request_for(problem, entry->state->inputs));
      if (!truth) return tl::unexpected<Error>(truth.error());
      complete->truth = std::move(*truth);
    } else {
      PythonReferenceOptions python;
      python.threads = options.threads;
      python.cancel = std::move(cancel);
      auto made = python_truth(problem, entry->state->inputs, python);
      if (!made) return tl::unexpected<Error>(made.error());
      complete->truth = std::move(made->truth);
      complete->truth_from_python = complete->truth.has_value();
      complete->no_truth = std::move(made->reason);
      entry->try_again = !made->lasting;
    }
    complete->truth_seconds = seconds_since(started);
    if (entry->state.use_count() == 1) {
      complete->inputs = std::move(entry->state->inputs);
    } else {
      auto again = problem::make_inputs(problem, options);
      if (!again) return tl::unexpected<Error>(again.error());
      complete->inputs = std::move(*again);
    }
    entry->bytes = bytes_of(complete->inputs) + (complete->truth ? bytes_of(complete->truth->outputs) : 0);
    entry->state = std::move(complete);
  }
  std::shared_ptr<const WorkloadState> state = entry->state;
  lock.unlock();
  trim();
  return state;
}

}  // namespace ptxbench::evaluation
