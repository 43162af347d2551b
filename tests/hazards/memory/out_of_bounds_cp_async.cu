// The last rows of the tile lie outside the matrix. cp.async must be told to read nothing there (source size 0, which
// fills with zeros).
// rule: memory.out-of-bounds
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [48, 4], fill = "index"},
  {name = "rows", type = "u32", value = 48},
  {name = "out", type = "u32", shape = [48, 4], output = true, expect = "argument:in"},
  {name = "rest", type = "u32", shape = [16, 4], output = true, expect = "zero"},
]
*/
#include "../ptx.cuh"

DEVICE void copy_row(void* to, const void* from, uint32_t source_bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem(to)), "l"(from), "r"(source_bytes)
               : "memory");
}

extern "C" __global__ void load_rows(const uint32_t* in, uint32_t rows, uint32_t* out, uint32_t* rest) {
  __shared__ alignas(16) uint32_t tile[64][4];
#ifdef FAULTY
  const uint32_t source_bytes = 16;
#else
  const uint32_t source_bytes = threadIdx.x < rows ? 16 : 0;
#endif
  copy_row(tile[threadIdx.x], in + threadIdx.x * 4, source_bytes);  // FAULT
  cp_async_commit();
  cp_async_wait<0>();
  for (int i = 0; i < 4; ++i) {
    if (threadIdx.x < 48) {
      out[threadIdx.x * 4 + i] = tile[threadIdx.x][i];
    } else {
      rest[(threadIdx.x - 48) * 4 + i] = tile[threadIdx.x][i];
    }
  }
}
