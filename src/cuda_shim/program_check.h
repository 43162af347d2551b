#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace ptxbench::cuda_shim {

/// What a look at a program's file tells before it runs.
struct ProgramInfo {
  bool is_script = false;        ///< "#!": whatever it runs is checked by nobody
  bool uses_runtime = false;     ///< needs libcudart.so.13
  bool has_device_code = false;  ///< has a fat binary section
  /// Its DT_RPATH comes before LD_LIBRARY_PATH, so the client libraries must be preloaded to be found first.
  bool needs_preload = false;
};

/// Refuses, with the flag to use, what cannot run on the emulated device: no ELF program for this machine, a static or
/// another version's CUDA runtime, device code without usable PTX.
Result<ProgramInfo> check_program(const std::filesystem::path& program);

/// SHA-256 (hexadecimal) of each PTX text in its device code.
Result<std::set<std::string>> ptx_digests(const std::filesystem::path& program);

}  // namespace ptxbench::cuda_shim
