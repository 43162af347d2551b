#pragma once

#include "emulator/address_space.h"
#include "emulator/observer.h"
#include "emulator/touches.h"

/// Stands before an observer while a launch runs that may have to be taken back: saves global memory before it is
/// written. The observer's contract makes that possible: events come before their effects.
namespace ptxbench::emulator {

class WriteSaver final : public Observer {
 public:
  WriteSaver(Observer& inner, const AddressSpace& memory, UndoLog& undo)
      : inner_(inner), memory_(memory), undo_(undo) {}

  bool serial() const override { return false; }
  void on_worker(unsigned worker) override { inner_.on_worker(worker); }
  void on_access(const AccessEvent& event) override;
  void on_async_issue(const AsyncIssueEvent& event) override;
  void on_registers(const RegisterEvent& event) override { inner_.on_registers(event); }
  void on_fence(const FenceEvent& event) override { inner_.on_fence(event); }
  void on_barrier(const BarrierEvent& event) override { inner_.on_barrier(event); }
  void on_mbarrier(const MbarrierEvent& event) override { inner_.on_mbarrier(event); }
  void on_async_effect(uint64_t id, AsyncEffect effect) override { inner_.on_async_effect(id, effect); }
  void on_group_commit(const Agent& agent, Site site, Completion kind, uint64_t group) override {
    inner_.on_group_commit(agent, site, kind, group);
  }
  void on_group_wait(const GroupWaitEvent& event) override { inner_.on_group_wait(event); }
  void on_exit(const Agent& agent, Site site) override { inner_.on_exit(agent, site); }

 private:
  void save(uint64_t address, uint64_t bytes);

  Observer& inner_;
  const AddressSpace& memory_;
  UndoLog& undo_;
};

}  // namespace ptxbench::emulator
