#include "emulator/write_saver.h"

#include <array>
#include <bit>
#include <utility>

namespace ptxbench::emulator {

void WriteSaver::save(uint64_t address, uint64_t bytes) {
  if (bytes == 0) return;
  // Pages that this thread has had saved lately; a page of an allocation is saved whole.
  thread_local std::array<std::pair<uint64_t, uint64_t>, 256> saved;
  const uint64_t first = address / UndoLog::kPageBytes, last = (address + bytes - 1) / UndoLog::kPageBytes;
  for (uint64_t page = first; page <= last; ++page) {
    auto& [log, known] = saved[page % saved.size()];
    if (log == undo_.serial() && known == page) continue;
    // An access that leaves its allocation stops the launch before it has an effect.
    if (!memory_.contains(address, bytes)) return;
    undo_.save(page);
    log = undo_.serial();
    known = page;
  }
}

void WriteSaver::on_access(const AccessEvent& event) {
  if (event.space == Space::global && event.kind != AccessKind::read) {
    uint64_t saved = ~0ull;
    for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
      const uint64_t address = event.addresses[std::countr_zero(rest)];
      const uint64_t page = address / UndoLog::kPageBytes;
      if (page == saved && (address + event.bytes - 1) / UndoLog::kPageBytes == page) continue;
      save(address, event.bytes);
      saved = page;
    }
  }
  inner_.on_access(event);
}

void WriteSaver::on_async_issue(const AsyncIssueEvent& event) {
  if (event.destination_space == Space::global) {
    for (const ByteRange& range : event.writes) save(range.address, range.bytes);
  }
  inner_.on_async_issue(event);
}

}  // namespace ptxbench::emulator
