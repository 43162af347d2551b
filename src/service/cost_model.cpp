#include "service/cost_model.h"

#include <algorithm>

#include "problem/reference.h"

namespace ptxbench::service {
namespace {

constexpr double kBaseSeconds = 2;       ///< compiling and starting, mostly
constexpr double kMacsPerSecond = 2e10;  ///< of an emulator on a few cores
constexpr double kSampledMacs = 1e11;    ///< beyond this only a sample of the clusters runs
constexpr double kBytesPerSecond = 2e8;  ///< inputs are made, outputs compared
constexpr double kPolicies = 3;          ///< under which a check runs
constexpr double kUnknownMacs = 1e10;
constexpr double kGpuSeconds = 1;
constexpr std::size_t kMostKeys = 10'000;
constexpr double kWeightOfNew = 0.3;

}  // namespace

double CostModel::estimate(const std::string& key, const problem::Problem& problem, TaskKind kind, Lane lane) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = seen_.find(key); found != seen_.end()) return found->second;
  }
  const double bytes = static_cast<double>(problem.tensor_bytes) / kBytesPerSecond;
  if (lane == Lane::gpu) return kGpuSeconds + bytes / 10;
  const double macs = std::min(problem::required_multiply_adds(problem).value_or(kUnknownMacs), kSampledMacs);
  const double checked = kind == TaskKind::sanitize || kind == TaskKind::debug ? kPolicies : 1;
  return kBaseSeconds + checked * (macs / kMacsPerSecond + bytes);
}

void CostModel::observe(const std::string& key, double seconds) {
  const std::lock_guard lock(mutex_);
  if (seen_.size() >= kMostKeys) seen_.clear();
  const auto [entry, fresh] = seen_.emplace(key, seconds);
  if (!fresh) entry->second += kWeightOfNew * (seconds - entry->second);
}

}  // namespace ptxbench::service
