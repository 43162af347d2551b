// For the next group the tensor map in the workspace is replaced while the TMA store of the previous group may still
// use it (the class of NVIDIA/cutlass #2162). The store must have completed first.
// rule: race.tensor-map
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "out0", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
  {name = "out1", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
  {name = "map", tensor_map = "out0", box = [32, 4]},
  {name = "workspace", type = "u8", shape = [128]},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void grouped_store(const uint32_t* in, uint32_t* out0, uint32_t* out1,
                                         const __grid_constant__ TensorMap map, TensorMap* workspace) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ alignas(128) TensorMap edited;
  for (uint32_t i = lane_id(); i < 128; i += 32) tile[i] = in[i];
  fence_async_shared();
  if (lane_id() < 16) edited.words[lane_id()] = map.words[lane_id()];
  for (int group = 0; group < 2; ++group) {
#ifndef FAULTY
    if (lane_id() == 0) bulk_wait<0>();
#endif
    __syncwarp();
    if (lane_id() == 0) map_set_address(&edited, group == 0 ? out0 : out1);
    __syncwarp();
    map_publish(workspace, &edited);  // FAULT
    if (lane_id() == 0) {
      fence_map_acquire(workspace);
      tma_store(workspace, 0, 0, tile);  // OTHER
      bulk_commit();
    }
  }
  if (lane_id() == 0) bulk_wait<0>();
}
