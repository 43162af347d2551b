#include <algorithm>
#include <array>

#include "candidate/compile_report.h"

namespace ptxbench::candidate {
namespace {

using base::Json;

constexpr std::array<std::string_view, 3> kLevels = {"error", "warning", "info"};
constexpr std::array<std::string_view, 2> kHeaderSets = {"lean", "upstream"};
constexpr std::array<CompileStatus, 5> kStatuses = {CompileStatus::succeeded, CompileStatus::failed,
                                                    CompileStatus::unsupported, CompileStatus::timed_out,
                                                    CompileStatus::out_of_memory};

Json position_json(const SourcePosition& position) {
  return Json{{"file", position.file}, {"line", position.line}, {"column", position.column}};
}

// Members are read leniently: the only files with this schema are those that to_json below wrote, and their bytes are
// checked against a digest before they are parsed.
SourcePosition position_from(const Json& json) {
  return {json.value("file", std::string()), json.value("line", 0), json.value("column", 0)};
}

template <std::size_t N>
std::size_t index_of(const std::array<std::string_view, N>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? 0 : static_cast<std::size_t>(found - names.begin());
}

}  // namespace

Json to_json(const CompileReport& report) {
  Json kernels = Json::array();
  for (const KernelReport& kernel : report.kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"demangled", kernel.demangled},
                       {"entry", kernel.entry},
                       {"registers", kernel.registers},
                       {"barriers", kernel.barriers},
                       {"static_shared_bytes", kernel.static_shared_bytes},
                       {"stack_bytes", kernel.stack_bytes},
                       {"spill_store_bytes", kernel.spill_store_bytes},
                       {"spill_load_bytes", kernel.spill_load_bytes}});
  }
  Json messages = Json::array();
  for (const CompilerMessage& message : report.messages) {
    Json from = Json::array();
    for (const SourcePosition& position : message.inlined_from) from.push_back(position_json(position));
    messages.push_back({{"level", kLevels[static_cast<std::size_t>(message.level)]},
                        {"tool", message.tool},
                        {"rule", message.rule},
                        {"code", message.code},
                        {"where", position_json(message.where)},
                        {"inlined_from", from},
                        {"ptx_line", message.ptx_line},
                        {"excerpt", message.excerpt},
                        {"function", message.function},
                        {"text", message.text},
                        {"hint", message.hint}});
  }
  return Json{{"schema", "ptxbench.compile/1"},
              {"status", to_string(report.status)},
              {"headers", kHeaderSets[static_cast<std::size_t>(report.headers)]},
              {"header_note", report.header_note},
              {"seconds", report.seconds},
              {"cached", report.cached},
              {"compiler", report.compiler},
              {"flags", report.flags},
              {"kernels", kernels},
              {"messages", messages},
              {"log", report.log}};
}

Result<CompileReport> compile_report_from_json(const Json& json, std::string_view what) {
  const auto schema = base::required<std::string>(json, "schema", what);
  if (!schema) return tl::unexpected(schema.error());
  if (*schema != "ptxbench.compile/1") return input_error("{}: schema {} is not ptxbench.compile/1", what, *schema);
  try {
    CompileReport report;
    const auto status = json.at("status").get<std::string>();
    const auto known = std::find_if(kStatuses.begin(), kStatuses.end(),
                                    [&](CompileStatus candidate) { return to_string(candidate) == status; });
    if (known == kStatuses.end()) return input_error("{}: unknown status {}", what, status);
    report.status = *known;
    report.headers = static_cast<HeaderSet>(index_of(kHeaderSets, json.value("headers", std::string())));
    report.header_note = json.value("header_note", std::string());
    report.seconds = json.value("seconds", 0.0);
    report.cached = json.value("cached", false);
    report.compiler = json.value("compiler", std::string());
    report.flags = json.value("flags", std::vector<std::string>());
    for (const Json& entry : json.value("kernels", Json::array())) {
      KernelReport kernel;
      kernel.name = entry.at("name").get<std::string>();
      kernel.demangled = entry.value("demangled", std::string());
      kernel.entry = entry.value("entry", false);
      kernel.registers = entry.value("registers", 0);
      kernel.barriers = entry.value("barriers", 0);
      kernel.static_shared_bytes = entry.value("static_shared_bytes", std::int64_t{0});
      kernel.stack_bytes = entry.value("stack_bytes", std::int64_t{0});
      kernel.spill_store_bytes = entry.value("spill_store_bytes", std::int64_t{0});
      kernel.spill_load_bytes = entry.value("spill_load_bytes", std::int64_t{0});
      report.kernels.push_back(std::move(kernel));
    }
    for (const Json& entry : json.value("messages", Json::array())) {
      CompilerMessage message;
      message.level = static_cast<MessageLevel>(index_of(kLevels, entry.value("level", std::string())));
      message.tool = entry.value("tool", std::string());
      message.rule = entry.value("rule", std::string());
      message.code = entry.value("code", std::string());
      message.where = position_from(entry.value("where", Json::object()));
      for (const Json& from : entry.value("inlined_from", Json::array())) {
        message.inlined_from.push_back(position_from(from));
      }
      message.ptx_line = entry.value("ptx_line", 0);
      message.excerpt = entry.value("excerpt", std::string());
      message.function = entry.value("function", std::string());
      message.text = entry.value("text", std::string());
      message.hint = entry.value("hint", std::string());
      report.messages.push_back(std::move(message));
    }
    report.log = json.value("log", std::string());
    return report;
  } catch (const Json::exception& error) {
    return input_error("{}: {}", what, error.what());
  }
}

}  // namespace ptxbench::candidate
