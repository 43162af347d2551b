#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/decoder.h"
#include "emulator/warp.h"

/// Control flow: blocks, guards, branches, calls, exit.
namespace ptxbench::emulator {

inline constexpr uint32_t kBranchFlag = 0x80000000u;

struct BranchTarget {
  uint32_t block = 0;
  const Inst* inst = nullptr;
};

/// Of bra and brx.idx; Decoder::patch_branches turns block numbers into instructions.
struct BranchInfo {
  std::vector<BranchTarget> targets;
  uint32_t join_block = ptx::kNone;
  const Inst* join = nullptr;
  const Inst* next = nullptr;
  uint32_t guard = ptx::kNone;  ///< slot offset of the guard
  bool guard_negated = false;
  Slot index;  ///< brx.idx
};

struct CallInfo {
  struct Copy {
    uint64_t caller = 0, callee = 0;  ///< offsets in the activations' local memory
    uint32_t bytes = 0;
  };
  uint32_t callee = ptx::kNone;  ///< function index, kNone for an indirect call
  std::string name;
  Slot pointer;
  std::vector<uint64_t> argument_offsets, return_offsets;  ///< caller's locals
  std::vector<uint32_t> argument_bytes, return_bytes;
  uint32_t guard = ptx::kNone;
  bool guard_negated = false;
  uint32_t caller_local_bytes = 0;
};

const Inst* block_enter_full(Warp& warp, const Inst& inst);
const Inst* block_enter_masked(Warp& warp, const Inst& inst);
const Inst* guard_handler(Warp& warp, const Inst& inst);
const Inst* return_handler(Warp& warp, const Inst& inst);
const Inst* unsupported_handler(Warp& warp, const Inst& inst);

/// Runs a function the device library provides (vprintf, __assertfail, ...); null name match = unsupported.
/// `arguments` are offsets in each thread's local memory.
using Builtin = const Inst* (*)(Warp& warp, const Inst& inst, const CallInfo& call, uint32_t lanes);
Builtin find_builtin(std::string_view name);

}  // namespace ptxbench::emulator
