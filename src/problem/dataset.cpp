#include "problem/dataset.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <system_error>

#include "base/files.h"
#include "base/text.h"
#include "problem/reference.h"

namespace ptxbench::problem {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> forward(const Error& error) { return tl::unexpected<Error>(error); }

/// Files below `folder` with this extension, sorted by path; none when the folder is missing.
Result<std::vector<fs::path>> files_below(const fs::path& folder, const char* extension) {
  std::vector<fs::path> files;
  std::error_code error;
  if (!fs::exists(folder, error)) return files;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code unreadable;  // a symbolic link to nowhere or to itself is no file
    if (at->path().extension() == extension && at->is_regular_file(unreadable)) files.push_back(at->path());
  }
  if (error) return input_error("{}: {}", folder.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

const std::vector<Workload>& list_of(const std::map<std::string, std::vector<Workload>, std::less<>>& lists,
                                     std::string_view definition) {
  static const std::vector<Workload> kNone;
  const auto found = lists.find(definition);
  return found == lists.end() ? kNone : found->second;
}

/// Workloads and checks.
std::vector<const Workload*> stored(const Dataset& dataset, const Definition& definition) {
  std::vector<const Workload*> all;
  for (const auto* list : {&dataset.workloads(definition.name), &dataset.checks(definition.name)}) {
    for (const Workload& workload : *list) all.push_back(&workload);
  }
  return all;
}

/// Both in lexically normal form.
bool is_below(const fs::path& file, const fs::path& folder) {
  auto part = file.begin();
  for (const fs::path& name : folder) {
    if (name.empty()) continue;  // what a trailing slash leaves
    if (part == file.end() || *part != name) return false;
    ++part;
  }
  return part != file.end() && !part->empty();
}

/// The workload with blob paths as its file has them: copies of a data set are equal wherever they lie.
base::Json as_written(Workload workload) {
  for (auto* sources : {&workload.inputs, &workload.outputs}) {
    for (auto& [name, source] : *sources) {
      auto* blob = std::get_if<SafetensorsInput>(&source);
      if (blob == nullptr) continue;
      const fs::path path = fs::path(blob->path).lexically_normal(), root = fs::path(workload.root).lexically_normal();
      blob->path = is_below(path, root) ? path.lexically_relative(root).string() : path.string();
    }
  }
  return to_json(workload);
}

std::string short_uuid(std::string_view uuid) { return std::string(uuid.substr(0, 8)); }

}  // namespace

std::string Problem::title() const {
  const std::string variable = describe_axes(definition, workload);
  return variable.empty() ? definition.name : definition.name + " " + variable;
}

Result<fs::path> Problem::blob_path(const SafetensorsInput& source) const {
  const fs::path path = source.path;
  const fs::path whole = (path.is_absolute() ? path : fs::path(workload.root) / path).lexically_normal();
  std::vector<std::string> roots = {workload.root};
  if (const char* more = std::getenv("PTXBENCH_BLOB_ROOTS"); more != nullptr) {
    for (const std::string_view part : base::split(more, ':')) roots.emplace_back(part);
  }
  for (const std::string& root : roots) {
    if (!root.empty() && is_below(whole, fs::path(root).lexically_normal())) return whole;
  }
  return input_error(
      "{}: workload {}: the file {} is outside of {}; move it there, or name its folder in PTXBENCH_BLOB_ROOTS",
      workload.file, workload.uuid, whole.string(), workload.root);
}

Result<Problem> make_problem(const Definition& definition, const Workload& workload) {
  Problem problem;
  problem.definition = definition;
  problem.workload = workload;
  auto axes = bind_axes(definition, workload.axes);
  if (!axes) {
    return input_error("{}{}{}", workload.file, workload.file.empty() ? "" : ": ", axes.error().message);
  }
  problem.axes = std::move(*axes);
  const auto add = [&](const std::vector<TensorSpec>& specs, std::vector<Shape>& shapes) -> Result<void> {
    for (const TensorSpec& spec : specs) {
      auto shape = shape_of(spec, problem.axes);
      if (!shape) return forward(shape.error());
      const std::uint64_t bytes = bytes_of(spec.dtype, *element_count(*shape));
      if (bytes >> 60 != 0 || (problem.tensor_bytes += bytes) >> 60 != 0) {
        return input_error("{}: the tensors of {} are too large to address", definition.name,
                           describe_axes(definition, workload));
      }
      shapes.push_back(std::move(*shape));
    }
    return {};
  };
  if (auto added = add(definition.inputs, problem.input_shapes); !added) return forward(added.error());
  if (auto added = add(definition.outputs, problem.output_shapes); !added) return forward(added.error());
  for (const auto& [name, value] : workload.axes) {
    const Axis* axis = definition.find_axis(name);
    if (axis->constant && *axis->constant != value && !workload.check && !workload.ad_hoc) {
      return input_error("{}: workload {}: only checks and --axis may change the batch axis {}, which is {}",
                         workload.file, workload.uuid, name, *axis->constant);
    }
  }
  for (const auto& input_source : workload.inputs) {
    const std::string& name = input_source.first;
    const auto& source = input_source.second;
    const auto spec = std::find_if(definition.inputs.begin(), definition.inputs.end(),
                                   [&](const TensorSpec& input) { return input.name == name; });
    if (spec == definition.inputs.end()) {
      std::vector<std::string> names;
      names.reserve(definition.inputs.size());
      for (const TensorSpec& input : definition.inputs) names.push_back(input.name);
      return input_error("{}: workload {} gives an input '{}' that {} does not have{}", workload.file, workload.uuid,
                         name, definition.name, base::did_you_mean(name, names));
    }
    if (std::holds_alternative<ScalarInput>(source) && !spec->is_scalar()) {
      return input_error("{}: workload {}: input {} is a tensor, not a scalar", workload.file, workload.uuid, name);
    }
    if (std::holds_alternative<DerivedInput>(source) &&
        !is_derived(definition, static_cast<std::size_t>(spec - definition.inputs.begin()))) {
      return input_error("{}: workload {}: there is no rule by which input {} of {} follows from the others",
                         workload.file, workload.uuid, name, definition.name);
    }
  }
  for (const auto& [name, source] : workload.outputs) {
    const bool known = std::any_of(definition.outputs.begin(), definition.outputs.end(),
                                   [&, &name = name](const TensorSpec& output) { return output.name == name; });
    if (!known) {
      return input_error("{}: workload {} stores an output '{}' that {} does not have", workload.file, workload.uuid,
                         name, definition.name);
    }
  }
  return problem;
}

Result<Dataset> Dataset::load(const std::vector<fs::path>& roots, std::vector<Error>* broken) {
  if (roots.empty()) return input_error("no problem folder is given");
  Dataset dataset;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    if (auto loaded = dataset.load_root(roots[i], i == 0, broken); !loaded) return forward(loaded.error());
  }
  return dataset;
}

Result<void> Dataset::load_root(const fs::path& path, bool primary, std::vector<Error>* broken) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return input_error("{}: no such folder; a problem folder holds definitions/ and workloads/", path.string());
  }
  if (!fs::is_directory(path / "definitions", error) && !fs::is_directory(path / "workloads", error)) {
    return input_error("{}: neither definitions/ nor workloads/ is in it; is this the right folder?", path.string());
  }
  Root root{path, primary, {}, {}};
  const auto accept = [&](Result<void> loaded) {
    if (loaded || broken == nullptr) return loaded;
    broken->push_back(loaded.error());
    return Result<void>{};
  };
  const auto definition_files = files_below(path / "definitions", ".json");
  if (!definition_files) return forward(definition_files.error());
  for (const fs::path& file : *definition_files) {
    if (auto loaded = accept(load_definition(file, root)); !loaded) return loaded;
  }
  for (const bool checks : {false, true}) {
    const auto files = files_below(path / (checks ? "checks" : "workloads"), ".jsonl");
    if (!files) return forward(files.error());
    for (const fs::path& file : *files) {
      const auto text = base::read_file(file);
      if (!text) {
        if (auto loaded = accept(forward(text.error())); !loaded) return loaded;
        continue;
      }
      std::size_t number = 0;
      for (const std::string_view line : base::split_lines(*text)) {
        ++number;
        if (base::trim(line).empty()) continue;
        const std::string where = fmt::format("{}:{}", file.string(), number);
        if (auto loaded = accept(load_workload(line, where, checks, root)); !loaded) return loaded;
      }
    }
  }
  return {};
}

Result<void> Dataset::load_definition(const fs::path& file, Root& root) {
  const auto text = base::read_file(file);
  if (!text) return forward(text.error());
  const auto json = base::parse_json_unique(*text, file.string());
  if (!json) return forward(json.error());
  auto definition = parse_definition(*json, file.string());
  if (!definition) return forward(definition.error());
  const auto known = definitions_.find(definition->name);
  if (!root.names.insert(definition->name).second) {
    return input_error("{}: definition {} is already in {}; names must be unique", file.string(), definition->name,
                       known->second.file);
  }
  if (known == definitions_.end()) {
    definitions_.emplace(definition->name, std::move(*definition));
  } else if (to_json(known->second) != to_json(*definition)) {
    return input_error("{}: definition {} differs from the one in {}; remove or rename one", file.string(),
                       definition->name, known->second.file);
  }
  return {};
}

Result<void> Dataset::load_workload(std::string_view line, const std::string& where, bool check, Root& root) {
  const auto json = base::parse_json_unique(line, where);
  if (!json) return forward(json.error());
  auto trace = parse_trace(*json, where);
  if (!trace) return forward(trace.error());
  Workload workload = std::move(trace->workload);
  workload.file = where;
  std::error_code error;
  workload.root = fs::absolute(root.path, error).string();
  workload.check = check;
  if (!root.primary) {
    // Relative paths start at the primary root, so those of other roots are made absolute.
    for (auto* sources : {&workload.inputs, &workload.outputs}) {
      for (auto& [name, source] : *sources) {
        if (auto* blob = std::get_if<SafetensorsInput>(&source);
            blob != nullptr && fs::path(blob->path).is_relative()) {
          blob->path = (fs::path(workload.root) / blob->path).string();
        }
      }
    }
  }
  const auto [earlier, fresh] = root.places_of_uuids.emplace(workload.uuid, where);
  if (!fresh) {
    return input_error("{}: workload {} is already at {}; uuids must be unique", where, workload.uuid, earlier->second);
  }
  const auto known = definition_of_uuid_.find(workload.uuid);
  if (known != definition_of_uuid_.end()) {
    const Workload& other = *[&]() -> const Workload* {
      for (const auto* lists : {&workloads_, &checks_}) {
        for (const Workload& one : list_of(*lists, known->second)) {
          if (one.uuid == workload.uuid) return &one;
        }
      }
      return &workload;
    }();
    if (known->second == trace->definition && other.check == check && as_written(other) == as_written(workload)) {
      return {};
    }
    return input_error("{}: workload {} differs from the one at {}; remove one", where, workload.uuid, other.file);
  }
  definition_of_uuid_.emplace(workload.uuid, trace->definition);
  (check ? checks_ : workloads_)[trace->definition].push_back(std::move(workload));
  return {};
}

std::vector<std::string> Dataset::definitions_with_workloads() const {
  std::set<std::string> names;
  for (const auto* lists : {&workloads_, &checks_}) {
    for (const auto& [name, list] : *lists) names.insert(name);
  }
  return {names.begin(), names.end()};
}

const std::vector<Workload>& Dataset::workloads(std::string_view definition) const {
  return list_of(workloads_, definition);
}

const std::vector<Workload>& Dataset::checks(std::string_view definition) const { return list_of(checks_, definition); }

Result<const Definition*> Dataset::find_definition(std::string_view name) const {
  const auto found = definitions_.find(std::string(name));
  if (found != definitions_.end()) return &found->second;
  std::vector<std::string> names;
  for (const auto& [known, definition] : definitions_) names.push_back(known);
  return input_error("there is no problem '{}'{}; `ptxbench problems` lists all {}", name,
                     base::did_you_mean(name, names), names.size());
}

Result<const Workload*> Dataset::find_workload(const Definition& definition, std::string_view uuid) const {
  const auto list = stored(*this, definition);
  std::vector<const Workload*> matches;
  for (const Workload* workload : list) {
    if (workload->uuid == uuid) return workload;
    if (uuid.size() >= 4 && workload->uuid.starts_with(uuid)) matches.push_back(workload);
  }
  if (matches.size() == 1) return matches[0];
  std::string known;
  for (const Workload* workload : list) {
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", short_uuid(workload->uuid),
                         describe_axes(definition, *workload));
  }
  if (matches.size() > 1) {
    return input_error("several workloads of {} start with '{}'; give more of the uuid", definition.name, uuid);
  }
  return input_error("{} has no workload '{}'{}; it has: {}", definition.name, uuid,
                     uuid.size() < 4 ? " (a prefix needs four characters)" : "", known.empty() ? "none" : known);
}

Result<std::pair<const Definition*, const Workload*>> Dataset::find_workload(std::string_view uuid) const {
  const auto found = definition_of_uuid_.find(std::string(uuid));
  if (found == definition_of_uuid_.end()) return input_error("there is no workload '{}'", uuid);
  const auto definition = find_definition(found->second);
  if (!definition) return forward(definition.error());
  const auto workload = find_workload(**definition, uuid);
  if (!workload) return forward(workload.error());
  return std::pair{*definition, *workload};
}

Result<Workload> Dataset::workload_for_axes(const Definition& definition, const std::vector<std::string>& axes) const {
  Workload workload;
  workload.ad_hoc = true;
  for (const std::string& text : axes) {
    auto assignment = parse_axis_assignment(text);
    if (!assignment) return forward(assignment.error());
    const bool twice = std::any_of(workload.axes.begin(), workload.axes.end(),
                                   [&](const auto& axis) { return axis.first == assignment->first; });
    if (twice) return input_error("--axis {}: the axis is given twice", text);
    workload.axes.push_back(std::move(*assignment));
  }
  const auto bound = bind_axes(definition, workload.axes);
  if (!bound) return forward(bound.error());
  for (const auto& [name, value] : *bound) {
    if (value == 0) return input_error("{}: axis {} must be positive", definition.name, name);
  }
  for (const Workload* known : stored(*this, definition)) {
    const auto other = bind_axes(definition, known->axes);
    if (other && *other == *bound) return *known;
  }
  workload.axes.clear();
  for (const Axis& axis : definition.axes) {
    if (axis.constant != bound->at(axis.name)) workload.axes.emplace_back(axis.name, bound->at(axis.name));
  }
  for (std::size_t i = 0; i < definition.inputs.size(); ++i) {
    const TensorSpec& input = definition.inputs[i];
    if (input.is_scalar() && !is_derived(definition, i)) {
      return input_error("{} has a scalar input, {}, whose value only a stored workload gives; use --workload",
                         definition.name, input.name);
    }
    workload.inputs.emplace_back(input.name,
                                 is_derived(definition, i) ? InputSource(DerivedInput{}) : InputSource(RandomInput{}));
  }
  std::string url = "ptxbench://" + definition.name;
  for (const auto& [name, value] : workload.axes) url += fmt::format("/{}={}", name, value);
  workload.uuid = uuid5_url(url);
  return workload;
}

namespace {

Result<const Workload*> extreme(const Dataset& dataset, const Definition& definition, bool largest) {
  const Workload* best = nullptr;
  std::uint64_t best_bytes = 0;
  for (const Workload* workload : stored(dataset, definition)) {
    const auto problem = make_problem(definition, *workload);
    if (!problem) return forward(problem.error());
    if (best == nullptr || (largest ? problem->tensor_bytes > best_bytes : problem->tensor_bytes < best_bytes)) {
      best = workload;
      best_bytes = problem->tensor_bytes;
    }
  }
  if (best == nullptr) {
    return input_error("{} has no stored workload; give its axes with --axis NAME=N", definition.name);
  }
  return best;
}

}  // namespace

Result<const Workload*> Dataset::largest_workload(const Definition& definition) const {
  return extreme(*this, definition, true);
}

Result<const Workload*> Dataset::smallest_workload(const Definition& definition) const {
  return extreme(*this, definition, false);
}

Result<std::vector<Problem>> Dataset::choose(std::string_view definition, const std::vector<std::string>& axes,
                                             const std::vector<std::string>& uuids) const {
  const auto found = find_definition(definition);
  if (!found) return forward(found.error());
  std::vector<Workload> workloads;
  if (!axes.empty()) {
    auto workload = workload_for_axes(**found, axes);
    if (!workload) return forward(workload.error());
    workloads.push_back(std::move(*workload));
  } else if (!uuids.empty()) {
    for (const std::string& uuid : uuids) {
      const auto workload = find_workload(**found, uuid);
      if (!workload) return forward(workload.error());
      workloads.push_back(**workload);
    }
  } else {
    const auto usual = default_workloads(**found);
    if (!usual) return forward(usual.error());
    for (const Workload* workload : *usual) workloads.push_back(*workload);
  }
  std::vector<Problem> problems;
  for (const Workload& workload : workloads) {
    auto made = make_problem(**found, workload);
    if (!made) return forward(made.error());
    problems.push_back(std::move(*made));
  }
  return problems;
}

Result<std::vector<const Workload*>> Dataset::default_workloads(const Definition& definition) const {
  std::vector<const Workload*> all;
  for (const Workload& workload : checks(definition.name)) all.push_back(&workload);
  if (!all.empty()) return all;
  const auto largest = largest_workload(definition);
  if (!largest) return forward(largest.error());
  all.push_back(*largest);
  return all;
}

Result<std::vector<fs::path>> dataset_roots(const std::vector<std::string>& given) {
  std::vector<fs::path> roots(given.begin(), given.end());
  for (const char* variable : {"FIB_DATASET_PATH", "DATASET_ROOTS"}) {
    if (!roots.empty()) return roots;
    const char* value = std::getenv(variable);
    if (value == nullptr) continue;
    for (const std::string_view part : base::split(value, ':')) {
      if (!part.empty()) roots.emplace_back(part);
    }
  }
  if (!roots.empty()) return roots;
  const auto home = base::home_dir();
  if (!home) return forward(home.error());
  return std::vector<fs::path>{*home / "problems"};
}

Result<std::pair<std::string, std::int64_t>> parse_axis_assignment(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return input_error("--axis {}: write NAME=N, as in M=256", text);
  const auto value = base::parse_u64(text.substr(equals + 1));
  if (!value || *value > (std::uint64_t{1} << 40)) {
    return input_error("--axis {}: '{}' is not a number that can be an extent", text, text.substr(equals + 1));
  }
  return std::pair{std::string(text.substr(0, equals)), static_cast<std::int64_t>(*value)};
}

}  // namespace ptxbench::problem
