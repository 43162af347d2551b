#pragma once

#include <string>

#include "base/files.h"

namespace ptxbench::service {

/// A program that lies beside the test, in a build folder as in a bundle.
inline std::string program_beside(const char* name) {
  const auto self = base::executable_path();
  return self ? (self->parent_path() / name).string() : std::string(name);
}
inline std::string ptxbench_program() { return program_beside("ptxbench"); }
inline std::string fake_worker() { return program_beside("service_fake_worker"); }

}  // namespace ptxbench::service
