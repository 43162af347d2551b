// The tensor map is a plain by-value parameter. Taking its address makes the compiler copy it to local memory, where
// the copy engine cannot read it. __grid_constant__ keeps it where it is.
// rule: tma.tensor-map
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

#ifdef FAULTY
#define MAP_PARAMETER TensorMap
#else
#define MAP_PARAMETER const __grid_constant__ TensorMap
#endif

extern "C" __global__ void load(const uint32_t*, MAP_PARAMETER in_map, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full;
  if (lane_id() == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, &in_map, 0, 0, &full);  // FAULT
  }
  __syncwarp();
  mbar_wait(&full, 0);
  for (uint32_t i = lane_id(); i < 128; i += 32) out[i] = tile[i];
}
