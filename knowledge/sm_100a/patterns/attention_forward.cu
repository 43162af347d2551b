// O = softmax(Q K^T / sqrt(128)) V and LSE, [B,H,S,128] bf16, any S: two tiles of 128 queries per CTA, so that one's
// softmax runs beside the other's products. -DCAUSAL=1 for the causal mask, -DTRICKS=0 for plain exponentials and a
// rescale after every block.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include "host.cuh"
#include "tcgen05.cuh"
#include "tma.cuh"

#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef TRICKS
#define TRICKS 1
#endif
// region plan
constexpr int kDim = 128, kKeys = 128, kStages = 2, kThreads = 512;
constexpr uint32_t kTileBytes = 128 * kDim * 2;  // 128 rows of Q, K, V or O: two boxes of 64 columns
constexpr uint32_t kSharedBytes = (2 + 2 * kStages) * kTileBytes + 1024;
constexpr float kScale = 0.08838834764831845f, kScaleLog2 = kScale * 1.4426950408889634f;
// Tensor memory, 512 columns: scores of both tiles, outputs of both. Probabilities (bf16, two to a column) take the
// first 64 columns of their scores.
DEVICE uint32_t scores_at(uint32_t tmem, int tile) { return tmem + 128 * tile; }
DEVICE uint32_t output_at(uint32_t tmem, int tile) { return tmem + 256 + 128 * tile; }
constexpr uint32_t kScores = umma_instruction(128, kKeys, 1, 1);             // Q K^T, both K-major
constexpr uint32_t kOutput = umma_instruction(128, kDim, 1, 1, false, true);  // P V: V as it lies, MN-major

struct Barriers {
  uint64_t q_full, k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  uint64_t scores[2];   // the tile's scores are there (commit)
  uint64_t weights[2];  // its probabilities are in tensor memory (128 threads)
  uint64_t factors[2];  // its rows' factors are in shared memory (128 threads)
  uint64_t scaled[2];   // its output has been multiplied by them (128 threads)
  uint64_t output[2];   // its output has been added to (commit)
};

struct Shared {
  uint32_t q, k, v;
};
// endregion plan

// region issue
DEVICE void issue_scores(uint32_t d, uint32_t q, uint32_t k) {
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    umma_f16(d, umma_k(q + i / 4 * (kTileBytes / 2)) + i % 4 * 2, umma_k(k + i / 4 * (kTileBytes / 2)) + i % 4 * 2,
             kScores, i > 0);
  }
}
DEVICE void issue_output(uint32_t d, uint32_t p, uint32_t v, bool accumulate) {
#pragma unroll
  for (int i = 0; i < kKeys / 16; ++i) {  // 16 probabilities are 8 columns
    umma_f16_ts(d, p + 8 * i, umma_mn(v, kTileBytes / 2) + i * 128, kOutput, accumulate || i > 0);
  }
}

// One thread issues all products: of a block, the output of tile 0, the next scores of tile 0, then the same of tile 1.
DEVICE void multiply(Barriers& bar, Shared s, uint32_t tmem, int blocks) {
  Ring<kStages> at_k, at_v;
  mbar_wait(smem(&bar.q_full), 0);
  mbar_wait(smem(&bar.k_full[0]), 0);
  for (int tile = 0; tile < 2; ++tile) {
    issue_scores(scores_at(tmem, tile), s.q + tile * kTileBytes, s.k);
    umma_commit(smem(&bar.scores[tile]));
  }
  umma_commit(smem(&bar.k_empty[0]));
  at_k.advance();
  for (int block = 0; block < blocks; ++block) {
    const bool last = block + 1 == blocks;
    const uint32_t parity = block % 2;
    mbar_wait(smem(&bar.v_full[at_v.stage]), at_v.parity);
    if (!last) mbar_wait(smem(&bar.k_full[at_k.stage]), at_k.parity);
    for (int tile = 0; tile < 2; ++tile) {
      mbar_wait(smem(&bar.weights[tile]), parity);
      mbar_wait(smem(&bar.scaled[tile]), parity);
      tcgen05_fence_after();
      issue_output(output_at(tmem, tile), scores_at(tmem, tile), s.v + at_v.stage * kTileBytes, block > 0);
      umma_commit(smem(&bar.output[tile]));
      if (last) continue;
      // The next scores overwrite the probabilities that the output is still being made from.
      mbar_wait(smem(&bar.output[tile]), parity);
      issue_scores(scores_at(tmem, tile), s.q + tile * kTileBytes, s.k + at_k.stage * kTileBytes);
      umma_commit(smem(&bar.scores[tile]));
    }
    umma_commit(smem(&bar.v_empty[at_v.stage]));
    at_v.advance();
    if (!last) {
      umma_commit(smem(&bar.k_empty[at_k.stage]));
      at_k.advance();
    }
  }
}

DEVICE void load_tile(uint32_t tile, uint32_t full, const CUtensorMap& map, int row, int head) {
  tma_load(tile, &map, full, 0, row, head);
  tma_load(tile + kTileBytes / 2, &map, full, 64, row, head);
}

DEVICE void produce(const CUtensorMap& q_map, const CUtensorMap& k_map, const CUtensorMap& v_map, Barriers& bar,
                    Shared s, int row, int head, int blocks) {
  mbar_arrive_expect(smem(&bar.q_full), 2 * kTileBytes);
  for (int tile = 0; tile < 2; ++tile) load_tile(s.q + tile * kTileBytes, smem(&bar.q_full), q_map, row + 128 * tile, head);
  Ring<kStages> at;
  for (int block = 0; block < blocks; ++block) {
    mbar_wait(smem(&bar.k_empty[at.stage]), at.parity ^ 1);
    mbar_arrive_expect(smem(&bar.k_full[at.stage]), kTileBytes);
    load_tile(s.k + at.stage * kTileBytes, smem(&bar.k_full[at.stage]), k_map, block * kKeys, head);
    mbar_wait(smem(&bar.v_empty[at.stage]), at.parity ^ 1);
    mbar_arrive_expect(smem(&bar.v_full[at.stage]), kTileBytes);
    load_tile(s.v + at.stage * kTileBytes, smem(&bar.v_full[at.stage]), v_map, block * kKeys, head);
    at.advance();
  }
}
// endregion issue

// region softmax
// A warpgroup per tile, a thread per row: no shuffles. Scores are read twice, to keep 128 values out of registers.
// Returns the row's sum; factors[row] carries what the output must be multiplied by, at last 1 / sum.
DEVICE void softmax(Barriers& bar, uint32_t tmem, float* factors, float* lse, int tile, int row, int length, int blocks) {
  const uint32_t scores = tmem_at(scores_at(tmem, tile), threadIdx.x / 32 % 4 * 32, 0);
  float top = -INFINITY, sum = 0.0f;
  for (int block = 0; block < blocks; ++block) {
    mbar_wait(smem(&bar.scores[tile]), block % 2);
    tcgen05_fence_after();
    const int limit = (CAUSAL ? min(row + 1, length) : length) - block * kKeys;  // keys that this row sees in the block
    float largest = top;
    for (int col = 0; col < kKeys; col += 32) {
      float v[32];
      tmem_load(v, scores + col);
      tmem_load_wait();
#pragma unroll
      for (int i = 0; i < 32; ++i) largest = col + i < limit ? fmaxf(largest, v[i]) : largest;
    }
    // An old maximum does until it is exceeded by 2^8: most blocks then need no rescaling.
    const bool raise = !TRICKS || largest > top + 8.0f / kScaleLog2;
    const float now = raise ? largest : top;
    const float base = now == -INFINITY ? 0.0f : now * kScaleLog2;
    const float factor = raise ? exp2_approx(fmaf(top, kScaleLog2, -base)) : 1.0f;
    top = now;
    factors[threadIdx.x % 128] = factor;
    mbar_arrive(smem(&bar.factors[tile]));
    sum *= factor;
    for (int col = 0; col < kKeys; col += 32) {
      float v[32];
      uint32_t p[16];
      tmem_load(v, scores + col);
      tmem_load_wait();
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const float x = fmaf(v[i], kScaleLog2, -base);
        // exp2 is the bottleneck: one in four on the FMA pipes instead.
        v[i] = col + i >= limit ? 0.0f : TRICKS && i % 4 == 3 ? exp2_polynomial(x) : exp2_approx(x);
        sum += v[i];
      }
#pragma unroll
      for (int i = 0; i < 16; ++i) p[i] = pack_bf16(v[2 * i], v[2 * i + 1]);
      tmem_store(scores + col / 2, p);  // over scores that have been read
    }
    tmem_store_wait();
    tcgen05_fence_before();
    mbar_arrive(smem(&bar.weights[tile]));
  }
  // The last factors were used before the last output was made: wait for it before they are overwritten.
  mbar_wait(smem(&bar.output[tile]), (blocks - 1) % 2);
  factors[threadIdx.x % 128] = 1.0f / sum;
  mbar_arrive(smem(&bar.factors[tile]));
  if (row < length) *lse = top * kScale + logf(sum);
}
// endregion softmax

// region correct
// A third warpgroup keeps the outputs of both tiles on their rows' scale, and writes them out in the end.
DEVICE void correct(Barriers& bar, const CUtensorMap& o_map, Shared s, uint32_t tmem, const float (*factors)[128],
                    int row0, int head, int blocks) {
  const uint32_t warp = threadIdx.x / 32 % 4, line = threadIdx.x % 128;
  for (int block = 0; block <= blocks; ++block) {
    for (int tile = 0; tile < 2; ++tile) {
      const uint32_t output = tmem_at(output_at(tmem, tile), warp * 32, 0);
      mbar_wait(smem(&bar.factors[tile]), block % 2);
      const float factor = factors[tile][line];
      if (block > 0) {
        mbar_wait(smem(&bar.output[tile]), (block - 1) % 2);
        tcgen05_fence_after();
      }
      if (block == blocks) {  // the factor is 1 / sum: this tile's Q is no longer read, O takes its place
        for (int col = 0; col < kDim; col += 32) {
          float v[32];
          tmem_load(v, output + col);
          tmem_load_wait();
#pragma unroll
          for (int chunk = 0; chunk < 4; ++chunk) {
            const float* x = v + 8 * chunk;
            store_shared(s.q + tile * kTileBytes + col / 64 * (kTileBytes / 2) + line * 128 +
                             ((col / 8 % 8 + chunk) ^ line % 8) * 16,
                         make_uint4(pack_bf16(factor * x[0], factor * x[1]), pack_bf16(factor * x[2], factor * x[3]),
                                    pack_bf16(factor * x[4], factor * x[5]), pack_bf16(factor * x[6], factor * x[7])));
          }
        }
        fence_async_shared();
        __syncwarp();
        if (lane_id() == 0) {  // 32 rows of each half
          const uint32_t rows = s.q + tile * kTileBytes + warp * (32 * 128);
          tma_store(&o_map, rows, 0, row0 + 128 * tile + warp * 32, head);
          tma_store(&o_map, rows + kTileBytes / 2, 64, row0 + 128 * tile + warp * 32, head);
          tma_store_commit();
        }
        continue;
      }
      if (block > 0 && __any_sync(0xffffffffu, factor != 1.0f)) {
        for (int col = 0; col < kDim; col += 32) {
          float v[32];
          tmem_load(v, output + col);
          tmem_load_wait();
#pragma unroll
          for (int i = 0; i < 32; ++i) v[i] *= factor;
          tmem_store(output + col, v);
        }
        tmem_store_wait();
      }
      tcgen05_fence_before();
      mbar_arrive(smem(&bar.scaled[tile]));
    }
  }
  if (lane_id() == 0) tma_store_wait<0>();
}
// endregion correct

// region kernel
__global__ void __launch_bounds__(kThreads, 1)
    attention(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
              const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap o_map, float* lse,
              int length) {
  extern __shared__ uint8_t dynamic[];
  __shared__ alignas(8) Barriers bar;
  __shared__ float factors[2][128];
  __shared__ uint32_t tmem_slot;
  Shared s;
  s.q = align_up(smem(dynamic), 1024);
  s.k = s.q + 2 * kTileBytes;
  s.v = s.k + kStages * kTileBytes;
  const uint32_t warp = warp_id();
  if (warp == 0) {
    tmem_alloc(smem(&tmem_slot), 512);
    tmem_relinquish();
  }
  if (threadIdx.x == 0) {
    mbar_init(smem(&bar.q_full), 1);
    for (int i = 0; i < kStages; ++i) {
      mbar_init(smem(&bar.k_full[i]), 1);
      mbar_init(smem(&bar.k_empty[i]), 1);
      mbar_init(smem(&bar.v_full[i]), 1);
      mbar_init(smem(&bar.v_empty[i]), 1);
    }
    for (int tile = 0; tile < 2; ++tile) {
      mbar_init(smem(&bar.scores[tile]), 1);
      mbar_init(smem(&bar.weights[tile]), 128);
      mbar_init(smem(&bar.factors[tile]), 128);
      mbar_init(smem(&bar.scaled[tile]), 128);
      mbar_init(smem(&bar.output[tile]), 1);
    }
    mbar_init_fence();
  }
  tcgen05_fence_before();
  __syncthreads();
  tcgen05_fence_after();
  const uint32_t tmem = tmem_slot;

  const int head = blockIdx.y, row0 = (CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * 256;
  const int blocks = ((CAUSAL ? min(length, row0 + 256) : length) + kKeys - 1) / kKeys;
  if (warp == 0) {
    if (lane_id() == 0) produce(q_map, k_map, v_map, bar, s, row0, head, blocks);
  } else if (warp == 1) {
    if (lane_id() == 0) multiply(bar, s, tmem, blocks);
  } else if (warp >= 4 && warp < 12) {
    const int tile = warp / 4 - 1, row = row0 + 128 * tile + threadIdx.x % 128;
    softmax(bar, tmem, factors[tile], lse + int64_t(head) * length + row, tile, row, length, blocks);
  } else if (warp >= 12) {
    correct(bar, o_map, s, tmem, factors, row0, head, blocks);
  }
  __syncwarp();
  tcgen05_fence_before();
  __syncthreads();
  if (warp == 0) tmem_dealloc(tmem, 512);
}
// endregion kernel

void run(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, tvm::ffi::TensorView o,
         tvm::ffi::TensorView lse) {
  const uint64_t heads = q.size(0) * q.size(1), length = q.size(2);
  if (heads == 0 || length == 0) return;
  const auto map = [&](const tvm::ffi::TensorView& t, uint32_t rows) {
    return tensor_map(t.data_ptr(), {kDim, length, heads}, {64, rows, 1});
  };
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(q.device().device_type, q.device().device_id));
  launch(attention, dim3((length + 255) / 256, heads), kThreads, kSharedBytes, 1, stream, map(q, 128), map(k, kKeys),
         map(v, kKeys), map(o, 32), static_cast<float*>(lse.data_ptr()), int(length));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
