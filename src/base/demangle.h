#pragma once

#include <string>

namespace ptxbench::base {

/// "gemm::kernel(float const*, int)" for its mangled name; other names stay as they are.
std::string demangled(const std::string& name);

/// Of a function, without what it returns and takes: "gemm::kernel<64>".
std::string short_name(const std::string& name);

}  // namespace ptxbench::base
