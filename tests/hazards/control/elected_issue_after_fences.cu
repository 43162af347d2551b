// Each writer fences its own stores, a block barrier follows, and an elected thread, which has no fence of its own
// behind the barrier, issues the TMA store.
// rule: none
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [32, 32], fill = "index"},
  {name = "out", type = "u32", shape = [32, 32], output = true, expect = "argument:in"},
  {name = "out_map", tensor_map = "out", box = [32, 32]},
]
*/
#include "../ptx.cuh"

DEVICE bool elected() {
  uint32_t chosen;
  asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(chosen)::"memory");
  return chosen != 0;
}

extern "C" __global__ void store_tile(const uint32_t* in, uint32_t*, const __grid_constant__ TensorMap out_map) {
  __shared__ alignas(128) uint32_t tile[1024];
  for (uint32_t i = threadIdx.x; i < 1024; i += 128) tile[i] = in[i];
  fence_async_shared();
  __syncthreads();
  if (warp_id() == 2 && elected()) {
    tma_store(&out_map, 0, 0, tile);
    bulk_commit();
    bulk_wait<0>();
  }
}
