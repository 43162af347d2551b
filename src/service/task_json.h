#pragma once

#include "base/json.h"
#include "service/task.h"

namespace ptxbench::service {

/// As FIBServe's clients know it: absent instead of null, except inside traces. A task that failed has the traces of
/// the workloads that ended all the same.
base::Json fib_task(const Task& task);

/// Schema ptxbench.task/1, with the evaluations in full.
base::Json native_task(const Task& task);

}  // namespace ptxbench::service
