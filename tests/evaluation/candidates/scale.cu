// y = s * x with a scalar argument.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

__global__ void scale(const __nv_bfloat16* x, float s, __nv_bfloat16* y, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) y[i] = __float2bfloat16(__bfloat162float(x[i]) * s);
}

void run(tvm::ffi::TensorView x, float s, tvm::ffi::TensorView y) {
  const int count = static_cast<int>(x.size(0) * x.size(1));
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  scale<<<(count + 255) / 256, 256, 0, stream>>>(static_cast<const __nv_bfloat16*>(x.data_ptr()), s,
                                                 static_cast<__nv_bfloat16*>(y.data_ptr()), count);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
