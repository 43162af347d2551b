#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace ptxbench::triton {

/// A Python with Triton's compiler.
struct Installation {
  std::filesystem::path python;
  std::filesystem::path package_folder;  ///< what Python's search path needs first; empty if Python finds Triton itself
  std::string triton_version, python_version;
  /// What the sandboxed process may read: Python's own library and Triton.
  std::vector<std::filesystem::path> readable;
};

/// Triton as scripts/setup_triton.sh unpacks it (.deps/triton, or $PTXBENCH_TRITON), with a Python 3.11; or the Triton
/// of the interpreter $PTXBENCH_TRITON_PYTHON, which then has its own. Errors are infrastructure and name the remedy.
Result<Installation> find_installation();

/// The launcher that every kernel's library is linked with: $PTXBENCH_TRITON_LAUNCHER, else lib/triton/ beside the
/// program, else in the build folder.
Result<std::filesystem::path> find_launcher();

}  // namespace ptxbench::triton
