// Every tcgen05 helper, for one CTA and for a pair, so that ptxas sees each form of each instruction. Compiled only.
#include "tcgen05.cuh"
#include "testing.cuh"

namespace {

template <int kCtas>
__global__ void __launch_bounds__(128) forms(uint32_t* out, const void* map, uint64_t a, uint64_t b) {
  __shared__ uint32_t slot;
  __shared__ alignas(16) uint4 answer;
  __shared__ alignas(8) uint64_t done;
  __shared__ alignas(128) uint32_t tile[32];
  constexpr uint32_t kF16 = umma_instruction(128, 128, 1, 1), kTf32 = umma_instruction(128, 128, 2, 2),
                     kFp8 = umma_instruction(128, 128, 0, 1, false, true);
  constexpr uint32_t kInt8 = umma_instruction(128, 128, 1, 1) & ~(3u << 4) | 2u << 4;
  constexpr uint32_t kMx8 = umma_scaled_instruction(128, 128, 0, 0, true, 0, 0),
                     kNv4 = umma_scaled_instruction(128, 128, 1, 1, false, 2, 1);
  if (warp_id() == 0) {
    tmem_alloc<kCtas>(smem(&slot), 512);
    tmem_relinquish<kCtas>();
  }
  if (threadIdx.x == 0) {
    mbar_init(smem(&done), 1);
    mbar_init_fence();
  }
  tcgen05_fence_before();
  __syncthreads();
  tcgen05_fence_after();
  const uint32_t tmem = slot, quarter = tmem_at(tmem, threadIdx.x / 32 * 32, 0);
  float f8[8], f16[16], f32[32], f64[64];
  uint32_t u16[16] = {}, u32[32] = {}, u64[64] = {};
  tmem_load(f8, quarter);
  tmem_load(f16, quarter + 8);
  tmem_load(f32, quarter + 32);
  tmem_load(f64, quarter + 64);
  tmem_load_wait();
  tmem_store(quarter, f8);
  tmem_store(quarter + 8, f16);
  tmem_store(quarter + 32, f32);
  tmem_store(quarter + 64, u16);
  tmem_store(quarter + 96, u32);
  tmem_store(quarter + 128, u64);
  tmem_store_wait();
  out[threadIdx.x] = __float_as_uint(f64[threadIdx.x % 2]);
  tcgen05_fence_before();
  __syncthreads();
  tcgen05_fence_after();
  if (threadIdx.x == 0 && cluster_rank() == pair_leader()) {
    tmem_copy<kCtas>(tmem, umma_k(smem(tile)));
    tmem_copy_scales<kCtas>(tmem + 256, umma_mn<64>(smem(tile), 128));
    tmem_shift_down<kCtas>(tmem);
    umma_f16<kCtas>(tmem, a, b, kF16, false);
    umma_f16_ts<kCtas>(tmem, tmem + 256, b, kF16, true);
    umma_tf32<kCtas>(tmem, a, b, kTf32, false);
    umma_tf32_ts<kCtas>(tmem, tmem + 256, b, kTf32, true);
    umma_f8f6f4<kCtas>(tmem, a, b, kFp8, false);
    umma_f8f6f4_ts<kCtas>(tmem, tmem + 256, b, kFp8, true);
    umma_i8<kCtas>(tmem, a, b, kInt8, false);
    umma_i8_ts<kCtas>(tmem, tmem + 256, b, kInt8, true);
    umma_mxf8f6f4<kCtas>(tmem, a, b, kMx8, tmem + 256, tmem + 260, true);
    umma_mxf4<kCtas>(tmem, a, b, kNv4, tmem + 256, tmem + 260, true);
    umma_mxf4nvf4<kCtas>(tmem, a, b, kNv4, tmem + 256, tmem + 260, true);
    umma_commit<kCtas>(smem(&done));
    umma_commit_multicast<kCtas>(smem(&done), 3);
    if constexpr (kCtas == 2) tma_load_pair(smem(tile), map, map_to_cta(smem(&done), pair_leader()), 0, 0);
    steal_work(smem(&answer), smem(&done));
    out[0] = stolen_block(smem(&answer));
  }
  __syncthreads();
  if (warp_id() == 0) tmem_dealloc<kCtas>(tmem, 512);
}

// What the descriptors' bits must be, spelled out.
static_assert(umma_instruction(128, 256, 1, 1) == 0x08400490u, "bf16, fp32 sums, M = 128, N = 256");
static_assert(umma_instruction(256, 128, 0, 0, false, true) == (0x10u << 24 | 0x10u << 17 | 1u << 16 | 1u << 4), "pair");

}  // namespace

int main() {
  void (*one)(uint32_t*, const void*, uint64_t, uint64_t) = forms<1>;
  void (*two)(uint32_t*, const void*, uint64_t, uint64_t) = forms<2>;
  std::printf("compiled: %d\n", one != nullptr && two != nullptr);
  return 0;
}
