// Every thread of one CTA reports with red.release; the other CTA's threads wait with acquiring loads until all have.
// rule: none
/* launch
grid = 2
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "data", type = "u32", shape = [64]},
  {name = "done", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void hand_off(const uint32_t* in, uint32_t* data, uint32_t* done, uint32_t* out) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = in[threadIdx.x];
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(done) : "memory");
  } else {
    while (ld_acquire(done) != 64) {
    }
    out[threadIdx.x ^ 17] = data[threadIdx.x ^ 17];
  }
}
