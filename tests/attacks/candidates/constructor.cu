// Code that runs while the library is loaded, before anybody has called anything.
#include "common.cuh"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

struct AtLoad {
  AtLoad() {
    verdict(fork() > 0, "a process at load");
    verdict(socket(AF_INET, SOCK_STREAM, 0) >= 0, "network at load");
    verdict(open("/tmp/ptxbench-attack", O_WRONLY | O_CREAT, 0600) >= 0, "a file at load");
    std::fflush(stdout);
  }
} at_load;

void run(tvm::ffi::TensorView at, tvm::ffi::TensorView bt, tvm::ffi::TensorView ct) { Call(at, bt, ct).honest(); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
