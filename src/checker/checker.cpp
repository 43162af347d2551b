#include "checker/checker.h"

#include "checker/checker_state.h"

namespace ptxbench::checker {

Checker::Checker(CheckerOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Checker::~Checker() = default;

void Checker::on_launch_begin(const emulator::LaunchEvent& event) { state_->launch_begin(event); }
void Checker::on_launch_end(const emulator::LaunchEvent&) { state_->launch_end(); }
void Checker::on_stream_copy(const emulator::StreamCopyEvent& event) { state_->stream_copy(event); }
bool Checker::accepts_proof(const emulator::LaunchEvent&) { return state_->accepts_proof(); }
void Checker::on_proved(const emulator::LaunchEvent&, std::span<const emulator::ByteRange> written) {
  state_->proved(written);
}
void Checker::on_access(const emulator::AccessEvent& event) { state_->access(event); }
void Checker::on_fence(const emulator::FenceEvent& event) { state_->fence(event); }
void Checker::on_barrier(const emulator::BarrierEvent& event) { state_->barrier(event); }
void Checker::on_mbarrier(const emulator::MbarrierEvent& event) { state_->mbarrier(event); }
void Checker::on_async_issue(const emulator::AsyncIssueEvent& event) { state_->issue(event); }
void Checker::on_async_effect(uint64_t, emulator::AsyncEffect) {}
void Checker::on_registers(const emulator::RegisterEvent& event) { state_->registers(event); }
void Checker::on_group_commit(const Agent& agent, Site, Completion kind, uint64_t group) {
  state_->group_commit(agent, kind, group);
}
void Checker::watch_output(std::string name, uint64_t address, uint64_t bytes, uint32_t element_bytes) {
  state_->watch_output(std::move(name), address, bytes, element_bytes);
}
void Checker::finish_outputs() { state_->finish_outputs(); }
void Checker::on_group_wait(const emulator::GroupWaitEvent& event) { state_->group_wait(event); }
void Checker::on_exit(const Agent& agent, Site site) { state_->exited(agent, site); }
const std::vector<Finding>& Checker::findings() const { return state_->findings; }
uint64_t Checker::findings_dropped() const { return state_->dropped; }
const std::set<std::string>& Checker::unknown() const { return state_->unknown; }

}  // namespace ptxbench::checker
