// The last block to draw a ticket adds the partial sums of all: the ticket's thread fences after the block barrier that
// brought in its block's stores, and again before it lets its block read.
// rule: none
/* launch
grid = 4
block = 64
argument = [
  {name = "in", type = "u32", shape = [4, 64], fill = "value:1"},
  {name = "partial", type = "u32", shape = [4, 64]},
  {name = "tickets", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [64], output = true, expect = "value:4"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void sum(const uint32_t* in, uint32_t* partial, uint32_t* tickets, uint32_t* out) {
  __shared__ bool last;
  partial[blockIdx.x * 64 + threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(tickets, 1u) == 3;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  uint32_t total = 0;
  for (uint32_t b = 0; b < 4; ++b) total += partial[b * 64 + (threadIdx.x ^ 7)];
  out[threadIdx.x ^ 7] = total;
}
