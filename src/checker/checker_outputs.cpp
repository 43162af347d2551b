#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "checker/checker_state.h"

namespace ptxbench::checker {

void Checker::State::watch_output(std::string name, uint64_t address, uint64_t bytes, uint32_t element_bytes) {
  outputs_.push_back(
      {std::move(name), address, bytes, std::max(1u, element_bytes), std::vector<bool>(bytes, false), {}});
  outputs_.back().writers.resize(bytes / outputs_.back().element_bytes);
}

void Checker::State::finish_outputs() {
  for (const Output& output : outputs_) {
    uint64_t missing = 0, first = 0;
    for (uint64_t e = output.bytes / output.element_bytes; e-- > 0;) {
      bool written = true;
      for (uint32_t b = 0; b < output.element_bytes; ++b)
        written = written && output.written[e * output.element_bytes + b];
      if (written) continue;
      ++missing;
      first = e;
    }
    if (missing == 0) continue;
    Finding found;
    found.rule = "memory.unwritten";
    found.message = fmt::format("{} of {} elements of {} were never written; the first is element {}", missing,
                                output.bytes / output.element_bytes, output.name, first);
    found.fix = "write every element of the output, the tail tiles too";
    found.space = Space::global;
    found.address = output.address + first * output.element_bytes;
    found.bytes = output.element_bytes;
    add(std::move(found));
  }
  outputs_.clear();
}

void Checker::State::mark_writers(const emulator::AccessEvent& event, const WarpThreads& warp, uint32_t site,
                                  bool plain) {
  for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    for (Output& output : outputs_) {
      if (event.addresses[lane] < output.address || event.addresses[lane] >= output.address + output.bytes) continue;
      const uint64_t first = (event.addresses[lane] - output.address) / output.element_bytes;
      const uint64_t last = (event.addresses[lane] - output.address + event.bytes - 1) / output.element_bytes;
      for (uint64_t e = first; e <= last && e < output.writers.size(); ++e) {
        Output::Writer& writer = output.writers[e];
        const bool other = writer.timeline != 0 && (writer.timeline != warp.timeline() || writer.lane != lane);
        if (other && writer.plain && plain) {
          Agent agent = event.agent;
          agent.lanes = 1u << lane;
          Finding found = finding("memory.doubly-written", Severity::note, agent, event.site, Space::global,
                                  event.addresses[lane], event.bytes);
          found.party.what = "writes again";
          found.message = "an output element is written by more than one thread";
          found.fix = "let one thread own each element";
          found.other = party_of(writer.timeline, 1u << writer.lane, writer.site, "wrote it before");
          add(std::move(found));
        }
        writer = {warp.timeline(), lane, site, plain};
      }
    }
  }
}

void Checker::State::forget_writers(const emulator::AccessEvent& event) {
  for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
    const uint64_t address = event.addresses[std::countr_zero(rest)];
    for (Output& output : outputs_) {
      if (address < output.address || address >= output.address + output.bytes) continue;
      const uint64_t first = (address - output.address) / output.element_bytes;
      const uint64_t last = (address - output.address + event.bytes - 1) / output.element_bytes;
      for (uint64_t e = first; e <= last && e < output.writers.size(); ++e) output.writers[e] = {};
    }
  }
}

void Checker::State::mark_output(uint64_t address, uint64_t bytes) {
  for (Output& output : outputs_) {
    const uint64_t begin = std::max(address, output.address);
    const uint64_t end = std::min(address + bytes, output.address + output.bytes);
    for (uint64_t at = begin; at < end; ++at) output.written[at - output.address] = true;
  }
}

}  // namespace ptxbench::checker
