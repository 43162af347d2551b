#include "service/requests.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

namespace ptxbench::service {
namespace {

using base::Json;

constexpr double kLongestTimeout = 86400;
constexpr double kLargestTolerance = std::numeric_limits<double>::max();
constexpr std::int64_t kMostLines = 1'000'000;
constexpr std::size_t kMostSources = 256;

bool is_plain_path(const std::string& path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string::npos) return false;
  const std::filesystem::path parts(path);
  return std::none_of(parts.begin(), parts.end(), [](const auto& part) { return part == ".." || part == "."; });
}

void check_entry_point(const Solution& solution, BodyReader& spec) {
  const std::string& entry = solution.entry_point;
  if (entry.empty()) return;
  const std::size_t colons = entry.find("::");
  if (colons == std::string::npos || colons == 0 || colons + 2 == entry.size() ||
      entry.find("::", colons + 2) != std::string::npos) {
    spec.error("entry_point", "entry_point must be 'file::symbol'");
    return;
  }
  const std::string file = entry.substr(0, colons);
  const bool found = std::any_of(solution.sources.begin(), solution.sources.end(),
                                 [&](const SourceFile& source) { return source.path == file; });
  if (!found) spec.error("entry_point", "the entry file is not among the sources");
}

Solution read_solution(const Json& json, BodyErrors& errors, const BodyErrors::Place& place) {
  Solution solution;
  BodyReader reader(json, errors, place);
  solution.name = reader.required_text("name");
  solution.definition = reader.required_text("definition");
  solution.author = reader.required_text("author");
  solution.description = reader.text("description").value_or("");
  for (const auto& [key, value] : {std::pair{"name", &solution.name}, {"definition", &solution.definition}}) {
    if (value->empty() && reader.find(key) != nullptr && reader.find(key)->is_string()) {
      reader.error(key, "must not be empty");
    }
  }
  const Json& sources = reader.required_list("sources");
  std::set<std::string> paths;
  if (sources.size() > kMostSources) reader.error("sources", "too many files");
  for (std::size_t i = 0; i < std::min(sources.size(), kMostSources); ++i) {
    BodyErrors::Place where = reader.place("sources");
    where.emplace_back(i);
    if (!sources[i].is_object()) {
      errors.add(where, "model_type", "Input should be a valid dictionary", sources[i]);
      continue;
    }
    BodyReader file(sources[i], errors, where);
    SourceFile source{file.required_text("path"), file.required_text("content")};
    if (file.find("path") != nullptr && !is_plain_path(source.path)) {
      file.error("path", "must be relative and without '..'");
    } else if (!paths.insert(source.path).second) {
      file.error("path", "is there twice");
    }
    solution.sources.push_back(std::move(source));
  }
  if (sources.empty() && reader.find("sources") != nullptr && reader.find("sources")->is_array()) {
    reader.error("sources", "must hold a file");
  }
  BodyReader spec(reader.required_object("spec"), errors, reader.place("spec"));
  if (reader.find("spec") == nullptr) return solution;
  if (spec.find("language") == nullptr) {
    spec.required_text("language");
  } else {
    solution.language = spec.word("language", {"python", "triton", "cpp", "cuda", "tilelang"}, "cuda");
  }
  solution.target_hardware = spec.texts("target_hardware");
  if (spec.find("target_hardware") == nullptr) {
    spec.required_list("target_hardware");
  } else if (solution.target_hardware.empty() && spec.find("target_hardware")->is_array()) {
    spec.error("target_hardware", "must name hardware");
  }
  solution.entry_point = spec.required_text("entry_point");
  solution.dependencies = spec.texts("dependencies");
  solution.destination_passing_style = spec.flag("destination_passing_style", true);
  if (spec.find("binding") != nullptr) solution.binding = spec.word("binding", {"tvm-ffi", "torch"}, "tvm-ffi");
  check_entry_point(solution, spec);
  return solution;
}

/// False, with an error, when the body is no object.
bool is_object(const Json& body, BodyErrors& errors) {
  if (body.is_object()) return true;
  errors.add({"body"}, "model_attributes_type", "Input should be a valid dictionary or object to extract fields from",
             body);
  return false;
}

}  // namespace

SubmitRequest read_submit_request(TaskKind kind, const Json& body, BodyErrors& errors) {
  SubmitRequest request;
  request.kind = kind;
  if (!is_object(body, errors)) return request;
  BodyReader reader(body, errors, {"body"});
  const Json& solution = reader.required_object("solution");
  if (reader.find("solution") != nullptr && solution.is_object() && reader.find("solution")->is_object()) {
    request.solution = read_solution(solution, errors, reader.place("solution"));
  }
  request.workload_uuids = reader.texts("workload_uuids");
  const auto seconds = [&](std::string_view key) { return reader.number(key, 0.001, kLongestTimeout); };
  switch (kind) {
    case TaskKind::evaluate:
      reader.word("baseline_cache_mode", {"reuse", "bypass"}, "reuse");
      reader.flag("profile_baseline", true);
      request.run_baseline = reader.flag("run_baseline", true);
      request.timeout = seconds("timeout");
      request.atol = reader.number("atol", 0, kLargestTolerance);
      request.rtol = reader.number("rtol", 0, kLargestTolerance);
      return request;
    case TaskKind::debug:
      request.source_context_lines = reader.integer("source_context_lines", 0, 1000).value_or(4);
      reader.flag("enable_coredump", true);
      reader.number("coredump_grace_seconds", 0, kLongestTimeout);
      seconds("evaluation_timeout");
      request.print_limit = 100;
      [[fallthrough]];
    case TaskKind::sanitize: {
      const auto types = reader.texts("sanitizer_types");
      for (const std::string& type : types) {
        if (type != "memcheck" && type != "racecheck" && type != "initcheck" && type != "synccheck") {
          reader.error("sanitizer_types",
                       fmt::format("'{}' is none of memcheck, racecheck, initcheck, synccheck", type));
        }
      }
      reader.text("sanitizer_path");  // accepted, never used: a request does not choose what runs here
      request.timeout = seconds("timeout").value_or(120);
      request.max_lines = reader.integer("max_lines", 1, kMostLines);
      if (const auto limit = reader.integer("print_limit", 1, kMostLines)) request.print_limit = limit;
      return request;
    }
    case TaskKind::profile:
      reader.text("set");
      reader.texts("sections");
      reader.texts("metrics");
      reader.text("page");
      reader.text("ncu_path");  // as above
      request.kernel_name = reader.text("kernel_name").value_or("");
      request.timeout = seconds("timeout").value_or(60);
      request.max_lines = reader.integer("max_lines", 1, kMostLines);
      return request;
  }
  return request;
}

BatchRequest read_batch_request(const Json& body, BodyErrors& errors) {
  BatchRequest request;
  if (!is_object(body, errors)) return request;
  BodyReader reader(body, errors, {"body"});
  reader.required_list("task_ids");
  request.task_ids = reader.texts("task_ids");
  if (request.task_ids.size() > kMostTasksInBatch)
    reader.error("task_ids", fmt::format("at most {}", kMostTasksInBatch));
  request.timeout = reader.number("timeout", 0, kLongestPollSeconds).value_or(0);
  return request;
}

NativeRequest read_native_request(const Json& body, BodyErrors& errors) {
  NativeRequest request;
  if (!is_object(body, errors)) return request;
  BodyReader reader(body, errors, {"body"});
  request.source = reader.required_text("source");
  request.problem = reader.required_text("problem");
  request.name = reader.text("name").value_or(request.name);
  request.workloads = reader.texts("workloads");
  if (const Json* axes = reader.find("axes"); axes != nullptr) {
    if (!axes->is_object()) errors.add(reader.place("axes"), "dict_type", "Input should be a valid dictionary", *axes);
    BodyReader extents(axes->is_object() ? *axes : Json::object(), errors, reader.place("axes"));
    if (axes->is_object()) {
      for (const auto& [axis, value] : axes->items()) {
        if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() >> 62 != 0)) {
          BodyErrors::Place where = reader.place("axes");
          where.emplace_back(axis);
          errors.add(where, "int_type", "Input should be a valid integer", value);
          continue;
        }
        request.axes.emplace_back(axis, value.get<std::int64_t>());
      }
    }
  }
  if (!request.axes.empty() && !request.workloads.empty()) {
    reader.error("axes", "'workloads' names stored axes and 'axes' gives others: use one of them");
  }
  request.backend = reader.word("backend", {"auto", "emulator", "gpu"}, "auto");
  if (const Json* options = reader.find("options"); options != nullptr) {
    if (options->is_object()) {
      request.options = *options;
    } else {
      errors.add(reader.place("options"), "dict_type", "Input should be a valid dictionary", *options);
    }
  }
  request.together = reader.flag("together", false);
  request.color = reader.flag("color", false);
  request.screen = reader.flag("screen", true);
  request.timeout = reader.number("timeout", 0.001, kLongestTimeout);
  return request;
}

}  // namespace ptxbench::service
