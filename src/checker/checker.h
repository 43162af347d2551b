#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checker/findings.h"
#include "emulator/observer.h"

namespace ptxbench::checker {

struct CheckerOptions {
  /// Called once for each different finding, while its launch is still running: the time to name its sites.
  std::function<void(const Finding&)> on_found;
  bool pedantic = false;             ///< contested notes become warnings
  bool accept_proofs = true;         ///< see Observer::accepts_proof; without them every access is watched
  bool accept_workers = true;        ///< see Observer::accepts_workers
  size_t max_findings = 200;         ///< different ones; the rest is counted
  size_t shadow_bytes = 4ull << 30;  ///< beyond this the checker stops watching and says so
  size_t crowd = 16;                 ///< accesses to a place before those are dropped that others stand for
};

/// Watches launches and judges them by the rules of docs/hazards.md.
class Checker final : public emulator::Observer {
 public:
  explicit Checker(CheckerOptions options = {});
  ~Checker() override;

  void on_launch_begin(const emulator::LaunchEvent&) override;
  void on_launch_end(const emulator::LaunchEvent&) override;
  void on_stream_copy(const emulator::StreamCopyEvent&) override;
  bool accepts_proof(const emulator::LaunchEvent&) override;
  void on_proved(const emulator::LaunchEvent&, std::span<const emulator::ByteRange> written) override;
  bool accepts_workers(const emulator::LaunchEvent&, unsigned workers) override;
  bool accepts_examples(const emulator::LaunchEvent&, unsigned workers) override;
  void on_worker(unsigned worker) override;
  bool on_workers_end(const emulator::LaunchEvent&) override;
  void on_access(const emulator::AccessEvent&) override;
  void on_registers(const emulator::RegisterEvent&) override;
  void on_fence(const emulator::FenceEvent&) override;
  void on_barrier(const emulator::BarrierEvent&) override;
  void on_mbarrier(const emulator::MbarrierEvent&) override;
  void on_async_issue(const emulator::AsyncIssueEvent&) override;
  void on_async_effect(uint64_t id, emulator::AsyncEffect) override;
  void on_group_commit(const emulator::Agent&, emulator::Site, emulator::Completion, uint64_t group) override;
  void on_group_wait(const emulator::GroupWaitEvent&) override;
  void on_exit(const emulator::Agent&, emulator::Site) override;
  void on_undefined_use(const emulator::UndefinedEvent&) override;

  /// Global memory that the launches must write completely: unwritten() then says what they left out.
  void watch_output(std::string name, uint64_t address, uint64_t bytes, uint32_t element_bytes);
  /// After the last launch: reports what was not written.
  void finish_outputs();

  /// Found so far, in the order of their first occurrence; the same pair of instructions is one finding.
  const std::vector<Finding>& findings() const;
  uint64_t findings_dropped() const;
  /// Reasons why the answer is incomplete; empty if it is not.
  const std::set<std::string>& unknown() const;
  /// Work may overlap a kernel that was proved, of which only the writes are known: the same run with every kernel
  /// watched tells more.
  bool needs_watching() const;

 private:
  class State;
  State& here();

  std::unique_ptr<State> state_;
  std::vector<std::unique_ptr<State>> workers_;  ///< while a launch runs on several threads
};

}  // namespace ptxbench::checker
