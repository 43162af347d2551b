#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "problem/dtype.h"
#include "problem/tensor.h"

// The FlashInfer-Trace data format: definitions, workloads and traces. docs/schemas.md describes the files.

namespace ptxbench::problem {

/// A named extent: constant for the definition, or given by each workload.
struct Axis {
  std::string name;
  std::optional<std::int64_t> constant;
  /// Another axis that a variable one depends on; older files give it. Kept, not used.
  std::string parent;
};

/// One tensor or scalar of the call.
struct TensorSpec {
  std::string name;
  std::optional<std::vector<std::string>> shape;  ///< axis names; nothing for a scalar
  Dtype dtype = Dtype::float32;
  std::string description;
  bool is_scalar() const { return !shape; }
};

/// Values of all axes of a definition.
using AxisValues = std::map<std::string, std::int64_t>;

struct Definition {
  std::string name;
  std::string op_type;
  std::vector<Axis> axes;           ///< in file order
  std::vector<TensorSpec> inputs;   ///< in call order
  std::vector<TensorSpec> outputs;  ///< in call order, after the inputs
  std::string reference;            ///< Python source; what evaluation runs where there is no native reference
  std::vector<std::string> tags;
  std::string description;
  std::vector<std::string> constraints;  ///< kept, not evaluated
  std::string file;                      ///< where it was read from

  const Axis* find_axis(std::string_view axis) const;
  std::vector<std::string> variable_axes() const;
  bool has_tag(std::string_view tag) const;
  /// Whether a causal mask is meant: by the tag "mask:causal", or by "causal" as a part of the name, between
  /// underscores, and not after "non".
  bool is_causal() const;
  /// A constant axis that only counts independent problems, by the tag "batch-axis:NAME": small workloads for checking
  /// may give it another value, since a kernel reads it from its tensors' shapes.
  bool is_batch_axis(std::string_view axis) const;
};

struct RandomInput {};
/// Follows from the other inputs: computed by the operation's own reference (is_derived in reference.h).
struct DerivedInput {};
struct ScalarInput {
  std::variant<bool, std::int64_t, double> value;
};
struct SafetensorsInput {
  std::string path;  ///< as in the file: absolute, or relative to the root
  std::string tensor_key;
};
using InputSource = std::variant<RandomInput, DerivedInput, ScalarInput, SafetensorsInput>;

struct Workload {
  std::string uuid;
  std::vector<std::pair<std::string, std::int64_t>> axes;
  std::vector<std::pair<std::string, InputSource>> inputs;   ///< those left out are random or derived
  std::vector<std::pair<std::string, InputSource>> outputs;  ///< stored results, safetensors only
  /// Made from --axis rather than read.
  bool ad_hoc = false;
  /// One of the small ones for checking, from the folder checks/.
  bool check = false;
  std::string file;  ///< file:line it was read from, or empty
  std::string root;  ///< what relative blob paths start at

  const InputSource* find_input(std::string_view input) const;
};

/// One line of a workloads or traces file.
struct Trace {
  std::string definition;
  std::optional<std::string> solution;
  Workload workload;
  base::Json evaluation;  ///< null, or the evaluation's object, checked by check_evaluation
};

/// `where` names the text ("gemm.json") and opens every message, followed by the JSON path and what would be right.
Result<Definition> parse_definition(const base::Json& json, std::string_view where);
Result<Workload> parse_workload(const base::Json& json, std::string_view where);
Result<Trace> parse_trace(const base::Json& json, std::string_view where);
/// The rules of an evaluation: known status; correctness and performance present or absent as the status demands.
Result<void> check_evaluation(const base::Json& json, std::string_view where);

/// In wire order: absent optional members as null or [].
base::Json to_json(const Definition& definition);
base::Json to_json(const Workload& workload);
base::Json to_json(const Trace& trace);

/// The workload's axes joined with the constants. Unknown axes, missing ones, negative values and values that
/// contradict a constant are errors; batch axes may have any positive value.
Result<AxisValues> bind_axes(const Definition& definition,
                             const std::vector<std::pair<std::string, std::int64_t>>& axes);
/// Concrete shape; empty for a scalar.
Result<Shape> shape_of(const TensorSpec& spec, const AxisValues& axes);

/// What the axes are that are not constant or not as the definition has them, "M=256", in the definition's order.
std::string describe_axes(const Definition& definition, const Workload& workload);

/// Version-5 UUID of `name` in the URL namespace (RFC 9562).
std::string uuid5_url(std::string_view name);

}  // namespace ptxbench::problem
