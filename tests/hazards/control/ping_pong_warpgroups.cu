// Two warpgroups take turns with one shared tile, each waiting at its own named barrier until the other has arrived
// there.
// rule: none
/* launch
block = 256
argument = [
  {name = "in", type = "u32", shape = [128], fill = "value:2"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "value:12"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void ping_pong(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[128];
  const int group = static_cast<int>(threadIdx.x / 128);
  const uint32_t t = threadIdx.x % 128;
  if (group == 1) {
    tile[t] = 0;
    named_arrive(1, 256);
  }
  for (int i = 0; i < 3; ++i) {
    named_sync(1 + group, 256);
    // Another element each time, so that the two groups' threads really share.
    tile[(t + i) % 128] += in[t];
    if (group == 0 || i < 2) named_arrive(1 + (group ^ 1), 256);
  }
  if (group == 1) {
    named_sync(3, 128);
    out[t] = tile[t];
  }
}
