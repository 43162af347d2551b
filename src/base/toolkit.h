#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ptxbench::base {

/// The release whose PTX (ISA 9.0) this system models; any other is refused.
inline constexpr std::string_view kCudaRelease = "13.0";

/// A CUDA toolkit tree: bin/nvcc, include/, lib/ (or lib64/).
struct CudaToolkit {
  std::filesystem::path root;
  std::filesystem::path nvcc;
  std::string version;  ///< of nvcc, as "13.0.88"
  std::string origin;   ///< which place of the search named it: "CUDA_HOME", "/usr/local/cuda", "PATH", ".deps/cuda"

  /// The folder with libcudart.so.
  std::filesystem::path library_dir() const;
};

/// The first toolkit of release 13.0 among $CUDA_HOME, /usr/local/cuda, nvcc in PATH and the set-up's own .deps/cuda;
/// the error lists what was found instead. A toolkit of another release is passed over, as the set-up does too.
/// PTXBENCH_FORCE_WHEEL_CUDA=1 considers .deps/cuda only.
Result<CudaToolkit> find_cuda_toolkit();

/// A program that may come apart from the toolkit (cuobjdump, nvdisasm, compute-sanitizer): the toolkit's bin/, then
/// .deps/cuda-tools/bin, then PATH.
std::optional<std::filesystem::path> find_cuda_tool(std::string_view name, const CudaToolkit* toolkit);

/// The pinned TVM-FFI: `include` (with tvm/ffi and dlpack below it) and `library`, the file libtvm_ffi.so.
struct TvmFfi {
  std::filesystem::path include;
  std::filesystem::path library;
  std::string version;
};

/// $PTXBENCH_TVM_FFI, else .deps/tvm_ffi.
Result<TvmFfi> find_tvm_ffi();

/// "13.0.88" from the text of `nvcc --version` (or of any tool that prints "release 13.0, V13.0.88").
std::optional<std::string> parse_cuda_tool_version(std::string_view text);

}  // namespace ptxbench::base
