#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "candidate/compiler.h"
#include "cuda_shim/session.h"
#include "emulator/device.h"
#include "evaluation/evaluation.h"

namespace ptxbench::evaluation {

/// Compiler messages and forbidden things in source and library. Advisories and warnings are notes: they never decide.
std::vector<Finding> compile_findings(const candidate::Compilation& compilation);

/// The fault that stopped a kernel.
Finding fault_finding(const emulator::Fault& fault);

/// Refused launches, calls that are not modelled, host accesses to device memory, ...
std::vector<Finding> diagnostic_findings(const cuda_shim::ShimReport& report);

/// Whether the finding says that the emulator cannot tell (`unsupported.*`).
bool is_unsupported(const Finding& finding);

/// "gemm_kernel(...)" of a mangled name; the name itself when it is none.
std::string readable_kernel(std::string_view name);

}  // namespace ptxbench::evaluation
