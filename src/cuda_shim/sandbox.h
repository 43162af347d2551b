#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "cuda_shim/shared_memory.h"

namespace ptxbench::cuda_shim {

struct SandboxOptions {
  uint64_t data_bytes = 0;  ///< private writable memory
  bool sockets = true;      ///< Unix ones, which reach the device
  bool untrusted = false;   ///< also no change to the file system, no session of its own, no device but a terminal
  bool candidate = false;   ///< also no process besides its own (threads are), and no shared memory of its making
  /// Files and folders that may be read and run, besides /proc/self; nothing else then, where the kernel can keep that
  /// (restricts_files()). What does not exist is left out.
  std::optional<std::vector<std::filesystem::path>> readable;
};

/// Whether this kernel can restrict which files a process reads (Landlock, from Linux 5.13 where it is switched on).
bool restricts_files();

/// What a foreign process may not do, prepared before the fork so that entering it needs only system calls.
class Sandbox {
 public:
  static Result<Sandbox> prepare(const SandboxOptions& options);
  /// In the child, before exec. 0 or an errno.
  int enter() const;

 private:
  std::vector<uint64_t> filter_;  ///< struct sock_filter, 8 bytes each
  uint64_t data_bytes_ = 0;
  OwnedFd files_;  ///< Landlock's rules
  int user_ = 0, group_ = 0;
};

/// Keeps processes of the same user from reading or writing this process's memory through /proc or ptrace.
void protect_this_process();

}  // namespace ptxbench::cuda_shim
