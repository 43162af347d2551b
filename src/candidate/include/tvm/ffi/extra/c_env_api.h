// Lean stand-in: the stream a candidate must launch its kernels on.
#pragma once

#include <tvm/ffi/c_api.h>

typedef void* TVMFFIStreamHandle;

extern "C" {
/// This thread's stream for a device, as the caller set it; NULL is the default stream.
TVM_FFI_DLL TVMFFIStreamHandle TVMFFIEnvGetStream(int32_t device_type, int32_t device_id);
TVM_FFI_DLL int TVMFFIEnvSetStream(int32_t device_type, int32_t device_id, TVMFFIStreamHandle stream,
                                   TVMFFIStreamHandle* opt_out_original_stream);
}
