// stmatrix with four matrices takes a row address from every lane. Here the lanes of all four matrices name the rows of
// the first one, so that the matrices are stored over each other.
// rule: race.warp
/* launch
block = 32
argument = [
  {name = "out", type = "u16", shape = [32, 8], output = true, expect = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void epilogue(uint16_t* out) {
  __shared__ alignas(16) uint16_t tile[32][8];
  uint32_t r[4];
  for (uint32_t j = 0; j < 4; ++j) {
    const uint32_t first = (8 * j + lane_id() / 4) * 8 + 2 * (lane_id() % 4);
    r[j] = first | (first + 1) << 16;
  }
  for (uint32_t c = 0; c < 8; ++c) tile[lane_id()][c] = 0;
  __syncwarp();
#ifdef FAULTY
  stmatrix_x4(tile[lane_id() % 8], r);  // FAULT
#else
  stmatrix_x4(tile[lane_id()], r);
#endif
  __syncwarp();
  for (uint32_t c = 0; c < 8; ++c) out[lane_id() * 8 + c] = tile[lane_id()][c];
}
