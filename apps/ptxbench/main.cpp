#include <fmt/format.h>
#include <malloc.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "base/printable.h"
#include "base/text.h"
#include "commands.h"

namespace ptxbench::app {
namespace {

/// CLI11 reports an unknown subcommand as an unexpected argument; this says what was probably meant.
bool names_unknown_command(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return false;
    if (command->get_group().empty()) continue;  // not for people
    names.push_back(command->get_name());
  }
  fmt::print(stderr, "ptxbench: error: no command '{}'{}\ncommands: {}\n", name, base::did_you_mean(name, names),
             fmt::join(names, ", "));
  return true;
}

int run(int argc, char** argv) {
  CLI::App app("Judges CUDA kernels with inline PTX on an emulated GPU.", "ptxbench");
  app.set_version_flag("--version", "ptxbench " PTXBENCH_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 passed; 1 judged and not passed; 2 wrong usage or input; 3 a tool or the machine failed.\n"
      "'ptxbench COMMAND --help' explains a command.");
  ExitCode exit_code = ExitCode::passed;
#define PTXBENCH_COMMAND(name) add_##name(app, exit_code);
#include "command_list.inc"
#undef PTXBENCH_COMMAND

  if (argc < 2) {
    fmt::print(stderr, "{}", app.help());
    return static_cast<int>(ExitCode::usage);
  }
  if (argv[1][0] != '-' && names_unknown_command(app, argv[1])) return static_cast<int>(ExitCode::usage);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {
    return app.exit(request);  // --help or --version
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return static_cast<int>(ExitCode::usage);
  }
  return static_cast<int>(exit_code);
}

}  // namespace

ExitCode report_error(const Error& error) {
  fmt::print(stderr, "ptxbench: error: {}\n", base::printable(error.message, base::Lines::kept));
  return error.kind == ErrorKind::input ? ExitCode::usage : ExitCode::infrastructure;
}

}  // namespace ptxbench::app

int main(int argc, char** argv) {
  using ptxbench::app::ExitCode;
  // Big launches fill and drop hundreds of megabytes on several threads; each step by which a thread's heap grows or
  // shrinks halts all the others.
  ::mallopt(M_TOP_PAD, 16 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 512 << 20);
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  try {
    const int code = ptxbench::app::run(argc, argv);
    // A verdict that could not be written is none.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      std::fprintf(stderr, "ptxbench: error: cannot write the output: %s\n", std::strerror(errno));
      return static_cast<int>(ExitCode::infrastructure);
    }
    return code;
  } catch (const std::bad_alloc&) {
    std::fputs("ptxbench: error: out of memory\n", stderr);
  } catch (const std::system_error& error) {
    // What does not fit the buffer fails while it is printed.
    const char* what = std::ferror(stdout) != 0 ? "error: cannot write the output" : "internal error";
    std::fprintf(stderr, "ptxbench: %s: %s\n", what,
                 std::ferror(stdout) != 0 ? error.code().message().c_str() : error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ptxbench: internal error: %s\n", error.what());
  }
  return static_cast<int>(ExitCode::infrastructure);
}
