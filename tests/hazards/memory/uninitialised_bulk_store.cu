// A tile is filled up to its last row only, and the bulk copy takes all of it to the output.
// rule: memory.uninitialised
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "rows", type = "u32", value = 4},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void tile(const uint32_t* in, uint32_t rows, uint32_t* out) {
  __shared__ alignas(128) uint32_t rows_of[4 * 32];
#ifdef FAULTY
  const uint32_t filled = rows - 1;
#else
  const uint32_t filled = rows;
#endif
#pragma unroll 1
  for (uint32_t r = 0; r < filled; ++r) rows_of[r * 32 + lane_id()] = in[r * 32 + lane_id()];
  fence_async_shared();
  __syncwarp();
  if (lane_id() == 0) {
    bulk_store(out, rows_of, sizeof rows_of);  // FAULT
    bulk_commit();
    bulk_wait<0>();
  }
}
