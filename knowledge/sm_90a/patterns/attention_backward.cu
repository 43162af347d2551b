// dQ, dK, dV of attention, [B,H,S,128] bf16, any S, from Q, K, V, O, dO and L (natural-log LSE).
// Build with -DCAUSAL=1 for the causal mask.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include "host.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

#ifndef CAUSAL
#define CAUSAL 0
#endif
// region layout
constexpr int kDim = 128, kBlock = 64, kThreads = 3 * 128;
constexpr uint32_t kGroupBytes = 64 * kDim * 2;  // 64 rows of any tensor: two boxes of 64 columns
constexpr float kScale = 0.08838834764831845f, kLog2e = 1.4426950408889634f, kScaleLog2 = kScale * kLog2e;

DEVICE void load_rows(uint32_t tile, const CUtensorMap& map, uint32_t bar, int row, int head) {
  tma_load(tile, &map, bar, 0, row, head);
  tma_load(tile + kGroupBytes / 2, &map, bar, 64, row, head);
}
// d = A B^T over D: 64 rows of A, 64 of B, both as TMA left them.
DEVICE void issue_scores(float (&d)[32], uint32_t a, uint32_t b) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint64_t a_step = descriptor_k(a + i / 4 * (kGroupBytes / 2)) + i % 4 * 2;
    const uint64_t b_step = descriptor_k(b + i / 4 * (kGroupBytes / 2)) + i % 4 * 2;
    if (i == 0) {
      wgmma_bf16_first(d, a_step, b_step);
    } else {
      wgmma_bf16(d, a_step, b_step, true);
    }
  }
}
// d += A B: A (64 x 64) from registers, B 64 rows of 128 columns as TMA left them, so MN-major.
DEVICE void issue_product(float (&d)[64], const uint32_t (&a)[16], uint32_t b) {
#pragma unroll
  for (int i = 0; i < 4; ++i) wgmma_bf16_rs<1>(d, a + 4 * i, descriptor_mn(b, kGroupBytes / 2) + i * 128, true);
}
DEVICE void release(uint32_t empty) {
  __syncwarp();
  if (lane_id() == 0) mbar_arrive(empty);
}
// A warpgroup's 64 rows go out through `staging`, which nobody reads any more.
DEVICE void store_rows(const float (&d)[64], float scale, const CUtensorMap& map, uint32_t staging, int row, int head) {
  const uint32_t line = threadIdx.x / 32 % 4 * 16 + stmatrix_row(), chunk = stmatrix_chunk();
#pragma unroll
  for (int g = 0; g < 8; ++g) {
    const float* v = d + 8 * g;
    stmatrix(staging + g / 4 * (kGroupBytes / 2) + line * 128 + ((g % 4 * 2 + chunk) ^ line % 8) * 16,
             pack_bf16(scale * v[0], scale * v[1]), pack_bf16(scale * v[2], scale * v[3]),
             pack_bf16(scale * v[4], scale * v[5]), pack_bf16(scale * v[6], scale * v[7]));
  }
  fence_async_shared();
  bar_sync(1 + threadIdx.x / 128, 128);
  if (threadIdx.x % 128 == 0) {
    tma_store(&map, staging, 0, row, head);
    tma_store(&map, staging + kGroupBytes / 2, 64, row, head);
    tma_store_commit();
    tma_store_wait<0>();
  }
}
// endregion layout

// region delta
// delta = rowsum(O * dO): a warp per row. It lies at the start of each head's part of dQ, which is written last.
__global__ void delta_kernel(const __nv_bfloat16* o, const __nv_bfloat16* d_o, __nv_bfloat16* d_q, int64_t rows,
                             int length) {
  const int64_t row = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int64_t at = row * kDim + 64 * i + 2 * lane_id();
    const float2 x = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(o + at));
    const float2 y = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(d_o + at));
    sum += x.x * y.x + x.y * y.y;
  }
#pragma unroll
  for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
  const int64_t head = row / length;
  if (lane_id() == 0) reinterpret_cast<float*>(d_q + head * length * kDim)[row - head * length] = sum;
}
// endregion delta

// region barriers
constexpr int kStagesKv = 4, kStagesQ = 3;
constexpr uint32_t kSharedKv = (4 + 2 * kStagesKv) * kGroupBytes + 1024, kSharedQ = (4 + 2 * kStagesQ) * kGroupBytes + 1024;

template <int kStages>
DEVICE void init_barriers(uint64_t (&barriers)[1 + 2 * kStages]) {
  if (threadIdx.x == 0) {
    mbar_init(smem(&barriers[0]), 1);
    for (int i = 0; i < kStages; ++i) {
      mbar_init(smem(&barriers[1 + i]), 1);            // full
      mbar_init(smem(&barriers[1 + kStages + i]), 8);  // empty: one arrival per consumer warp
    }
    mbar_init_fence();
  }
  __syncthreads();
}
// endregion barriers

// region keys
// dK and dV. A CTA owns 128 keys (64 per consumer warpgroup) and walks over blocks of 64 queries. Scores are computed
// transposed, keys by queries, so that P^T and dS^T are the register operands of
//   dV += P^T dO,   dK += dS^T Q,   with P = exp(scale s - L), dS = P * (dO V^T - delta).
__global__ void __launch_bounds__(kThreads, 1)
    keys_kernel(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap do_map,
                const __grid_constant__ CUtensorMap dk_map, const __grid_constant__ CUtensorMap dv_map,
                const float* lse, const __nv_bfloat16* d_q, int length) {
  constexpr int kStages = kStagesKv;
  extern __shared__ uint8_t dynamic[];
  __shared__ alignas(8) uint64_t barriers[1 + 2 * kStages];
  __shared__ alignas(8) float statistics[kStages][2][kBlock];  // L in powers of two, and delta, of a block's queries
  const uint32_t keys = align_up(smem(dynamic), 1024), values = keys + 2 * kGroupBytes, ring = values + 2 * kGroupBytes;
  const uint32_t tile_full = smem(barriers), full = tile_full + 8, empty = full + 8 * kStages;
  const int head = blockIdx.y, key0 = blockIdx.x * 128, blocks = (length + kBlock - 1) / kBlock;
  const int first = CAUSAL ? key0 / kBlock : 0;
  init_barriers<kStages>(barriers);
  const uint32_t role = warpgroup_id();
  if (role == 0) {
    registers_give<24>();
    if (threadIdx.x >= 32) return;
    if (lane_id() == 0) {
      mbar_arrive_expect(tile_full, 4 * kGroupBytes);
      for (int group = 0; group < 2; ++group) {
        load_rows(keys + group * kGroupBytes, k_map, tile_full, key0 + 64 * group, head);
        load_rows(values + group * kGroupBytes, v_map, tile_full, key0 + 64 * group, head);
      }
    }
    const float* delta_row = reinterpret_cast<const float*>(d_q + int64_t(head) * length * kDim);
    Ring<kStages> at;
    for (int block = first; block < blocks; ++block) {
      mbar_wait(empty + 8 * at.stage, at.parity ^ 1);
      for (int i = lane_id(); i < kBlock; i += 32) {
        const int query = block * kBlock + i;
        // A query beyond S counts for nothing: exp2(s - infinity) = 0.
        statistics[at.stage][0][i] = query < length ? lse[int64_t(head) * length + query] * kLog2e : INFINITY;
        statistics[at.stage][1][i] = query < length ? delta_row[query] : 0.0f;
      }
      __syncwarp();  // lane 0's arrival hands over what all lanes wrote
      if (lane_id() == 0) {
        const uint32_t bar = full + 8 * at.stage, stage = ring + at.stage * 2 * kGroupBytes;
        mbar_arrive_expect(bar, 2 * kGroupBytes);
        load_rows(stage, q_map, bar, block * kBlock, head);
        load_rows(stage + kGroupBytes, do_map, bar, block * kBlock, head);
      }
      at.advance();
    }
    return;
  }

  registers_take<240>();
  const uint32_t group = role - 1, own_keys = keys + group * kGroupBytes, own_values = values + group * kGroupBytes;
  const int key_row = key0 + 64 * group;
  float dk[64], dv[64], p[32], ds[32];
  uint32_t p_operand[16], ds_operand[16];
#pragma unroll
  for (int i = 0; i < 64; ++i) dk[i] = dv[i] = 0.0f;
  mbar_wait(tile_full, 0);
  Ring<kStages> at;
  uint32_t previous = 0;
  pin(dk);
  pin(dv);
  for (int block = first; block < blocks; ++block) {
    const uint32_t queries = ring + at.stage * 2 * kGroupBytes;
    mbar_wait(full + 8 * at.stage, at.parity);
    wgmma_fence();
    issue_scores(p, own_keys, queries);
    wgmma_commit();
    wgmma_wait<1>();  // the products of the block before give up their operands and their stage
    pin(dk);
    pin(dv);
    if (block > first) release(empty + 8 * previous);
    wgmma_fence();
    issue_scores(ds, own_values, queries + kGroupBytes);
    wgmma_commit();
    wgmma_wait<1>();
    pin(p);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      p[i] = exp2_approx(fmaf(p[i], kScaleLog2, -statistics[at.stage][0][accumulator_col(i)]));
      if (CAUSAL && block * kBlock + accumulator_col(i) < key_row + accumulator_row(i)) p[i] = 0.0f;
    }
    wgmma_wait<0>();
    pin(ds);
#pragma unroll
    for (int i = 0; i < 32; ++i) ds[i] = p[i] * (ds[i] - statistics[at.stage][1][accumulator_col(i)]);
    accumulator_to_operand(p_operand, p);
    accumulator_to_operand(ds_operand, ds);
    pin(p_operand);
    pin(ds_operand);
    wgmma_fence();
    issue_product(dv, p_operand, queries + kGroupBytes);
    issue_product(dk, ds_operand, queries);
    wgmma_commit();
    previous = at.stage;
    at.advance();
  }
  wgmma_wait<0>();
  pin(dk);
  pin(dv);
  bar_sync(1 + role, 128);  // this warpgroup alone reads its K and V: the results take their places
  store_rows(dk, kScale, dk_map, own_keys, key_row, head);
  store_rows(dv, 1.0f, dv_map, own_values, key_row, head);
}
// endregion keys

// region queries
// dQ = scale dS K. A CTA owns 128 queries and walks over blocks of 64 keys; dS is a register operand.
__global__ void __launch_bounds__(kThreads, 1)
    queries_kernel(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                   const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap do_map,
                   const __grid_constant__ CUtensorMap dq_map, const float* lse, const __nv_bfloat16* o,
                   const __nv_bfloat16* d_o, int length) {
  constexpr int kStages = kStagesQ;
  extern __shared__ uint8_t dynamic[];
  __shared__ alignas(8) uint64_t barriers[1 + 2 * kStages];
  const uint32_t queries = align_up(smem(dynamic), 1024), gradients = queries + 2 * kGroupBytes,
                 ring = gradients + 2 * kGroupBytes;
  const uint32_t tile_full = smem(barriers), full = tile_full + 8, empty = full + 8 * kStages;
  const int head = blockIdx.y, query0 = (CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * 128;
  const int blocks = ((CAUSAL ? min(length, query0 + 128) : length) + kBlock - 1) / kBlock;
  init_barriers<kStages>(barriers);
  const uint32_t role = warpgroup_id();
  if (role == 0) {
    registers_give<24>();
    if (threadIdx.x != 0) return;
    mbar_arrive_expect(tile_full, 4 * kGroupBytes);
    for (int group = 0; group < 2; ++group) {
      load_rows(queries + group * kGroupBytes, q_map, tile_full, query0 + 64 * group, head);
      load_rows(gradients + group * kGroupBytes, do_map, tile_full, query0 + 64 * group, head);
    }
    Ring<kStages> at;
    for (int block = 0; block < blocks; ++block) {
      mbar_wait(empty + 8 * at.stage, at.parity ^ 1);
      const uint32_t bar = full + 8 * at.stage, stage = ring + at.stage * 2 * kGroupBytes;
      mbar_arrive_expect(bar, 2 * kGroupBytes);
      load_rows(stage, k_map, bar, block * kBlock, head);
      load_rows(stage + kGroupBytes, v_map, bar, block * kBlock, head);
      at.advance();
    }
    return;
  }

  registers_take<240>();
  const uint32_t group = role - 1, own_q = queries + group * kGroupBytes, own_do = gradients + group * kGroupBytes;
  const int row0 = query0 + 64 * group;
  float l[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = row0 + accumulator_row(2 * half);
    const int64_t row = int64_t(head) * length + query;
    l[half] = query < length ? lse[row] * kLog2e : 0.0f;
    delta[half] = 0.0f;
    for (int i = lane_id() % 4 * 2; i < kDim && query < length; i += 8) {  // the row's four lanes share the sum
      const float2 x = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(o + row * kDim + i));
      const float2 y = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(d_o + row * kDim + i));
      delta[half] += x.x * y.x + x.y * y.y;
    }
    __syncwarp();
    delta[half] += __shfl_xor_sync(0xffffffffu, delta[half], 1);
    delta[half] += __shfl_xor_sync(0xffffffffu, delta[half], 2);
  }
  float dq[64], p[32], ds[32];
  uint32_t ds_operand[16];
#pragma unroll
  for (int i = 0; i < 64; ++i) dq[i] = 0.0f;
  mbar_wait(tile_full, 0);
  Ring<kStages> at;
  uint32_t previous = 0;
  pin(dq);
  for (int block = 0; block < blocks; ++block) {
    const uint32_t keys = ring + at.stage * 2 * kGroupBytes;
    mbar_wait(full + 8 * at.stage, at.parity);
    wgmma_fence();
    issue_scores(p, own_q, keys);
    wgmma_commit();
    issue_scores(ds, own_do, keys + kGroupBytes);
    wgmma_commit();
    wgmma_wait<1>();  // the scores, and the product of the block before
    pin(p);
    pin(dq);
    if (block > 0) release(empty + 8 * previous);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int key = block * kBlock + accumulator_col(i);
      p[i] = exp2_approx(fmaf(p[i], kScaleLog2, -l[i / 2 % 2]));
      if (key >= length || (CAUSAL && key > row0 + accumulator_row(i))) p[i] = 0.0f;
    }
    wgmma_wait<0>();
    pin(ds);
#pragma unroll
    for (int i = 0; i < 32; ++i) ds[i] = p[i] * (ds[i] - delta[i / 2 % 2]);
    accumulator_to_operand(ds_operand, ds);
    pin(ds_operand);
    wgmma_fence();
    issue_product(dq, ds_operand, keys);
    wgmma_commit();
    previous = at.stage;
    at.advance();
  }
  wgmma_wait<0>();
  pin(dq);
  bar_sync(1 + role, 128);
  store_rows(dq, kScale, dq_map, own_q, row0, head);
}
// endregion queries

void run(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, tvm::ffi::TensorView o,
         tvm::ffi::TensorView d_o, tvm::ffi::TensorView l, tvm::ffi::TensorView d_q, tvm::ffi::TensorView d_k,
         tvm::ffi::TensorView d_v) {
  const uint64_t heads = q.size(0) * q.size(1), length = q.size(2);
  if (heads == 0 || length == 0) return;
  const auto map = [&](const tvm::ffi::TensorView& t) {
    return tensor_map(t.data_ptr(), {kDim, length, heads}, {64, 64, 1});
  };
  const auto bf16 = [](const tvm::ffi::TensorView& t) { return static_cast<__nv_bfloat16*>(t.data_ptr()); };
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(q.device().device_type, q.device().device_id));
  const dim3 tiles((length + 127) / 128, heads);
  // region launches
  delta_kernel<<<(heads * length + 7) / 8, 256, 0, stream>>>(bf16(o), bf16(d_o), bf16(d_q), heads * length, int(length));
  check(cudaGetLastError(), "launch");
  launch(keys_kernel, tiles, kThreads, kSharedKv, 1, stream, map(q), map(k), map(v), map(d_o), map(d_k), map(d_v),
         static_cast<const float*>(l.data_ptr()), static_cast<const __nv_bfloat16*>(bf16(d_q)), int(length));
  launch(queries_kernel, tiles, kThreads, kSharedQ, 1, stream, map(q), map(k), map(v), map(d_o), map(d_q),
         static_cast<const float*>(l.data_ptr()), static_cast<const __nv_bfloat16*>(bf16(o)),
         static_cast<const __nv_bfloat16*>(bf16(d_o)), int(length));
  // endregion launches
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
