// In hand-carved shared memory the barrier overlaps the last two words of the tile.
// rule: mbarrier.overwritten
/* launch
block = 128
dynamic_shared = 520
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void exchange(const uint32_t* in, uint32_t* out) {
  extern __shared__ __align__(16) uint8_t memory[];
  uint32_t* tile = reinterpret_cast<uint32_t*>(memory);
#ifdef FAULTY
  uint64_t* done = reinterpret_cast<uint64_t*>(memory + 504);
#else
  uint64_t* done = reinterpret_cast<uint64_t*>(memory + 512);
#endif
  if (threadIdx.x == 0) mbar_init(done, 128);
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];  // OTHER
  __syncthreads();
  mbar_arrive(done);  // FAULT
  mbar_wait(done, 0);
  out[threadIdx.x ^ 64] = tile[threadIdx.x ^ 64];
}
