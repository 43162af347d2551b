// The padding behind the valid elements is stored while cp.async, issued for all threads, may still write there.
// Threads in the padding must not copy.
// rule: async.overwritten
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "valid", type = "u32", value = 48},
  {name = "out", type = "u32", shape = [48], output = true, expect = "index"},
  {name = "padding", type = "u32", shape = [16], output = true, expect = "zero"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void padded(const uint32_t* in, uint32_t valid, uint32_t* out, uint32_t* padding) {
  __shared__ uint32_t tile[64];
#ifndef FAULTY
  if (threadIdx.x < valid)
#endif
    cp_async4(&tile[threadIdx.x], &in[threadIdx.x]);  // OTHER
  cp_async_commit();
  if (threadIdx.x >= valid) tile[threadIdx.x] = 0;  // FAULT
  cp_async_wait<0>();
  __syncthreads();
  if (threadIdx.x < 48) {
    out[threadIdx.x] = tile[threadIdx.x];
  } else {
    padding[threadIdx.x - 48] = tile[threadIdx.x];
  }
}
