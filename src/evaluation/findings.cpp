#include "evaluation/findings.h"

#include <fmt/format.h>

#include <regex>

#include "base/demangle.h"
#include "base/text.h"

namespace ptxbench::evaluation {
namespace {

std::string source_name(const std::string& path) { return base::candidate_file_name(path); }

/// Whether a file, as reports call it, is the candidate or one that it includes from beside it.
bool is_candidate(const std::string& name) {
  return (name.ends_with(".cu") || name.ends_with(".cuh") || name == "kernel.py") &&
         name.find('/') == std::string::npos;
}

/// Paths of the candidate inside messages, shortened the same way.
std::string with_source_names(const std::string& text) {
  static const std::regex kPath("[^ ()\"']*/(kernel\\.cu\\b)|[^ ()\"']*/ptxbench-compile-[^ ()\"']*/([^ ()\"'/]+)");
  return std::regex_replace(text, kPath, "$1$2");
}

std::uint32_t line_of(int line) { return line > 0 ? static_cast<std::uint32_t>(line) : 0; }

Finding from_message(const candidate::CompilerMessage& message) {
  Finding out;
  out.rule = message.rule;
  out.stage = StageName::compile;
  out.severity = message.level == candidate::MessageLevel::error ? Severity::error : Severity::note;
  out.message = message.code.empty() ? message.text : fmt::format("{} ({})", message.text, message.code);
  out.place.kernel = message.function;
  out.place.file = source_name(message.where.file);
  out.place.line = line_of(message.where.line);
  out.place.column = line_of(message.where.column);
  out.place.ptx_line = line_of(message.ptx_line);
  out.place.instruction = message.excerpt;
  // A position inside a header says little; where the candidate uses it does.
  if (!is_candidate(out.place.file)) {
    for (const candidate::SourcePosition& caller : message.inlined_from) {
      const std::string name = source_name(caller.file);
      if (!is_candidate(name)) continue;
      out.place.file = name;
      out.place.line = line_of(caller.line);
      out.place.column = line_of(caller.column);
      break;
    }
  }
  return out;
}

}  // namespace

std::string readable_kernel(std::string_view name) { return base::demangled(std::string(name)); }

std::vector<Finding> compile_findings(const candidate::Compilation& compilation) {
  std::vector<Finding> out;
  for (const candidate::CompilerMessage& message : compilation.report.messages) out.push_back(from_message(message));
  const auto count_errors = [&] {
    std::size_t errors = 0;
    for (const Finding& finding : out) errors += finding.severity == Severity::error ? 1 : 0;
    return errors;
  };
  if (!compilation.report.succeeded() && count_errors() == 0) {
    Finding finding;
    finding.stage = StageName::compile;
    switch (compilation.report.status) {
      case candidate::CompileStatus::timed_out:
        finding.rule = "compile.timeout";
        finding.message = "the compiler did not finish within its time limit";
        finding.remedy = "instantiate fewer templates and unroll less";
        break;
      case candidate::CompileStatus::out_of_memory:
        finding.rule = "compile.memory";
        finding.message = "the compiler exceeded its memory limit";
        finding.remedy = "instantiate fewer templates and unroll less";
        break;
      case candidate::CompileStatus::unsupported:
        finding.rule = "unsupported.compile";
        finding.message = compilation.report.header_note.empty()
                              ? "the source needs something that is not provided here"
                              : compilation.report.header_note;
        break;
      default:
        finding.rule = "compile.error";
        finding.message = compilation.report.summary(1);
        break;
    }
    out.push_back(std::move(finding));
  }
  for (const candidate::StaticFinding& found : compilation.static_findings) {
    Finding finding;
    finding.rule = found.rule;
    finding.stage = StageName::compile;
    finding.message = found.message;
    if (found.line > 0) {
      finding.place.file = found.file;
      finding.place.line = line_of(found.line);
    }
    out.push_back(std::move(finding));
  }
  return out;
}

Finding fault_finding(const emulator::Fault& fault) {
  Finding out;
  out.rule = fault.rule;
  out.stage = StageName::execute;
  out.message = with_source_names(fault.message);
  out.remedy = fault.remedy;
  for (const auto& [file, line] : fault.place.called_from) {
    if (out.message.find("called from") == std::string::npos || out.rule != "sync.deadlock") {
      out.message += fmt::format("\ncalled from {}:{}", source_name(file), line);
    }
  }
  if (!fault.place.kernel.empty()) {
    out.message +=
        fmt::format("\nin block ({}, {}, {}), warp {}", fault.cta[0], fault.cta[1], fault.cta[2], fault.warp);
  }
  out.place = {fault.place.kernel,
               source_name(fault.place.file),
               fault.place.line,
               0,
               fault.place.ptx_line,
               fault.place.instruction,
               {},
               {}};
  for (const auto& [file, line] : fault.place.called_from) {
    out.place.called_from.emplace_back(source_name(file), line);
  }
  return out;
}

std::vector<Finding> diagnostic_findings(const cuda_shim::ShimReport& report) {
  std::vector<Finding> out;
  for (const cuda_shim::HostDiagnostic& diagnostic : report.diagnostics) {
    Finding finding;
    finding.rule = diagnostic.rule;
    finding.stage = StageName::execute;
    finding.message = diagnostic.message;
    finding.remedy = diagnostic.remedy;
    if (diagnostic.note) finding.severity = Severity::note;
    finding.place.kernel = diagnostic.kernel;
    finding.place.host_call = diagnostic.call;
    bool repeated = false;
    for (const Finding& earlier : out)
      repeated = repeated || (earlier.rule == finding.rule && earlier.message == finding.message);
    if (!repeated) out.push_back(std::move(finding));
  }
  return out;
}

bool is_unsupported(const Finding& finding) { return finding.rule.starts_with("unsupported."); }

}  // namespace ptxbench::evaluation
