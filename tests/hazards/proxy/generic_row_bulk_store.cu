// Each warp writes a row to shared memory and its first lane sends it off with a bulk copy. __syncwarp alone does not
// make the stores visible to the async proxy.
// rule: proxy.async
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void store_rows(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t rows[4][32];
  rows[warp_id()][lane_id()] = in[threadIdx.x];  // OTHER
#ifndef FAULTY
  fence_async_shared();
#endif
  __syncwarp();
  if (lane_id() == 0) {
    bulk_store(out + warp_id() * 32, rows[warp_id()], 128);  // FAULT
    bulk_commit();
    bulk_wait<0>();
  }
}
