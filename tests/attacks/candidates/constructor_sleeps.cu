// A library that never finishes loading.
#include "common.cuh"

#include <unistd.h>

namespace {

struct AtLoad {
  AtLoad() {
    while (true) pause();
  }
} at_load;

void run(tvm::ffi::TensorView at, tvm::ffi::TensorView bt, tvm::ffi::TensorView ct) { Call(at, bt, ct).honest(); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
