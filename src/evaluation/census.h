#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "emulator/device.h"
#include "evaluation/evaluation.h"
#include "ptx/module.h"

namespace ptxbench::evaluation {

/// The family an instruction is counted under: "wgmma", "tma.load", "mma.sync", "mbarrier", "fma", ... Only what moves
/// data, computes products or synchronises has a family; everything else is "other".
std::string_view instruction_family(const ptx::Instruction& instruction);

/// Adds up the launches of one run.
class Census {
 public:
  void add(const emulator::LaunchReport& report);
  /// One machine instruction, with how often it ran: warp-level, and by threads whose predicate was true. Bytes that
  /// tensor copies move are not known then.
  void add_machine(std::string_view opcode, std::uint64_t warps, std::uint64_t threads);

  /// What the problem demands of the part that was executed; `required_macs` nothing when the problem's number is not
  /// known.
  struct Demand {
    std::optional<double> macs;
    double bytes = 0;
    double coverage = 1;  ///< share of the output that the executed part covers
    bool sampled = false;
  };
  InstructionEvidence evidence(const Demand& demand) const;

  std::uint64_t warp_instructions() const { return warp_instructions_; }

 private:
  std::map<std::string, FamilyCount, std::less<>> families_;
  std::uint64_t warp_instructions_ = 0;
  std::uint64_t tensor_core_macs_ = 0, legacy_mma_macs_ = 0, tma_bytes_ = 0;
  bool from_machine_code_ = false;
};

}  // namespace ptxbench::evaluation
