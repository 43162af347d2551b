#include "checker/checker.h"

#include "checker/checker_state.h"

namespace ptxbench::checker {

Checker::Checker(CheckerOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Checker::~Checker() = default;

namespace {
/// Of the workers of one launch: which of them this thread is.
thread_local unsigned current_worker = 0;
}  // namespace

Checker::State& Checker::here() { return workers_.empty() ? *state_ : *workers_[current_worker]; }

bool Checker::accepts_workers(const emulator::LaunchEvent&, unsigned workers) {
  workers_ = state_->fork(workers, true);
  return !workers_.empty();
}
bool Checker::accepts_examples(const emulator::LaunchEvent&, unsigned workers) {
  workers_ = state_->fork(workers, false);
  return !workers_.empty();
}
void Checker::on_worker(unsigned worker) { current_worker = worker; }
bool Checker::on_workers_end(const emulator::LaunchEvent&) {
  const auto workers = std::move(workers_);
  workers_.clear();
  return state_->join(workers);
}

void Checker::on_launch_begin(const emulator::LaunchEvent& event) { state_->launch_begin(event); }
void Checker::on_launch_end(const emulator::LaunchEvent&) { state_->launch_end(); }
void Checker::on_stream_copy(const emulator::StreamCopyEvent& event) { state_->stream_copy(event); }
bool Checker::accepts_proof(const emulator::LaunchEvent&) { return state_->accepts_proof(); }
void Checker::on_proved(const emulator::LaunchEvent&, std::span<const emulator::ByteRange> written) {
  state_->proved(written);
}
void Checker::on_access(const emulator::AccessEvent& event) { here().access(event); }
void Checker::on_fence(const emulator::FenceEvent& event) { here().fence(event); }
void Checker::on_barrier(const emulator::BarrierEvent& event) { here().barrier(event); }
void Checker::on_mbarrier(const emulator::MbarrierEvent& event) { here().mbarrier(event); }
void Checker::on_async_issue(const emulator::AsyncIssueEvent& event) { here().issue(event); }
void Checker::on_async_effect(uint64_t, emulator::AsyncEffect) {}
void Checker::on_registers(const emulator::RegisterEvent& event) { here().registers(event); }
void Checker::on_group_commit(const Agent& agent, Site, Completion kind, uint64_t group) {
  here().group_commit(agent, kind, group);
}
void Checker::watch_output(std::string name, uint64_t address, uint64_t bytes, uint32_t element_bytes) {
  state_->watch_output(std::move(name), address, bytes, element_bytes);
}
void Checker::finish_outputs() { state_->finish_outputs(); }
void Checker::on_group_wait(const emulator::GroupWaitEvent& event) { here().group_wait(event); }
void Checker::on_undefined_use(const emulator::UndefinedEvent& event) { here().undefined_use(event); }
void Checker::on_exit(const Agent& agent, Site site) { here().exited(agent, site); }
const std::vector<Finding>& Checker::findings() const { return state_->findings; }
uint64_t Checker::findings_dropped() const { return state_->dropped; }
const std::set<std::string>& Checker::unknown() const { return state_->unknown; }
bool Checker::needs_watching() const { return state_->needs_watching(); }

}  // namespace ptxbench::checker
