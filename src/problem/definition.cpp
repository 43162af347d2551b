#include "problem/definition.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/hash.h"
#include "base/text.h"

namespace ptxbench::problem {
namespace {

using base::Json;
using base::json_type_name;

tl::unexpected<Error> forward(const Error& error) { return tl::unexpected<Error>(error); }

Result<const Json*> object_member(const Json& json, std::string_view key, std::string_view where) {
  const auto member = base::required_member(json, key, where);
  if (!member) return forward(member.error());
  if (!(*member)->is_object()) {
    return input_error("{}.{}: an object is needed, found {}", where, key, json_type_name(**member));
  }
  return *member;
}

Result<std::string> name_member(const Json& json, std::string_view key, std::string_view where) {
  auto text = base::required<std::string>(json, key, where);
  if (!text) return forward(text.error());
  if (text->empty()) return input_error("{}.{}: must not be empty", where, key);
  return text;
}

Result<std::vector<std::string>> strings_member(const Json& json, std::string_view key, std::string_view where) {
  std::vector<std::string> strings;
  const Json* member = base::optional_member(json, key);
  if (member == nullptr) return strings;
  if (!member->is_array()) return input_error("{}.{}: a list of strings is needed", where, key);
  for (const Json& entry : *member) {
    auto text = base::json_as<std::string>(entry, fmt::format("{}.{}[{}]", where, key, strings.size()));
    if (!text) return forward(text.error());
    strings.push_back(std::move(*text));
  }
  return strings;
}

Result<std::string> optional_text(const Json& json, std::string_view key, std::string_view where) {
  auto text = base::optional_field<std::string>(json, key, where);
  if (!text) return forward(text.error());
  return text->value_or("");
}

/// More would be no problem for a kernel, but a file made to keep this program busy.
constexpr std::size_t kMostEntries = 256;

Result<void> check_count(const Json& json, std::string_view key, std::string_view where) {
  if (json.size() <= kMostEntries) return {};
  return input_error("{}.{}: {} entries are more than the {} that are possible here", where, key, json.size(),
                     kMostEntries);
}

/// Axes form a forest: whoever binds a parent before its children must come to an end.
Result<void> check_parents(const Definition& definition, std::string_view where) {
  // Following every chain from every axis, found by name, takes the cube of their number: parse_definition bounds it.
  for (const Axis& axis : definition.axes) {
    std::string chain = axis.name;
    const Axis* at = &axis;
    for (std::size_t steps = 0; !at->parent.empty(); ++steps) {
      const Axis* parent = definition.find_axis(at->parent);
      if (parent == nullptr)
        return input_error("{}.axes.{}.parent: there is no axis '{}'", where, at->name, at->parent);
      if (steps < 8) chain += " -> " + parent->name;
      if (steps > definition.axes.size()) {
        return input_error("{}.axes.{}.parent: the axes depend on each other in a circle: {} ...", where, axis.name,
                           chain);
      }
      at = parent;
    }
  }
  return {};
}

Result<Axis> parse_axis(const std::string& name, const Json& json, std::string_view where) {
  if (!json.is_object()) {
    return input_error("{}: an object such as {{\"type\":\"var\"}} or {{\"type\":\"const\",\"value\":128}} is needed",
                       where);
  }
  const auto type = base::optional_field<std::string>(json, "type", where);
  if (!type) return forward(type.error());
  const auto value = base::optional_field<std::int64_t>(json, "value", where);
  if (!value) return forward(value.error());
  // Without a type the value decides.
  const bool constant = *type ? **type == "const" : value->has_value();
  if (*type && **type != "const" && **type != "var") {
    return input_error("{}.type: '{}' must be 'const' or 'var'", where, **type);
  }
  const auto parent = optional_text(json, "parent", where);
  if (!parent) return forward(parent.error());
  if (!constant) return Axis{name, std::nullopt, *parent};
  if (!*value) return input_error("{}.value: a const axis needs a value", where);
  if (**value < 0) return input_error("{}.value: {} must not be negative", where, **value);
  return Axis{name, **value, *parent};
}

Result<std::vector<TensorSpec>> parse_specs(const Json& json, std::string_view key, const Definition& definition,
                                            std::string_view where) {
  const auto object = object_member(json, key, where);
  if (!object) return forward(object.error());
  if (auto few = check_count(**object, key, where); !few) return forward(few.error());
  std::vector<TensorSpec> specs;
  for (const auto& [name, entry] : (*object)->items()) {
    const std::string here = fmt::format("{}.{}.{}", where, key, name);
    if (name.empty()) return input_error("{}.{}: a tensor's name must not be empty", where, key);
    if (!entry.is_object()) return input_error("{}: an object with shape and dtype is needed", here);
    TensorSpec spec;
    spec.name = name;
    // null is a scalar and says so; a missing shape is a mistake.
    if (!entry.contains("shape")) return input_error("{}.shape: missing; a scalar has \"shape\": null", here);
    const Json& shape = entry["shape"];
    if (shape.is_array()) {
      if (auto few = check_count(shape, "shape", here); !few) return forward(few.error());
      spec.shape.emplace();
      for (const Json& extent : shape) {
        const auto axis = base::json_as<std::string>(extent, fmt::format("{}.shape[{}]", here, spec.shape->size()));
        if (!axis) return forward(axis.error());
        if (definition.find_axis(*axis) == nullptr) {
          std::vector<std::string> names;
          for (const Axis& known : definition.axes) names.push_back(known.name);
          return input_error("{}.shape[{}]: there is no axis '{}'{}", here, spec.shape->size(), *axis,
                             base::did_you_mean(*axis, names));
        }
        spec.shape->push_back(*axis);
      }
    } else if (!shape.is_null()) {
      return input_error("{}.shape: a list of axis names or null is needed, found {}", here, json_type_name(shape));
    }
    const auto dtype = base::required<std::string>(entry, "dtype", here);
    if (!dtype) return forward(dtype.error());
    const auto parsed = parse_dtype(*dtype, fmt::format("{}.dtype", here));
    if (!parsed) return forward(parsed.error());
    spec.dtype = *parsed;
    auto description = optional_text(entry, "description", here);
    if (!description) return forward(description.error());
    spec.description = std::move(*description);
    specs.push_back(std::move(spec));
  }
  return specs;
}

Result<InputSource> parse_source(const Json& json, std::string_view where) {
  if (!json.is_object()) return input_error("{}: an object with a type is needed", where);
  const auto type = base::required<std::string>(json, "type", where);
  if (!type) return forward(type.error());
  if (*type == "random") return RandomInput{};
  if (*type == "derived") return DerivedInput{};
  if (*type == "scalar") {
    const auto value = base::required_member(json, "value", where);
    if (!value) return forward(value.error());
    if ((*value)->is_boolean()) return ScalarInput{(*value)->get<bool>()};
    if ((*value)->is_number_integer()) {
      const auto integer = base::json_as<std::int64_t>(**value, fmt::format("{}.value", where));
      if (!integer) return forward(integer.error());
      return ScalarInput{*integer};
    }
    const auto number = base::json_as<double>(**value, fmt::format("{}.value", where));
    if (!number) return forward(number.error());
    return ScalarInput{*number};
  }
  if (*type == "safetensors") {
    const auto path = name_member(json, "path", where);
    if (!path) return forward(path.error());
    const auto key = name_member(json, "tensor_key", where);
    if (!key) return forward(key.error());
    return SafetensorsInput{*path, *key};
  }
  return input_error("{}.type: '{}' must be random, derived, scalar or safetensors", where, *type);
}

Result<std::vector<std::pair<std::string, InputSource>>> parse_sources(const Json& json, std::string_view key,
                                                                       std::string_view where) {
  std::vector<std::pair<std::string, InputSource>> sources;
  const Json* member = base::optional_member(json, key);
  if (member == nullptr) return sources;
  if (!member->is_object()) return input_error("{}.{}: an object is needed", where, key);
  for (const auto& [name, entry] : member->items()) {
    auto source = parse_source(entry, fmt::format("{}.{}.{}", where, key, name));
    if (!source) return forward(source.error());
    sources.emplace_back(name, std::move(*source));
  }
  return sources;
}

Json source_json(const InputSource& source) {
  if (const auto* scalar = std::get_if<ScalarInput>(&source)) {
    return std::visit([](auto value) { return Json{{"type", "scalar"}, {"value", value}}; }, scalar->value);
  }
  if (const auto* blob = std::get_if<SafetensorsInput>(&source)) {
    return Json{{"type", "safetensors"}, {"path", blob->path}, {"tensor_key", blob->tensor_key}};
  }
  return Json{{"type", std::holds_alternative<DerivedInput>(source) ? "derived" : "random"}};
}

Json spec_json(const TensorSpec& spec) {
  Json json = {{"shape", nullptr}, {"dtype", to_string(spec.dtype)}};
  if (spec.shape) json["shape"] = *spec.shape;
  json["description"] = spec.description.empty() ? Json(nullptr) : Json(spec.description);
  return json;
}

/// A number, or the strings that stand for what JSON cannot write.
bool is_measure(const Json& json, bool nan_allowed) {
  if (json.is_number()) return json.get<double>() >= 0;
  if (json.is_null()) return nan_allowed;
  return json.is_string() && (json == "Infinity" || (nan_allowed && json == "NaN"));
}

}  // namespace

const Axis* Definition::find_axis(std::string_view axis) const {
  const auto found = std::find_if(axes.begin(), axes.end(), [&](const Axis& known) { return known.name == axis; });
  return found == axes.end() ? nullptr : &*found;
}

std::vector<std::string> Definition::variable_axes() const {
  std::vector<std::string> names;
  for (const Axis& axis : axes) {
    if (!axis.constant) names.push_back(axis.name);
  }
  return names;
}

bool Definition::has_tag(std::string_view tag) const { return std::find(tags.begin(), tags.end(), tag) != tags.end(); }

bool Definition::is_causal() const {
  if (has_tag("mask:causal")) return true;
  const auto parts = base::split(name, '_');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == "causal" && (i == 0 || parts[i - 1] != "non")) return true;
  }
  return false;
}

bool Definition::is_batch_axis(std::string_view axis) const { return has_tag(fmt::format("batch-axis:{}", axis)); }

const InputSource* Workload::find_input(std::string_view input) const {
  const auto found =
      std::find_if(inputs.begin(), inputs.end(), [&](const auto& entry) { return entry.first == input; });
  return found == inputs.end() ? nullptr : &found->second;
}

Result<Definition> parse_definition(const Json& json, std::string_view where) {
  if (!json.is_object()) return input_error("{}: a definition is an object, found {}", where, json_type_name(json));
  Definition definition;
  definition.file = where;
  auto name = name_member(json, "name", where);
  if (!name) return forward(name.error());
  definition.name = std::move(*name);
  auto op_type = name_member(json, "op_type", where);
  if (!op_type) return forward(op_type.error());
  definition.op_type = std::move(*op_type);

  const auto axes = object_member(json, "axes", where);
  if (!axes) return forward(axes.error());
  if (auto few = check_count(**axes, "axes", where); !few) return forward(few.error());
  for (const auto& [axis_name, entry] : (*axes)->items()) {
    auto axis = parse_axis(axis_name, entry, fmt::format("{}.axes.{}", where, axis_name));
    if (!axis) return forward(axis.error());
    definition.axes.push_back(std::move(*axis));
  }
  if (auto checked = check_parents(definition, where); !checked) return forward(checked.error());
  auto inputs = parse_specs(json, "inputs", definition, where);
  if (!inputs) return forward(inputs.error());
  definition.inputs = std::move(*inputs);
  auto outputs = parse_specs(json, "outputs", definition, where);
  if (!outputs) return forward(outputs.error());
  definition.outputs = std::move(*outputs);
  for (const TensorSpec& output : definition.outputs) {
    for (const TensorSpec& input : definition.inputs) {
      if (input.name == output.name) {
        return input_error("{}.outputs.{}: an input has the same name; rename one", where, output.name);
      }
    }
  }
  if (definition.outputs.empty()) return input_error("{}.outputs: at least one output is needed", where);

  auto reference = name_member(json, "reference", where);
  if (!reference) return forward(reference.error());
  definition.reference = std::move(*reference);
  auto tags = strings_member(json, "tags", where);
  if (!tags) return forward(tags.error());
  definition.tags = std::move(*tags);
  auto constraints = strings_member(json, "constraints", where);
  if (!constraints) return forward(constraints.error());
  definition.constraints = std::move(*constraints);
  auto description = optional_text(json, "description", where);
  if (!description) return forward(description.error());
  definition.description = std::move(*description);
  return definition;
}

Result<Workload> parse_workload(const Json& json, std::string_view where) {
  if (!json.is_object()) return input_error("{}: a workload is an object, found {}", where, json_type_name(json));
  Workload workload;
  workload.file = where;
  auto uuid = name_member(json, "uuid", where);
  if (!uuid) return forward(uuid.error());
  workload.uuid = std::move(*uuid);
  const auto axes = object_member(json, "axes", where);
  if (!axes) return forward(axes.error());
  for (const auto& [name, entry] : (*axes)->items()) {
    const auto value = base::json_as<std::int64_t>(entry, fmt::format("{}.axes.{}", where, name));
    if (!value) return forward(value.error());
    if (*value < 0) return input_error("{}.axes.{}: {} must not be negative", where, name, *value);
    workload.axes.emplace_back(name, *value);
  }
  auto inputs = parse_sources(json, "inputs", where);
  if (!inputs) return forward(inputs.error());
  workload.inputs = std::move(*inputs);
  auto outputs = parse_sources(json, "outputs", where);
  if (!outputs) return forward(outputs.error());
  for (const auto& [name, source] : *outputs) {
    if (!std::holds_alternative<SafetensorsInput>(source)) {
      return input_error("{}.outputs.{}: stored outputs must be safetensors", where, name);
    }
  }
  workload.outputs = std::move(*outputs);
  return workload;
}

Result<Trace> parse_trace(const Json& json, std::string_view where) {
  if (!json.is_object()) return input_error("{}: a trace is an object, found {}", where, json_type_name(json));
  Trace trace;
  auto definition = name_member(json, "definition", where);
  if (!definition) return forward(definition.error());
  trace.definition = std::move(*definition);
  auto solution = base::optional_field<std::string>(json, "solution", where);
  if (!solution) return forward(solution.error());
  trace.solution = std::move(*solution);
  const auto member = object_member(json, "workload", where);
  if (!member) return forward(member.error());
  auto workload = parse_workload(**member, fmt::format("{}.workload", where));
  if (!workload) return forward(workload.error());
  trace.workload = std::move(*workload);
  if (const Json* evaluation = base::optional_member(json, "evaluation")) {
    if (const auto checked = check_evaluation(*evaluation, fmt::format("{}.evaluation", where)); !checked) {
      return forward(checked.error());
    }
    if (!trace.solution) return input_error("{}.solution: an evaluated trace names its solution", where);
    trace.evaluation = *evaluation;
  }
  return trace;
}

Result<void> check_evaluation(const Json& json, std::string_view where) {
  if (!json.is_object()) return input_error("{}: an object or null is needed", where);
  const auto status = base::required<std::string>(json, "status", where);
  if (!status) return forward(status.error());
  static constexpr std::array<std::string_view, 7> kStatuses = {
      "PASSED",        "INCORRECT_NUMERICAL", "INCORRECT_SHAPE", "INCORRECT_DTYPE",
      "RUNTIME_ERROR", "COMPILE_ERROR",       "TIMEOUT"};
  if (std::find(kStatuses.begin(), kStatuses.end(), *status) == kStatuses.end()) {
    return input_error("{}.status: unknown status '{}'{}", where, *status, base::did_you_mean(*status, kStatuses));
  }
  const Json* correctness = base::optional_member(json, "correctness");
  const Json* performance = base::optional_member(json, "performance");
  const bool numeric = *status == "PASSED" || *status == "INCORRECT_NUMERICAL";
  if (numeric != (correctness != nullptr)) {
    return input_error("{}.correctness: {} with status {}", where, numeric ? "needed" : "not allowed", *status);
  }
  if ((*status == "PASSED") != (performance != nullptr)) {
    return input_error("{}.performance: {} with status {}", where, *status == "PASSED" ? "needed" : "not allowed",
                       *status);
  }
  const auto measures = [&](const Json* object, std::string_view name, auto keys, bool nan) -> Result<void> {
    if (object == nullptr) return {};
    if (!object->is_object()) return input_error("{}.{}: an object is needed", where, name);
    for (const char* key : keys) {
      if (object->contains(key) && !is_measure((*object)[key], nan)) {
        return input_error("{}.{}.{}: a non-negative number is needed", where, name, key);
      }
    }
    return {};
  };
  if (auto checked = measures(correctness, "correctness", std::array{"max_relative_error", "max_absolute_error"}, true);
      !checked) {
    return checked;
  }
  return measures(performance, "performance", std::array{"latency_ms", "reference_latency_ms", "speedup_factor"},
                  false);
}

Json to_json(const Definition& definition) {
  Json axes = Json::object();
  for (const Axis& axis : definition.axes) {
    axes[axis.name] = axis.constant ? Json{{"type", "const"}, {"value", *axis.constant}} : Json{{"type", "var"}};
    if (!axis.parent.empty()) axes[axis.name]["parent"] = axis.parent;
  }
  Json inputs = Json::object();
  for (const TensorSpec& spec : definition.inputs) inputs[spec.name] = spec_json(spec);
  Json outputs = Json::object();
  for (const TensorSpec& spec : definition.outputs) outputs[spec.name] = spec_json(spec);
  return Json{{"name", definition.name},
              {"op_type", definition.op_type},
              {"axes", axes},
              {"inputs", inputs},
              {"outputs", outputs},
              {"reference", definition.reference},
              {"tags", Json(definition.tags)},
              {"description", definition.description.empty() ? Json(nullptr) : Json(definition.description)},
              {"constraints", Json(definition.constraints)}};
}

Json to_json(const Workload& workload) {
  Json axes = Json::object();
  for (const auto& [name, value] : workload.axes) axes[name] = value;
  Json inputs = Json::object();
  for (const auto& [name, source] : workload.inputs) inputs[name] = source_json(source);
  Json json = {{"uuid", workload.uuid}, {"axes", axes}, {"inputs", inputs}};
  if (!workload.outputs.empty()) {
    Json outputs = Json::object();
    for (const auto& [name, source] : workload.outputs) outputs[name] = source_json(source);
    json["outputs"] = outputs;
  }
  return json;
}

Json to_json(const Trace& trace) {
  return Json{{"definition", trace.definition},
              {"solution", trace.solution ? Json(*trace.solution) : Json(nullptr)},
              {"workload", to_json(trace.workload)},
              {"evaluation", trace.evaluation}};
}

Result<AxisValues> bind_axes(const Definition& definition,
                             const std::vector<std::pair<std::string, std::int64_t>>& axes) {
  AxisValues values;
  for (const Axis& axis : definition.axes) {
    if (axis.constant) values[axis.name] = *axis.constant;
  }
  for (const auto& [name, value] : axes) {
    const Axis* axis = definition.find_axis(name);
    if (axis == nullptr) {
      std::vector<std::string> names;
      std::string list;
      for (const Axis& known : definition.axes) {
        names.push_back(known.name);
        if (known.constant) continue;
        if (!list.empty()) list += ", ";
        list += known.name;
      }
      return input_error("{} has no axis '{}'{}; its variable axes are: {}", definition.name, name,
                         base::did_you_mean(name, names), list);
    }
    if (value < 0) return input_error("{}: axis {} must not be negative, but is {}", definition.name, name, value);
    if (axis->constant && *axis->constant != value && definition.is_batch_axis(name)) {
      if (value == 0) return input_error("{}: axis {} must be positive", definition.name, name);
    } else if (axis->constant && *axis->constant != value) {
      return input_error("{}: axis {} is constant, {}, and cannot be {}; choose the definition with that extent",
                         definition.name, name, *axis->constant, value);
    }
    values[name] = value;
  }
  for (const Axis& axis : definition.axes) {
    if (!values.contains(axis.name)) {
      return input_error("{}: axis {} has no value; give one with --axis {}=N", definition.name, axis.name, axis.name);
    }
  }
  return values;
}

Result<Shape> shape_of(const TensorSpec& spec, const AxisValues& axes) {
  Shape shape;
  if (!spec.shape) return shape;
  for (const std::string& axis : *spec.shape) {
    const auto found = axes.find(axis);
    if (found == axes.end()) return input_error("{}: axis {} has no value", spec.name, axis);
    shape.push_back(found->second);
  }
  if (const auto count = element_count(shape); !count) return input_error("{}: {}", spec.name, count.error().message);
  return shape;
}

std::string describe_axes(const Definition& definition, const Workload& workload) {
  std::string text;
  for (const Axis& axis : definition.axes) {
    for (const auto& [name, value] : workload.axes) {
      if (name == axis.name && axis.constant != value)
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
    }
  }
  return text;
}

std::string uuid5_url(std::string_view name) {
  // 6ba7b811-9dad-11d1-80b4-00c04fd430c8, the URL namespace.
  static constexpr unsigned char kNamespace[16] = {0x6b, 0xa7, 0xb8, 0x11, 0x9d, 0xad, 0x11, 0xd1,
                                                   0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8};
  std::string bytes;
  for (const unsigned char byte : kNamespace) bytes.push_back(static_cast<char>(byte));
  bytes += name;
  std::string hex = base::sha1_hex(bytes).substr(0, 32);
  hex[12] = '5';
  const auto digit = static_cast<unsigned>(hex[16] <= '9' ? hex[16] - '0' : hex[16] - 'a' + 10);
  hex[16] = "89ab"[digit & 3u];
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

}  // namespace ptxbench::problem
