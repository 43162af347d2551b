// Attention backward: from Q, K, V, O, dO [B, H, S, D] in bf16 and L [B, H, S] in fp32, the natural logarithm of the
// sum of exp(scale * Q K^T), to dQ, dK and dV in bf16; scale = 1 / sqrt(D), D = 64 or 128, S any positive length. With
// ATTENTION_CAUSAL defined as 1, query i has seen the keys up to i.
//
//   P = exp(scale * Q K^T - L)    dV = P^T dO    dS = P * (dO V^T - delta)    dQ = scale * dS K    dK = scale * dS^T Q
//
// delta is the sum over a row of O * dO. Three kernels, without atomics and without memory of their own:
//   1. delta, kept for a while at the start of each head's part of dQ, which is written last;
//   2. dK and dV: a CTA owns 128 keys and walks over the queries. Scores are computed transposed, keys by queries, so
//      that P^T and dS^T are register operands of the wgmma that make dV and dK;
//   3. dQ: a CTA owns 128 queries and walks over the keys; dS is a register operand.
// P is computed twice, seven products instead of five, in exchange for sums that stay in registers from beginning to
// end.
//
// Both main kernels have a producer warp that keeps a ring of blocks filled by TMA and two consumer warpgroups with 64
// rows each. A consumer issues the products that use up one block together with the scores of the next, and while it
// computes exponentials, the other has the tensor cores.

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

#ifndef ATTENTION_CAUSAL
#define ATTENTION_CAUSAL 0
#endif

namespace attention_backward {

constexpr bool kCausal = ATTENTION_CAUSAL != 0;

constexpr int kGroupThreads = 128;
constexpr int kGroups = 2;  // consumer warpgroups
constexpr int kThreads = (1 + kGroups) * kGroupThreads;
constexpr int kWarps = kGroups * kGroupThreads / 32;  // of consumers
constexpr int kGroupRows = 64;                        // of one consumer warpgroup, the M of wgmma
constexpr int kTileRows = kGroups * kGroupRows;       // keys or queries that a CTA owns
constexpr int kWarpRows = 16;
constexpr int kSpanCols = 64;                  // 128 bytes of bf16: one span of the 128-byte swizzle
constexpr uint32_t kRowBytes = 2 * kSpanCols;  // of one row in shared memory
constexpr uint32_t kAtomBytes = 1024;          // alignment of the swizzle pattern

// Registers: 168 per thread at launch; then 24 + 2 * 240 = 3 * 168.
constexpr int kProducerRegisters = 24;
constexpr int kConsumerRegisters = 240;

constexpr double kLog2e = 1.4426950408889634;

constexpr uint32_t kSharedLimit = 227 * 1024;
constexpr uint32_t kStaticBytes = 4096;  // more than either kernel declares

template <int kDim>
struct Shape {
  static constexpr double kScale = kDim == 64 ? 0.125 : 0.08838834764831844;
  static constexpr float kScaleLog2 = static_cast<float>(kScale * kLog2e);
  static constexpr int kSpans = kDim / kSpanCols;
  static constexpr uint32_t kGroupBytes = kSpans * kGroupRows * kRowBytes;  // 64 rows of any input
  // The kernel for dK and dV: K and V of the tile, then a ring of blocks of Q and dO.
#ifdef ATTENTION_QUERIES
  static constexpr int kQueries = ATTENTION_QUERIES;
#else
  static constexpr int kQueries = kDim == 64 ? 128 : 64;
#endif
  static constexpr int kQueryStages = kQueries == 64 ? 4 : 3;
  static constexpr uint32_t kQueryBytes = kSpans * kQueries * kRowBytes;
  static constexpr uint32_t kQueryStageBytes = 2 * kQueryBytes;
  static constexpr uint32_t kSharedBytesKv = 2 * kGroups * kGroupBytes + kQueryStages * kQueryStageBytes + kAtomBytes;
  // The kernel for dQ: Q and dO of the tile, then a ring of blocks of K and V.
#ifdef ATTENTION_KEYS
  static constexpr int kKeys = ATTENTION_KEYS;
#else
  static constexpr int kKeys = kDim == 64 ? 128 : 64;
#endif
  static constexpr uint32_t kBlockSpanBytes = kKeys * kRowBytes;
  static constexpr uint32_t kBlockBytes = kSpans * kBlockSpanBytes;
  static constexpr uint32_t kKeyStageBytes = 2 * kBlockBytes;
  static constexpr int kKeyStages =
      2 * kGroups * kGroupBytes + 3 * kKeyStageBytes + kAtomBytes + kStaticBytes <= kSharedLimit ? 3 : 2;
  static constexpr uint32_t kSharedBytesQ = 2 * kGroups * kGroupBytes + kKeyStages * kKeyStageBytes + kAtomBytes;
  static_assert(kKeys % 16 == 0 && kQueries % 32 == 0, "whole steps of wgmma, whole rounds of the producer's lanes");
  static_assert(kTileRows % kQueries == 0 || !kCausal, "the first block of a tile begins where the tile does");
  static_assert(kSharedBytesKv + kStaticBytes <= kSharedLimit && kSharedBytesQ + kStaticBytes <= kSharedLimit);
};

// ---- PTX ------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits until the phase of the given parity has completed.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  do {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}

// Starts the copy of one box into shared memory; (col, row, head) is its first element. Completion counts on `barrier`.
__device__ __forceinline__ void load_box(uint32_t destination, const CUtensorMap* map, int col, int row, int head,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];"
      :
      : "r"(destination), "l"(map), "r"(col), "r"(row), "r"(head), "r"(barrier)
      : "memory");
}

// Starts the store of one box and commits it as a bulk group of its own.
__device__ __forceinline__ void store_box(const CUtensorMap* map, int col, int row, int head, uint32_t source) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];"
               :
               : "l"(map), "r"(col), "r"(row), "r"(head), "r"(source)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ void wait_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

__device__ __forceinline__ void store_matrices(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1),
               "r"(r2), "r"(r3)
               : "memory");
}

__device__ __forceinline__ uint32_t pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ __forceinline__ float exp2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int kLeftInFlight>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeftInFlight) : "memory");
}

// Keeps the compiler from moving accesses to the registers across this point: it does not know that wgmma works on
// them between its issue and the wait.
template <int kCount>
__device__ __forceinline__ void pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

template <int kCount>
__device__ __forceinline__ void pin(uint32_t (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

// Matrix descriptor of an operand with rows of 128 bytes under the 128-byte swizzle; eight rows make an atom of 1024
// bytes. K-major (Q, K: a row is 64 elements along the reduction): atoms follow each other along M or N, and a step of
// 16 along the reduction moves the start address by 32 bytes. MN-major (V: a row is 64 elements along N): atoms follow
// each other along the reduction, a step of 16 is two of them, and the next 64 elements along N are `leading_bytes` on.
__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t address, uint32_t leading_bytes = 16) {
  constexpr uint64_t kStrideOffset = kAtomBytes >> 4;
  constexpr uint64_t kSwizzle128 = 1;
  return static_cast<uint64_t>(address >> 4) | static_cast<uint64_t>(leading_bytes >> 4) << 16 | kStrideOffset << 32 |
         kSwizzle128 << 62;
}

// Operand lists of wgmma, eight accumulator registers at a time.
#define ATTENTION_LIST_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define ATTENTION_LIST_16 ATTENTION_LIST_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define ATTENTION_LIST_24 ATTENTION_LIST_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define ATTENTION_LIST_32 ATTENTION_LIST_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define ATTENTION_LIST_40 ATTENTION_LIST_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define ATTENTION_LIST_48 ATTENTION_LIST_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define ATTENTION_LIST_56 ATTENTION_LIST_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define ATTENTION_LIST_64 ATTENTION_LIST_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define ATTENTION_REGISTERS_8(access, i)                                                                  \
  access(d[i]), access(d[i + 1]), access(d[i + 2]), access(d[i + 3]), access(d[i + 4]), access(d[i + 5]), \
      access(d[i + 6]), access(d[i + 7])
#define ATTENTION_REGISTERS_16(access, i) ATTENTION_REGISTERS_8(access, i), ATTENTION_REGISTERS_8(access, i + 8)
#define ATTENTION_REGISTERS_32(access, i) ATTENTION_REGISTERS_16(access, i), ATTENTION_REGISTERS_16(access, i + 16)
#define ATTENTION_REGISTERS_64(access, i) ATTENTION_REGISTERS_32(access, i), ATTENTION_REGISTERS_32(access, i + 32)
#define ATTENTION_REGISTERS_40(access, i) ATTENTION_REGISTERS_32(access, i + 0), ATTENTION_REGISTERS_8(access, i + 32)
#define ATTENTION_REGISTERS_48(access, i) ATTENTION_REGISTERS_32(access, i + 0), ATTENTION_REGISTERS_16(access, i + 32)
#define ATTENTION_REGISTERS_56(access, i) \
  ATTENTION_REGISTERS_32(access, i + 0), ATTENTION_REGISTERS_16(access, i + 32), ATTENTION_REGISTERS_8(access, i + 48)

// One k16 step, for n columns in `count` registers a thread; the operands after those are numbered `a`, `b`.
//   start: D[64,n] = A[64,16] * B[n,16]^T, both from shared memory      add: the same, added to D
template <int kCols>
struct Scores;

#define ATTENTION_SCORES(n, count, a, b)                                                                               \
  template <>                                                                                                          \
  struct Scores<n> {                                                                                                   \
    static __device__ __forceinline__ void start(float (&d)[count], uint64_t a_matrix, uint64_t b_matrix) {            \
      asm volatile(                                                                                                    \
          "{\n.reg .pred keep;\nsetp.ne.b32 keep, 0, 0;\n"                                                             \
          "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" ATTENTION_LIST_##count "}, " a ", " b           \
                                                                                              ", keep, 1, 1, 0, 0;\n}" \
          : ATTENTION_REGISTERS_##count("=f", 0)                                                                       \
          : "l"(a_matrix), "l"(b_matrix));                                                                             \
    }                                                                                                                  \
    static __device__ __forceinline__ void add(float (&d)[count], uint64_t a_matrix, uint64_t b_matrix) {              \
      asm volatile(                                                                                                    \
          "{\n.reg .pred keep;\nsetp.eq.b32 keep, 0, 0;\n"                                                             \
          "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" ATTENTION_LIST_##count "}, " a ", " b           \
                                                                                              ", keep, 1, 1, 0, 0;\n}" \
          : ATTENTION_REGISTERS_##count("+f", 0)                                                                       \
          : "l"(a_matrix), "l"(b_matrix));                                                                             \
    }                                                                                                                  \
  };
ATTENTION_SCORES(64, 32, "%32", "%33")
ATTENTION_SCORES(80, 40, "%40", "%41")
ATTENTION_SCORES(96, 48, "%48", "%49")
ATTENTION_SCORES(112, 56, "%56", "%57")
ATTENTION_SCORES(128, 64, "%64", "%65")

// D[64,n] += A[64,16] * B[16,n], A from registers and B MN-major in shared memory.
#define ATTENTION_OUTPUT(n, count, a0, a1, a2, a3, b)                                                  \
  __device__ __forceinline__ void add_output(float(&d)[count], const uint32_t* a, uint64_t b_matrix) { \
    asm volatile(                                                                                      \
        "{\n.reg .pred keep;\nsetp.eq.b32 keep, 0, 0;\n"                                               \
        "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" ATTENTION_LIST_##count            \
        "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b ", keep, 1, 1, 1;\n}"                                \
        : ATTENTION_REGISTERS_##count("+f", 0)                                                         \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_matrix));                                  \
  }
ATTENTION_OUTPUT(64, 32, "%32", "%33", "%34", "%35", "%36")
ATTENTION_OUTPUT(128, 64, "%64", "%65", "%66", "%67", "%68")

// ---- What both main kernels do --------------------------------------------------------------------------------------

// Position in a ring of stages. `parity` is that of the phase in which the ring is being walked.
template <int kStages>
struct RingPosition {
  uint32_t stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

struct Problem {
  int length;  // S, of queries and keys alike
  int tiles_per_head;
};

__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x) % 32; }
__device__ __forceinline__ int warp_in_group() { return static_cast<int>(threadIdx.x) / 32 % 4; }

// Hands a stage back; the lanes of this warp have read what they needed.
__device__ __forceinline__ void release(uint32_t barrier) {
  __syncwarp();
  if (lane_index() == 0) barrier_arrive(barrier);
}

// Copies kRows rows, box by box.
template <int kDim, int kRows = kGroupRows>
__device__ __forceinline__ void load_rows(uint32_t destination, const CUtensorMap* map, int row, int head,
                                          uint32_t barrier) {
#pragma unroll
  for (int span = 0; span < Shape<kDim>::kSpans; ++span) {
    load_box(destination + span * (kRows * kRowBytes), map, span * kSpanCols, row, head, barrier);
  }
}

// d = A B^T over D, A with 64 rows and B with kCols, both as they were loaded.
template <int kDim, int kCols>
__device__ __forceinline__ void issue_scores(float (&d)[kCols / 2], uint32_t a_rows, uint32_t b_rows) {
  const uint64_t a = matrix_descriptor(a_rows);
  const uint64_t b = matrix_descriptor(b_rows);
#pragma unroll
  for (int span = 0; span < Shape<kDim>::kSpans; ++span) {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint64_t a_step = a + span * (kGroupRows * kRowBytes / 16) + 2 * step;
      const uint64_t b_step = b + span * (kCols * kRowBytes / 16) + 2 * step;
      if (span + step == 0) {
        Scores<kCols>::start(d, a_step, b_step);
      } else {
        Scores<kCols>::add(d, a_step, b_step);
      }
    }
  }
}

// d += A B, A in registers with kRows columns and B with as many rows, as they were loaded.
template <int kRows, int kCount>
__device__ __forceinline__ void issue_product(float (&d)[kCount], const uint32_t (&a)[kRows / 4], uint32_t b_rows) {
  const uint64_t b = matrix_descriptor(b_rows, kRows * kRowBytes);
#pragma unroll
  for (int step = 0; step < kRows / 16; ++step) add_output(d, a + 4 * step, b + step * (2 * kAtomBytes / 16));
}

// An accumulator as operand A.
template <int kCount>
__device__ __forceinline__ void make_operand(uint32_t (&a)[kCount / 2], const float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) a[i] = pack(d[2 * i], d[2 * i + 1]);
}

// Stores the 16 rows of this warp, times `scale`, by way of `staging` (its own) and TMA, which leaves out rows beyond
// S.
template <int kDim>
__device__ __forceinline__ void store_rows(const float (&d)[kDim / 2], float scale, const CUtensorMap* map, int row,
                                           int head, uint32_t staging) {
  const uint32_t lane = static_cast<uint32_t>(lane_index());
  // Lane 8i + r gives stmatrix the address of row r of block i: rows 0-7 and 8-15 of eight columns, then of the next.
  const uint32_t line = lane / 8 % 2 * 8 + lane % 8;
  const uint32_t chunk = lane / 16;  // 16-byte chunk inside the 32 bytes of one stmatrix
#pragma unroll
  for (uint32_t span = 0; span < Shape<kDim>::kSpans; ++span) {
#pragma unroll
    for (uint32_t g = 0; g < kSpanCols / 16; ++g) {
      const uint32_t i = span * (kSpanCols / 2) + 8 * g;
      store_matrices(
          staging + span * (kWarpRows * kRowBytes) + line * kRowBytes + (((2 * g + chunk) ^ (line % 8)) * 16),
          pack(scale * d[i], scale * d[i + 1]), pack(scale * d[i + 2], scale * d[i + 3]),
          pack(scale * d[i + 4], scale * d[i + 5]), pack(scale * d[i + 6], scale * d[i + 7]));
    }
  }
  // Every writer makes its writes visible to the copy engine before the warp hands over to the issuing lane.
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  if (lane == 0) {
#pragma unroll
    for (int span = 0; span < Shape<kDim>::kSpans; ++span) {
      store_box(map, span * kSpanCols, row, head, staging + span * (kWarpRows * kRowBytes));
    }
  }
}

// A block barrier among the threads of one consumer warpgroup; barrier 0 is left to __syncthreads.
__device__ __forceinline__ void group_sync(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(kGroupThreads) : "memory");
}

// Read from lane 0, so that the compiler knows it to be the same in the whole warp and may use uniform registers.
__device__ __forceinline__ int warpgroup_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
}

template <int kStages>
__device__ __forceinline__ void init_barriers(uint32_t tile, uint32_t full, uint32_t empty) {
  if (threadIdx.x == 0) {
    barrier_init(tile, 1);
    for (uint32_t stage = 0; stage < kStages; ++stage) {
      barrier_init(full + 8 * stage, 1);
      barrier_init(empty + 8 * stage, kWarps);
    }
    // The copy engine works on the barriers too, through the async proxy.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
}

// Eight bf16 products of 16 bytes each, summed.
__device__ __forceinline__ float dot(uint4 x, uint4 y) {
  const uint32_t a[4] = {x.x, x.y, x.z, x.w};
  const uint32_t b[4] = {y.x, y.y, y.z, y.w};
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(__uint_as_float(a[i] << 16), __uint_as_float(b[i] << 16), sum);
    sum = fmaf(__uint_as_float(a[i] & 0xffff0000u), __uint_as_float(b[i] & 0xffff0000u), sum);
  }
  return sum;
}

// ---- delta ----------------------------------------------------------------------------------------------------------

constexpr int kDeltaThreads = 256;

// A row by kDim / 8 threads. The sums of a head stand one after the other where its dQ will begin.
template <int kDim>
__global__ void __launch_bounds__(kDeltaThreads)
    delta_kernel(const __nv_bfloat16* o, const __nv_bfloat16* d_o, __nv_bfloat16* d_q, int64_t rows, int length) {
  constexpr int kLanes = kDim / 8;
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kDeltaThreads + threadIdx.x) / kLanes;
  const int column = static_cast<int>(threadIdx.x) % kLanes * 8;
  float sum = 0.0f;
  if (row < rows) {
    sum = dot(*reinterpret_cast<const uint4*>(o + row * kDim + column),
              *reinterpret_cast<const uint4*>(d_o + row * kDim + column));
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (row < rows && column == 0) {
    const int64_t head = row / length;
    reinterpret_cast<float*>(d_q + head * length * kDim)[row - head * length] = sum;
  }
}

// ---- dK and dV ------------------------------------------------------------------------------------------------------

template <int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    keys_kernel(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap do_map,
                const __grid_constant__ CUtensorMap dk_map, const __grid_constant__ CUtensorMap dv_map,
                const float* lse, const __nv_bfloat16* d_q, Problem problem) {
  using S = Shape<kDim>;
  constexpr int kStages = S::kQueryStages;
  constexpr int kQueries = S::kQueries;
  extern __shared__ unsigned char dynamic[];
  __shared__ __align__(8) uint64_t barriers[1 + 2 * kStages];
  // For each query of a block: L in powers of two, and delta.
  __shared__ __align__(8) float statistics[kStages][2][kQueries];

  const uint32_t tile_full = shared_address(barriers);
  const uint32_t full = tile_full + 8;
  const uint32_t empty = full + 8 * kStages;
  const uint32_t keys = (shared_address(dynamic) + kAtomBytes - 1) & ~(kAtomBytes - 1);
  const uint32_t values = keys + kGroups * S::kGroupBytes;
  const uint32_t ring = values + kGroups * S::kGroupBytes;
  const int head = static_cast<int>(blockIdx.x) / problem.tiles_per_head;
  const int key0 = (static_cast<int>(blockIdx.x) - head * problem.tiles_per_head) * kTileRows;
  const int blocks = (problem.length + kQueries - 1) / kQueries;
  const int first_block = kCausal ? key0 / kQueries : 0;
  init_barriers<kStages>(tile_full, full, empty);

  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    if (threadIdx.x >= 32) return;
    const int lane = lane_index();
    if (lane == 0) {
      barrier_arrive_expecting(tile_full, 2 * kGroups * S::kGroupBytes);
      for (int group = 0; group < kGroups; ++group) {
        load_rows<kDim>(keys + group * S::kGroupBytes, &k_map, key0 + group * kGroupRows, head, tile_full);
        load_rows<kDim>(values + group * S::kGroupBytes, &v_map, key0 + group * kGroupRows, head, tile_full);
      }
    }
    const float* lse_row = lse + static_cast<int64_t>(head) * problem.length;
    const auto* delta_row = reinterpret_cast<const float*>(d_q + static_cast<int64_t>(head) * problem.length * kDim);
    RingPosition<kStages> at;
    for (int block = first_block; block < blocks; ++block) {
      float l[kQueries / 32];
      float delta[kQueries / 32];
#pragma unroll
      for (int i = 0; i < kQueries / 32; ++i) {
        const int query = block * kQueries + lane + 32 * i;
        const bool exists = query < problem.length;
        // Minus infinity is what remains of a query beyond S.
        l[i] = exists ? lse_row[query] * static_cast<float>(kLog2e) : __int_as_float(0x7f800000);
        delta[i] = exists ? delta_row[query] : 0.0f;
      }
      // Nobody has released a fresh barrier yet, but waiting for the parity before its first phase returns at once.
      barrier_wait(empty + 8 * at.stage, at.parity ^ 1);
#pragma unroll
      for (int i = 0; i < kQueries / 32; ++i) {
        statistics[at.stage][0][lane + 32 * i] = l[i];
        statistics[at.stage][1][lane + 32 * i] = delta[i];
      }
      __syncwarp();
      if (lane == 0) {
        const uint32_t stage = ring + at.stage * S::kQueryStageBytes;
        barrier_arrive_expecting(full + 8 * at.stage, S::kQueryStageBytes);
        load_rows<kDim, kQueries>(stage, &q_map, block * kQueries, head, full + 8 * at.stage);
        load_rows<kDim, kQueries>(stage + S::kQueryBytes, &do_map, block * kQueries, head, full + 8 * at.stage);
      }
      at.advance();
    }
    return;
  }

  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
  const int group = warpgroup - 1;
  const int pair = lane_index() % 4 * 2;  // the first of this lane's columns among each eight
  const int warp_key = key0 + group * kGroupRows + kWarpRows * warp_in_group();
  const int key = warp_key + lane_index() / 4;  // of the first of this thread's two rows
  const uint32_t own_keys = keys + static_cast<uint32_t>(group) * S::kGroupBytes;
  const uint32_t own_values = values + static_cast<uint32_t>(group) * S::kGroupBytes;
  float dk[kDim / 2];
  float dv[kDim / 2];
#pragma unroll
  for (int i = 0; i < kDim / 2; ++i) dk[i] = dv[i] = 0.0f;
  float p[kQueries / 2];   // scores, then probabilities, keys by queries
  float ds[kQueries / 2];  // dO V^T, then dS, likewise
  uint32_t p_operand[kQueries / 4];
  uint32_t ds_operand[kQueries / 4];

  barrier_wait(tile_full, 0);
  RingPosition<kStages> at;
  uint32_t previous = 0;
  pin(dk);
  pin(dv);
  for (int block = first_block; block < blocks; ++block) {
    const uint32_t queries = ring + at.stage * S::kQueryStageBytes;
    barrier_wait(full + 8 * at.stage, at.parity);
    wgmma_fence();
    issue_scores<kDim, kQueries>(p, own_keys, queries);
    wgmma_commit();
    // The products of the block before must give up their operands before there are registers for more.
    wgmma_wait<1>();
    pin(dk);
    pin(dv);
    if (block > first_block) release(empty + 8 * previous);
    wgmma_fence();
    issue_scores<kDim, kQueries>(ds, own_values, queries + S::kQueryBytes);
    wgmma_commit();
    wgmma_wait<1>();
    pin(p);

#pragma unroll
    for (int i = 0; i < kQueries / 2; i += 4) {
      const float2 l = *reinterpret_cast<const float2*>(&statistics[at.stage][0][2 * i + pair]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        p[i + 2 * half] = exp2_approx(fmaf(p[i + 2 * half], S::kScaleLog2, -l.x));
        p[i + 2 * half + 1] = exp2_approx(fmaf(p[i + 2 * half + 1], S::kScaleLog2, -l.y));
      }
    }
    if (kCausal && block * kQueries < key0 + (group + 1) * kGroupRows) {
#pragma unroll
      for (int i = 0; i < kQueries / 2; ++i) {
        if (2 * (i & ~3) + i % 2 < key + i / 2 % 2 * 8 - block * kQueries - pair) p[i] = 0.0f;
      }
    }
    wgmma_wait<0>();
    pin(ds);
#pragma unroll
    for (int i = 0; i < kQueries / 2; i += 4) {
      const float2 delta = *reinterpret_cast<const float2*>(&statistics[at.stage][1][2 * i + pair]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        ds[i + 2 * half] = p[i + 2 * half] * (ds[i + 2 * half] - delta.x);
        ds[i + 2 * half + 1] = p[i + 2 * half + 1] * (ds[i + 2 * half + 1] - delta.y);
      }
    }
    make_operand(p_operand, p);
    make_operand(ds_operand, ds);
    pin(p_operand);
    pin(ds_operand);
    wgmma_fence();
    issue_product<kQueries>(dv, p_operand, queries + S::kQueryBytes);
    issue_product<kQueries>(dk, ds_operand, queries);
    wgmma_commit();
    previous = at.stage;
    at.advance();
  }
  wgmma_wait<0>();
  pin(dk);
  pin(dv);
  // The last stages are not refilled, so nobody waits for their release.

  // This warpgroup alone has read its rows of K and V; its results take their places.
  group_sync(group);
  const uint32_t offset = static_cast<uint32_t>(warp_in_group()) * (S::kSpans * kWarpRows * kRowBytes);
  store_rows<kDim>(dk, static_cast<float>(S::kScale), &dk_map, warp_key, head, own_keys + offset);
  store_rows<kDim>(dv, 1.0f, &dv_map, warp_key, head, own_values + offset);
  if (lane_index() == 0) wait_stores_done();
}

// ---- dQ -------------------------------------------------------------------------------------------------------------

template <int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    queries_kernel(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                   const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap do_map,
                   const __grid_constant__ CUtensorMap dq_map, const float* lse, const __nv_bfloat16* o,
                   const __nv_bfloat16* d_o, Problem problem) {
  using S = Shape<kDim>;
  constexpr int kStages = S::kKeyStages;
  constexpr int kScores = S::kKeys / 2;
  extern __shared__ unsigned char dynamic[];
  __shared__ __align__(8) uint64_t barriers[1 + 2 * kStages];

  const uint32_t tile_full = shared_address(barriers);
  const uint32_t full = tile_full + 8;
  const uint32_t empty = full + 8 * kStages;
  const uint32_t queries = (shared_address(dynamic) + kAtomBytes - 1) & ~(kAtomBytes - 1);
  const uint32_t gradients = queries + kGroups * S::kGroupBytes;
  const uint32_t ring = gradients + kGroups * S::kGroupBytes;
  const int head = static_cast<int>(blockIdx.x) / problem.tiles_per_head;
  const int place = static_cast<int>(blockIdx.x) - head * problem.tiles_per_head;
  // If causal, long tiles first.
  const int query0 = (kCausal ? problem.tiles_per_head - 1 - place : place) * kTileRows;
  const int end = kCausal ? min(problem.length, query0 + kTileRows) : problem.length;
  const int blocks = (end + S::kKeys - 1) / S::kKeys;
  init_barriers<kStages>(tile_full, full, empty);

  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    if (threadIdx.x != 0) return;
    barrier_arrive_expecting(tile_full, 2 * kGroups * S::kGroupBytes);
    for (int group = 0; group < kGroups; ++group) {
      load_rows<kDim>(queries + group * S::kGroupBytes, &q_map, query0 + group * kGroupRows, head, tile_full);
      load_rows<kDim>(gradients + group * S::kGroupBytes, &do_map, query0 + group * kGroupRows, head, tile_full);
    }
    RingPosition<kStages> at;
    for (int block = 0; block < blocks; ++block) {
      barrier_wait(empty + 8 * at.stage, at.parity ^ 1);
      const uint32_t stage = ring + at.stage * S::kKeyStageBytes;
      barrier_arrive_expecting(full + 8 * at.stage, S::kKeyStageBytes);
#pragma unroll
      for (int span = 0; span < S::kSpans; ++span) {
        const uint32_t box = stage + span * S::kBlockSpanBytes;
        load_box(box, &k_map, span * kSpanCols, block * S::kKeys, head, full + 8 * at.stage);
        load_box(box + S::kBlockBytes, &v_map, span * kSpanCols, block * S::kKeys, head, full + 8 * at.stage);
      }
      at.advance();
    }
    return;
  }

  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
  const int group = warpgroup - 1;
  const int pair = lane_index() % 4 * 2;  // the first of this lane's columns among each eight
  const int warp_query = query0 + group * kGroupRows + kWarpRows * warp_in_group();
  const uint32_t own_queries = queries + static_cast<uint32_t>(group) * S::kGroupBytes;
  const uint32_t own_gradients = gradients + static_cast<uint32_t>(group) * S::kGroupBytes;

  // Of this thread's two rows: L in powers of two, delta (by the four lanes that share them) and the last key they see.
  float l[2];
  float delta[2];
  int last[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = warp_query + lane_index() / 4 + 8 * half;
    const bool exists = query < problem.length;
    const int64_t row = static_cast<int64_t>(head) * problem.length + query;
    l[half] = exists ? lse[row] * static_cast<float>(kLog2e) : 0.0f;
    delta[half] = 0.0f;
#pragma unroll
    for (int i = 0; i < kDim / 32; ++i) {
      const int64_t at = row * kDim + 32 * i + 4 * pair;
      if (exists) {
        delta[half] += dot(*reinterpret_cast<const uint4*>(o + at), *reinterpret_cast<const uint4*>(d_o + at));
      }
    }
    delta[half] += __shfl_xor_sync(0xffffffffu, delta[half], 1);
    delta[half] += __shfl_xor_sync(0xffffffffu, delta[half], 2);
    last[half] = kCausal ? min(query, problem.length - 1) : problem.length - 1;
  }
  // Blocks from here on reach beyond S or, if causal, beyond the warpgroup's first query.
  const int masked = (kCausal ? min(query0 + group * kGroupRows + 1, problem.length) : problem.length) / S::kKeys;

  float dq[kDim / 2];
#pragma unroll
  for (int i = 0; i < kDim / 2; ++i) dq[i] = 0.0f;
  float p[kScores];   // scores, then probabilities
  float ds[kScores];  // dO V^T, then dS
  uint32_t ds_operand[kScores / 2];

  barrier_wait(tile_full, 0);
  RingPosition<kStages> at;
  uint32_t previous = 0;
  pin(dq);
  for (int block = 0; block < blocks; ++block) {
    const uint32_t keys = ring + at.stage * S::kKeyStageBytes;
    barrier_wait(full + 8 * at.stage, at.parity);
    wgmma_fence();
    issue_scores<kDim, S::kKeys>(p, own_queries, keys);
    wgmma_commit();
    issue_scores<kDim, S::kKeys>(ds, own_gradients, keys + S::kBlockBytes);
    wgmma_commit();
    wgmma_wait<1>();  // and with the scores, the product of the block before
    pin(p);
    pin(dq);
    if (block > 0) release(empty + 8 * previous);

#pragma unroll
    for (int i = 0; i < kScores; ++i) p[i] = exp2_approx(fmaf(p[i], S::kScaleLog2, -l[i / 2 % 2]));
    if (block >= masked) {
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        if (2 * (i & ~3) + i % 2 > last[i / 2 % 2] - block * S::kKeys - pair) p[i] = 0.0f;
      }
    }
    wgmma_wait<0>();
    pin(ds);
#pragma unroll
    for (int i = 0; i < kScores; ++i) ds[i] = p[i] * (ds[i] - delta[i / 2 % 2]);
    make_operand(ds_operand, ds);
    pin(ds_operand);
    wgmma_fence();
    issue_product<S::kKeys>(dq, ds_operand, keys);
    wgmma_commit();
    previous = at.stage;
    at.advance();
  }
  wgmma_wait<0>();
  pin(dq);

  // This warpgroup alone has read its rows of Q; its results take their place.
  group_sync(group);
  store_rows<kDim>(dq, static_cast<float>(S::kScale), &dq_map, warp_query, head,
                   own_queries + static_cast<uint32_t>(warp_in_group()) * (S::kSpans * kWarpRows * kRowBytes));
  if (lane_index() == 0) wait_stores_done();
}

// ---- Host -----------------------------------------------------------------------------------------------------------

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << what << ": " << cudaGetErrorString(status);
}

// cuTensorMapEncodeTiled lives in the driver; asking the runtime for it spares the candidate a link with libcuda.
PFN_cuTensorMapEncodeTiled_v12000 encode_function() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
        "look-up of cuTensorMapEncodeTiled");
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    TVM_FFI_THROW(RuntimeError) << "the driver has no cuTensorMapEncodeTiled";
  }
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

// Describes [heads, length, dim] in bf16 cut into boxes of `box_rows` rows of one head and 64 columns. With heads as a
// dimension of its own, a box that reaches beyond the last row is clipped instead of running into the next head.
CUtensorMap make_tensor_map(const char* name, void* data, int64_t heads, int64_t length, int64_t dim,
                            uint32_t box_rows) {
  CUtensorMap map;
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(dim), static_cast<cuuint64_t>(length),
                               static_cast<cuuint64_t>(heads)};
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(dim) * sizeof(__nv_bfloat16),
                                 static_cast<cuuint64_t>(dim * length) * sizeof(__nv_bfloat16)};
  const cuuint32_t box[3] = {kSpanCols, box_rows, 1};
  const cuuint32_t element_strides[3] = {1, 1, 1};
  const CUresult status = encode_function()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, data, sizes, strides, box,
                                            element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    TVM_FFI_THROW(RuntimeError) << "cuTensorMapEncodeTiled for " << name << " failed with code "
                                << static_cast<int>(status);
  }
  return map;
}

void* checked_tensor(const tvm::ffi::TensorView& t, const char* name, const tvm::ffi::TensorView& like, int dimensions,
                     int type, int bits) {
  const DLDataType dtype = t.dtype();
  if (t.device().device_type != kDLCUDA) TVM_FFI_THROW(ValueError) << name << " must be a CUDA tensor";
  if (dtype.code != type || dtype.bits != bits || dtype.lanes != 1) {
    TVM_FFI_THROW(TypeError) << name << " must be " << (bits == 16 ? "bfloat16" : "float32");
  }
  if (t.ndim() != dimensions) TVM_FFI_THROW(ValueError) << name << " must have " << dimensions << " dimensions";
  for (int i = 0; i < dimensions; ++i) {
    if (t.size(i) != like.size(i)) {
      TVM_FFI_THROW(ValueError) << name << " has size " << t.size(i) << " in dimension " << i << ", Q has "
                                << like.size(i);
    }
  }
  if (!t.is_contiguous()) TVM_FFI_THROW(ValueError) << name << " must be contiguous";
  return static_cast<char*>(t.data_ptr()) + t.byte_offset();
}

struct Tensors {
  __nv_bfloat16 *q, *k, *v, *o, *d_o;
  float* lse;
  __nv_bfloat16 *d_q, *d_k, *d_v;
};

template <int kDim>
void launch(const Tensors& t, int64_t heads, int64_t length, cudaStream_t stream) {
  using S = Shape<kDim>;
  const auto map = [&](const char* name, void* data, uint32_t box_rows) {
    return make_tensor_map(name, data, heads, length, kDim, box_rows);
  };
  const int64_t rows = heads * length;
  const int64_t tiles_per_head = (length + kTileRows - 1) / kTileRows;
  const int64_t delta_blocks = (rows * (kDim / 8) + kDeltaThreads - 1) / kDeltaThreads;
  if (length > (1 << 30) || heads * tiles_per_head > (1 << 30) || delta_blocks > (1 << 30)) {
    TVM_FFI_THROW(ValueError) << "too large: B * H = " << heads << ", S = " << length;
  }
  const Problem problem{static_cast<int>(length), static_cast<int>(tiles_per_head)};
  const auto tiles = static_cast<unsigned>(heads * tiles_per_head);

  delta_kernel<kDim>
      <<<static_cast<unsigned>(delta_blocks), kDeltaThreads, 0, stream>>>(t.o, t.d_o, t.d_q, rows, problem.length);
  check(cudaGetLastError(), "launch of the delta kernel");

  check(cudaFuncSetAttribute(keys_kernel<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytesKv),
        "shared memory of the kernel for dK and dV");
  keys_kernel<kDim><<<tiles, kThreads, S::kSharedBytesKv, stream>>>(
      map("Q", t.q, S::kQueries), map("K", t.k, kGroupRows), map("V", t.v, kGroupRows), map("dO", t.d_o, S::kQueries),
      map("dK", t.d_k, kWarpRows), map("dV", t.d_v, kWarpRows), t.lse, t.d_q, problem);
  check(cudaGetLastError(), "launch of the kernel for dK and dV");

  check(cudaFuncSetAttribute(queries_kernel<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytesQ),
        "shared memory of the kernel for dQ");
  queries_kernel<kDim><<<tiles, kThreads, S::kSharedBytesQ, stream>>>(
      map("Q", t.q, kGroupRows), map("K", t.k, S::kKeys), map("V", t.v, S::kKeys), map("dO", t.d_o, kGroupRows),
      map("dQ", t.d_q, kWarpRows), t.lse, t.o, t.d_o, problem);
  check(cudaGetLastError(), "launch of the kernel for dQ");
}

void run(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, tvm::ffi::TensorView o,
         tvm::ffi::TensorView d_o, tvm::ffi::TensorView l, tvm::ffi::TensorView d_q, tvm::ffi::TensorView d_k,
         tvm::ffi::TensorView d_v) {
  const auto bf16 = [&](const tvm::ffi::TensorView& tensor, const char* name) {
    return static_cast<__nv_bfloat16*>(checked_tensor(tensor, name, q, 4, kDLBfloat, 16));
  };
  Tensors t;
  t.q = bf16(q, "Q");
  t.k = bf16(k, "K");
  t.v = bf16(v, "V");
  t.o = bf16(o, "O");
  t.d_o = bf16(d_o, "dO");
  t.lse = static_cast<float*>(checked_tensor(l, "L", q, 3, kDLFloat, 32));
  t.d_q = bf16(d_q, "dQ");
  t.d_k = bf16(d_k, "dK");
  t.d_v = bf16(d_v, "dV");
  const int64_t heads = q.size(0) * q.size(1);
  const int64_t length = q.size(2);
  if (heads == 0 || length == 0) return;
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(q.device().device_type, q.device().device_id));
  switch (q.size(3)) {
    case 64:
      return launch<64>(t, heads, length, stream);
    case 128:
      return launch<128>(t, heads, length, stream);
    default:
      TVM_FFI_THROW(ValueError) << "D is " << q.size(3) << "; this kernel does 64 and 128";
  }
}

}  // namespace attention_backward

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, attention_backward::run);
