// One thread initialises a barrier twice in a row, before anybody has used it: what Triton's warp specialisation does where
// it joins two barriers in one place. By the letter of the PTX ISA the first would have to be invalidated; no use of it is
// lost, so no more than a note.
// rule: none
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void exchange(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[128];
  __shared__ uint64_t done;
  if (threadIdx.x == 0) mbar_init(&done, 1);
  __syncthreads();
  if (threadIdx.x == 0) mbar_init(&done, 128);
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  mbar_arrive(&done);
  mbar_wait(&done, 0);
  out[threadIdx.x ^ 64] = tile[threadIdx.x ^ 64];
}
