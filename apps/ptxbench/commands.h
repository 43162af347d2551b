#pragma once

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace ptxbench::app {

enum class ExitCode : int {
  passed = 0,          ///< a verdict was reached and it is "passed", or the command did what it was asked
  not_passed = 1,      ///< a verdict was reached and it is not "passed"
  usage = 2,           ///< command line, file or data is wrong
  infrastructure = 3,  ///< a tool is missing, the GPU was lost, the disk is full
};

/// Prints "ptxbench: error: ..." on standard error and gives the exit code that belongs to the kind of error.
ExitCode report_error(const Error& error);

// One function per subcommand, each in the file of its name: add_doctor, add_eval, ... It registers the subcommand; the
// subcommand's callback stores the program's exit code. The list comes from CMakeLists.txt.
#define PTXBENCH_COMMAND(name) void add_##name(CLI::App& app, ExitCode& exit_code);
#include "command_list.inc"
#undef PTXBENCH_COMMAND

}  // namespace ptxbench::app
