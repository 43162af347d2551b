#pragma once

#include "base/json.h"
#include "cuda_shim/guarded_backend.h"
#include "cuda_shim/session.h"

namespace ptxbench::gpu {

// What the executor saw, on its way to the process that judges.
base::Json to_json(const cuda_shim::ShimReport& report);
cuda_shim::ShimReport shim_report_from(const base::Json& json);
base::Json to_json(const cuda_shim::GuardedBackend::Observed& observed);
cuda_shim::GuardedBackend::Observed observed_from(const base::Json& json);

}  // namespace ptxbench::gpu
