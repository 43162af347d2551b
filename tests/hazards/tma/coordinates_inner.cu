// The innermost coordinate of a copy must be a multiple of 16 bytes: four elements of f32, not three.
// rule: tma.coordinates
/* launch
block = 32
argument = [
  {name = "in", type = "f32", shape = [4, 32], fill = "value:7"},
  {name = "in_map", tensor_map = "in", box = [8, 4]},
  {name = "out", type = "f32", shape = [32], output = true, expect = "value:7"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load(const float*, const __grid_constant__ TensorMap in_map, float* out) {
  __shared__ alignas(128) float tile[32];
  __shared__ uint64_t full;
#ifdef FAULTY
  constexpr int x = 3;
#else
  constexpr int x = 4;
#endif
  if (lane_id() == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, &in_map, x, 0, &full);  // FAULT
  }
  __syncwarp();
  mbar_wait(&full, 0);
  out[lane_id()] = tile[lane_id()];
}
