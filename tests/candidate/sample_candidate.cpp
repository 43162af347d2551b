// Compiled once with the lean headers and once with upstream's; both libraries must behave alike on our runtime.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace {

/// Writes what it saw to `out`, which stands in for device memory.
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView out, double scale, int64_t count) {
  TVM_FFI_ICHECK_EQ(a.ndim(), 2) << "a is a matrix";
  if (a.size(0) == 13) TVM_FFI_THROW(ValueError) << "thirteen rows of " << a.size(1);
  if (a.dtype().code != kDLBfloat || a.dtype().bits != 16) TVM_FFI_THROW(TypeError) << "bf16 wanted";
  auto* seen = static_cast<double*>(out.data_ptr());
  seen[0] = static_cast<double>(a.numel());
  seen[1] = static_cast<double>(a.stride(0));
  seen[2] = a.is_contiguous() ? 1 : 0;
  seen[3] = scale;
  seen[4] = static_cast<double>(count);
  seen[5] = static_cast<double>(a.shape()[1] + a.sizes()[0] + a.strides()[1] + a.dim());
  const auto device = a.device();
  seen[6] = TVMFFIEnvGetStream(device.device_type, device.device_id) == out.data_ptr() ? 1 : 0;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
