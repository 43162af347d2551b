// Two warps hand over a tile through a flag in shared memory. The flag is stored relaxed, so it does not publish the
// tile; a release at CTA scope does.
// rule: race.shared
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

DEVICE void raise(uint32_t* flag) {
#ifdef FAULTY
  asm volatile("st.relaxed.cta.shared::cta.u32 [%0], %1;" ::"r"(smem(flag)), "r"(1) : "memory");
#else
  asm volatile("st.release.cta.shared::cta.u32 [%0], %1;" ::"r"(smem(flag)), "r"(1) : "memory");
#endif
}

extern "C" __global__ void hand_over(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[32];
  __shared__ uint32_t flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (warp_id() == 0) {
    tile[lane_id()] = in[lane_id()];  // OTHER
    __syncwarp();
    if (lane_id() == 0) raise(&flag);
  } else {
    uint32_t seen;
    do {
      asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];" : "=r"(seen) : "r"(smem(&flag)) : "memory");
    } while (seen == 0);
    out[lane_id()] = tile[lane_id()];  // FAULT
  }
}
