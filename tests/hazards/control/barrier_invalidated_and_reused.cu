// A barrier is invalidated after its last use, its eight bytes hold data, and later it is initialised again: each step
// follows a block barrier.
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void reuse(const uint32_t* in, uint32_t* out) {
  __shared__ uint64_t word;
  __shared__ uint32_t tile[64];
  if (threadIdx.x == 0) mbar_init(&word, 64);
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  mbar_arrive(&word);
  mbar_wait(&word, 0);
  const uint32_t value = tile[threadIdx.x ^ 32];
  __syncthreads();
  if (threadIdx.x == 0) {
    mbar_inval(&word);
    word = 0;
  }
  __syncthreads();
  const uint64_t zero = word;
  __syncthreads();
  if (threadIdx.x == 0) mbar_init(&word, 64);
  __syncthreads();
  tile[threadIdx.x] = value + static_cast<uint32_t>(zero);
  mbar_arrive(&word);
  mbar_wait(&word, 0);
  out[threadIdx.x] = tile[threadIdx.x ^ 32];
}
