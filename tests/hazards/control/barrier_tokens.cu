// Arrive and wait with the state token that the arrive returns, as cuda::barrier does, for several phases.
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [3, 64], fill = "index"},
  {name = "out", type = "u32", shape = [3, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

DEVICE void arrive_and_wait(uint64_t* bar) {
  uint64_t token;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(token) : "r"(smem(bar)) : "memory");
  uint32_t done;
  do {
    asm volatile("{.reg .pred p; mbarrier.try_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done)
                 : "r"(smem(bar)), "l"(token)
                 : "memory");
  } while (done == 0);
}

extern "C" __global__ void rounds(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[64];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) mbar_init(&bar, 64);
  __syncthreads();
  for (int i = 0; i < 3; ++i) {
    tile[threadIdx.x] = in[i * 64 + threadIdx.x];
    arrive_and_wait(&bar);
    out[i * 64 + (threadIdx.x ^ 33)] = tile[threadIdx.x ^ 33];
    arrive_and_wait(&bar);
  }
}
