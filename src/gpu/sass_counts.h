#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/device.h"

namespace ptxbench::gpu {

/// How often each machine instruction of the kernels that ran was executed, exactly: CUPTI patches their code. Never
/// time anything while this is on.
class SassCounts {
 public:
  struct Count {
    std::string function;
    std::uint32_t offset = 0;
    std::uint64_t warps = 0;    ///< warp-level executions
    std::uint64_t threads = 0;  ///< executions by threads whose predicate was true
  };

  /// Begins counting. Errors: no CUPTI, no permission to use it.
  static Result<std::unique_ptr<SassCounts>> start(const Device& device);
  ~SassCounts();
  /// Ends it. Instructions that never ran are left out.
  Result<std::vector<Count>> stop();

  class State;

 private:
  explicit SassCounts(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ptxbench::gpu
