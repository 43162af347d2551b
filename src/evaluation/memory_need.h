#pragma once

#include "base/error.h"
#include "problem/dataset.h"

namespace ptxbench::evaluation {

/// Tensors that fit neither the modelled GPU nor this machine are an error of the axes, said before anything is filled.
Result<void> check_memory(const problem::Problem& workload);

}  // namespace ptxbench::evaluation
