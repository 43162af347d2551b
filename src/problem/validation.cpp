#include "problem/validation.h"

#include <algorithm>
#include <map>

#include "base/printable.h"
#include "base/text.h"
#include "problem/dataset.h"
#include "problem/inputs.h"
#include "problem/reference.h"
#include "problem/safetensors.h"

namespace ptxbench::problem {
namespace {

using Severity = Remark::Severity;

class Validator {
 public:
  explicit Validator(const Dataset& dataset) : dataset_(dataset) {}

  Validation run(const std::vector<Error>& broken) {
    for (const Error& error : broken) add(Severity::error, error.message);
    for (const auto& [name, definition] : dataset_.definitions()) check(definition);
    for (const std::string& name : dataset_.definitions_with_workloads()) check_workloads(name);
    std::stable_sort(result_.remarks.begin(), result_.remarks.end(),
                     [](const Remark& a, const Remark& b) { return a.severity < b.severity; });
    return std::move(result_);
  }

 private:
  void add(Severity severity, std::string_view message) {
    result_.remarks.push_back({severity, base::printable(message)});
  }

  void check(const Definition& definition) {
    ++result_.definitions;
    const auto lines = base::split_lines(definition.reference);
    const bool runs = std::any_of(lines.begin(), lines.end(), [](std::string_view line) {
      return line.starts_with("def run(") || line.starts_with("def run (");
    });
    if (!runs) {
      add(Severity::error, fmt::format("{}.reference: it has no top-level function `run`, which every reference needs",
                                       definition.file));
    }
    for (const std::string& axis : definition.variable_axes()) {
      const bool bound = std::any_of(definition.inputs.begin(), definition.inputs.end(), [&](const TensorSpec& input) {
        return input.shape && std::find(input.shape->begin(), input.shape->end(), axis) != input.shape->end();
      });
      if (!bound) {
        add(Severity::warning,
            fmt::format("{}.axes.{}: no input has this axis, so a kernel cannot tell its value from what it is given",
                        definition.file, axis));
      }
    }
    if (!find_reference(definition)) add(Severity::note, no_reference_message(definition));
    if (dataset_.workloads(definition.name).empty() && dataset_.checks(definition.name).empty()) {
      add(Severity::note, fmt::format("{}: {} has no workload", definition.file, definition.name));
    }
  }

  void check_workloads(const std::string& name) {
    const auto found = dataset_.find_definition(name);
    for (const auto* list : {&dataset_.workloads(name), &dataset_.checks(name)}) {
      for (const Workload& workload : *list) {
        if (!found) {
          add(Severity::error, fmt::format("{}: workload {}: {}", workload.file, workload.uuid, found.error().message));
          continue;
        }
        const auto problem = make_problem(**found, workload);
        if (!problem) {
          add(Severity::error, problem.error().message);
          continue;
        }
        ++result_.workloads;
        check_blobs(*problem);
        for (std::size_t i = 0; i < (*found)->inputs.size(); ++i) {
          const TensorSpec& input = (*found)->inputs[i];
          if (std::holds_alternative<ScalarInput>(source_of(*problem, i))) {
            if (const auto made = make_input(*problem, i, {}); !made) add(Severity::error, made.error().message);
          }
          if (input.is_scalar() && std::holds_alternative<RandomInput>(source_of(*problem, i)) &&
              workload.find_input(input.name) == nullptr) {
            add(Severity::warning, fmt::format("{}: workload {}: the scalar {} has no value, so it is random",
                                               workload.file, workload.uuid, input.name));
          }
        }
      }
    }
  }

  void check_blobs(const Problem& problem) {
    const auto check = [&](const auto& sources, const std::vector<TensorSpec>& specs,
                           const std::vector<Shape>& shapes) {
      for (const auto& [name, source] : sources) {
        const auto* blob = std::get_if<SafetensorsInput>(&source);
        if (blob == nullptr) continue;
        const auto at =
            static_cast<std::size_t>(std::find_if(specs.begin(), specs.end(),
                                                  [&, &name = name](const auto& spec) { return spec.name == name; }) -
                                     specs.begin());
        const auto matches = check_blob(problem, *blob, specs[at], shapes[at]);
        if (matches) {
          ++result_.blobs;
        } else {
          add(Severity::error, fmt::format("{}: workload {}: {}: {}", problem.workload.file, problem.workload.uuid,
                                           name, matches.error().message));
        }
      }
    };
    check(problem.workload.inputs, problem.definition.inputs, problem.input_shapes);
    check(problem.workload.outputs, problem.definition.outputs, problem.output_shapes);
  }

  Result<void> check_blob(const Problem& problem, const SafetensorsInput& blob, const TensorSpec& spec,
                          const Shape& shape) {
    const auto path = problem.blob_path(blob);
    if (!path) return tl::unexpected(path.error());
    // Workloads often share a file.
    auto known = files_.find(path->string());
    if (known == files_.end()) known = files_.emplace(path->string(), SafetensorsFile::open(*path)).first;
    if (!known->second) return tl::unexpected(known->second.error());
    return known->second->check(blob.tensor_key, spec.dtype, shape);
  }

  const Dataset& dataset_;
  Validation result_;
  std::map<std::string, Result<SafetensorsFile>> files_;
};

}  // namespace

std::size_t Validation::count(Remark::Severity severity) const {
  return static_cast<std::size_t>(
      std::count_if(remarks.begin(), remarks.end(), [&](const Remark& remark) { return remark.severity == severity; }));
}

Result<Validation> validate(const std::vector<std::filesystem::path>& roots) {
  std::vector<Error> broken;
  const auto dataset = Dataset::load(roots, &broken);
  if (!dataset) return tl::unexpected(dataset.error());
  return Validator(*dataset).run(broken);
}

}  // namespace ptxbench::problem
