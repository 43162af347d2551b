// What all attacks share: an honest GEMM, and the arguments of a call. The number of rows chooses the attack, so that
// one compilation serves many of them (attacks.json says which is which).
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

using Element = __nv_bfloat16;

__global__ void gemm(const Element* a, const Element* b, Element* c, int n, int k) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += __bfloat162float(a[row * k + i]) * __bfloat162float(b[column * k + i]);
  c[row * n + column] = __float2bfloat16(sum);
}

struct Call {
  int m, n, k;
  Element *a, *b, *c;
  cudaStream_t stream;

  Call(tvm::ffi::TensorView at, tvm::ffi::TensorView bt, tvm::ffi::TensorView ct)
      : m(static_cast<int>(at.size(0))),
        n(static_cast<int>(bt.size(0))),
        k(static_cast<int>(at.size(1))),
        a(static_cast<Element*>(at.data_ptr())),
        b(static_cast<Element*>(bt.data_ptr())),
        c(static_cast<Element*>(ct.data_ptr())),
        stream(static_cast<cudaStream_t>(TVMFFIEnvGetStream(at.device().device_type, at.device().device_id))) {}

  dim3 grid() const { return dim3(static_cast<unsigned>(n / 64), static_cast<unsigned>(m)); }
  size_t output_bytes() const { return static_cast<size_t>(m) * static_cast<size_t>(n) * sizeof(Element); }
  size_t input_bytes() const { return static_cast<size_t>(m) * static_cast<size_t>(k) * sizeof(Element); }
  void honest(Element* to, cudaStream_t where) const { gemm<<<grid(), 64, 0, where>>>(a, b, to, n, k); }
  void honest() const { honest(c, stream); }
};

inline Element* device_buffer(size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) TVM_FFI_THROW(RuntimeError) << "cudaMalloc failed";
  return static_cast<Element*>(memory);
}

/// What a probe of the sandbox found: "blocked: NAME" is what is expected, "OPEN: NAME" a hole.
inline void verdict(bool open, const char* name) { std::printf("%s: %s\n", open ? "OPEN" : "blocked", name); }
