#pragma once

#include <atomic>

#include "checker/checker.h"

namespace ptxbench::emulator {

/// A checker that also says how launches were dealt with.
class Spy final : public Observer {
 public:
  explicit Spy(checker::CheckerOptions options = {}) : checker_(std::move(options)) {}
  void on_launch_begin(const LaunchEvent& e) override {
    launch = e;
    checker_.on_launch_begin(e);
  }
  void on_launch_end(const LaunchEvent& e) override { checker_.on_launch_end(e); }
  bool accepts_proof(const LaunchEvent& e) override { return checker_.accepts_proof(e); }
  void on_proved(const LaunchEvent& e, std::span<const ByteRange> written) override {
    ++proved;
    checker_.on_proved(e, written);
  }
  bool accepts_workers(const LaunchEvent& e, unsigned workers) override { return checker_.accepts_workers(e, workers); }
  bool accepts_examples(const LaunchEvent& e, unsigned n) override { return checker_.accepts_examples(e, n); }
  void on_worker(unsigned worker) override { checker_.on_worker(worker); }
  bool on_workers_end(const LaunchEvent& e) override {
    const bool clean = checker_.on_workers_end(e);
    shared += clean ? 1 : 0;
    return clean;
  }
  void on_access(const AccessEvent& e) override {
    ++accesses;
    checker_.on_access(e);
  }
  void on_registers(const RegisterEvent& e) override { checker_.on_registers(e); }
  void on_fence(const FenceEvent& e) override { checker_.on_fence(e); }
  void on_barrier(const BarrierEvent& e) override { checker_.on_barrier(e); }
  void on_mbarrier(const MbarrierEvent& e) override { checker_.on_mbarrier(e); }
  void on_async_issue(const AsyncIssueEvent& e) override { checker_.on_async_issue(e); }
  void on_group_commit(const Agent& a, Site s, Completion kind, uint64_t group) override {
    checker_.on_group_commit(a, s, kind, group);
  }
  void on_group_wait(const GroupWaitEvent& e) override { checker_.on_group_wait(e); }
  void on_exit(const Agent& a, Site s) override { checker_.on_exit(a, s); }

  checker::Checker& checker() { return checker_; }
  unsigned proved = 0;                ///< launches that came with a proof, or were told as a whole at their end
  unsigned shared = 0;                ///< launches, or examples of their clusters, that workers watched and found clean
  std::atomic<unsigned> accesses{0};  ///< that the checker was told of
  LaunchEvent launch;

 private:
  checker::Checker checker_;
};

}  // namespace ptxbench::emulator
