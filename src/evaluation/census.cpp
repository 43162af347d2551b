#include "evaluation/census.h"

#include <algorithm>

#include "candidate/machine_code.h"

namespace ptxbench::evaluation {
namespace {

using ptx::Op;

bool is_shared(ptx::StateSpace space) {
  return space == ptx::StateSpace::shared || space == ptx::StateSpace::shared_cta ||
         space == ptx::StateSpace::shared_cluster;
}

std::string_view access_family(const ptx::Instruction& instruction, bool load) {
  switch (instruction.space()) {
    case ptx::StateSpace::global:
      return load ? "ld.global" : "st.global";
    case ptx::StateSpace::shared:
    case ptx::StateSpace::shared_cta:
      return load ? "ld.shared" : "st.shared";
    case ptx::StateSpace::shared_cluster:
      return "cluster";
    case ptx::StateSpace::local:
      return "local";
    case ptx::StateSpace::generic:
      return load ? "ld.generic" : "st.generic";
    default:
      return "other";  // parameters and constants
  }
}

}  // namespace

std::string_view instruction_family(const ptx::Instruction& instruction) {
  switch (instruction.op) {
    case Op::wgmma_mma_async:
    case Op::wgmma_mma_async_sp:
      return "wgmma";
    case Op::wgmma_fence:
    case Op::wgmma_commit_group:
    case Op::wgmma_wait_group:
      return "wgmma.sync";
    case Op::mma:
    case Op::mma_sp:
    case Op::mma_sp_ordered:
    case Op::wmma_mma:
      return "mma.sync";
    case Op::cp_async_bulk_tensor:
      return is_shared(instruction.space()) ? "tma.load" : "tma.store";
    case Op::cp_reduce_async_bulk_tensor:
      return "tma.reduce";
    case Op::cp_async_bulk_prefetch_tensor:
      return "tma.prefetch";
    case Op::cp_async_bulk:
      return "bulk.copy";
    case Op::cp_reduce_async_bulk:
      return "bulk.reduce";
    case Op::cp_async_bulk_prefetch:
      return "bulk.prefetch";
    case Op::cp_async_bulk_commit_group:
    case Op::cp_async_bulk_wait_group:
      return "bulk.group";
    case Op::mbarrier_arrive:
    case Op::mbarrier_arrive_drop:
    case Op::mbarrier_complete_tx:
    case Op::mbarrier_expect_tx:
    case Op::mbarrier_init:
    case Op::mbarrier_inval:
    case Op::mbarrier_pending_count:
    case Op::mbarrier_test_wait:
    case Op::mbarrier_try_wait:
      return "mbarrier";
    case Op::cp_async:
      return "cp.async";
    case Op::cp_async_commit_group:
    case Op::cp_async_wait_group:
    case Op::cp_async_wait_all:
    case Op::cp_async_mbarrier_arrive:
      return "cp.async.sync";
    case Op::ldmatrix:
      return "ldmatrix";
    case Op::stmatrix:
      return "stmatrix";
    case Op::setmaxnreg:
      return "setmaxnreg";
    case Op::barrier_cluster_arrive:
    case Op::barrier_cluster_wait:
    case Op::mapa:
    case Op::getctarank:
    case Op::st_async:
    case Op::red_async:
      return "cluster";
    case Op::bar:
    case Op::barrier:
    case Op::bar_warp_sync:
      return "barrier";
    case Op::fence:
    case Op::membar:
    case Op::fence_mbarrier_init:
      return "fence";
    case Op::fence_proxy:
    case Op::tensormap_cp_fenceproxy:
      return "fence.proxy";
    case Op::shfl_sync:
    case Op::vote_sync:
    case Op::match_sync:
    case Op::redux_sync:
    case Op::elect_sync:
    case Op::activemask:
      return "warp";
    case Op::atom:
    case Op::red:
    case Op::multimem:
      return "atomic";
    case Op::griddepcontrol:
      return "griddepcontrol";
    case Op::dp4a:
    case Op::dp2a:
      return "dot";
    case Op::fma:
      return "fma";
    case Op::ld:
    case Op::ldu:
      return access_family(instruction, true);
    case Op::st:
    case Op::st_bulk:
      return access_family(instruction, false);
    default:
      return "other";
  }
}

void Census::add(const emulator::LaunchReport& report) {
  warp_instructions_ += report.warp_instructions;
  tensor_core_macs_ += report.tensor_core_macs;
  legacy_mma_macs_ += report.legacy_mma_macs;
  tma_bytes_ += report.tma_bytes;
  if (report.module == nullptr) return;
  for (const emulator::InstructionCount& count : report.counts) {
    if (count.function >= report.module->functions.size()) continue;
    const ptx::Function& function = report.module->functions[count.function];
    if (count.instruction >= function.instructions.size()) continue;
    const ptx::Instruction& instruction = function.instructions[count.instruction];
    const std::string_view name = instruction_family(instruction);
    auto family = families_.find(name);
    if (family == families_.end()) {
      family = families_.emplace(std::string(name), FamilyCount{std::string(name), 0, 0}).first;
    }
    family->second.warps += count.warps;
    family->second.lanes += count.lanes;
  }
}

void Census::add_machine(std::string_view opcode, std::uint64_t warps, std::uint64_t threads) {
  from_machine_code_ = true;
  warp_instructions_ += warps;
  const std::string_view family = candidate::machine_family(opcode);
  FamilyCount& count = families_.try_emplace(std::string(family), FamilyCount{std::string(family)}).first->second;
  count.warps += warps;
  count.lanes += threads;
  if (const auto macs = candidate::machine_multiply_adds(opcode)) {
    // A warp that executes a product with its predicate false in all threads does nothing; in part it cannot be.
    const double done = *macs * static_cast<double>(std::min(warps, (threads + 31) / 32));
    (family == "wgmma" ? tensor_core_macs_ : legacy_mma_macs_) += static_cast<std::uint64_t>(done);
  }
}

InstructionEvidence Census::evidence(const Demand& demand) const {
  InstructionEvidence out;
  for (const auto& [name, count] : families_) out.families.push_back(count);
  out.warp_instructions = warp_instructions_;
  out.tensor_core_macs = tensor_core_macs_;
  out.legacy_mma_macs = legacy_mma_macs_;
  out.tma_bytes = tma_bytes_;
  const auto lanes = [&](std::string_view name) {
    const auto found = families_.find(name);
    return found == families_.end() ? std::uint64_t{0} : found->second.lanes;
  };
  out.wgmma_executed = lanes("wgmma") > 0;
  // As the reference's rule: tiled loads, stores and reductions; neither prefetches nor one-dimensional bulk copies.
  out.tma_executed = lanes("tma.load") + lanes("tma.store") + lanes("tma.reduce") > 0;
  out.compat_target = out.wgmma_executed || out.tma_executed;
  out.scaled = demand.sampled;
  // The operands that a part of the output needs are not in proportion to it.
  out.required_bytes = demand.sampled ? 0 : demand.bytes;
  out.source = from_machine_code_ ? "machine code" : "ptx";
  if (out.required_bytes > 0 && !from_machine_code_)
    out.tma_byte_share = static_cast<double>(tma_bytes_) / out.required_bytes;
  if (demand.macs && *demand.macs * demand.coverage > 0) {
    out.required_macs = *demand.macs * demand.coverage;
    out.mac_share = static_cast<double>(tensor_core_macs_) / *out.required_macs;
    out.legacy_mma_share = static_cast<double>(legacy_mma_macs_) / *out.required_macs;
    out.threshold = *out.mac_share >= out.mac_share_threshold ? Status::passed : Status::failed;
  }
  switch (out.threshold) {
    case Status::failed:
      out.strict = Status::failed;
      out.strict_reason = "too few of the problem's multiply-adds were done by wgmma";
      break;
    case Status::passed:
      out.strict_reason = "whether the results of wgmma flow into every output element is not tracked by this build";
      break;
    default:
      out.strict_reason = "how many multiply-adds this problem requires is not known";
      break;
  }
  return out;
}

}  // namespace ptxbench::evaluation
