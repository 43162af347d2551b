#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"

namespace ptxbench::cuda_shim {

/// What a foreign process may not do, prepared before the fork so that entering it needs only system calls.
class Sandbox {
 public:
  /// `untrusted`: also no change to the file system and no session of its own.
  /// `sockets`: Unix ones, which reach the device.
  static Result<Sandbox> prepare(uint64_t data_bytes, bool untrusted, bool sockets = true);
  /// In the child, before exec. 0 or an errno.
  int enter() const;

 private:
  std::vector<uint64_t> filter_;  ///< struct sock_filter, 8 bytes each
  uint64_t data_bytes_ = 0;
  int user_ = 0, group_ = 0;
};

/// Keeps processes of the same user from reading or writing this process's memory through /proc or ptrace.
void protect_this_process();

}  // namespace ptxbench::cuda_shim
