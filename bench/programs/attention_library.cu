// One of the example attention kernels as a plain shared library, for bench/attention_speed.py; built as attention.cu
// is, with -shared -Xcompiler -fPIC. Tensors are contiguous, the stream is the default one.
#include KERNEL

extern "C" void attention(void* q, void* k, void* v, void* o, void* lse, int64_t b, int64_t h, int64_t s, int64_t d) {
  const DLDataType bf16, fp32{kDLFloat, 32, 1};
  const auto tensor = [&](void* data) { return tvm::ffi::TensorView(data, {b, h, s, d}, bf16); };
  run_candidate(tensor(q), tensor(k), tensor(v), tensor(o), {lse, {b, h, s}, fp32});
}
