// The mbarrier lies behind 36 bytes of data in hand-carved shared memory; it must be a multiple of eight bytes.
// rule: memory.misaligned
/* launch
block = 64
dynamic_shared = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void carved(const uint32_t* in, uint32_t* out) {
  extern __shared__ uint8_t memory[];
#ifdef FAULTY
  uint64_t* done = reinterpret_cast<uint64_t*>(memory + 36);
#else
  uint64_t* done = reinterpret_cast<uint64_t*>(memory + 40);
#endif
  if (threadIdx.x == 0) mbar_init(done, 64);  // FAULT
  __syncthreads();
  mbar_arrive(done);
  mbar_wait(done, 0);
  out[threadIdx.x] = in[threadIdx.x];
}
