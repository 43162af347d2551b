// A tile of sixteen rows of which eight are there goes through the tensor cores. The other eight rows of the product
// depend on what the shared memory held: nothing of them may get into the output.
// rule: memory.uninitialised
/* launch
block = 32
argument = [
  {name = "a", type = "bf16", shape = [8, 16], fill = "identity"},
  {name = "b", type = "bf16", shape = [8, 16], fill = "value:2"},
  {name = "out", type = "f32", shape = [8, 8], output = true, expect = "value:2"},
]
*/
#include "../ptx.cuh"

DEVICE void load_a(uint32_t (&a)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(address)
               : "memory");
}
DEVICE void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void tail_tile(const uint32_t* a, const uint32_t* b, float* out) {
  __shared__ alignas(16) uint32_t tile[16 * 8];
  for (uint32_t i = lane_id(); i < 8 * 8; i += 32) tile[i] = a[i];
  __syncwarp();
  uint32_t fragment[4];
  load_a(fragment, smem(&tile[lane_id() % 16 * 8 + lane_id() / 16 * 4]));  // OTHER
  const uint32_t columns[2] = {b[lane_id() / 4 * 8 + lane_id() % 4], b[lane_id() / 4 * 8 + lane_id() % 4 + 4]};
  float d[4] = {};
  multiply(d, fragment, columns);
  float* row = out + lane_id() / 4 * 8 + lane_id() % 4 * 2;
  row[0] = d[0];
#ifdef FAULTY
  row[1] = d[2] + 2;  // FAULT
#else
  row[1] = d[1];
#endif
}
