// One of the example attention kernels as a plain shared library, for bench/attention_speed.py; built as attention.cu
// is, with -shared -Xcompiler -fPIC. Tensors are contiguous, the stream is the default one. Backward with
// -DATTENTION_BACKWARD.
#include KERNEL

namespace {

struct Tensors {
  int64_t b, h, s, d;
  tvm::ffi::TensorView elements(void* data) const { return {data, {b, h, s, d}, DLDataType()}; }
  tvm::ffi::TensorView rows(void* data) const { return {data, {b, h, s}, DLDataType{kDLFloat, 32, 1}}; }
};

}  // namespace

#ifdef ATTENTION_BACKWARD
extern "C" void attention(void* q, void* k, void* v, void* o, void* d_o, void* l, void* d_q, void* d_k, void* d_v,
                          int64_t b, int64_t h, int64_t s, int64_t d) {
  const Tensors t{b, h, s, d};
  run_candidate(t.elements(q), t.elements(k), t.elements(v), t.elements(o), t.elements(d_o), t.rows(l), t.elements(d_q),
                t.elements(d_k), t.elements(d_v));
}
#else
extern "C" void attention(void* q, void* k, void* v, void* o, void* lse, int64_t b, int64_t h, int64_t s, int64_t d) {
  const Tensors t{b, h, s, d};
  run_candidate(t.elements(q), t.elements(k), t.elements(v), t.elements(o), t.rows(lse));
}
#endif
