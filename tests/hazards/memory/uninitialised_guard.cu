// A store is guarded by a flag in shared memory that only the even lanes set.
// rule: memory.uninitialised
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "value:7"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "value:7"},
]
*/
#include "../ptx.cuh"

DEVICE void store_if(uint32_t* to, uint32_t value, uint32_t flag) {
  asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; @p st.global.u32 [%0], %1;}" ::"l"(to), "r"(value), "r"(flag)
               : "memory");
}

extern "C" __global__ void guarded(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t flags[32];
#ifdef FAULTY
  if (lane_id() % 2 == 0) flags[lane_id()] = 1;
#else
  flags[lane_id()] = lane_id() % 2 == 0;
#endif
  __syncwarp();
  out[lane_id()] = 7;
  store_if(&out[lane_id()], in[lane_id()], flags[lane_id()]);  // FAULT
}
