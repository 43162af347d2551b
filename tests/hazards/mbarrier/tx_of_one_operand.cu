// Two boxes complete on the barrier, the bytes of one are announced: the wait may return before the second has arrived.
// rule: mbarrier.tx-mismatch
/* launch
block = 128
argument = [
  {name = "a", type = "u32", shape = [4, 32], fill = "index"},
  {name = "b", type = "u32", shape = [4, 32], fill = "index"},
  {name = "a_map", tensor_map = "a", box = [32, 4]},
  {name = "b_map", tensor_map = "b", box = [32, 4]},
  {name = "a_out", type = "u32", shape = [4, 32], output = true, expect = "argument:a"},
  {name = "b_out", type = "u32", shape = [4, 32], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load_both(const uint32_t*, const uint32_t*, const __grid_constant__ TensorMap a_map,
                                     const __grid_constant__ TensorMap b_map, uint32_t* a_out, uint32_t* b_out) {
  __shared__ alignas(128) uint32_t a[128];
  __shared__ alignas(128) uint32_t b[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
#ifdef FAULTY
    mbar_arrive_expect(&full, sizeof a);  // FAULT
#else
    mbar_arrive_expect(&full, sizeof a + sizeof b);
#endif
    tma_load(a, &a_map, 0, 0, &full);
    tma_load(b, &b_map, 0, 0, &full);  // OTHER
  }
  __syncthreads();
  mbar_wait(&full, 0);
  a_out[threadIdx.x] = a[threadIdx.x];
  b_out[threadIdx.x] = b[threadIdx.x];
}
