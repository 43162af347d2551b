// CTA 0 publishes a tensor map and raises a flag. CTA 1 acquires the map before it has seen the flag, which acquires
// the old one.
// rule: proxy.tensor-map or proxy.fence-early
/* launch
grid = 2
block = 32
argument = [
  {name = "first", type = "u32", shape = [4, 32], fill = "zero"},
  {name = "second", type = "u32", shape = [4, 32], fill = "index"},
  {name = "map", tensor_map = "first", box = [32, 4]},
  {name = "workspace", tensor_map = "first", box = [32, 4], in_memory = true},
  {name = "flag", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:second"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void retarget(const uint32_t*, const uint32_t* second, const __grid_constant__ TensorMap map,
                                    TensorMap* workspace, uint32_t* flag, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ alignas(128) TensorMap edited;
  __shared__ uint64_t full;
  if (blockIdx.x == 0) {
    if (lane_id() < 16) edited.words[lane_id()] = map.words[lane_id()];
    __syncwarp();
    if (lane_id() == 0) map_set_address(&edited, second);
    __syncwarp();
    map_publish(workspace, &edited);  // OTHER
    __syncwarp();
    if (lane_id() == 0) st_release(flag, 1);
    return;
  }
  if (lane_id() == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
#ifdef FAULTY
    fence_map_acquire(workspace);
#endif
    while (ld_acquire(flag) == 0) {
    }
#ifndef FAULTY
    fence_map_acquire(workspace);
#endif
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, workspace, 0, 0, &full);  // FAULT
  }
  __syncwarp();
  mbar_wait(&full, 0);
  for (uint32_t i = lane_id(); i < 128; i += 32) out[i] = tile[i];
}
