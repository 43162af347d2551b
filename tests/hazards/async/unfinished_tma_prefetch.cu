// The producer keeps two TMA loads ahead and issues them beyond the end too; the last two complete on barriers that
// nobody waits for, maybe after the CTA has exited.
// rule: async.unfinished
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "rounds", type = "u32", value = 6},
  {name = "out", type = "u32", shape = [6, 4, 32], output = true, expect = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void prefetching(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t rounds,
                                       uint32_t* out) {
  __shared__ alignas(128) uint32_t tiles[2][128];
  __shared__ uint64_t full[2];
  if (lane_id() == 0) {
    for (int s = 0; s < 2; ++s) {
      mbar_init(&full[s], 1);
      fence_async_shared();
      mbar_arrive_expect(&full[s], sizeof tiles[s]);
      tma_load(tiles[s], &in_map, 0, 4 * s, &full[s]);
    }
  }
  __syncwarp();
  for (uint32_t i = 0; i < rounds; ++i) {
    const uint32_t s = i % 2;
    mbar_wait(&full[s], i / 2 & 1);
    for (uint32_t k = lane_id(); k < 128; k += 32) out[i * 128 + k] = tiles[s][k];
    __syncwarp();
#ifdef FAULTY
    const bool more = true;
#else
    const bool more = i + 2 < rounds;
#endif
    if (more && lane_id() == 0) {
      mbar_arrive_expect(&full[s], sizeof tiles[s]);
      tma_load(tiles[s], &in_map, 0, static_cast<int>(4 * (i + 2)), &full[s]);  // FAULT
    }
  }
}
