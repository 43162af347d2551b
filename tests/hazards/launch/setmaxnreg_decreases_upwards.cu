// setmaxnreg.dec to more registers than the launch bounds give each thread (168 of 384): the producer must give some
// up.
// rule: launch.setmaxnreg (engine)
/* launch
block = 384
argument = [
  {name = "in", type = "u32", shape = [256], fill = "index"},
  {name = "out", type = "u32", shape = [256], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(384, 1) specialise(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[256];
  if (warp_id() >= 8) {
#ifdef FAULTY
    registers_dec<176>();  // FAULT
#else
    registers_dec<24>();
#endif
    for (uint32_t i = threadIdx.x - 256; i < 256; i += 128) tile[i] = in[i];
    named_arrive(1, 384);
  } else {
    registers_inc<240>();
    named_sync(1, 384);
    out[threadIdx.x] = tile[threadIdx.x];
  }
}
