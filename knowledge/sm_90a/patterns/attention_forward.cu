// O = softmax(Q K^T / sqrt(128)) V and LSE, [B,H,S,128] bf16, any S. Build with -DCAUSAL=1 for the causal mask, with
// -DOVERLAP=0 for the simpler consumer.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include "host.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef OVERLAP
#define OVERLAP 1
#endif
// region layout
constexpr int kDim = 128, kKeys = 128, kStages = 2, kGroups = 2, kThreads = (1 + kGroups) * 128;
constexpr uint32_t kQueryBytes = 64 * kDim * 2;     // of one warpgroup: two boxes of 64 rows and 64 columns
constexpr uint32_t kBlockBytes = kKeys * kDim * 2;  // of K or V: two boxes of 128 rows and 64 columns
constexpr uint32_t kSharedBytes = kGroups * kQueryBytes + 2 * kStages * kBlockBytes + 1024;
constexpr float kScale = 0.08838834764831845f, kScaleLog2 = kScale * 1.4426950408889634f;

struct Shared {
  uint32_t q, k, v, q_full, k_full, k_empty, v_full, v_empty;
};

// K and V have barriers of their own: scores start before V is there. Blocks of keys run from the last to the first,
// as only the ones walked first can need a mask.
DEVICE void load_block(uint32_t tile, uint32_t full, uint32_t empty, uint32_t parity, const CUtensorMap& map, int row,
                       int head) {
  mbar_wait(empty, parity ^ 1);
  mbar_arrive_expect(full, kBlockBytes);
  tma_load(tile, &map, full, 0, row, head);
  tma_load(tile + kBlockBytes / 2, &map, full, 64, row, head);
}

DEVICE void produce(const CUtensorMap& q_map, const CUtensorMap& k_map, const CUtensorMap& v_map, Shared s, int row,
                    int head, int blocks) {
  mbar_arrive_expect(s.q_full, kGroups * kQueryBytes);
  for (int group = 0; group < kGroups; ++group) {
    for (int half = 0; half < 2; ++half) {
      tma_load(s.q + group * kQueryBytes + half * (kQueryBytes / 2), &q_map, s.q_full, 64 * half, row + 64 * group,
               head);
    }
  }
  Ring<kStages> at;
  for (int block = blocks - 1; block >= 0; --block) {
    const uint32_t tile = at.stage * kBlockBytes, bar = 8 * at.stage;
    load_block(s.k + tile, s.k_full + bar, s.k_empty + bar, at.parity, k_map, block * kKeys, head);
    load_block(s.v + tile, s.v_full + bar, s.v_empty + bar, at.parity, v_map, block * kKeys, head);
    at.advance();
  }
}
// endregion layout

// region products
// s = Q K^T of one block: 64 queries of this warpgroup, 128 keys.
DEVICE void issue_scores(float (&scores)[64], uint32_t q, uint32_t k) {
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < 8; ++i) {  // 16 of D at a time; the second half of D is the second box
    const uint64_t a = descriptor_k(q + i / 4 * (kQueryBytes / 2)) + i % 4 * 2;
    const uint64_t b = descriptor_k(k + i / 4 * (kBlockBytes / 2)) + i % 4 * 2;
    if (i == 0) {
      wgmma_bf16_first(scores, a, b);
    } else {
      wgmma_bf16(scores, a, b, true);
    }
  }
  wgmma_commit();
}
// o += P V: P from registers, V as it lies (rows of keys, so MN-major): kTransB = 1.
DEVICE void issue_output(float (&o)[64], uint32_t (&p)[32], uint32_t v) {
  pin(p);
  pin(o);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < kKeys / 16; ++i) {
    wgmma_bf16_rs<1>(o, p + 4 * i, descriptor_mn(v, kBlockBytes / 2) + i * 128, true);
  }
  wgmma_commit();
}
// endregion products

// region softmax
// Of the thread's two rows (half 0 and 1): registers 4j + 2 half and the next. `sum` covers this thread's columns only.
struct Softmax {
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};

  // Scores become probabilities. Returns whether what was summed before must be multiplied by `factor`: an old maximum
  // does until it is exceeded by 2^8, as all is divided by the sum in the end.
  DEVICE bool update(float (&s)[64], float (&factor)[2]) {
    float largest[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      largest[half] = top[half];
#pragma unroll
      for (int i = 2 * half; i < 64; i += 4) largest[half] = fmaxf(largest[half], fmaxf(s[i], s[i + 1]));
      largest[half] = fmaxf(largest[half], __shfl_xor_sync(0xffffffffu, largest[half], 1));  // the row's four lanes
      largest[half] = fmaxf(largest[half], __shfl_xor_sync(0xffffffffu, largest[half], 2));
    }
    const float step = 8.0f / kScaleLog2;
    const bool raise = __any_sync(0xffffffffu, largest[0] > top[0] + step || largest[1] > top[1] + step);
    float base[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float now = raise ? largest[half] : top[half];
      base[half] = now == -INFINITY ? 0.0f : now * kScaleLog2;  // nothing but masked keys so far: no inf - inf
      if (raise) {
        factor[half] = exp2_approx(fmaf(top[half], kScaleLog2, -base[half]));
        top[half] = now;
        sum[half] *= factor[half];
      }
      float even = 0.0f, odd = 0.0f;
#pragma unroll
      for (int i = 2 * half; i < 64; i += 4) {
        even += s[i] = exp2_approx(fmaf(s[i], kScaleLog2, -base[half]));
        odd += s[i + 1] = exp2_approx(fmaf(s[i + 1], kScaleLog2, -base[half]));
      }
      sum[half] += even + odd;
    }
    return raise;
  }
  // At the end: whole rows, and the natural logarithm of the sum of exp(scale * score).
  DEVICE void finish() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 1);
      sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 2);
    }
  }
  DEVICE float lse(int half) const { return top[half] * kScale + logf(sum[half]); }
};

DEVICE void rescale(float (&o)[64], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) o[i] *= factor[i / 2 % 2];
}

DEVICE void mask(float (&s)[64], int first_row, int first_key, int length) {
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const int query = first_row + accumulator_row(i), key = first_key + accumulator_col(i);
    if (key >= length || (CAUSAL && key > query)) s[i] = -INFINITY;
  }
}
// endregion softmax

#if !OVERLAP
// region simple
// One block after the other: scores, softmax, output.
DEVICE void consume(float (&o)[64], Softmax& softmax, Shared s, uint32_t q, int row, int blocks, int length,
                    uint32_t /*group*/) {
  Ring<kStages> at;
  float scores[64], factor[2];
  uint32_t p[32];
  for (int block = blocks - 1; block >= 0; --block) {
    const uint32_t tile = at.stage * kBlockBytes, bar = 8 * at.stage;
    mbar_wait(s.k_full + bar, at.parity);
    issue_scores(scores, q, s.k + tile);
    wgmma_wait<0>();
    pin(scores);
    if (lane_id() == 0) mbar_arrive(s.k_empty + bar);
    if ((block + 1) * kKeys > (CAUSAL ? min(row + 1, length) : length)) mask(scores, row, block * kKeys, length);
    if (softmax.update(scores, factor)) rescale(o, factor);
    accumulator_to_operand(p, scores);
    mbar_wait(s.v_full + bar, at.parity);
    issue_output(o, p, s.v + tile);
    wgmma_wait<0>();
    pin(o);
    if (lane_id() == 0) mbar_arrive(s.v_empty + bar);
    at.advance();
  }
}
// endregion simple
#else
// region overlapped
// Ping-pong: the two warpgroups issue in turn (barrier 1 + group holds the turn), so that one's softmax runs beside the
// other's products.
DEVICE void turn_wait(uint32_t group) { bar_sync(1 + group, 256); }
DEVICE void turn_pass(uint32_t group) { bar_arrive(1 + (group ^ 1), 256); }

// Scores of one block run together with the output of the block before.
DEVICE void consume(float (&o)[64], Softmax& softmax, Shared s, uint32_t q, int row, int blocks, int length,
                    uint32_t group) {
  Ring<kStages> at_k, at_v;
  float scores[64], factor[2];
  uint32_t p[32];
  const int masked = (CAUSAL ? min(row + 1, length) : length) / kKeys;  // blocks from here on need the mask
  mbar_wait(s.k_full, 0);
  issue_scores(scores, q, s.k);
  wgmma_wait<0>();
  pin(scores);
  if (lane_id() == 0) mbar_arrive(s.k_empty);
  at_k.advance();
  if (blocks - 1 >= masked) mask(scores, row, (blocks - 1) * kKeys, length);
  softmax.update(scores, factor);
  accumulator_to_operand(p, scores);
  if (group == 1) turn_pass(1);  // the first turn of group 0
  for (int block = blocks - 2; block >= 0; --block) {
    mbar_wait(s.k_full + 8 * at_k.stage, at_k.parity);
    turn_wait(group);
    pin(p);
    pin(o);
    issue_scores(scores, q, s.k + at_k.stage * kBlockBytes);
    mbar_wait(s.v_full + 8 * at_v.stage, at_v.parity);
    issue_output(o, p, s.v + at_v.stage * kBlockBytes);
    turn_pass(group);
    wgmma_wait<1>();  // the scores
    pin(scores);
    if (lane_id() == 0) mbar_arrive(s.k_empty + 8 * at_k.stage);
    at_k.advance();
    if (CAUSAL && block >= masked) mask(scores, row, block * kKeys, length);
    const bool raise = softmax.update(scores, factor);
    // ptxas would hoist the next wait above the softmax, which does not depend on it. A branch on the result, never
    // taken, keeps it here.
    if (__any_sync(0xffffffffu, softmax.sum[0] + softmax.sum[1] < 0.0f)) __nanosleep(10);
    wgmma_wait<0>();  // the output
    pin(o);
    pin(scores);  // p was read until here: new operands stay behind
    if (lane_id() == 0) mbar_arrive(s.v_empty + 8 * at_v.stage);
    at_v.advance();
    if (raise) rescale(o, factor);
    accumulator_to_operand(p, scores);
  }
  if (group == 0) turn_wait(0);  // takes the turn that is left over
  mbar_wait(s.v_full + 8 * at_v.stage, at_v.parity);
  issue_output(o, p, s.v + at_v.stage * kBlockBytes);
  wgmma_wait<0>();
  pin(o);
}
// endregion overlapped
#endif

// region epilogue
// The warpgroup's own Q is no longer read: its place takes O, which TMA stores without the rows beyond S.
DEVICE void store(float (&o)[64], Softmax& softmax, const CUtensorMap& o_map, float* lse, uint32_t q, uint32_t group,
                  int row, int head, int length) {
  softmax.finish();
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = row + accumulator_row(2 * half);
    if (lane_id() % 4 == 0 && query < length) lse[int64_t(head) * length + query] = softmax.lse(half);
    factor[half] = 1.0f / softmax.sum[half];
  }
  rescale(o, factor);
  bar_sync(3 + group, 128);  // all four warps are through with Q
  const uint32_t line = threadIdx.x / 32 % 4 * 16 + stmatrix_row(), chunk = stmatrix_chunk();
#pragma unroll
  for (int g = 0; g < 8; ++g) {
    const float* v = o + 8 * g;
    stmatrix(q + g / 4 * (kQueryBytes / 2) + line * 128 + ((g % 4 * 2 + chunk) ^ line % 8) * 16, pack_bf16(v[0], v[1]),
             pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7]));
  }
  fence_async_shared();
  bar_sync(3 + group, 128);
  if (threadIdx.x % 128 == 0) {
    tma_store(&o_map, q, 0, row, head);
    tma_store(&o_map, q + kQueryBytes / 2, 64, row, head);
    tma_store_commit();
    tma_store_wait<0>();
  }
}
// endregion epilogue

// region kernel
__global__ void __launch_bounds__(kThreads, 1)
    attention(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
              const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap o_map, float* lse,
              int length) {
  extern __shared__ uint8_t dynamic[];
  __shared__ alignas(8) uint64_t barriers[1 + 4 * kStages];
  Shared s;
  s.q = align_up(smem(dynamic), 1024);
  s.k = s.q + kGroups * kQueryBytes;
  s.v = s.k + kStages * kBlockBytes;
  s.q_full = smem(barriers);
  s.k_full = s.q_full + 8;
  s.k_empty = s.k_full + 8 * kStages;
  s.v_full = s.k_empty + 8 * kStages;
  s.v_empty = s.v_full + 8 * kStages;
  if (threadIdx.x == 0) {
    mbar_init(s.q_full, 1);
    for (int i = 0; i < kStages; ++i) {
      mbar_init(s.k_full + 8 * i, 1);
      mbar_init(s.v_full + 8 * i, 1);
      mbar_init(s.k_empty + 8 * i, 4 * kGroups);
      mbar_init(s.v_empty + 8 * i, 4 * kGroups);
    }
    mbar_init_fence();
  }
  __syncthreads();

  // If causal, long tiles first.
  const int head = blockIdx.y, tile = (CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * 64 * kGroups;
  const int blocks = ((CAUSAL ? min(length, tile + 64 * kGroups) : length) + kKeys - 1) / kKeys;
  const uint32_t role = warpgroup_id();
  if (role == 0) {
    registers_give<24>();  // 24 + 2 * 240 = 3 * 168
    if (threadIdx.x == 0) produce(q_map, k_map, v_map, s, tile, head, blocks);
  } else {
    registers_take<240>();
    const uint32_t group = role - 1, q = s.q + group * kQueryBytes;
    const int row = tile + 64 * group;
    float o[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) o[i] = 0.0f;
    Softmax softmax;
    mbar_wait(s.q_full, 0);
    consume(o, softmax, s, q, row, blocks, length, group);
    store(o, softmax, o_map, lse, q, group, row, head, length);
  }
}

void run(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, tvm::ffi::TensorView o,
         tvm::ffi::TensorView lse) {
  const uint64_t heads = q.size(0) * q.size(1), length = q.size(2);
  if (heads == 0 || length == 0) return;
  // Heads are a dimension of their own: a box that reaches beyond S is clipped instead of running into the next head.
  const auto map = [&](const tvm::ffi::TensorView& t, uint32_t rows) {
    return tensor_map(t.data_ptr(), {kDim, length, heads}, {64, rows, 1});
  };
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(q.device().device_type, q.device().device_id));
  launch(attention, dim3((length + 127) / 128, heads), kThreads, kSharedBytes, 1, stream, map(q, 64), map(k, kKeys),
         map(v, kKeys), map(o, 64), static_cast<float*>(lse.data_ptr()), int(length));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// endregion kernel
