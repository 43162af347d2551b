// Half a warp names one barrier and the other half another, in one instruction. Barriers count whole warps: groups of
// threads that synchronise apart must be whole warps too.
// rule: sync.divergent
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void groups(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[64];
#ifdef FAULTY
  constexpr uint32_t group_size = 16;
#else
  constexpr uint32_t group_size = 32;
#endif
  tile[threadIdx.x] = in[threadIdx.x];
  named_sync(static_cast<int>(1 + threadIdx.x / group_size), 32);  // FAULT
  out[threadIdx.x ^ 15] = tile[threadIdx.x ^ 15];
}
