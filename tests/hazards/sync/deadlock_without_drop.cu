// One warp has fewer rounds than the others and leaves. Its last arrival must be mbarrier.arrive_drop, or the barrier
// goes on counting on it.
// rule: sync.deadlock
/* launch
block = 96
argument = [
  {name = "in", type = "u32", shape = [3, 64], fill = "index"},
  {name = "out", type = "u32", shape = [3, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

DEVICE void leave(uint64_t* bar) {
  asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" ::"r"(smem(bar)) : "memory");
}

extern "C" __global__ void rounds(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[64];
  __shared__ uint64_t stored, loaded;
  if (threadIdx.x == 0) {
    mbar_init(&stored, 96);
    mbar_init(&loaded, 64);
  }
  __syncthreads();
  if (warp_id() == 2) {
#ifdef FAULTY
    mbar_arrive(&stored);
#else
    leave(&stored);
#endif
    return;
  }
  for (int i = 0; i < 3; ++i) {
    tile[threadIdx.x] = in[i * 64 + threadIdx.x];
    mbar_arrive(&stored);
    mbar_wait(&stored, i & 1);  // FAULT
    out[i * 64 + (threadIdx.x ^ 32)] = tile[threadIdx.x ^ 32];
    mbar_arrive(&loaded);
    mbar_wait(&loaded, i & 1);
  }
}
