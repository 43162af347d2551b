#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "agent/feedback_parts.h"
#include "base/text.h"
#include "emulator/device.h"

namespace ptxbench::agent::parts {
namespace {

using candidate::KernelReport;
using evaluation::InstructionEvidence;
using evaluation::LaunchSummary;
using evaluation::Performance;
using evaluation::Status;
using Limits = emulator::DeviceLimits;

/// What of an SM one kernel's blocks take.
struct Occupancy {
  unsigned blocks = 0, warps = 0;
  std::string limit;  ///< what allows no more blocks
};

unsigned rounded_up(unsigned value, unsigned to) { return (value + to - 1) / to * to; }

/// Registers are given to warps in units of 256, shared memory in units of 128 bytes with 1 KiB of the system's.
Occupancy occupancy(const KernelReport& kernel, const LaunchSummary& launch) {
  Occupancy out;
  const unsigned threads = launch.block[0] * launch.block[1] * launch.block[2];
  if (threads == 0 || threads > Limits::kMaxThreadsPerBlock) return out;
  const unsigned warps = (threads + 31) / 32;
  const unsigned registers = rounded_up(static_cast<unsigned>(std::max(kernel.registers, 1)) * 32, 256) * warps;
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(kernel.static_shared_bytes, 0)) + launch.dynamic_shared_bytes;
  const unsigned shared =
      rounded_up(static_cast<unsigned>(std::min<std::uint64_t>(bytes, Limits::kSharedPerSm)) + 1024, 128);
  const std::array<std::pair<unsigned, std::string_view>, 4> by = {{{Limits::kRegistersPerSm / registers, "registers"},
                                                                    {Limits::kSharedPerSm / shared, "shared memory"},
                                                                    {Limits::kMaxThreadsPerSm / threads, "threads"},
                                                                    {Limits::kMaxBlocksPerSm, "the number of blocks"}}};
  const auto least =
      std::min_element(by.begin(), by.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [blocks, what] : by) {
    if (blocks == least->first) out.limit += (out.limit.empty() ? "" : " and ") + std::string(what);
  }
  out.blocks = least->first;
  out.warps = out.blocks * warps;
  return out;
}

/// The launch that did most of the work, with what the compiler said of its kernel.
std::pair<const LaunchSummary*, const KernelReport*> main_launch(const evaluation::Evaluation& evaluation) {
  const LaunchSummary* most = nullptr;
  for (const evaluation::Run& run : evaluation.runs) {
    for (const LaunchSummary& launch : run.launches) {
      if (launch.block[0] == 0) continue;
      if (most == nullptr || launch.warp_instructions > most->warp_instructions) most = &launch;
    }
  }
  const KernelReport* report = nullptr;
  for (const KernelReport& kernel : evaluation.compile.kernels) {
    if (most != nullptr && kernel.name == most->kernel) report = &kernel;
  }
  if (most == nullptr) {
    for (const KernelReport& kernel : evaluation.compile.kernels) {
      if (kernel.entry && (report == nullptr || kernel.registers > report->registers)) report = &kernel;
    }
  }
  return {most, report};
}

std::string extents_text(const std::array<std::uint32_t, 3>& extents) {
  std::string text = fmt::format("{}", extents[0]);
  if (extents[1] > 1 || extents[2] > 1) text += fmt::format("x{}", extents[1]);
  if (extents[2] > 1) text += fmt::format("x{}", extents[2]);
  return text;
}

/// What limits the kernel whatever its time is, the gravest first: a fact and what to do about it.
struct Limiter {
  std::string fact, change;
};

std::vector<Limiter> limiters(const evaluation::Evaluation& evaluation, const LaunchSummary* launch,
                              const KernelReport* kernel) {
  std::vector<Limiter> out;
  for (const candidate::CompilerMessage& message : evaluation.compile.messages) {
    const std::string at = message.where.line > 0 ? fmt::format(" (kernel.cu:{})", message.where.line) : "";
    if (message.rule == "wgmma.serialized") {
      const bool starved = message.text.find("insufficient register") != std::string::npos;
      out.push_back(
          {fmt::format("ptxas serialises wgmma{}: {} {}", at, message.code, parts::first_line(message.text, 160)),
           starved ? "give a thread more registers, so that wgmma can run asynchronously: fewer blocks per "
                     "multiprocessor in "
                     "__launch_bounds__, setmaxnreg, or fewer accumulators per thread"
                   : "keep accumulators in registers of one function between wgmma.fence and wait_group: no calls, no "
                     "copies and no "
                     "other use of them in between, so that wgmma stays asynchronous"});
      break;
    }
  }
  for (const candidate::CompilerMessage& message : evaluation.compile.messages) {
    if (message.rule != "wgmma.injected_wait" && message.rule != "wgmma.injected_arrive" &&
        message.rule != "launch.setmaxnreg_ignored")
      continue;
    out.push_back({fmt::format("{} {}", message.code, parts::first_line(message.text, 160)),
                   message.rule == "launch.setmaxnreg_ignored"
                       ? "give the kernel a register bound that setmaxnreg can change: __launch_bounds__ with the "
                         "exact thread count"
                       : "put wgmma.fence before, and wait_group after, every use of the accumulators yourself"});
    break;
  }
  if (kernel != nullptr && kernel->spill_store_bytes + kernel->spill_load_bytes > 0) {
    out.push_back({fmt::format("{} bytes stored and {} loaded per thread by spills at {} registers",
                               kernel->spill_store_bytes, kernel->spill_load_bytes, kernel->registers),
                   "let a thread hold less: a smaller tile per warpgroup, or fewer blocks per multiprocessor in "
                   "__launch_bounds__"});
  }
  if (evaluation.instructions) {
    const InstructionEvidence& evidence = *evaluation.instructions;
    const bool counts = evidence.mac_share.has_value() && *evidence.mac_share < evidence.mac_share_threshold;
    if (counts && !evidence.wgmma_executed) {
      out.push_back({evidence.legacy_mma_share && *evidence.legacy_mma_share > 0.5
                         ? "the products are formed by mma.sync, which does not reach wgmma's rate"
                         : "no tensor core is used",
                     "form the products with wgmma.mma_async on tiles that TMA brings to shared memory"});
    }
    if (!evidence.tma_executed && evidence.source == "ptx") {
      out.push_back({"no TMA copy: threads compute every address and move every byte through registers or cp.async",
                     "load the operands with cp.async.bulk.tensor and an mbarrier, from one thread"});
    }
    // Each byte needed once; more is fetched again by other blocks.
    if (evidence.required_bytes > 0 && static_cast<double>(evidence.tma_bytes) > 8 * evidence.required_bytes) {
      out.push_back({fmt::format("TMA moves {:.1f} times the bytes that are needed once",
                                 static_cast<double>(evidence.tma_bytes) / evidence.required_bytes),
                     "larger tiles, multicast in a cluster, and an order of tiles that reuses L2"});
    }
  }
  if (launch != nullptr && launch->grid[0] != 0) {
    const std::uint64_t blocks = std::uint64_t{launch->grid[0]} * launch->grid[1] * launch->grid[2];
    if (blocks < Limits::kSmCount)
      out.push_back({fmt::format("{} blocks leave {} of {} multiprocessors idle", blocks, Limits::kSmCount - blocks,
                                 Limits::kSmCount),
                     "smaller tiles, or split the reduction over blocks"});
  }
  return out;
}

}  // namespace

Part instructions(const Evidence& evidence) {
  Part part;
  const evaluation::Evaluation& evaluation = evidence.evaluation;
  if (!evaluation.instructions) return part;
  const InstructionEvidence& done = *evaluation.instructions;
  const auto& stage = evaluation.stage(evaluation::StageName::instructions);
  const bool missing = done.mac_share && *done.mac_share < done.mac_share_threshold;
  std::string text = "Instructions: ";
  if (done.mac_share) {
    text += fmt::format("wgmma did {:.1f} % of the problem's multiply-adds", 100 * *done.mac_share);
    if (done.legacy_mma_share && *done.legacy_mma_share > 0)
      text += fmt::format(", mma.sync {:.1f} %", 100 * *done.legacy_mma_share);
    const double rest = 1 - *done.mac_share - done.legacy_mma_share.value_or(0);
    if (rest > 0.01) text += fmt::format("; the other {:.1f} % were done by no tensor core, or not at all", 100 * rest);
    text += fmt::format(" (a target kernel needs {:.0f} % by wgmma: {})", 100 * done.mac_share_threshold,
                        missing ? "no" : "yes");
  } else {
    text += done.wgmma_executed ? "wgmma was executed, its share of the work is not known" : "no wgmma was executed";
  }
  text += done.tma_executed ? "; TMA tensor copies were executed" : "; no TMA tensor copy was executed";
  if (done.tma_executed && done.tma_byte_share)
    text += fmt::format(" ({:.2f} times the bytes that every input and output has once)", *done.tma_byte_share);
  text += ".\n";
  std::vector<evaluation::FamilyCount> families = done.families;
  std::stable_sort(families.begin(), families.end(), [](const auto& a, const auto& b) { return a.warps > b.warps; });
  std::string brief = text;
  if (evidence.level == FeedbackLevel::rich || (missing && evidence.level == FeedbackLevel::standard)) {
    std::string work;
    const std::size_t most = evidence.level == FeedbackLevel::rich ? 16 : 5;
    for (const evaluation::FamilyCount& family : families) {
      if (family.family == "other" || static_cast<std::size_t>(std::count(work.begin(), work.end(), ',')) + 1 >= most)
        continue;
      work += fmt::format("{}{} {}", work.empty() ? "" : ", ", family.family, family.warps);
    }
    if (!work.empty())
      text += fmt::format("  warp instructions by family: {} (of {} in all)\n", work, done.warp_instructions);
  }
  if (missing && (stage.decisive || evaluation.passed())) {
    const std::string what = done.wgmma_executed
                                 ? "do all multiply-adds of the problem with wgmma.mma_async"
                                 : "form the products with wgmma.mma_async (operands by TMA in shared memory)";
    part.first = fmt::format("{}: it did {:.1f} % of the multiply-adds", what, 100 * *done.mac_share);
  }
  part.sections.push_back({"instructions", std::move(text), std::move(brief)});
  return part;
}

Part speed(const Evidence& evidence) {
  Part part;
  const evaluation::Evaluation& evaluation = evidence.evaluation;
  if (evaluation.stage(evaluation::StageName::correctness).status == Status::failed ||
      evaluation.stage(evaluation::StageName::execute).status != Status::passed)
    return part;  // what a wrong kernel takes is of no use
  const auto [launch, kernel] = main_launch(evaluation);
  std::string text;
  for (const Performance& one : evaluation.performance) {
    text += fmt::format("Speed [{}]: {}", axes_text(one.axes), evaluation::describe(one));
    if (one.floor > 0 && one.times.candidate.count > 0)
      text += fmt::format("; {:.2f} times the least that the hardware's rates allow ({})",
                          one.times.candidate.value / one.floor, base::format_seconds(one.floor / 1e3));
    text += '\n';
  }
  const bool measured = !evaluation.performance.empty();
  if (!measured)
    text +=
        fmt::format("Speed: not measured ({}).\n", evaluation.stage(evaluation::StageName::performance).reason.empty()
                                                       ? "no GPU"
                                                       : evaluation.stage(evaluation::StageName::performance).reason);
  if (kernel != nullptr) {
    text += fmt::format("  {} registers, {} spilled", kernel->registers,
                        base::format_bytes(static_cast<std::uint64_t>(kernel->spill_store_bytes)));
    if (launch != nullptr) {
      const Occupancy fits = occupancy(*kernel, *launch);
      text += fmt::format(", grid {}, {} threads", extents_text(launch->grid),
                          launch->block[0] * launch->block[1] * launch->block[2]);
      if (launch->cluster[0] * launch->cluster[1] * launch->cluster[2] > 1)
        text += fmt::format(", clusters of {}", extents_text(launch->cluster));
      text += fmt::format(
          ", {} shared memory",
          base::format_bytes(static_cast<std::uint64_t>(kernel->static_shared_bytes) + launch->dynamic_shared_bytes));
      if (fits.blocks > 0)
        text += fmt::format("; {} per multiprocessor ({} of 64 warps), limited by {}", counted(fits.blocks, "block"),
                            fits.warps, fits.limit);
    }
    text += ".\n";
  }
  const std::vector<Limiter> found = limiters(evaluation, launch, kernel);
  const std::size_t most = evidence.level == FeedbackLevel::rich ? found.size() : 1;
  for (std::size_t i = 0; i < std::min(most, found.size()); ++i)
    text += fmt::format("  limits: {}. Change: {}.\n", found[i].fact, found[i].change);
  double speedup = 0;
  for (const Performance& one : evaluation.performance) {
    if (one.times.speedup)
      speedup = speedup == 0 ? one.times.speedup->value : std::min(speedup, one.times.speedup->value);
  }
  if (!found.empty()) {
    part.first = found.front().change;
  } else if (measured && speedup > 0) {
    part.first =
        "no single limit stands out: overlap loads, products and the epilogue of different tiles more (deeper ring of "
        "stages, "
        "persistent blocks), and measure again";
    text += fmt::format("  limits: none stands out. Change: {}.\n", part.first);
  }
  if (!measured && evaluation.passed() && part.first.empty()) part.first = "nothing needs to change; it was not timed";
  part.sections.push_back({"speed", text, parts::first_line(text.substr(0, text.find('\n')), 240) + "\n"});
  return part;
}

}  // namespace ptxbench::agent::parts
