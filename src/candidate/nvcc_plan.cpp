#include "candidate/nvcc_plan.h"

#include <algorithm>
#include <future>
#include <utility>

#include "base/cpu_meter.h"
#include "base/files.h"
#include "base/text.h"

namespace ptxbench::candidate {
namespace {

using Command = NvccPlan::Command;
using Outcome = Result<base::ProcessResult>;

constexpr std::string_view kPrefix = "#$ ";

/// As a shell would take the line apart, with double quotes and variables known so far. Nothing for what is not so
/// simple.
std::optional<Command> split(std::string_view line, const std::map<std::string, std::string>& variables) {
  Command words;
  std::string word;
  bool inside = false, quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      quoted = !quoted;
      inside = true;
    } else if (c == '$') {
      const auto name_end = std::find_if(line.begin() + static_cast<std::ptrdiff_t>(i) + 1, line.end(),
                                         [](char one) { return !(one == '_' || (one >= 'A' && one <= 'Z')); });
      const std::size_t end = static_cast<std::size_t>(name_end - line.begin());
      const auto variable = variables.find(std::string(line.substr(i + 1, end - i - 1)));
      if (variable == variables.end()) return std::nullopt;
      word += variable->second;
      inside = true;
      i = end - 1;
    } else if (std::string_view("\\'`;|&<>*?").find(c) != std::string_view::npos && !quoted) {
      return std::nullopt;
    } else if (c == '\\' || c == '`') {
      return std::nullopt;
    } else if (c == ' ' && !quoted) {
      if (inside) words.push_back(std::exchange(word, {}));
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (quoted) return std::nullopt;
  if (inside) words.push_back(word);
  return words;
}

bool has(const Command& command, std::string_view word) {
  return std::find(command.begin(), command.end(), word) != command.end();
}

bool runs(const Command& command, std::string_view program) {
  return !command.empty() && std::filesystem::path(command[0]).filename() == program;
}

/// Of the command's options, the one that begins so.
std::string* find_option(Command& command, std::string_view beginning) {
  const auto found = std::find_if(command.begin(), command.end(),
                                  [&](const std::string& word) { return word.starts_with(beginning); });
  return found == command.end() ? nullptr : &*found;
}

/// The file that embeds machine code and PTX in the host's object, made to read them when it is assembled: `text` is
/// one of fatbinary's for other contents. Nothing if that looks otherwise than expected.
std::optional<std::string> embedding_late(std::string_view text, std::string_view fatbin) {
  constexpr std::string_view kBegin = "\"fatbinData:\\n\"\n", kEnd = "\".text\\n\");";
  const std::size_t begin = text.find(kBegin), end = text.find(kEnd);
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return std::nullopt;
  return fmt::format("{}\".incbin \\\"{}\\\"\\n\"\n{}", text.substr(0, begin + kBegin.size()), fatbin,
                     text.substr(end));
}

/// Host code up to assembly, which needs the machine code only in the end, and then the rest.
struct HostHalves {
  Command compile, assemble;
};

class Execution {
 public:
  Execution(const NvccPlan& plan, const std::filesystem::path& folder, const CommandRunner& run)
      : plan_(plan), folder_(folder), run_(run) {}

  Result<std::optional<base::ProcessResult>> run() {
    auto device = start(plan_.preprocess_device);
    take(run_(plan_.preprocess_host, {}));
    if (sound()) take(run_(plan_.cudafe, {}));
    auto preprocessed = device.get();
    if (sound()) take(std::move(preprocessed));
    if (sound()) take(run_(plan_.cicc, {}));
    if (sound()) {
      if (const auto halves = prepare_host()) {
        link_late(*halves);
      } else {
        for (const Command* command : {&plan_.ptxas, &plan_.fatbinary, &plan_.compile_host}) {
          if (sound()) take(run_(*command, {}));
        }
      }
    }
    if (error_) return tl::unexpected(*error_);
    if (all_.signal != 0 && !all_.timed_out) return std::nullopt;
    return std::optional(std::move(all_));
  }

 private:
  bool sound() const { return !error_ && all_.ok(); }

  std::future<Outcome> start(const Command& command) {
    return std::async(std::launch::async, [this, &command, meter = base::CpuMeter::current()] {
      const base::CpuScope scope(meter);
      return run_(command, stop_.get_token());
    });
  }

  /// The next command's result, in nvcc's order.
  void take(Outcome outcome) {
    if (!outcome) {
      error_ = outcome.error();
      return;
    }
    std::string out = std::move(all_.stdout_text), err = std::move(all_.stderr_text);
    all_ = std::move(*outcome);
    all_.stdout_text.insert(0, out);
    all_.stderr_text.insert(0, err);
  }

  /// Writes the file that the host's code includes for the machine code, before there is any: fatbinary makes one of
  /// the PTX alone.
  std::optional<HostHalves> prepare_host() {
    Command fatbinary = plan_.fatbinary;
    std::string* create = find_option(fatbinary, "--create=");
    std::string* embedded = find_option(fatbinary, "--embedded-fatbin=");
    const std::string* machine_code = find_option(fatbinary, "--image3=kind=elf");
    HostHalves halves{plan_.compile_host, {plan_.compile_host[0], "-c", "kernel.host.s", "-o", "kernel.o"}};
    const auto stage = std::find(halves.compile.begin(), halves.compile.end(), "-c");
    const auto output = std::find(halves.compile.begin(), halves.compile.end(), "-o");
    if (create == nullptr || embedded == nullptr || machine_code == nullptr || stage == halves.compile.end() ||
        output == halves.compile.end() || output + 1 == halves.compile.end() || output[1] != "kernel.o") {
      return std::nullopt;
    }
    const std::string fatbin = create->substr(create->find('=') + 1);
    const std::string file = embedded->substr(embedded->find('=') + 1);
    *create = "--create=early.fatbin";
    *embedded = "--embedded-fatbin=early.fatbin.c";
    fatbinary.erase(fatbinary.begin() + (machine_code - fatbinary.data()));
    const auto made = run_(fatbinary, {});
    const auto text = made && made->ok() ? base::read_file(folder_ / "early.fatbin.c") : Result<std::string>();
    const auto late = text ? embedding_late(*text, fatbin) : std::nullopt;
    if (!late || !base::write_file_atomic(folder_ / file, *late)) return std::nullopt;
    *stage = "-S";
    output[1] = "kernel.host.s";
    if (has(plan_.compile_host, "-m64")) halves.assemble.insert(halves.assemble.begin() + 1, "-m64");
    return halves;
  }

  void link_late(const HostHalves& halves) {
    auto host = start(halves.compile);
    take(run_(plan_.ptxas, {}));
    Command fatbinary = plan_.fatbinary;
    *find_option(fatbinary, "--embedded-fatbin=") = "--embedded-fatbin=late.fatbin.c";  // the host's code has one
    if (sound()) take(run_(fatbinary, {}));
    if (!sound()) stop_.request_stop();
    auto compiled = host.get();
    if (sound()) take(std::move(compiled));
    if (sound()) take(run_(halves.assemble, {}));
  }

  const NvccPlan& plan_;
  const std::filesystem::path& folder_;
  const CommandRunner& run_;
  std::stop_source stop_;
  std::optional<Error> error_;
  base::ProcessResult all_ = [] {
    base::ProcessResult none;
    none.exit_code = 0;
    return none;
  }();
};

}  // namespace

std::optional<NvccPlan> parse_plan(std::string_view dry_run) {
  NvccPlan plan;
  std::vector<Command> commands;
  for (std::string_view line : base::split_lines(dry_run)) {
    if (line.empty()) continue;
    if (!line.starts_with(kPrefix)) return std::nullopt;
    line.remove_prefix(kPrefix.size());
    const std::size_t equals = line.find('=');
    const bool assigns =
        equals != std::string_view::npos && equals > 0 &&
        line.substr(0, equals).find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == std::string_view::npos;
    if (assigns) {
      plan.variables[std::string(line.substr(0, equals))] = std::string(line.substr(equals + 1));
      continue;
    }
    auto command = split(line, plan.variables);
    if (!command) return std::nullopt;
    commands.push_back(std::move(*command));
  }
  if (commands.size() != 7) return std::nullopt;
  const std::string host = commands[0].empty() ? "" : std::filesystem::path(commands[0][0]).filename().string();
  const auto is_host = [&](const Command& command, std::string_view stage) {
    return runs(command, host) && has(command, stage);
  };
  if (!is_host(commands[0], "-E") || !runs(commands[1], "cudafe++") || !is_host(commands[2], "-E") ||
      !runs(commands[3], "cicc") || !runs(commands[4], "ptxas") || !runs(commands[5], "fatbinary") ||
      !is_host(commands[6], "-c")) {
    return std::nullopt;
  }
  plan.preprocess_host = std::move(commands[0]);
  plan.cudafe = std::move(commands[1]);
  plan.preprocess_device = std::move(commands[2]);
  plan.cicc = std::move(commands[3]);
  plan.ptxas = std::move(commands[4]);
  plan.fatbinary = std::move(commands[5]);
  plan.compile_host = std::move(commands[6]);
  return plan;
}

Result<std::optional<base::ProcessResult>> run_plan(const NvccPlan& plan, const std::filesystem::path& folder,
                                                    const CommandRunner& run) {
  return Execution(plan, folder, run).run();
}

}  // namespace ptxbench::candidate
