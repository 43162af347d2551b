#include "checker/undefined.h"

#include <fmt/format.h>

namespace ptxbench::checker {
namespace {

using emulator::Space;
using emulator::UndefinedUse;

const char* use_text(UndefinedUse use) {
  switch (use) {
    case UndefinedUse::branch:
      return "a branch depends";
    case UndefinedUse::guard:
      return "the guard of an instruction depends";
    case UndefinedUse::address:
      return "an address depends";
    case UndefinedUse::barrier:
      return "an operand of a barrier depends";
    case UndefinedUse::control:
      return "lanes or sizes of an operation depend";
    case UndefinedUse::output:
      return "an output depends";
  }
  return "";
}

const char* party_text(UndefinedUse use) {
  switch (use) {
    case UndefinedUse::branch:
      return "branches on the value";
    case UndefinedUse::guard:
      return "is guarded by the value";
    case UndefinedUse::address:
      return "uses the value as an address";
    case UndefinedUse::barrier:
    case UndefinedUse::control:
      return "uses the value";
    case UndefinedUse::output:
      return "stores the value";
  }
  return "";
}

const char* memory_text(Space space) {
  switch (space) {
    case Space::shared:
      return "shared memory";
    case Space::local:
      return "local memory";
    default:
      return "global memory";
  }
}

Party party(const emulator::Agent& agent, emulator::Site site, std::string what) {
  return {site, std::move(what), agent.cluster, agent.cta_rank, agent.warp, agent.lanes};
}

}  // namespace

Finding undefined_finding(const emulator::UndefinedEvent& event) {
  Finding found;
  found.rule = "memory.uninitialised";
  found.severity = Severity::error;
  found.party = party(event.agent, event.site, party_text(event.use));
  found.launch = event.agent.launch;
  if (!event.has_origin) {
    found.message = fmt::format("{} on memory or a register nobody wrote", use_text(event.use));
    found.fix = "give every value that is used a defined one first";
    return found;
  }
  if (event.from_register) {
    found.message = fmt::format("{} on a register nobody wrote", use_text(event.use));
    found.fix = "give the variable a value on every path that leads here (accumulators: zero, or scale-d 0 at first)";
    found.other = party(event.origin_agent, event.origin_site, "reads the register");
    return found;
  }
  const char* memory = memory_text(event.space);
  found.message = fmt::format("{} on {} nobody wrote", use_text(event.use), memory);
  found.fix = fmt::format(
      "write the {} before it is read: clear it, fill the tail too, or do not read what was not filled", memory);
  found.other = party(event.origin_agent, event.origin_site, "reads the memory");
  found.space = event.space;
  found.address = event.address;
  found.bytes = event.bytes;
  return found;
}

}  // namespace ptxbench::checker
