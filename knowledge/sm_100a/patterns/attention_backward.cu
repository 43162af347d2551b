// dQ, dK, dV of attention, [B,H,S,128] bf16, any S, from Q, K, V, O, dO and L (natural-log LSE). All sums stay in tensor
// memory, P and dS are operands from there. -DCAUSAL=1 for the causal mask.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include "host.cuh"
#include "tcgen05.cuh"
#include "tma.cuh"

#ifndef CAUSAL
#define CAUSAL 0
#endif
// region plan
constexpr int kDim = 128, kBlock = 128, kThreads = 256;
constexpr uint32_t kTileBytes = 128 * kDim * 2;  // 128 rows of any tensor: two boxes of 64 columns
constexpr uint32_t kSharedBytes = 6 * kTileBytes + 1024;
constexpr float kScale = 0.08838834764831845f, kLog2e = 1.4426950408889634f, kScaleLog2 = kScale * kLog2e;
constexpr uint32_t kScores = umma_instruction(128, 128, 1, 1);                // both K-major
constexpr uint32_t kProduct = umma_instruction(128, 128, 1, 1, false, true);  // B as it lies, MN-major
// Tensor memory: scores and then P (0), dO V^T and then dS (128), two sums (256, 384).

struct Barriers {
  uint64_t tile_full, full[2], empty[2];  // the CTA's own rows; a ring of two stages of two tensors
  uint64_t scores;                        // both score products are there (commit)
  uint64_t weights;                       // P and dS are in tensor memory (128 threads)
  uint64_t done;                          // the products of the block have been added (commit)
};

DEVICE void load_rows(uint32_t tile, const CUtensorMap& map, uint32_t bar, int row, int head) {
  tma_load(tile, &map, bar, 0, row, head);
  tma_load(tile + kTileBytes / 2, &map, bar, 64, row, head);
}
// d = A B^T over D: 128 rows each, both as TMA left them.
DEVICE void issue_scores(uint32_t d, uint32_t a, uint32_t b) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    umma_f16(d, umma_k(a + i / 4 * (kTileBytes / 2)) + i % 4 * 2, umma_k(b + i / 4 * (kTileBytes / 2)) + i % 4 * 2,
             kScores, i > 0);
  }
}
// d += A B: A (128 x 128, bf16) in 64 columns of tensor memory, B 128 rows of 128 columns.
DEVICE void issue_product(uint32_t d, uint32_t a, uint32_t b, bool accumulate) {
#pragma unroll
  for (int i = 0; i < 8; ++i) umma_f16_ts(d, a + 8 * i, umma_mn(b, kTileBytes / 2) + i * 128, kProduct, accumulate || i > 0);
}
// endregion plan

// region delta
// delta = rowsum(O * dO): a warp per row. It lies at the start of each head's part of dQ, which is written last.
__global__ void delta_kernel(const __nv_bfloat16* o, const __nv_bfloat16* d_o, __nv_bfloat16* d_q, int64_t rows,
                             int length) {
  const int64_t row = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int i = 0; i < 2; ++i) {
    const int64_t at = row * kDim + 64 * i + 2 * lane_id();
    const float2 x = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(o + at));
    const float2 y = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(d_o + at));
    sum += x.x * y.x + x.y * y.y;
  }
  for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
  const int64_t head = row / length;
  if (lane_id() == 0) reinterpret_cast<float*>(d_q + head * length * kDim)[row - head * length] = sum;
}
// endregion delta

// region roles
struct Shared {
  uint32_t own, ring;  // two tensors of the CTA's own rows; two stages of two tensors
};

// The first two maps are of the tensors whose rows this CTA owns, the others are walked over.
DEVICE void produce(const CUtensorMap& own_a, const CUtensorMap& own_b, const CUtensorMap& walk_a,
                    const CUtensorMap& walk_b, Barriers& bar, Shared s, int row, int head, int first, int blocks) {
  mbar_arrive_expect(smem(&bar.tile_full), 2 * kTileBytes);
  load_rows(s.own, own_a, smem(&bar.tile_full), row, head);
  load_rows(s.own + kTileBytes, own_b, smem(&bar.tile_full), row, head);
  Ring<2> at;
  for (int block = first; block < blocks; ++block) {
    mbar_wait(smem(&bar.empty[at.stage]), at.parity ^ 1);
    const uint32_t full = smem(&bar.full[at.stage]), stage = s.ring + at.stage * 2 * kTileBytes;
    mbar_arrive_expect(full, 2 * kTileBytes);
    load_rows(stage, walk_a, full, block * kBlock, head);
    load_rows(stage + kTileBytes, walk_b, full, block * kBlock, head);
    at.advance();
  }
}

// Per block: scores = own_a walk_a^T and own_b walk_b^T; then sums[1] += dS walk_a and, for keys, sums[0] += P walk_b.
template <bool kKeys>
DEVICE void multiply(Barriers& bar, Shared s, uint32_t tmem, int first, int blocks) {
  mbar_wait(smem(&bar.tile_full), 0);
  Ring<2> at;
  for (int block = first; block < blocks; ++block) {
    const uint32_t stage = s.ring + at.stage * 2 * kTileBytes, turn = block - first;
    mbar_wait(smem(&bar.full[at.stage]), at.parity);
    // The products of the block before still read P and dS, which these scores overwrite.
    if (turn > 0) mbar_wait(smem(&bar.done), (turn - 1) % 2);
    tcgen05_fence_after();
    issue_scores(tmem, s.own, stage);
    issue_scores(tmem + 128, s.own + kTileBytes, stage + kTileBytes);
    umma_commit(smem(&bar.scores));
    mbar_wait(smem(&bar.weights), turn % 2);
    tcgen05_fence_after();
    if constexpr (kKeys) issue_product(tmem + 256, tmem, stage + kTileBytes, turn > 0);
    issue_product(tmem + 384, tmem + 128, stage, turn > 0);
    umma_commit(smem(&bar.empty[at.stage]));
    umma_commit(smem(&bar.done));
    at.advance();
  }
}

// Lane r is a row that the CTA owns. P and dS replace the scores, two bf16 to a column.
template <class Weight>
DEVICE void weigh(uint32_t tmem, bool keep_p, Weight weight) {
  for (int col = 0; col < kBlock; col += 32) {
    float s[32], g[32];
    uint32_t p[16], ds[16];
    tmem_load(s, tmem + col);
    tmem_load(g, tmem + 128 + col);
    tmem_load_wait();
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const float2 w = weight(col + i, s[i], g[i]);  // P and dS
      s[i] = w.x;
      g[i] = w.y;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      p[i] = pack_bf16(s[2 * i], s[2 * i + 1]);
      ds[i] = pack_bf16(g[2 * i], g[2 * i + 1]);
    }
    if (keep_p) tmem_store(tmem + col / 2, p);
    tmem_store(tmem + 128 + col / 2, ds);
  }
  tmem_store_wait();
  tcgen05_fence_before();
}

// A sum leaves through shared memory that nobody reads any more; TMA drops rows beyond S.
DEVICE void store_rows(uint32_t sums, float scale, const CUtensorMap& map, uint32_t staging, int row, int head) {
  const uint32_t warp = threadIdx.x / 32 % 4, line = threadIdx.x % 128;
  for (int col = 0; col < kDim; col += 32) {
    float v[32];
    tmem_load(v, sums + col);
    tmem_load_wait();
#pragma unroll
    for (int chunk = 0; chunk < 4; ++chunk) {
      const float* x = v + 8 * chunk;
      store_shared(staging + col / 64 * (kTileBytes / 2) + line * 128 + ((col / 8 % 8 + chunk) ^ line % 8) * 16,
                   make_uint4(pack_bf16(scale * x[0], scale * x[1]), pack_bf16(scale * x[2], scale * x[3]),
                              pack_bf16(scale * x[4], scale * x[5]), pack_bf16(scale * x[6], scale * x[7])));
    }
  }
  fence_async_shared();
  __syncwarp();
  if (lane_id() == 0) {
    tma_store(&map, staging + warp * (32 * 128), 0, row + 32 * warp, head);
    tma_store(&map, staging + kTileBytes / 2 + warp * (32 * 128), 64, row + 32 * warp, head);
    tma_store_commit();
    tma_store_wait<0>();
  }
}

DEVICE uint32_t set_up(Barriers& bar, uint32_t& tmem_slot) {
  if (warp_id() == 0) {
    tmem_alloc(smem(&tmem_slot), 512);
    tmem_relinquish();
  }
  if (threadIdx.x == 0) {
    mbar_init(smem(&bar.tile_full), 1);
    for (int i = 0; i < 2; ++i) {
      mbar_init(smem(&bar.full[i]), 1);
      mbar_init(smem(&bar.empty[i]), 1);
    }
    mbar_init(smem(&bar.scores), 1);
    mbar_init(smem(&bar.weights), 128);
    mbar_init(smem(&bar.done), 1);
    mbar_init_fence();
  }
  tcgen05_fence_before();
  __syncthreads();
  tcgen05_fence_after();
  return tmem_slot;
}

DEVICE void tear_down(uint32_t tmem) {
  __syncwarp();
  tcgen05_fence_before();
  __syncthreads();
  if (warp_id() == 0) tmem_dealloc(tmem, 512);
}
// endregion roles

// region keys
// dK and dV of 128 keys: scores transposed (lane = key), so that P^T and dS^T are the operands of dV and dK.
__global__ void __launch_bounds__(kThreads, 1)
    keys_kernel(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap do_map,
                const __grid_constant__ CUtensorMap dk_map, const __grid_constant__ CUtensorMap dv_map,
                const float* lse, const __nv_bfloat16* d_q, int length) {
  extern __shared__ uint8_t dynamic[];
  __shared__ alignas(8) Barriers bar;
  __shared__ float statistics[2][kBlock];  // L in powers of two, and delta, of the block's queries
  __shared__ uint32_t tmem_slot;
  const Shared s{align_up(smem(dynamic), 1024), align_up(smem(dynamic), 1024) + 2 * kTileBytes};
  const int head = blockIdx.y, key0 = blockIdx.x * 128, blocks = (length + kBlock - 1) / kBlock;
  const int first = CAUSAL ? key0 / kBlock : 0;
  const uint32_t tmem = set_up(bar, tmem_slot), warp = warp_id();
  if (warp == 0) {
    if (lane_id() == 0) produce(k_map, v_map, q_map, do_map, bar, s, key0, head, first, blocks);
  } else if (warp == 1) {
    if (lane_id() == 0) multiply<true>(bar, s, tmem, first, blocks);
  } else if (warp >= 4) {
    const int line = threadIdx.x % 128, key = key0 + line;
    const uint32_t mine = tmem_at(tmem, warp % 4 * 32, 0);
    const float* delta = reinterpret_cast<const float*>(d_q + int64_t(head) * length * kDim);
    for (int block = first; block < blocks; ++block) {
      bar_sync(1, 128);  // everybody has used the statistics of the block before
      const int query = block * kBlock + line;
      statistics[0][line] = query < length ? lse[int64_t(head) * length + query] * kLog2e : INFINITY;
      statistics[1][line] = query < length ? delta[query] : 0.0f;
      bar_sync(1, 128);
      mbar_wait(smem(&bar.scores), (block - first) % 2);
      tcgen05_fence_after();
      weigh(mine, true, [&](int i, float score, float g) {
        const bool seen = !CAUSAL || block * kBlock + i >= key;
        const float p = seen ? exp2_approx(fmaf(score, kScaleLog2, -statistics[0][i])) : 0.0f;
        return make_float2(p, p * (g - statistics[1][i]));
      });
      mbar_arrive(smem(&bar.weights));
    }
    mbar_wait(smem(&bar.done), (blocks - 1 - first) % 2);
    tcgen05_fence_after();
    store_rows(mine + 384, kScale, dk_map, s.own, key0, head);
    store_rows(mine + 256, 1.0f, dv_map, s.own + kTileBytes, key0, head);
  }
  tear_down(tmem);
}
// endregion keys

// region queries
// dQ of 128 queries (lane = query).
__global__ void __launch_bounds__(kThreads, 1)
    queries_kernel(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                   const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap do_map,
                   const __grid_constant__ CUtensorMap dq_map, const float* lse, const __nv_bfloat16* o,
                   const __nv_bfloat16* d_o, int length) {
  extern __shared__ uint8_t dynamic[];
  __shared__ alignas(8) Barriers bar;
  __shared__ uint32_t tmem_slot;
  const Shared s{align_up(smem(dynamic), 1024), align_up(smem(dynamic), 1024) + 2 * kTileBytes};
  const int head = blockIdx.y, query0 = (CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * 128;
  const int blocks = ((CAUSAL ? min(length, query0 + 128) : length) + kBlock - 1) / kBlock;
  const uint32_t tmem = set_up(bar, tmem_slot), warp = warp_id();
  if (warp == 0) {
    if (lane_id() == 0) produce(q_map, do_map, k_map, v_map, bar, s, query0, head, 0, blocks);
  } else if (warp == 1) {
    if (lane_id() == 0) multiply<false>(bar, s, tmem, 0, blocks);
  } else if (warp >= 4) {
    const int query = query0 + threadIdx.x % 128;
    const int64_t row = int64_t(head) * length + query;
    const uint32_t mine = tmem_at(tmem, warp % 4 * 32, 0);
    const float l = query < length ? lse[row] * kLog2e : 0.0f;
    float delta = 0.0f;
    for (int i = 0; i < kDim && query < length; i += 2) {
      const float2 x = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(o + row * kDim + i));
      const float2 y = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(d_o + row * kDim + i));
      delta += x.x * y.x + x.y * y.y;
    }
    __syncwarp();
    for (int block = 0; block < blocks; ++block) {
      mbar_wait(smem(&bar.scores), block % 2);
      tcgen05_fence_after();
      const int limit = (CAUSAL ? min(query + 1, length) : length) - block * kBlock;
      weigh(mine, false, [&](int i, float score, float g) {
        const float p = i < limit ? exp2_approx(fmaf(score, kScaleLog2, -l)) : 0.0f;
        return make_float2(p, p * (g - delta));
      });
      mbar_arrive(smem(&bar.weights));
    }
    mbar_wait(smem(&bar.done), (blocks - 1) % 2);
    tcgen05_fence_after();
    store_rows(mine + 384, kScale, dq_map, s.own, query0, head);
  }
  tear_down(tmem);
}
// endregion queries

void run(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, tvm::ffi::TensorView o,
         tvm::ffi::TensorView d_o, tvm::ffi::TensorView l, tvm::ffi::TensorView d_q, tvm::ffi::TensorView d_k,
         tvm::ffi::TensorView d_v) {
  const uint64_t heads = q.size(0) * q.size(1), length = q.size(2);
  if (heads == 0 || length == 0) return;
  const auto map = [&](const tvm::ffi::TensorView& t, uint32_t rows) {
    return tensor_map(t.data_ptr(), {kDim, length, heads}, {64, rows, 1});
  };
  const auto bf16 = [](const tvm::ffi::TensorView& t) { return static_cast<__nv_bfloat16*>(t.data_ptr()); };
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(q.device().device_type, q.device().device_id));
  const dim3 tiles((length + 127) / 128, heads);
  delta_kernel<<<(heads * length + 7) / 8, 256, 0, stream>>>(bf16(o), bf16(d_o), bf16(d_q), heads * length, int(length));
  check(cudaGetLastError(), "launch");
  launch(keys_kernel, tiles, kThreads, kSharedBytes, 1, stream, map(q, 128), map(k, 128), map(v, 128), map(d_o, 128),
         map(d_k, 32), map(d_v, 32), static_cast<const float*>(l.data_ptr()),
         static_cast<const __nv_bfloat16*>(bf16(d_q)), int(length));
  launch(queries_kernel, tiles, kThreads, kSharedBytes, 1, stream, map(q, 128), map(k, 128), map(v, 128), map(d_o, 128),
         map(d_q, 32), static_cast<const float*>(l.data_ptr()), static_cast<const __nv_bfloat16*>(bf16(o)),
         static_cast<const __nv_bfloat16*>(bf16(d_o)), int(length));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
