// The writers' fence stands in another function and two barriers before the copy (flash-attention #2462 reported such a
// fence as missing). It covers the stores all the same.
// rule: none
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

__device__ __noinline__ void write_tile(uint32_t* tile, const uint32_t* in) {
  tile[threadIdx.x] = in[threadIdx.x];
  fence_async_shared();
}

extern "C" __global__ void store_tile(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[128];
  __shared__ uint32_t count;
  if (threadIdx.x == 0) count = 0;
  write_tile(tile, in);
  __syncthreads();
  atomicAdd(&count, 1u);
  named_sync(1, 128);
  if (threadIdx.x == 64 && count == 128) {
    bulk_store(out, tile, sizeof tile);
    bulk_commit();
    bulk_wait<0>();
  }
}
