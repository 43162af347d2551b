// Of an array of tensor maps in global memory the host has encoded the first; the kernel uses the second.
// rule: tma.tensor-map
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "encoded", tensor_map = "in", box = [32, 4], in_memory = true},
  {name = "empty", type = "u8", shape = [128]},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load(const uint32_t*, const TensorMap* encoded, const TensorMap* empty, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full;
#ifdef FAULTY
  const TensorMap* map = empty;
#else
  const TensorMap* map = encoded;
#endif
  if (lane_id() == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, map, 0, 0, &full);  // FAULT
  }
  __syncwarp();
  mbar_wait(&full, 0);
  for (uint32_t i = lane_id(); i < 128; i += 32) out[i] = tile[i];
}
