// A tensor map is edited on the device and published by tensormap.cp_fenceproxy; the thread that uses it lacks
// fence.proxy.tensormap with acquire.
// rule: proxy.tensor-map
/* launch
block = 64
argument = [
  {name = "first", type = "u32", shape = [4, 32], fill = "zero"},
  {name = "second", type = "u32", shape = [4, 32], fill = "index"},
  {name = "map", tensor_map = "first", box = [32, 4]},
  {name = "workspace", type = "u8", shape = [128]},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:second"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void retarget(const uint32_t*, const uint32_t* second, const __grid_constant__ TensorMap map,
                                    TensorMap* workspace, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ alignas(128) TensorMap edited;
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_mbarrier_init();
  }
  if (warp_id() == 0) {
    if (lane_id() < 16) edited.words[lane_id()] = map.words[lane_id()];
    __syncwarp();
    if (lane_id() == 0) map_set_address(&edited, second);
    __syncwarp();
    map_publish(workspace, &edited);  // OTHER
  }
  __syncthreads();
  if (threadIdx.x == 32) {
#ifndef FAULTY
    fence_map_acquire(workspace);
#endif
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, workspace, 0, 0, &full);  // FAULT
  }
  mbar_wait(&full, 0);
  for (uint32_t i = threadIdx.x; i < 128; i += 64) out[i] = tile[i];
}
