#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emulator/observer.h"

namespace ptxbench::checker {

enum class Severity : uint8_t { note, warning, error };

/// One side of a finding: who did what, where.
struct Party {
  emulator::Site site;
  std::string what;  ///< "TMA load writes", "st reads", ...
  uint32_t cluster = 0, cta_rank = 0, warp = 0, lanes = 0;
};

/// What the checker found. Sites and addresses are named by whoever prints it (Device::describe).
struct Finding {
  std::string rule;
  Severity severity = Severity::error;
  std::string message;
  std::string fix;
  Party party;
  std::optional<Party> other;
  emulator::Space space{};
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint64_t launch = 0;
  uint64_t occurrences = 1;
};

}  // namespace ptxbench::checker
