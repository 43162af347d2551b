#include "gpu/reports.h"

namespace ptxbench::gpu {
namespace {

using base::Json;

std::string text(const Json& json, const char* key) { return json.value(key, std::string()); }
/// Names can be as long as a candidate likes, and all of a report has to fit a message.
std::string cut(const std::string& text) { return text.size() <= 1024 ? text : text.substr(0, 1024) + "..."; }

std::uint64_t number(const Json& json, const char* key) { return json.value(key, std::uint64_t{0}); }

}  // namespace

Json to_json(const cuda_shim::ShimReport& report) {
  Json out = {{"clients", report.clients},
              {"launches", report.launches},
              {"kernel_seconds", report.kernel_seconds},
              {"bytes_to_device", report.bytes_to_device},
              {"bytes_from_device", report.bytes_from_device},
              {"fault_kernel", cut(report.fault_kernel)},
              {"diagnostics_dropped", report.diagnostics_dropped},
              {"unsupported", Json::array()}};
  for (const std::string& one : report.unsupported) out["unsupported"].push_back(cut(one));
  if (report.fault) {
    out["fault"] = {{"rule", cut(report.fault->rule)},
                    {"message", cut(report.fault->message)},
                    {"remedy", cut(report.fault->remedy)},
                    {"kernel", cut(report.fault->place.kernel)}};
  }
  Json& diagnostics = out["diagnostics"] = Json::array();
  for (const cuda_shim::HostDiagnostic& one : report.diagnostics) {
    diagnostics.push_back({{"rule", cut(one.rule)},
                           {"message", cut(one.message)},
                           {"remedy", cut(one.remedy)},
                           {"kernel", cut(one.kernel)},
                           {"call", cut(one.call)},
                           {"note", one.note}});
  }
  return out;
}

cuda_shim::ShimReport shim_report_from(const Json& json) {
  cuda_shim::ShimReport out;
  out.clients = number(json, "clients");
  out.launches = number(json, "launches");
  out.kernel_seconds = json.value("kernel_seconds", 0.0);
  out.bytes_to_device = number(json, "bytes_to_device");
  out.bytes_from_device = number(json, "bytes_from_device");
  out.fault_kernel = text(json, "fault_kernel");
  out.diagnostics_dropped = number(json, "diagnostics_dropped");
  if (json.contains("unsupported")) out.unsupported = json["unsupported"].get<std::set<std::string>>();
  if (json.contains("fault")) {
    const Json& fault = json["fault"];
    emulator::Fault& to = out.fault.emplace();
    to.rule = text(fault, "rule");
    to.message = text(fault, "message");
    to.remedy = text(fault, "remedy");
    to.place.kernel = text(fault, "kernel");
  }
  if (json.contains("diagnostics")) {
    for (const Json& one : json["diagnostics"]) {
      out.diagnostics.push_back({text(one, "rule"), text(one, "message"), text(one, "remedy"), text(one, "kernel"),
                                 text(one, "call"), one.value("note", false)});
    }
  }
  return out;
}

Json to_json(const cuda_shim::GuardedBackend::Observed& observed) {
  return {{"launches", observed.launches},
          {"written_by_host", observed.written_by_host},
          {"filled", observed.filled},
          {"host_bytes", observed.host_bytes},
          {"failed_allocations", observed.failed_allocations}};
}

cuda_shim::GuardedBackend::Observed observed_from(const Json& json) {
  cuda_shim::GuardedBackend::Observed out;
  out.launches = number(json, "launches");
  out.host_bytes = number(json, "host_bytes");
  const auto names = [&](const char* key, std::vector<std::string>& into) {
    if (json.contains(key)) into = json[key].get<std::vector<std::string>>();
  };
  names("written_by_host", out.written_by_host);
  names("filled", out.filled);
  names("failed_allocations", out.failed_allocations);
  return out;
}

}  // namespace ptxbench::gpu
