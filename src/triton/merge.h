#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "triton/record.h"

namespace ptxbench::triton {

struct MergedPtx {
  std::string text;
  std::vector<std::string> names;  ///< of the kernels, in order, as they are called in `text`
};

/// One module out of Triton's, which has one kernel each. Names that two of them use are changed in the later one;
/// debug information is kept as far as it leads from instructions to lines. Errors say what no module of Triton's looks
/// like.
Result<MergedPtx> merge_ptx(const std::vector<Kernel>& kernels);

}  // namespace ptxbench::triton
