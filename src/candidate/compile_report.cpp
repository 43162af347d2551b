#include "candidate/compile_report.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <regex>
#include <set>

#include "base/demangle.h"
#include "base/text.h"
#include "ptx/parser.h"

namespace ptxbench::candidate {
namespace {

using base::Json;

/// Header paths keep their tail.
std::string display_file(std::string_view file) {
  std::string name = base::candidate_file_name(file);
  if (name.size() < file.size()) return name;
  const auto include = file.rfind("/include/");
  return include == std::string_view::npos ? std::string(file) : std::string(file.substr(include + 9));
}

int to_int(std::string_view digits) {
  int value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::int64_t number_before(std::string_view line, std::string_view unit) {
  const auto at = line.find(unit);
  if (at == std::string_view::npos || at == 0) return 0;
  std::size_t end = at;
  while (end > 0 && line[end - 1] == ' ') --end;
  std::size_t start = end;
  while (start > 0 && line[start - 1] >= '0' && line[start - 1] <= '9') --start;
  std::int64_t value = 0;
  std::from_chars(line.data() + start, line.data() + end, value);
  return value;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string quoted(std::string_view text) {
  const auto open = text.find('\'');
  const auto close = text.find('\'', open + 1);
  return open == std::string_view::npos || close == std::string_view::npos
             ? ""
             : std::string(text.substr(open + 1, close - open - 1));
}

std::string advisory_rule(std::string_view text) {
  if (contains(text, "wgmma") && contains(text, "serialized")) return "wgmma.serialized";
  if (contains(text, "warpgroup.wait is injected")) return "wgmma.injected_wait";
  if (contains(text, "warpgroup.arrive is injected")) return "wgmma.injected_arrive";
  if (contains(text, "setmaxnreg")) return "launch.setmaxnreg_ignored";
  return "compile.advisory";
}

class Parser {
 public:
  Parser(std::string_view ptx, CompileReport& report) : map_(ptx), report_(report) {}

  void run(std::string_view output) {
    const auto lines = base::split_lines(output);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (!ptxas(lines[i]) && !front_end(lines, i)) host_compiler(lines[i]);
    }
    for (const KernelReport& kernel : report_.kernels) {
      if (kernel.spill_store_bytes == 0 && kernel.spill_load_bytes == 0) continue;
      CompilerMessage message;
      message.level = MessageLevel::info;
      message.tool = "ptxas";
      message.rule = "compile.spill";
      message.function = kernel.name;
      message.text = fmt::format(
          "{} spills registers to local memory: {} bytes stored, {} bytes loaded per thread at {} "
          "registers",
          kernel.demangled, kernel.spill_store_bytes, kernel.spill_load_bytes, kernel.registers);
      report_.messages.push_back(std::move(message));
    }
  }

 private:
  KernelReport& kernel(const std::string& name) {
    for (KernelReport& known : report_.kernels) {
      if (known.name == name) return known;
    }
    KernelReport& fresh = report_.kernels.emplace_back();
    fresh.name = name;
    fresh.demangled = base::demangled(name);
    return fresh;
  }

  void place(CompilerMessage& message, int ptx_line) {
    message.ptx_line = ptx_line;
    if (auto found = map_.find(ptx_line)) {
      message.where = found->where;
      message.inlined_from = found->inlined_from;
      message.excerpt = found->text;
    }
  }

  bool ptxas(std::string_view line) {
    if (line.starts_with("    ") && contains(line, "bytes stack frame")) {
      if (current_.empty()) return true;
      KernelReport& report = kernel(current_);
      report.stack_bytes = number_before(line, "bytes stack frame");
      report.spill_store_bytes = number_before(line, "bytes spill stores");
      report.spill_load_bytes = number_before(line, "bytes spill loads");
      return true;
    }
    if (!line.starts_with("ptxas")) return false;
    const auto colon = line.find(": ");
    if (colon == std::string_view::npos) return true;
    const std::string_view head = line.substr(0, colon);
    std::string_view text = base::trim(line.substr(colon + 2));
    if (contains(head, "info")) {
      info(text);
      return true;
    }
    CompilerMessage message;
    message.tool = "ptxas";
    message.level = contains(head, "warning") ? MessageLevel::warning : MessageLevel::error;
    message.rule = message.level == MessageLevel::error ? "compile.ptx_error" : "compile.warning";
    message.text = text;
    if (const auto mark = head.rfind(", line "); mark != std::string_view::npos) {
      place(message, to_int(head.substr(mark + 7)));
    } else if (contains(text, "aborted due to errors")) {
      return true;  // says nothing that the errors before it did not
    }
    report_.messages.push_back(std::move(message));
    return true;
  }

  void info(std::string_view text) {
    if (text.starts_with("Compiling entry function")) {
      current_ = quoted(text);
      kernel(current_).entry = true;
    } else if (text.starts_with("Function properties for ")) {
      current_ = text.substr(std::string_view("Function properties for ").size());
      kernel(current_);
    } else if (text.starts_with("Used ") && !current_.empty()) {
      KernelReport& report = kernel(current_);
      report.registers = static_cast<int>(number_before(text, "registers"));
      report.barriers = static_cast<int>(number_before(text, "barriers"));
      report.static_shared_bytes = number_before(text, "bytes smem");
    } else if (text.starts_with("(C")) {
      const auto close = text.find(')');
      if (close == std::string_view::npos) return;
      CompilerMessage message;
      message.level = MessageLevel::info;
      message.tool = "ptxas";
      message.code = text.substr(1, close - 1);
      message.text = base::trim(text.substr(close + 1));
      message.rule = advisory_rule(message.text);
      if (const auto mark = message.text.rfind("in function '"); mark != std::string::npos) {
        message.function = quoted(std::string_view(message.text).substr(mark));
      } else if (const auto the = message.text.rfind("in the function '"); the != std::string::npos) {
        message.function = quoted(std::string_view(message.text).substr(the));
      }
      if (const auto mark = message.text.find("around line "); mark != std::string::npos) {
        place(message, to_int(std::string_view(message.text).substr(mark + 12)));
      }
      report_.messages.push_back(std::move(message));
    }
  }

  /// file(line): error: text, followed by the source line and a caret.
  bool front_end(const std::vector<std::string_view>& lines, std::size_t i) {
    static const std::regex kPattern(
        R"(^(.+)\((\d+)\): (catastrophic error|error|warning|internal error)(?: #(\d+(?:-D)?))?: (.*)$)");
    std::cmatch match;
    const std::string_view line = lines[i];
    if (line.size() > 4000 || !std::regex_match(line.data(), line.data() + line.size(), match, kPattern)) return false;
    CompilerMessage message;
    message.tool = "nvcc";
    message.level = match[3] == "warning" ? MessageLevel::warning : MessageLevel::error;
    message.rule = message.level == MessageLevel::error ? "compile.error" : "compile.warning";
    message.code = match[4];
    message.where.file = display_file(match[1].str());
    message.where.line = to_int(match[2].str());
    message.text = match[5];
    // Continuation lines (candidates of an overload) come before the source line; the caret ends the message.
    for (std::size_t next = i + 1; next < lines.size() && next < i + 12 && !base::trim(lines[next]).empty(); ++next) {
      if (base::trim(lines[next]) == "^" && next > i + 1) {
        message.excerpt = base::shorten_middle(base::trim(lines[next - 1]), 300);
        break;
      }
    }
    report_.messages.push_back(std::move(message));
    return true;
  }

  /// file:line:column: fatal error: text
  void host_compiler(std::string_view line) {
    static const std::regex kPattern(R"(^([^:\s][^:]*):(\d+):(\d+): (fatal error|error|warning): (.*)$)");
    std::cmatch match;
    if (line.size() > 4000 || !std::regex_match(line.data(), line.data() + line.size(), match, kPattern)) {
      if (line.starts_with("nvcc error") || line.starts_with("nvcc fatal")) {
        CompilerMessage message;
        message.tool = "nvcc";
        message.rule = "compile.error";
        message.text = line;
        report_.messages.push_back(std::move(message));
      }
      return;
    }
    CompilerMessage message;
    message.tool = "gcc";
    message.level = match[4] == "warning" ? MessageLevel::warning : MessageLevel::error;
    message.rule = message.level == MessageLevel::error ? "compile.error" : "compile.warning";
    message.where = {display_file(match[1].str()), to_int(match[2].str()), to_int(match[3].str())};
    message.text = match[5];
    report_.messages.push_back(std::move(message));
  }

  PtxLineMap map_;
  CompileReport& report_;
  std::string current_;  ///< function that ptxas's next lines are about
};

}  // namespace

std::string_view to_string(CompileStatus status) {
  switch (status) {
    case CompileStatus::succeeded:
      return "succeeded";
    case CompileStatus::failed:
      return "failed";
    case CompileStatus::unsupported:
      return "unsupported";
    case CompileStatus::timed_out:
      return "timed_out";
    case CompileStatus::out_of_memory:
      return "out_of_memory";
  }
  return "failed";
}

PtxLineMap::PtxLineMap(std::string_view ptx) {
  // .file comes after the code that uses its numbers, so names are looked up in `find`.
  int current = -1;
  for (const std::string_view line : base::split_lines(ptx)) {
    const std::string_view text = base::trim(line);
    lines_.emplace_back(text);
    if (text.starts_with(".file")) {
      const auto open = text.find('"');
      const auto close = text.rfind('"');
      const int number = to_int(base::trim(text.substr(5)));
      if (number > 0 && number < 10000 && open != std::string_view::npos && close > open) {
        if (files_.size() <= static_cast<std::size_t>(number)) files_.resize(static_cast<std::size_t>(number) + 1);
        files_[static_cast<std::size_t>(number)] = display_file(text.substr(open + 1, close - open - 1));
      }
    } else if (text.starts_with(".loc")) {
      Location location;
      const auto read = [](std::string_view from, int(&out)[3]) {
        const char* at = from.data();
        const char* const end = from.data() + from.size();
        for (int& value : out) {
          while (at < end && (*at == ' ' || *at == '\t')) ++at;
          at = std::from_chars(at, end, value).ptr;
        }
      };
      int numbers[3] = {};
      read(text.substr(4), numbers);
      location.file = numbers[0];
      location.line = numbers[1];
      location.column = numbers[2];
      if (const auto mark = text.find("inlined_at"); mark != std::string_view::npos) {
        int outer[3] = {};
        read(text.substr(mark + 10), outer);
        location.inlined_files.push_back(outer[0]);
        location.inlined_from.push_back({"", outer[1], outer[2]});
      }
      locations_.push_back(std::move(location));
      current = static_cast<int>(locations_.size()) - 1;
    } else if (text.starts_with(".entry") || contains(text, ".entry ") || text.starts_with(".func") ||
               contains(text, " .func ")) {
      current = -1;
    }
    location_of_line_.push_back(current);
  }
}

std::optional<PtxLineMap::Place> PtxLineMap::find(int ptx_line) const {
  if (ptx_line < 1 || static_cast<std::size_t>(ptx_line) > lines_.size()) return std::nullopt;
  const auto index = static_cast<std::size_t>(ptx_line) - 1;
  if (location_of_line_[index] < 0) return std::nullopt;
  const Location& location = locations_[static_cast<std::size_t>(location_of_line_[index])];
  const auto name = [&](int file) {
    return file > 0 && static_cast<std::size_t>(file) < files_.size() ? files_[static_cast<std::size_t>(file)] : "";
  };
  Place place;
  place.where = {name(location.file), location.line, location.column};
  place.inlined_from = location.inlined_from;
  for (std::size_t i = 0; i < place.inlined_from.size(); ++i)
    place.inlined_from[i].file = name(location.inlined_files[i]);
  place.text = base::shorten_middle(lines_[index], 4000);
  return place;
}

void parse_compiler_output(std::string_view output, std::string_view ptx, CompileReport& report) {
  Parser(ptx, report).run(output);
}

void explain_ptx_errors(std::string_view ptx, CompileReport& report) {
  constexpr std::size_t kMostExplained = 8, kMostBytes = std::size_t{16} << 20;
  if (ptx.size() > kMostBytes) return;
  std::set<int> wrong;
  for (const CompilerMessage& message : report.messages) {
    if (message.tool == "ptxas" && message.level == MessageLevel::error && message.ptx_line > 0)
      wrong.insert(message.ptx_line);
  }
  const auto lines = base::split_lines(ptx);
  std::set<std::string> explained;
  std::map<int, std::string> hints;
  for (const int line : wrong) {
    if (hints.size() == kMostExplained || static_cast<std::size_t>(line) > lines.size()) break;
    // Unrolled and instantiated copies of one statement need one explanation, which all of them share.
    const auto opcode = [&](int number) {
      const std::string_view text = base::trim(lines[static_cast<std::size_t>(number) - 1]);
      return std::string(text.substr(0, text.find_first_of(" \t")));
    };
    if (!explained.insert(opcode(line)).second) continue;
    // The parser stops at the first error: all lines but this one that are wrong are left out.
    std::string text;
    text.reserve(ptx.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const int number = static_cast<int>(i) + 1;
      if (number == line || !wrong.contains(number)) text += lines[i];
      text += '\n';
    }
    const auto module = ptx::parse_module(text, "ptx");
    if (module) continue;
    const std::string& error = module.error().message;
    const std::string place = fmt::format("ptx:{}:", line);
    if (!error.starts_with(place)) continue;
    const auto colon = error.find(": ", place.size());
    if (colon != std::string::npos) hints[line] = error.substr(colon + 2);
  }
  for (CompilerMessage& message : report.messages) {
    if (const auto hint = hints.find(message.ptx_line); hint != hints.end() && message.tool == "ptxas")
      message.hint = hint->second;
  }
}

void parse_linker_output(std::string_view output, CompileReport& report) {
  constexpr std::string_view kUndefined = "undefined reference to `";
  std::vector<std::string> seen;
  for (const std::string_view line : base::split_lines(output)) {
    CompilerMessage message;
    message.tool = "ld";
    message.rule = "compile.link_error";
    if (const auto at = line.find(kUndefined); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kUndefined.size());
      const std::string symbol(rest.substr(0, rest.find('\'')));
      if (std::find(seen.begin(), seen.end(), symbol) != seen.end()) continue;
      seen.push_back(symbol);
      message.function = symbol;
      message.text = fmt::format("undefined symbol {}", symbol);
    } else if (contains(line, "error") && !contains(line, "collect2")) {
      message.text = line;
    } else {
      continue;
    }
    report.messages.push_back(std::move(message));
  }
}

std::string CompileReport::summary(std::size_t max_messages) const {
  const bool errors = std::any_of(messages.begin(), messages.end(),
                                  [](const auto& message) { return message.level == MessageLevel::error; });
  std::string out;
  std::size_t shown = 0;
  std::size_t left = 0;
  for (const CompilerMessage& message : messages) {
    if (errors && message.level != MessageLevel::error) continue;
    if (shown == max_messages) {
      ++left;
      continue;
    }
    ++shown;
    if (message.where.line > 0) {
      out += fmt::format("{}:{}", message.where.file, message.where.line);
      if (message.where.column > 0) out += fmt::format(":{}", message.where.column);
      out += ": ";
    }
    out += fmt::format("{}{}{}", message.tool, message.code.empty() ? "" : " ", message.code);
    out += fmt::format(": {}\n", message.text);
    if (!message.excerpt.empty()) out += fmt::format("    {}\n", message.excerpt);
    for (const SourcePosition& from : message.inlined_from) {
      out += fmt::format("    called from {}:{}\n", from.file, from.line);
    }
  }
  if (left > 0) out += fmt::format("and {} more\n", left);
  if (out.empty() && !succeeded()) out = base::shorten_middle(log, 2000);
  return out;
}

}  // namespace ptxbench::candidate
