#include "check/watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbench::check {
namespace {

std::string policy_text(emulator::CompletionPolicy policy, uint64_t seed) {
  switch (policy) {
    case emulator::CompletionPolicy::eager:
      return "eager";
    case emulator::CompletionPolicy::lazy:
      return "lazy";
    case emulator::CompletionPolicy::random:
      return fmt::format("random:{}", seed);
  }
  return "";
}

}  // namespace

CheckFinding finding_of(const emulator::Fault& fault, const std::string& kernel) {
  CheckFinding finding;
  finding.rule = fault.rule;
  finding.kernel = fault.place.kernel.empty() ? kernel : fault.place.kernel;
  finding.message = fault.message;
  finding.fix = fault.remedy;
  checker::Party party;
  party.what = "";
  party.warp = fault.warp;
  party.lanes = fault.lanes;
  finding.location = locate(fault.place, &party, fault.cta);
  return finding;
}

Result<std::unique_ptr<Watch>> Watch::start(const CheckOptions& options, emulator::CompletionPolicy policy,
                                            std::function<void(std::string_view)> print) {
  auto watch = std::unique_ptr<Watch>(new Watch);
  watch->policy_ = policy_text(policy, options.seed);
  checker::CheckerOptions checker_options;
  checker_options.pedantic = options.pedantic;
  checker_options.accept_proofs = options.accept_proofs;
  checker_options.on_found = [raw = watch.get()](const checker::Finding& finding) { raw->found(finding); };
  watch->checker_ = std::make_unique<checker::Checker>(std::move(checker_options));
  emulator::DeviceOptions device_options;
  device_options.threads = options.threads;
  device_options.completion = policy;
  device_options.seed = options.seed;
  device_options.observer = watch->checker_.get();
  device_options.definedness = options.definedness;
  device_options.print = std::move(print);
  device_options.instruction_budget = options.instruction_budget;
  device_options.traces = options.traces;
  auto device = emulator::Device::create(std::move(device_options));
  if (!device) return tl::unexpected<Error>(device.error());
  watch->device_ = std::move(*device);
  return watch;
}

Watch::~Watch() = default;

std::string Watch::address_text(emulator::Space space, uint64_t address) const {
  if (space == emulator::Space::shared) {
    const uint64_t rank = address >> 24, offset = address & 0xffffff;
    const std::string at = offset >= emulator::kReservedSharedBytes
                               ? fmt::format("shared + {:#x}", offset - emulator::kReservedSharedBytes)
                               : fmt::format("shared address {:#x}", offset);
    return rank != 0 ? fmt::format("{} of CTA rank {}", at, rank) : at;
  }
  const auto block = device_->memory().find(address);
  if (block == nullptr) return fmt::format("{:#x}", address);
  return fmt::format("{} + {:#x}",
                     block->label.empty() ? fmt::format("allocation of {} bytes", block->bytes) : block->label,
                     address - block->begin);
}

void Watch::found(const checker::Finding& finding) {
  CheckFinding named;
  named.rule = finding.rule;
  named.severity = finding.severity;
  named.message = finding.message;
  named.fix = finding.fix;
  const auto place = [&](const checker::Party& party) {
    const uint32_t cta[3] = {party.cluster, party.cta_rank, 0};
    Location location = locate(device_->describe(party.site), &party, cta);
    // The grid's shape is not known here: clusters and ranks are.
    location.thread = fmt::format("cluster {} CTA rank {} {}", party.cluster, party.cta_rank,
                                  location.thread.substr(location.thread.find("warp")));
    return location;
  };
  const emulator::CodePlace code = device_->describe(finding.party.site);
  named.kernel = code.kernel;
  named.location = place(finding.party);
  if (finding.other) {
    named.has_other = true;
    named.other = place(*finding.other);
  }
  if (finding.bytes != 0) {
    named.address = fmt::format("{} ({} byte{})", address_text(finding.space, finding.address), finding.bytes,
                                finding.bytes == 1 ? "" : "s");
  }
  named_.push_back(std::move(named));
}

void Watch::add(const emulator::LaunchReport& launch) {
  ++launches_;
  asynchronous_ += launch.asynchronous;
  warp_instructions_ += launch.warp_instructions;
  clusters_run_ += launch.clusters_run;
  clusters_total_ += launch.clusters_total;
  seconds_ += launch.seconds;
  approximate_.insert(launch.approximate.begin(), launch.approximate.end());
  if (launch.fault) {
    if (launch.fault->rule.starts_with("unsupported.")) {
      unsupported_.insert(launch.fault->place.instruction.empty() ? launch.fault->message
                                                                  : launch.fault->place.instruction);
    }
    extra_.push_back(finding_of(*launch.fault, launch.kernel));
  } else if (launch.clusters_run < launch.clusters_total) {
    unknown_.insert(fmt::format("only {} of {} clusters of {} were run", launch.clusters_run, launch.clusters_total,
                                launch.kernel));
  }
}

bool Watch::has(std::string_view rule, uint32_t ptx_line) const {
  const auto same = [&](const CheckFinding& one) { return one.rule == rule && one.location.ptx_line == ptx_line; };
  return std::any_of(extra_.begin(), extra_.end(), same) || std::any_of(named_.begin(), named_.end(), same);
}

void Watch::finish_tracking(CheckReport& report) {
  constexpr std::string_view kRule = "memory.uninitialised";
  const std::vector<checker::Finding>& counts = checker_->findings();
  for (size_t i = 0; i < named_.size(); ++i) {
    if (named_[i].rule != kRule) continue;
    named_[i].occurrences = counts[i].occurrences;
    report.add(std::move(named_[i]), policy_);
  }
  for (const CheckFinding& finding : extra_) {
    const bool known = std::any_of(report.findings.begin(), report.findings.end(),
                                   [&](const CheckFinding& one) { return one.rule == finding.rule; });
    if (!known) {
      report.unknown.insert(
          fmt::format("values nobody wrote were read, and the run that follows them stopped with {}: {}", finding.rule,
                      finding.message));
    }
  }
  for (const std::string& gap : device_->definedness_gaps()) report.unknown.insert(gap);
  report.unknown.insert(unknown_.begin(), unknown_.end());
  report.findings_dropped += checker_->findings_dropped();
  report.seconds += seconds_;
}

void Watch::finish(CheckReport& report, bool repeated) {
  if (!repeated && needs_tracking()) {
    report.unknown.insert("values nobody wrote were read, and were not followed to where they matter");
  }
  report.policies.push_back(policy_);
  report.one_policy_is_enough = same_under_all_policies() && launches_ != 0;
  const std::vector<checker::Finding>& counts = checker_->findings();
  for (size_t i = 0; i < named_.size(); ++i) {
    named_[i].occurrences = counts[i].occurrences;
    report.add(std::move(named_[i]), policy_);
  }
  for (CheckFinding& finding : extra_) report.add(std::move(finding), policy_);
  named_.clear();
  extra_.clear();
  report.unknown.insert(unknown_.begin(), unknown_.end());
  report.unknown.insert(checker_->unknown().begin(), checker_->unknown().end());
  report.approximate.insert(approximate_.begin(), approximate_.end());
  report.unsupported.insert(unsupported_.begin(), unsupported_.end());
  report.findings_dropped += checker_->findings_dropped();
  report.launches += launches_;
  report.warp_instructions += warp_instructions_;
  report.clusters_run += clusters_run_;
  report.clusters_total += clusters_total_;
  report.seconds += seconds_;
}

}  // namespace ptxbench::check
