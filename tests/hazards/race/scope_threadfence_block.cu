// __threadfence_block orders a thread's writes for its own CTA only; the reader is in another one. __threadfence is
// needed.
// rule: race.scope
/* launch
grid = 2
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "data", type = "u32", shape = [64]},
  {name = "arrived", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void hand_off(const uint32_t* in, uint32_t* data, uint32_t* arrived, uint32_t* out) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = in[threadIdx.x];  // OTHER
#ifdef FAULTY
    __threadfence_block();
#else
    __threadfence();
#endif
    atomicAdd(arrived, 1u);
  } else {
    while (ld_relaxed(arrived) != 64) {
    }
    __threadfence();
    out[threadIdx.x] = data[threadIdx.x];  // FAULT
  }
}
