// CTAs add their parts of a sum in turn, ordered by a semaphore in global memory. The thread that raises it releases
// what it knows; without a block barrier before, that is not what the other threads of its block have stored.
// rule: race.global
/* launch
grid = 3
block = 64
argument = [
  {name = "in", type = "u32", shape = [3, 64], fill = "value:2"},
  {name = "turn", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [64], fill = "zero", output = true, expect = "value:6"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void sum_in_turn(const uint32_t* in, uint32_t* turn, uint32_t* out) {
  if (threadIdx.x == 0) {
    while (ld_acquire(turn) != blockIdx.x) {
    }
  }
  __syncthreads();
  out[threadIdx.x] += in[blockIdx.x * 64 + threadIdx.x];  // FAULT
#ifndef FAULTY
  __syncthreads();
#endif
  if (threadIdx.x == 0) st_release(turn, blockIdx.x + 1);
}
