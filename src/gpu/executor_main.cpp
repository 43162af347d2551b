// The program that owns a GPU context on behalf of one candidate (executor.h).
//
//   ptxbench-executor DEVICE CHANNEL_FD

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>

#include "cuda_shim/sandbox.h"
#include "gpu/executor.h"

int main(int argc, char** argv) {
  namespace gpu = ptxbench::gpu;
  if (argc != 3) {
    std::fputs("ptxbench-executor: started by ptxbench, not by hand: DEVICE CHANNEL_FD\n", stderr);
    return 2;
  }
  // There is one stream. The driver makes a context with one queue to the GPU in half the time, and those of several
  // processes one after another.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ptxbench::cuda_shim::protect_this_process();
  gpu::Channel channel{ptxbench::cuda_shim::OwnedFd(std::atoi(argv[2]))};
  // A copy, to say why this executor is of no use.
  const gpu::Channel complaints{ptxbench::cuda_shim::OwnedFd(::dup(channel.fd()))};
  auto executor = gpu::Executor::create(std::atoi(argv[1]), std::move(channel));
  if (!executor) {
    static_cast<void>(complaints.send({{"ready", false}, {"error", executor.error().message}}));
    // A request that nobody has read would be all the other side learns of: a connection that was reset.
    char unread[1];
    while (::recv(complaints.fd(), unread, sizeof unread, MSG_DONTWAIT) > 0) {
    }
    return 3;
  }
  const auto served = (*executor)->serve();
  if (!served) std::fprintf(stderr, "ptxbench-executor: %s\n", served.error().message.c_str());
  // Not through destructors: the driver's may wait for kernels that never end.
  std::_Exit(served ? 0 : 3);
}
