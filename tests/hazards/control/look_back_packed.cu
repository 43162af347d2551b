// Look-back with value and status in one 64-bit word, stored and loaded relaxed: the word carries everything, so
// nothing needs to be ordered around it.
// rule: none
/* launch
grid = 4
block = 32
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "value:1"},
  {name = "states", type = "u64", shape = [4]},
  {name = "out", type = "u32", shape = [4], output = true, expect = "argument:sums"},
  {name = "sums", type = "u32", shape = [4], fill = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void scan(const uint32_t* in, unsigned long long* states, uint32_t* out, const uint32_t*) {
  const uint32_t mine = __reduce_add_sync(0xffffffffu, in[blockIdx.x * 32 + lane_id()]);
  if (lane_id() != 0) return;
  uint64_t before = 0;
  if (blockIdx.x > 0) {
    uint64_t state;
    do {
      asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(state) : "l"(states + blockIdx.x - 1) : "memory");
    } while (state >> 32 == 0);
    before = state & 0xffffffffu;
  }
  const uint64_t state = uint64_t{1} << 32 | (before + mine);
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(states + blockIdx.x), "l"(state) : "memory");
  out[blockIdx.x] = static_cast<uint32_t>(before) / 32;
}
