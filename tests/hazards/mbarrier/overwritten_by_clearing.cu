// The loop that clears the accumulators runs over the whole structure, barrier included.
// rule: mbarrier.overwritten
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "value:4"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "value:4"},
]
*/
#include "../ptx.cuh"

struct State {
  uint32_t sums[32];
  uint64_t done;
};

extern "C" __global__ void sums(const uint32_t* in, uint32_t* out) {
  __shared__ State state;
  if (lane_id() == 0) mbar_init(&state.done, 32);
  __syncwarp();
#ifdef FAULTY
  constexpr uint32_t words = sizeof(State) / 4;
#else
  constexpr uint32_t words = sizeof(State::sums) / 4;
#endif
  for (uint32_t i = lane_id(); i < words; i += 32) reinterpret_cast<uint32_t*>(&state)[i] = 0;  // OTHER
  __syncwarp();
  atomicAdd(&state.sums[lane_id()], in[lane_id()]);
  mbar_arrive(&state.done);  // FAULT
  mbar_wait(&state.done, 0);
  out[lane_id()] = state.sums[lane_id()];
}
