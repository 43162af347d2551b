#include "check/check_launch.h"

#include <fmt/format.h>

#include "launch/prepared_launch.h"
#include "ptx/module.h"

namespace ptxbench::check {
namespace {

void watch_outputs(Watch& watch, const launch::PreparedLaunch& prepared) {
  for (const launch::Argument& argument : prepared.description().arguments) {
    if (!argument.output) continue;
    for (const launch::NamedRange& range : prepared.ranges()) {
      if (range.name != argument.name) continue;
      watch.checker().watch_output(range.name, range.address, range.bytes, launch::bytes_of(argument.type));
    }
  }
}

/// What the outputs hold must depend on nothing that nobody wrote.
void check_outputs_defined(Watch& watch, const launch::PreparedLaunch& prepared) {
  for (const launch::Argument& argument : prepared.description().arguments) {
    if (!argument.output) continue;
    for (const launch::NamedRange& range : prepared.ranges()) {
      if (range.name == argument.name)
        watch.device().check_defined(range.address, range.bytes,
                                     static_cast<uint32_t>(launch::bytes_of(argument.type)));
    }
  }
}

/// False: the kernel did not get to its end.
bool launch_all(Watch& watch, const launch::PreparedLaunch& prepared) {
  for (uint32_t i = 0; i < prepared.description().repeat; ++i) {
    const auto launched = watch.device().launch(prepared.request());
    if (!launched) {
      CheckFinding refused;
      refused.rule = launched.error().rule;
      refused.kernel = watch.device()
                           .module(prepared.request().function.module)
                           ->functions[prepared.request().function.function]
                           .name;
      refused.message = launched.error().message;
      watch.add(std::move(refused));
      return false;
    }
    watch.add(*launched);
    if (launched->fault) return false;
  }
  return true;
}

Result<RunOutcome> run_once(std::string_view ptx, const std::string& name, const launch::LaunchDescription& description,
                            emulator::CompletionPolicy policy, const CheckOptions& options, CheckReport& report) {
  const bool tracking = options.definedness == emulator::DefinednessMode::track;
  auto watch = Watch::start(options, policy, {});
  if (!watch) return tl::unexpected<Error>(watch.error());
  emulator::Device& device = (*watch)->device();
  const auto module = device.load_ptx(ptx, name);
  if (!module) return tl::unexpected<Error>(module.error());
  if (const std::string target = device.module(*module)->target; target.starts_with("sm_1")) {
    (*watch)->add_unknown(fmt::format("the module is for {}, the emulated GPU is an sm_90a", target));
  }
  const auto prepared = launch::PreparedLaunch::create(device, *module, description);
  if (!prepared) return tl::unexpected<Error>(prepared.error());
  watch_outputs(**watch, *prepared);
  if (launch_all(**watch, *prepared)) {
    (*watch)->checker().finish_outputs();
    if (tracking) check_outputs_defined(**watch, *prepared);
    const auto wrong = prepared->check_outputs();
    if (!wrong) return tl::unexpected<Error>(wrong.error());
    for (const launch::OutputMismatch& one : *wrong) {
      CheckFinding finding;
      finding.rule = "numeric.mismatch";
      finding.kernel = device.module(*module)->functions[prepared->request().function.function].name;
      finding.message = one.text();
      finding.output = one.argument;
      if (!tracking) (*watch)->add(std::move(finding));
    }
  }
  return finish_run(**watch, options.definedness, report);
}

}  // namespace

Result<void> run_all(const std::vector<PolicyRun>& runs,
                     const std::function<Result<RunOutcome>(const PolicyRun&, emulator::DefinednessMode)>& once) {
  using emulator::DefinednessMode;
  for (const PolicyRun& run : runs) {
    Result<RunOutcome> outcome = once(run, DefinednessMode::watch);
    if (outcome && outcome->again) outcome = once(run, DefinednessMode::watch);
    if (!outcome) return tl::unexpected<Error>(outcome.error());
    if (outcome->repeat) {
      if (const Result<RunOutcome> tracked = once(run, DefinednessMode::track); !tracked)
        return tl::unexpected<Error>(tracked.error());
    }
    if (outcome->last) break;
  }
  return {};
}

RunOutcome finish_run(Watch& watch, emulator::DefinednessMode definedness, CheckReport& report) {
  if (definedness == emulator::DefinednessMode::track) {
    watch.finish_tracking(report);
    return {};
  }
  const RunOutcome outcome{watch.needs_tracking(), watch.same_under_all_policies(), false};
  watch.finish(report, true);
  return outcome;
}

Result<void> check_launch(std::string_view ptx, const std::string& name, const launch::LaunchDescription& description,
                          const std::vector<PolicyRun>& runs, const CheckOptions& options, CheckReport& report) {
  return run_all(runs, [&](const PolicyRun& run, emulator::DefinednessMode definedness) {
    CheckOptions of_run = options;
    of_run.seed = run.seed;
    of_run.definedness = definedness;
    return run_once(ptx, name, description, run.policy, of_run, report);
  });
}

}  // namespace ptxbench::check
