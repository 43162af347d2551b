// Ten rows are shared out among four warps by a division that rounds down: two rows get no warp.
// rule: memory.unwritten
/* launch
block = 128
argument = [
  {name = "in", type = "f32", shape = [10, 32], fill = "index"},
  {name = "out", type = "f32", shape = [10, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void rows(const float* in, float* out) {
  constexpr uint32_t rows = 10;
#ifdef FAULTY
  constexpr uint32_t rows_per_warp = rows / 4;
#else
  constexpr uint32_t rows_per_warp = (rows + 3) / 4;
#endif
  for (uint32_t i = 0; i < rows_per_warp; ++i) {
    const uint32_t row = warp_id() * rows_per_warp + i;
    if (row < rows) out[row * 32 + lane_id()] = in[row * 32 + lane_id()];
  }
}
