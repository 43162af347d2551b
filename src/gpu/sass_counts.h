#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "gpu/device.h"

namespace ptxbench::gpu {

/// How often each machine instruction of the kernels that ran was executed, exactly: CUPTI patches their code. Never
/// time anything while this is on.
class SassCounts {
 public:
  struct Count {
    std::uint64_t warps = 0;    ///< warp-level executions
    std::uint64_t threads = 0;  ///< executions by threads whose predicate was true
  };
  /// By function and offset in it.
  using Counts = std::map<std::pair<std::string, std::uint32_t>, Count>;

  /// Begins counting, once a process: CUPTI 13.0 cannot be configured a second time. Errors: no CUPTI, no permission to
  /// use it.
  static Result<std::unique_ptr<SassCounts>> start(const Device& device);
  ~SassCounts();
  /// Ends it. Instructions that never ran are left out.
  Result<Counts> stop();

  class State;

 private:
  explicit SassCounts(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ptxbench::gpu
