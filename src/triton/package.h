#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "triton/merge.h"
#include "triton/record.h"

namespace ptxbench::triton {

/// The bytes that the launcher reads (plan.h).
std::string write_plan(const Record& record, const std::vector<std::string>& kernel_names,
                       const std::vector<CallArguments>& calls, const std::string& launcher_digest);

/// Assembler source of the object that holds plan.bin and kernel.fatbin of its folder, device code in the sections
/// where nvcc's is.
std::string assembly();

}  // namespace ptxbench::triton
