// Lanes beyond the last row return before ldmatrix, which the whole warp must execute.
// rule: sync.divergent
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32, 4], fill = "index"},
  {name = "rows", type = "u32", value = 24},
  {name = "out", type = "u32", shape = [4, 24], output = true, expect = "argument:expected"},
  {name = "expected", type = "u32", shape = [4, 24], fill = "zero"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void fragments(const uint32_t* in, uint32_t rows, uint32_t* out, const uint32_t*) {
  __shared__ alignas(16) uint32_t tile[32][4];
  for (int i = 0; i < 4; ++i) tile[lane_id()][i] = in[lane_id() * 4 + i];
  __syncwarp();
#ifdef FAULTY
  if (lane_id() >= rows) return;
#endif
  uint32_t r[4];
  ldmatrix_x4(r, tile[lane_id()]);  // FAULT
  if (lane_id() >= rows) return;
  for (int i = 0; i < 4; ++i) out[i * 24 + lane_id()] = r[i] - (i * 32 + lane_id());
}
