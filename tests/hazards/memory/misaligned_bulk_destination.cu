// The destination of a bulk copy follows an eight-byte header in shared memory; it must be a multiple of 16 bytes.
// rule: memory.misaligned
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

struct Message {
  uint64_t full;
#ifndef FAULTY
  alignas(16)
#endif
      uint32_t payload[32];
};

extern "C" __global__ void receive(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) Message message;
  if (threadIdx.x == 0) {
    mbar_init(&message.full, 1);
    fence_async_shared();
    mbar_arrive_expect(&message.full, 128);
    bulk_load(message.payload, in, 128, &message.full);  // FAULT
  }
  __syncthreads();
  mbar_wait(&message.full, 0);
  out[threadIdx.x] = message.payload[threadIdx.x];
}
