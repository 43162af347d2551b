// A bulk copy whose source was freed before the launch.
// rule: memory.use-after-free
/* launch
block = 32
argument = [
  {name = "old", type = "u32", shape = [32], fill = "index", freed = true},
  {name = "fresh", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:fresh"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void fetch(const uint32_t* old, const uint32_t* fresh, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[32];
  __shared__ uint64_t full;
#ifdef FAULTY
  const uint32_t* source = old;
#else
  const uint32_t* source = fresh;
#endif
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    mbar_arrive_expect(&full, sizeof tile);
    bulk_load(tile, source, sizeof tile, &full);  // FAULT
  }
  __syncthreads();
  mbar_wait(&full, 0);
  out[threadIdx.x] = tile[threadIdx.x];
}
