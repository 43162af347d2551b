// Structs with padding are written member by member and copied whole, through shared and global memory: the padding,
// which nobody wrote, is never looked at.
// rule: none
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "scratch", type = "u64", shape = [32], fill = "poison"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

struct Item {
  uint8_t tag;  // three bytes of padding follow
  uint32_t value;
};

DEVICE uint2 load_pair(const void* from) {
  uint2 pair;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(pair.x), "=r"(pair.y) : "r"(smem(from)) : "memory");
  return pair;
}

extern "C" __global__ void move_items(const uint32_t* in, uint2* scratch, uint32_t* out) {
  __shared__ alignas(8) Item items[32];
  volatile Item* own = &items[lane_id()];
  own->tag = static_cast<uint8_t>(in[lane_id()] & 1);
  own->value = in[lane_id()];
  __syncwarp();
  scratch[lane_id()] = load_pair(&items[lane_id() ^ 1]);
  __syncwarp();
  const auto* moved = reinterpret_cast<const volatile Item*>(&scratch[lane_id() ^ 1]);
  const uint32_t value = moved->value;
  out[lane_id()] = moved->tag == (value & 1) ? value : ~0u;
}
