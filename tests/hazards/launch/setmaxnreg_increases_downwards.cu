// setmaxnreg.inc to fewer registers than the launch bounds give each thread (128 of 512): three warpgroups must ask for
// what the first one gave up.
// rule: launch.setmaxnreg (engine)
/* launch
block = 512
argument = [
  {name = "in", type = "u32", shape = [384], fill = "index"},
  {name = "out", type = "u32", shape = [384], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(512, 1) share_out(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[384];
  if (warp_id() < 4) {
    registers_dec<56>();
    for (uint32_t i = threadIdx.x; i < 384; i += 128) tile[i] = in[i];
    named_arrive(1, 512);
  } else {
#ifdef FAULTY
    registers_inc<104>();  // FAULT
#else
    registers_inc<152>();
#endif
    named_sync(1, 512);
    out[threadIdx.x - 128] = tile[threadIdx.x - 128];
  }
}
