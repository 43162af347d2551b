// wait_group.read only says that the source is free again. The thread reads what the copy wrote to global memory, for
// which it needs wait_group without .read.
// rule: async.read-wait
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "scratch", type = "u32", shape = [32]},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void round_trip(const uint32_t* in, uint32_t* scratch, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[32];
  tile[lane_id()] = in[lane_id()];
  fence_async_shared();
  __syncwarp();
  if (lane_id() == 0) {
    bulk_store(scratch, tile, sizeof tile);  // OTHER
    bulk_commit();
#ifdef FAULTY
    bulk_wait_read<0>();
#else
    bulk_wait<0>();
#endif
    for (int i = 0; i < 32; ++i) out[i] = scratch[i];  // FAULT
    bulk_wait<0>();
  }
}
