// A vendor library by a name that is pasted together, of a function that is declared here.
#include "common.cuh"

#define PASTE(x, y) x##y
extern "C" int PASTE(cub, lasLtCreate)(void**);

void run(tvm::ffi::TensorView at, tvm::ffi::TensorView bt, tvm::ffi::TensorView ct) {
  void* handle = nullptr;
  PASTE(cub, lasLtCreate)(&handle);
  Call(at, bt, ct).honest();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
