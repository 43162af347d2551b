// One lane arrives for all lanes of its warp that selected something. Where no lane did, it arrives with count zero,
// which is not allowed; and the barrier must expect one arrival per warp.
// rule: mbarrier.count
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void pick(const uint32_t* in, uint32_t* out) {
  __shared__ uint64_t done;
#ifdef FAULTY
  if (threadIdx.x == 0) mbar_init(&done, 32);
#else
  if (threadIdx.x == 0) mbar_init(&done, 2);
#endif
  __syncthreads();
  const uint32_t selected = __popc(__ballot_sync(0xffffffffu, in[threadIdx.x] >= 32));
#ifdef FAULTY
  if (lane_id() == 0) mbar_arrive_count(&done, selected);  // FAULT
#else
  if (lane_id() == 0) mbar_arrive_count(&done, 1);
#endif
  mbar_wait(&done, 0);
  out[threadIdx.x] = selected <= 32 ? in[threadIdx.x] : 0;
}
