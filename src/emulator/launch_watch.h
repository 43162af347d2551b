#pragma once

#include <functional>
#include <vector>

#include "emulator/launch.h"
#include "emulator/launch_trace.h"
#include "emulator/touches.h"

/// How an observer learns what it wants to know of a launch, in the fastest way that tells it (docs/hazards.md,
/// section 5).
namespace ptxbench::emulator {

/// Runs the clusters given (all if empty) on some threads and returns the sums.
using RunClusters = std::function<LaunchTotals(unsigned threads, bool proving, const std::vector<uint32_t>& clusters)>;

class LaunchWatch {
 public:
  struct Subject {
    Launch& launch;
    Program& program;
    const LaunchRequest& request;
    const LaunchEvent& event;
    const DeviceOptions& options;
    Definedness* definedness = nullptr;
  };
  LaunchWatch(const Subject& subject, RunClusters run);

  /// Tries what is faster than watching every access on one thread. Nothing: that is needed; memory is as it was.
  std::optional<LaunchTotals> run_fast();

 private:
  using Totals = std::optional<LaunchTotals>;
  /// As under an earlier policy, or not.
  Totals retrace();
  /// At full speed: nothing in it can race, if it is that kind of kernel.
  Totals prove();
  /// Clusters of one kind do the same but for where in global memory: one of each kind is watched.
  Totals watch_kinds();
  /// Each thread watches its own clusters.
  Totals watch_on_all_threads();

  /// The first cluster of each kind. One in eight of each kind and schedule, 4 to 64, become the trace's examples, if
  /// they can stand for the others.
  std::vector<uint32_t> choose_examples(LaunchTrace& trace) const;
  /// Nothing: more is known than which bytes were written.
  std::optional<uint64_t> digest_definedness() const;
  void take_back();
  bool met_undefined() const;
  bool cancelled() const { return subject_.request.stop.stop_requested(); }
  /// Adds what the launch that has just ended left behind, if that may save products later.
  void add_results(LaunchTrace& trace, const LaunchTotals& totals, std::optional<uint64_t> defined) const;
  /// Whether memory holds what `known` left, wherever `trace` wrote.
  static bool wrote_the_same(const LaunchTrace& known, const LaunchTrace& trace);
  static std::vector<std::byte> copy_pages(const std::vector<uint64_t>& pages);
  static void put_pages(const std::vector<uint64_t>& pages, const std::vector<std::byte>& contents);

  Subject subject_;
  Launch& launch_;
  Observer& observer_;
  RunClusters run_;
  KernelHabits habits_;
};

}  // namespace ptxbench::emulator
