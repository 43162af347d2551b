#pragma once

#include "evaluation/evaluation.h"

namespace ptxbench::evaluation {

/// Reads an object of schema "ptxbench.evaluation/1", so that what a service or a file says is reported in the same
/// words as what was judged here. Left at their defaults: settings of the backend, artifact, census by family, error
/// maps and timings; nothing that is told to a model depends on them. Members that are absent or of a wrong type count
/// as not known; another schema is an error that begins with `what`.
Result<Evaluation> evaluation_from_json(const base::Json& json, std::string_view what);

}  // namespace ptxbench::evaluation
