// A barrier of the whole grid in global memory that expects one CTA more than the grid has.
// rule: sync.deadlock
/* launch
grid = 3
block = 32
argument = [
  {name = "arrived", type = "u32", shape = [1]},
  {name = "ctas", type = "u32", value = 3},
  {name = "out", type = "u32", shape = [3], output = true, expect = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void meet(uint32_t* arrived, uint32_t ctas, uint32_t* out) {
#ifdef FAULTY
  const uint32_t expected = ctas + 1;
#else
  const uint32_t expected = ctas;
#endif
  if (lane_id() == 0) {
    __threadfence();
    atomicAdd(arrived, 1u);
    while (ld_acquire(arrived) < expected) {  // FAULT
    }
    out[blockIdx.x] = blockIdx.x;
  }
}
