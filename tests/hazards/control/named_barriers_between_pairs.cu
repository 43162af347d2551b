// Two pairs of warps each exchange tiles through named barriers of 64 threads: one says the tile is full (arrive by the
// writer, sync by the reader), one that it is free again.
// rule: none
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [2, 3, 32], fill = "index"},
  {name = "out", type = "u32", shape = [2, 3, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void pairs(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tiles[2][32];
  const uint32_t pair = warp_id() / 2;
  const int full = static_cast<int>(1 + 2 * pair);
  const int empty = full + 1;
  if (warp_id() % 2 == 0) {
    for (int i = 0; i < 3; ++i) {
      if (i > 0) named_sync(empty, 64);
      tiles[pair][lane_id()] = in[(pair * 3 + i) * 32 + lane_id()];
      named_arrive(full, 64);
    }
  } else {
    for (int i = 0; i < 3; ++i) {
      named_sync(full, 64);
      out[(pair * 3 + i) * 32 + (lane_id() ^ 5)] = tiles[pair][lane_id() ^ 5];
      if (i < 2) named_arrive(empty, 64);
    }
  }
}
