// Streaming loads through the read-only path (ld.global.nc.v4) of data that another CTA of the same grid produced. The
// flag orders them, the path does not: only coherent loads may follow it.
// rule: race.readonly
/* launch
grid = 2
block = 32
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "data", type = "u32", shape = [128]},
  {name = "flag", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

DEVICE uint4 load_once(const uint4* p) {
  uint4 v;
#ifdef FAULTY
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
#else
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
#endif
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}

extern "C" __global__ void hand_off(const uint4* in, uint4* data, uint32_t* flag, uint4* out) {
  if (blockIdx.x == 0) {
    data[lane_id()] = in[lane_id()];  // OTHER
    __syncwarp();
    if (lane_id() == 0) st_release(flag, 1);
  } else {
    if (lane_id() == 0) {
      while (ld_acquire(flag) == 0) {
      }
    }
    __syncwarp();
    out[lane_id()] = load_once(&data[lane_id()]);  // FAULT
  }
}
