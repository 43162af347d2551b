// A tile is filled with zeros by wide stores of the first warp, then every thread stores its element; nothing orders
// the fill before the elements (the class of tile-ai/tilelang #2699 and #2703, where the fill is st.bulk and the
// barrier was left out).
// rule: race.shared
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void fill_and_store(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[64];
  if (threadIdx.x < 16) reinterpret_cast<uint4*>(tile)[threadIdx.x] = make_uint4(0, 0, 0, 0);  // OTHER
#ifdef FAULTY
  __syncwarp();
#else
  __syncthreads();
#endif
  tile[threadIdx.x] = in[threadIdx.x];  // FAULT
  __syncthreads();
  out[threadIdx.x ^ 32] = tile[threadIdx.x ^ 32];
}
