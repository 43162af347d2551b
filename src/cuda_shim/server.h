#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "cuda_shim/session.h"

namespace ptxbench::cuda_shim {

/// The trusted side: listens on a socket in a private folder, serves one client process at a time (any number of its
/// threads), and keeps what was seen of all of them. A client that connects after another has gone finds an empty
/// device.
class ShimServer {
 public:
  /// `backend` must outlive the server. `output` receives what kernels print (give `DeviceOptions::print` a function
  /// that appends to it).
  static Result<std::unique_ptr<ShimServer>> start(DeviceBackend& backend, std::shared_ptr<DeviceOutput> output,
                                                   ShimOptions options = {});
  ~ShimServer();
  ShimServer(const ShimServer&) = delete;
  ShimServer& operator=(const ShimServer&) = delete;

  /// For the client's environment, under kSocketVariable.
  const std::filesystem::path& socket_path() const;
  /// With ShimOptions::expects_client: the only process that may be a client. Others of the same user can find the
  /// socket, and are turned away.
  void expect(pid_t process);
  /// Serves no more. With `finish`, work a client left in its streams runs to its end first; without, it is dropped and
  /// a launch that is executing ends early. The report covers all clients.
  ShimReport stop(bool finish = true);
  /// A look at any time.
  ShimReport report() const;

  class State;

 private:
  explicit ShimServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace ptxbench::cuda_shim
