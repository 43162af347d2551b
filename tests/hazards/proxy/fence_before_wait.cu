// A ring between a warp that writes slots and a thread that sends them off. The sender fences before it waits for the
// slot, so the fence does not cover what the wait brings in; the writers must fence before they arrive.
// rule: proxy.fence-early
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [6, 32], fill = "index"},
  {name = "out", type = "u32", shape = [6, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void ring(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t slots[2][32];
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) {
      mbar_init(&full[s], 32);
      mbar_init(&empty[s], 1);
    }
  }
  __syncthreads();
  if (warp_id() == 0) {
    for (int i = 0; i < 6; ++i) {
      const int s = i % 2;
      mbar_wait(&empty[s], (i / 2 & 1) ^ 1);
      slots[s][lane_id()] = in[i * 32 + lane_id()];  // OTHER
#ifndef FAULTY
      fence_async_shared();
#endif
      mbar_arrive(&full[s]);
    }
  } else if (lane_id() == 0) {
    for (int i = 0; i < 6; ++i) {
      const int s = i % 2;
#ifdef FAULTY
      fence_async_shared();
#endif
      mbar_wait(&full[s], i / 2 & 1);
      bulk_store(out + i * 32, slots[s], 128);  // FAULT
      bulk_commit();
      bulk_wait_read<0>();
      mbar_arrive(&empty[s]);
    }
    bulk_wait<0>();
  }
}
