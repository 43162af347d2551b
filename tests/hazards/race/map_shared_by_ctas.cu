// Two CTAs keep their edited tensor maps in the same workspace slot (the class of NVIDIA/cutlass #3165): one replaces
// it while the other's copy uses it. Each needs a slot of its own.
// rule: race.tensor-map
/* launch
grid = 2
block = 32
argument = [
  {name = "in", type = "u32", shape = [2, 4, 32], fill = "index"},
  {name = "map", tensor_map = "in", box = [32, 4], size = [32, 4]},
  {name = "workspace", type = "u8", shape = [2, 128]},
  {name = "out", type = "u32", shape = [2, 4, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void grouped_load(const uint32_t* in, const __grid_constant__ TensorMap map, TensorMap* workspace,
                                        uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ alignas(128) TensorMap edited;
  __shared__ uint64_t full;
#ifdef FAULTY
  TensorMap* slot = workspace;
#else
  TensorMap* slot = workspace + blockIdx.x;
#endif
  if (lane_id() < 16) edited.words[lane_id()] = map.words[lane_id()];
  __syncwarp();
  if (lane_id() == 0) map_set_address(&edited, in + blockIdx.x * 128);
  __syncwarp();
  map_publish(slot, &edited);  // FAULT
  if (lane_id() == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    fence_map_acquire(slot);
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, slot, 0, 0, &full);  // OTHER
  }
  __syncwarp();
  mbar_wait(&full, 0);
  for (uint32_t i = lane_id(); i < 128; i += 32) out[blockIdx.x * 128 + i] = tile[i];
}
