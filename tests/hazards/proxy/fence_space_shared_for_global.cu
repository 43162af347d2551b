// The data that the other CTA will fetch with a bulk copy lie in global memory, the fence names shared memory.
// rule: proxy.fence-space
/* launch
grid = 2
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "data", type = "u32", shape = [32]},
  {name = "flag", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void hand_off(const uint32_t* in, uint32_t* data, uint32_t* flag, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[32];
  __shared__ uint64_t full;
  if (blockIdx.x == 0) {
    data[lane_id()] = in[lane_id()];  // OTHER
#ifdef FAULTY
    fence_async_shared();
#else
    fence_async_global();
#endif
    __syncwarp();
    if (lane_id() == 0) st_release(flag, 1);
    return;
  }
  if (lane_id() == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    while (ld_acquire(flag) == 0) {
    }
    mbar_arrive_expect(&full, sizeof tile);
    bulk_load(tile, data, sizeof tile, &full);  // FAULT
  }
  __syncwarp();
  mbar_wait(&full, 0);
  out[lane_id()] = tile[lane_id()];
}
