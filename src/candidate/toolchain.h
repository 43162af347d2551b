#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/toolkit.h"

namespace ptxbench::candidate {

/// Everything a compilation needs from outside.
struct Toolchain {
  base::CudaToolkit cuda;
  std::filesystem::path host_compiler;  ///< g++, which nvcc also finds in PATH
  std::string host_compiler_version;
  std::filesystem::path lean_include;    ///< our TVM-FFI headers
  std::string lean_digest;               ///< over their names and contents
  std::optional<base::TvmFfi> upstream;  ///< the real headers, where set-up installed them
  std::filesystem::path ffi_runtime;     ///< our libtvm_ffi.so
};

/// Missing parts are infrastructure errors that name the remedy; missing upstream headers are no error.
Result<Toolchain> find_toolchain();

/// Our libtvm_ffi.so: $PTXBENCH_FFI_RUNTIME, else lib/tvm_ffi/ beside the program, else in the build folder.
Result<std::filesystem::path> find_ffi_runtime();

}  // namespace ptxbench::candidate
