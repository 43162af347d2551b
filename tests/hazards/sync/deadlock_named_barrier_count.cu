// Three warps meet at a named barrier that expects four.
// rule: sync.deadlock
/* launch
block = 96
argument = [
  {name = "in", type = "u32", shape = [96], fill = "index"},
  {name = "out", type = "u32", shape = [96], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void rotate(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[96];
  tile[threadIdx.x] = in[threadIdx.x];
#ifdef FAULTY
  named_sync(1, 128);  // FAULT
#else
  named_sync(1, 96);
#endif
  out[95 - threadIdx.x] = tile[95 - threadIdx.x];
}
