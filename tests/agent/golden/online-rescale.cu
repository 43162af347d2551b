#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>
#include <type_traits>

#ifndef ATTENTION_CAUSAL
#define ATTENTION_CAUSAL 0
#endif

namespace attention_forward {

constexpr bool kCausal = ATTENTION_CAUSAL != 0;

#ifdef ATTENTION_ONLY
constexpr int kOnlyDim = ATTENTION_ONLY;
#else
constexpr int kOnlyDim = 0;
#endif

template <int kDim>
struct Tuning;
template <>
struct Tuning<64> {
  static constexpr int kConsumers = 3;
  static constexpr int kKeys = 128;
  static constexpr int kStages = 2;
};
template <>
struct Tuning<128> {
  static constexpr int kConsumers = 2;
  static constexpr int kKeys = 128;
  static constexpr int kStages = 2;
};

constexpr int kGroupThreads = 128;
constexpr int kGroupRows = 64;
constexpr int kWarpRows = 16;
constexpr int kSpanCols = 64;
constexpr uint32_t kRowBytes = 2 * kSpanCols;
constexpr uint32_t kAtomBytes = 1024;
constexpr uint32_t kSharedLimit = 227 * 1024;
constexpr uint32_t kStaticBytes = 512;
constexpr int64_t kSectionBytes = 24 << 20;

template <int kDim>
struct Shape {
#ifdef ATTENTION_CONSUMERS
  static constexpr int kConsumers = ATTENTION_CONSUMERS;
#else
  static constexpr int kConsumers = Tuning<kDim>::kConsumers;
#endif
#ifdef ATTENTION_KEYS
  static constexpr int kKeys = ATTENTION_KEYS;
#else
  static constexpr int kKeys = Tuning<kDim>::kKeys;
#endif
#ifdef ATTENTION_STAGES
  static constexpr int kStages = ATTENTION_STAGES;
#else
  static constexpr int kStages = Tuning<kDim>::kStages;
#endif
#ifdef ATTENTION_OVERLAP
  static constexpr bool kOverlap = ATTENTION_OVERLAP != 0;
#else
  static constexpr bool kOverlap = kConsumers == 2 || kKeys / 2 + kKeys / 4 + kDim / 2 <= 128;
#endif
#ifdef ATTENTION_TURNS
  static constexpr bool kTurns = ATTENTION_TURNS != 0;
#else
  static constexpr bool kTurns = kOverlap;
#endif
#ifdef ATTENTION_LAZY
  static constexpr bool kLazy = ATTENTION_LAZY != 0;
#else
  static constexpr bool kLazy = true;
#endif
#ifdef ATTENTION_POLYNOMIALS
  static constexpr int kPolynomials = ATTENTION_POLYNOMIALS;
#else
  static constexpr int kPolynomials = 0;
#endif
#ifdef ATTENTION_DYNAMIC
  static constexpr bool kDynamic = ATTENTION_DYNAMIC != 0;
#else
  static constexpr bool kDynamic = kCausal;
#endif

  static constexpr int kTileRows = kConsumers * kGroupRows;
  static constexpr int kThreads = (1 + kConsumers) * kGroupThreads;
  static constexpr int kSpans = kDim / kSpanCols;
  static constexpr int kProducerRegisters = kConsumers == 2 ? 24 : 32;
  static constexpr int kConsumerRegisters = kConsumers == 2 ? 240 : 160;

  static constexpr uint32_t kQueryBytes = kSpans * kGroupRows * kRowBytes;
  static constexpr uint32_t kBlockSpanBytes = kKeys * kRowBytes;
  static constexpr uint32_t kBlockBytes = kSpans * kBlockSpanBytes;
  static constexpr uint32_t kStagingSpanBytes = kWarpRows * kRowBytes;
  static constexpr uint32_t kFixedBytes = kConsumers * kQueryBytes + 2 * kStages * kBlockBytes;
  static constexpr uint32_t kWarps = kConsumers * kGroupThreads / 32;
  static constexpr int kStagingSpans =
      kFixedBytes + kWarps * kSpans * kStagingSpanBytes + kAtomBytes + kStaticBytes <= kSharedLimit ? kSpans : 1;
  static constexpr uint32_t kStagingBytes = kStagingSpans * kStagingSpanBytes;
  static constexpr uint32_t kSharedBytes = kFixedBytes + kWarps * kStagingBytes + kAtomBytes;

  static_assert(kConsumers == 2 || kConsumers == 3);
  static_assert(kKeys % 16 == 0 && kKeys <= 256);
  static_assert(kSharedBytes + kStaticBytes <= kSharedLimit, "shared memory");
};

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

__device__ __forceinline__ void load_box(uint32_t destination, const CUtensorMap* map, int col, int row, int head,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];"
      :
      : "r"(destination), "l"(map), "r"(col), "r"(row), "r"(head), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void store_box(const CUtensorMap* map, int col, int row, int head, uint32_t source) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];"
               :
               : "l"(map), "r"(col), "r"(row), "r"(head), "r"(source)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ void wait_stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

__device__ __forceinline__ void wait_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

__device__ __forceinline__ void store_matrices(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1),
               "r"(r2), "r"(r3)
               : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t address, int value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ int load_shared(uint32_t address) {
  int value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
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

__device__ __forceinline__ float exp2_polynomial(float x) {
  constexpr float kRound = 12582912.0f;
  x = fmaxf(x, -126.0f);
  const float shifted = x + kRound;
  const float rest = x - (shifted - kRound);
  float result = fmaf(rest, 0.0551716691f, 0.2426111222f);
  result = fmaf(result, rest, 0.6932609855f);
  result = fmaf(result, rest, 0.9999280735f);
  return __int_as_float(__float_as_int(result) + (__float_as_int(shifted) << 23));
}

__device__ __forceinline__ void turn_wait(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(2 * kGroupThreads) : "memory");
}

__device__ __forceinline__ void turn_pass(int group) {
  asm volatile("bar.arrive %0, %1;" ::"r"(1 + group), "n"(2 * kGroupThreads) : "memory");
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int kLeftInFlight>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeftInFlight) : "memory");
}

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

__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t address, uint32_t leading_bytes = 16) {
  constexpr uint64_t kStrideOffset = kAtomBytes >> 4;
  constexpr uint64_t kSwizzle128 = 1;
  return static_cast<uint64_t>(address >> 4) | static_cast<uint64_t>(leading_bytes >> 4) << 16 | kStrideOffset << 32 |
         kSwizzle128 << 62;
}

#define ATTENTION_LIST_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define ATTENTION_LIST_16 ATTENTION_LIST_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define ATTENTION_LIST_24 ATTENTION_LIST_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define ATTENTION_LIST_32 ATTENTION_LIST_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define ATTENTION_LIST_40 ATTENTION_LIST_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define ATTENTION_LIST_48 ATTENTION_LIST_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define ATTENTION_LIST_56 ATTENTION_LIST_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define ATTENTION_LIST_64 ATTENTION_LIST_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define ATTENTION_LIST_72 ATTENTION_LIST_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define ATTENTION_LIST_80 ATTENTION_LIST_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define ATTENTION_LIST_88 ATTENTION_LIST_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define ATTENTION_LIST_96 ATTENTION_LIST_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
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
#define ATTENTION_REGISTERS_72(access, i) ATTENTION_REGISTERS_64(access, i + 0), ATTENTION_REGISTERS_8(access, i + 64)
#define ATTENTION_REGISTERS_80(access, i) ATTENTION_REGISTERS_64(access, i + 0), ATTENTION_REGISTERS_16(access, i + 64)
#define ATTENTION_REGISTERS_88(access, i) \
  ATTENTION_REGISTERS_64(access, i + 0), ATTENTION_REGISTERS_16(access, i + 64), ATTENTION_REGISTERS_8(access, i + 80)
#define ATTENTION_REGISTERS_96(access, i) ATTENTION_REGISTERS_64(access, i + 0), ATTENTION_REGISTERS_32(access, i + 64)

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
ATTENTION_SCORES(144, 72, "%72", "%73")
ATTENTION_SCORES(160, 80, "%80", "%81")
ATTENTION_SCORES(176, 88, "%88", "%89")
ATTENTION_SCORES(192, 96, "%96", "%97")

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
  int heads;
  int queries;
  int tiles_per_head;
  int section_heads;

  struct Place {
    int head;
    int row;
  };

  __host__ __device__ __forceinline__ int tiles() const { return heads * tiles_per_head; }

  template <int kTileRows>
  __device__ __forceinline__ Place place(int tile) const {
    if constexpr (kCausal) {
      const int section = tile / (section_heads * tiles_per_head);
      const int inside = tile - section * section_heads * tiles_per_head;
      const int members = min(section_heads, heads - section * section_heads);
      const int step = inside / members;
      return {section * section_heads + inside - step * members, (tiles_per_head - 1 - step) * kTileRows};
    } else {
      const int head = tile / tiles_per_head;
      return {head, (tile - head * tiles_per_head) * kTileRows};
    }
  }

  template <int kTileRows, int kKeys>
  __device__ __forceinline__ int blocks(int row) const {
    const int keys = kCausal ? min(queries, row + kTileRows) : queries;
    return (keys + kKeys - 1) / kKeys;
  }
};

struct Counters {
  unsigned next;
  unsigned finished;
};
__device__ Counters counters;

struct Shared {
  uint32_t queries;
  uint32_t keys;
  uint32_t values;
  uint32_t staging;
  uint32_t queries_full, queries_empty;
  uint32_t keys_full, keys_empty;
  uint32_t values_full, values_empty;
  uint32_t tiles;
};

struct Maps {
  const CUtensorMap *q, *k, *v, *o;
};

template <int kDim>
__device__ __forceinline__ void load_block(RingPosition<Shape<kDim>::kStages>& at, uint32_t ring, uint32_t full,
                                           uint32_t empty, const CUtensorMap* map, int row, int head) {
  using S = Shape<kDim>;
  barrier_wait(empty + 8 * at.stage, at.parity ^ 1);
  barrier_arrive_expecting(full + 8 * at.stage, S::kBlockBytes);
#pragma unroll
  for (int span = 0; span < S::kSpans; ++span) {
    load_box(ring + at.stage * S::kBlockBytes + span * S::kBlockSpanBytes, map, span * kSpanCols, row, head,
             full + 8 * at.stage);
  }
  at.advance();
}

template <int kDim>
__device__ __forceinline__ void produce(const Maps& maps, const Problem& problem, const Shared& shared) {
  using S = Shape<kDim>;
  RingPosition<S::kStages> k_at, v_at;
  uint32_t q_parity = 0;
  int tile = static_cast<int>(blockIdx.x);
  while (true) {
    int next = tile + static_cast<int>(gridDim.x);
    if constexpr (S::kDynamic) {
      if (tile < problem.tiles()) next = static_cast<int>(gridDim.x + atomicAdd(&counters.next, 1u));
    }
    const bool last = tile >= problem.tiles();
    const auto place = problem.place<S::kTileRows>(tile);
    int block = last ? 0 : problem.blocks<S::kTileRows, S::kKeys>(place.row) - 1;

    auto load_keys = [&](int which) {
      load_block<kDim>(k_at, shared.keys, shared.keys_full, shared.keys_empty, maps.k, which * S::kKeys, place.head);
    };
    auto load_values = [&](int which) {
      load_block<kDim>(v_at, shared.values, shared.values_full, shared.values_empty, maps.v, which * S::kKeys,
                       place.head);
    };

    if (!last) load_keys(block);
    for (uint32_t group = 0; group < S::kConsumers; ++group) {
      const uint32_t full = shared.queries_full + 8 * group;
      barrier_wait(shared.queries_empty + 8 * group, q_parity ^ 1);
      store_shared(shared.tiles + 4 * group, last ? -1 : tile);
      if (last) {
        barrier_arrive(full);
        continue;
      }
      barrier_arrive_expecting(full, S::kQueryBytes);
#pragma unroll
      for (int span = 0; span < S::kSpans; ++span) {
        load_box(shared.queries + group * S::kQueryBytes + span * (kGroupRows * kRowBytes), maps.q, span * kSpanCols,
                 place.row + static_cast<int>(group) * kGroupRows, place.head, full);
      }
    }
    if (last) break;
    q_parity ^= 1;
    for (; block > 0; --block) {
      load_keys(block - 1);
      load_values(block);
    }
    load_values(0);
    tile = next;
  }
  if constexpr (S::kDynamic) {
    __threadfence();
    if (atomicAdd(&counters.finished, 1u) == gridDim.x - 1) {
      atomicExch(&counters.next, 0u);
      atomicExch(&counters.finished, 0u);
    }
  }
}

template <int kDim>
struct Softmax {
  static constexpr double kScale = kDim == 64 ? 0.125 : 0.08838834764831844;
  static constexpr float kScaleLog2 = static_cast<float>(kScale * 1.4426950408889634);

  float top[2];
  float sum[2];

  __device__ __forceinline__ void reset() {
    top[0] = top[1] = -__int_as_float(0x7f800000);
    sum[0] = sum[1] = 0.0f;
  }

  template <bool kMasked, int kCount>
  __device__ __forceinline__ bool update(float (&s)[kCount], float (&factor)[2]) {
    float largest[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float even = fmaxf(top[half], s[2 * half]);
      float odd = s[2 * half + 1];
#pragma unroll
      for (int i = 4; i < kCount; i += 4) {
        even = fmaxf(even, s[i + 2 * half]);
        odd = fmaxf(odd, s[i + 2 * half + 1]);
      }
      largest[half] = fmaxf(even, odd);
      largest[half] = fmaxf(largest[half], __shfl_xor_sync(0xffffffffu, largest[half], 1));
      largest[half] = fmaxf(largest[half], __shfl_xor_sync(0xffffffffu, largest[half], 2));
    }
    constexpr float kStep = 8.0f / kScaleLog2;
    const bool raise =
        !Shape<kDim>::kLazy || __any_sync(0xffffffffu, largest[0] - top[0] > kStep || largest[1] - top[1] > kStep);
    float base[2];
    if (raise) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        base[half] = scaled<kMasked>(largest[half]);
        factor[half] = exp2_approx(fmaf(top[half], kScaleLog2, -base[half]));
        top[half] = largest[half];
        sum[half] *= factor[half];
      }
    } else {
      base[0] = scaled<kMasked>(top[0]);
      base[1] = scaled<kMasked>(top[1]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float even_sum = 0.0f;
      float odd_sum = 0.0f;
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        float& a = s[i + 2 * half];
        float& b = s[i + 2 * half + 1];
        const bool by_hand = !kMasked && i / 4 % 8 < Shape<kDim>::kPolynomials;
        a = exp2_approx(fmaf(a, kScaleLog2, -base[half]));
        b = fmaf(b, kScaleLog2, -base[half]);
        b = by_hand ? exp2_polynomial(b) : exp2_approx(b);
        even_sum += a;
        odd_sum += b;
      }
      sum[half] += even_sum + odd_sum;
    }
    return raise;
  }

  template <bool kMasked>
  static __device__ __forceinline__ float scaled(float largest) {
    return kMasked && largest == -__int_as_float(0x7f800000) ? 0.0f : largest * kScaleLog2;
  }

  __device__ __forceinline__ void finish_first() const {
    if (__any_sync(0xffffffffu, sum[0] + sum[1] < 0.0f)) __trap();
  }

  __device__ __forceinline__ void add_up_sums() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 1);
      sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 2);
    }
  }

  __device__ __forceinline__ float log_sum(int half) const {
    return fmaf(top[half], static_cast<float>(kScale), logf(sum[half]));
  }
};

template <int kDim>
struct Consumer {
  using S = Shape<kDim>;
  static constexpr int kScores = S::kKeys / 2;

  const Maps& maps;
  const Problem& problem;
  const Shared& shared;
  float* const lse;
  const int group;
  const int lane;
  const int warp;

  RingPosition<S::kStages> k_at, v_at;
  float s[kScores];
  uint32_t p[kScores / 2];
  float o[kDim / 2];
  Softmax<kDim> softmax;
  float factor[2];

  __device__ __forceinline__ Consumer(const Maps& the_maps, const Problem& the_problem, const Shared& the_shared,
                                      float* the_lse, int the_group)
      : maps(the_maps),
        problem(the_problem),
        shared(the_shared),
        lse(the_lse),
        group(the_group),
        lane(static_cast<int>(threadIdx.x) % 32),
        warp(static_cast<int>(threadIdx.x) / 32 % 4) {}

  __device__ __forceinline__ void release(uint32_t barrier) const {
    if (lane == 0) barrier_arrive(barrier);
  }

  __device__ __forceinline__ void issue_scores() {
    wgmma_fence();
    const uint64_t a = matrix_descriptor(shared.queries + static_cast<uint32_t>(group) * S::kQueryBytes);
    const uint64_t b = matrix_descriptor(shared.keys + k_at.stage * S::kBlockBytes);
#pragma unroll
    for (int span = 0; span < S::kSpans; ++span) {
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const uint64_t a_step = a + span * (kGroupRows * kRowBytes / 16) + 2 * step;
        const uint64_t b_step = b + span * (S::kBlockSpanBytes / 16) + 2 * step;
        if (span + step == 0) {
          Scores<S::kKeys>::start(s, a_step, b_step);
        } else {
          Scores<S::kKeys>::add(s, a_step, b_step);
        }
      }
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void issue_output() {
    pin(p);
    pin(o);
    wgmma_fence();
    const uint64_t b = matrix_descriptor(shared.values + v_at.stage * S::kBlockBytes, S::kBlockSpanBytes);
#pragma unroll
    for (int step = 0; step < S::kKeys / 16; ++step) {
      add_output(o, p + 4 * step, b + step * (2 * kAtomBytes / 16));
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void wait_keys() const { barrier_wait(shared.keys_full + 8 * k_at.stage, k_at.parity); }
  __device__ __forceinline__ void wait_values() const {
    barrier_wait(shared.values_full + 8 * v_at.stage, v_at.parity);
  }

  __device__ __forceinline__ void leave_keys(int block) {
    release(shared.keys_empty + 8 * k_at.stage);
    if (block == 0) release(shared.queries_empty + 8 * static_cast<uint32_t>(group));
    k_at.advance();
  }

  __device__ __forceinline__ void leave_values() {
    release(shared.values_empty + 8 * v_at.stage);
    v_at.advance();
  }

  __device__ __forceinline__ void mask(int row, int block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = row + kWarpRows * warp + lane / 4 + 8 * half;
      const int last = kCausal ? min(query, problem.queries - 1) : problem.queries - 1;
      const int limit = last - block * S::kKeys - lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < kScores; i += 4) {
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          if (2 * i + odd > limit) s[i + 2 * half + odd] = -__int_as_float(0x7f800000);
        }
      }
    }
  }

  __device__ __forceinline__ void make_operand() {
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) p[i] = pack(s[2 * i], s[2 * i + 1]);
  }

  __device__ __forceinline__ void rescale_output() {
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) o[i] *= factor[i / 2 % 2];
  }

  template <bool kMasked>
  __device__ __forceinline__ void overlapped_step(int row, int block) {
    wait_keys();
    if constexpr (S::kTurns) turn_wait(group);
    pin(p);
    pin(o);
    issue_scores();
    wait_values();
    issue_output();
    if constexpr (S::kTurns) turn_pass((group + 1) % S::kConsumers);
    wgmma_wait<1>();
    pin(s);
    leave_keys(block);
    if constexpr (kMasked) mask(row, block);
    const bool raise = softmax.template update<kMasked>(s, factor);
    softmax.finish_first();
    wgmma_wait<0>();
    pin(o);
    pin(s);
    leave_values();
    make_operand();
  }

  template <bool kMasked>
  __device__ __forceinline__ bool score_step(int row, int block) {
    wait_keys();
    issue_scores();
    wgmma_wait<0>();
    pin(s);
    leave_keys(block);
    if constexpr (kMasked) mask(row, block);
    const bool raise = softmax.template update<kMasked>(s, factor);
    make_operand();
    return raise;
  }

  __device__ __forceinline__ void output_step() {
    wait_values();
    issue_output();
    wgmma_wait<0>();
    pin(o);
    leave_values();
  }

  template <bool kMasked>
  __device__ __forceinline__ void step(int row, int block) {
    if constexpr (S::kOverlap) {
      overlapped_step<kMasked>(row, block);
    } else {
      output_step();
      score_step<kMasked>(row, block);
    }
  }

  __device__ __forceinline__ void store(int head, int row) {
    softmax.add_up_sums();
    const int warp_row = row + kWarpRows * warp;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = warp_row + lane / 4 + 8 * half;
      if (lane % 4 == 0 && query < problem.queries) {
        lse[static_cast<int64_t>(head) * problem.queries + query] = softmax.log_sum(half);
      }
      factor[half] = 1.0f / softmax.sum[half];
    }
    rescale_output();

    const uint32_t staging = shared.staging + static_cast<uint32_t>(4 * group + warp) * S::kStagingBytes;
    const uint32_t line = static_cast<uint32_t>(lane / 8 % 2 * 8 + lane % 8);
    const uint32_t chunk = static_cast<uint32_t>(lane / 16);
#pragma unroll
    for (int span = 0; span < S::kSpans; ++span) {
      const uint32_t box = staging + static_cast<uint32_t>(span % S::kStagingSpans) * S::kStagingSpanBytes;
      if (span % S::kStagingSpans == 0) {
        if (lane == 0) wait_stores_read();
        __syncwarp();
      }
#pragma unroll
      for (uint32_t g = 0; g < kSpanCols / 16; ++g) {
        const uint32_t i = static_cast<uint32_t>(span) * (kSpanCols / 2) + 8 * g;
        store_matrices(box + line * kRowBytes + (((2 * g + chunk) ^ (line % 8)) * 16), pack(o[i], o[i + 1]),
                       pack(o[i + 2], o[i + 3]), pack(o[i + 4], o[i + 5]), pack(o[i + 6], o[i + 7]));
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (lane == 0) store_box(maps.o, span * kSpanCols, warp_row, head, box);
    }
  }

  __device__ __forceinline__ void consume() {
    const uint32_t queries_full = shared.queries_full + 8 * static_cast<uint32_t>(group);
    if constexpr (S::kTurns) {
      if (group == S::kConsumers - 1) turn_pass(0);
    }
    for (uint32_t parity = 0;; parity ^= 1) {
      barrier_wait(queries_full, parity);
      const int tile = __shfl_sync(0xffffffffu, lane == 0 ? load_shared(shared.tiles + 4 * group) : 0, 0);
      if (tile < 0) break;
      const auto place = problem.place<S::kTileRows>(tile);
      const int row = place.row + group * kGroupRows;
      int block = problem.blocks<S::kTileRows, S::kKeys>(place.row) - 1;
      const int masked = (kCausal ? min(row + 1, problem.queries) : problem.queries) / S::kKeys;

#pragma unroll
      for (int i = 0; i < kDim / 2; ++i) o[i] = 0.0f;
      softmax.reset();
      if (block >= masked) {
        score_step<true>(row, block);
      } else {
        score_step<false>(row, block);
      }
      if constexpr (kCausal) {
        while (block > 0 && block > masked) step<true>(row, --block);
      }
      while (block > 0) step<false>(row, --block);
      output_step();
      store(place.head, row);
    }
    if constexpr (S::kTurns) {
      if (group == 0) turn_wait(0);
    }
    if (lane == 0) wait_stores_done();
  }
};

template <int kDim>
__global__ void __launch_bounds__(Shape<kDim>::kThreads, 1)
    attention_kernel(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                     const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap o_map, float* lse,
                     Problem problem) {
  using S = Shape<kDim>;
  extern __shared__ unsigned char dynamic[];
  __shared__ __align__(8) uint64_t barriers[2 * S::kConsumers + 4 * S::kStages];
  __shared__ int tiles[S::kConsumers];

  Shared shared;
  shared.queries = (shared_address(dynamic) + kAtomBytes - 1) & ~(kAtomBytes - 1);
  shared.keys = shared.queries + S::kConsumers * S::kQueryBytes;
  shared.values = shared.keys + S::kStages * S::kBlockBytes;
  shared.staging = shared.values + S::kStages * S::kBlockBytes;
  shared.queries_full = shared_address(barriers);
  shared.queries_empty = shared.queries_full + 8 * S::kConsumers;
  shared.keys_full = shared.queries_empty + 8 * S::kConsumers;
  shared.keys_empty = shared.keys_full + 8 * S::kStages;
  shared.values_full = shared.keys_empty + 8 * S::kStages;
  shared.values_empty = shared.values_full + 8 * S::kStages;
  shared.tiles = shared_address(tiles);

  if (threadIdx.x == 0) {
    for (uint32_t group = 0; group < S::kConsumers; ++group) {
      barrier_init(shared.queries_full + 8 * group, 1);
      barrier_init(shared.queries_empty + 8 * group, kGroupThreads / 32);
    }
    for (uint32_t stage = 0; stage < S::kStages; ++stage) {
      barrier_init(shared.keys_full + 8 * stage, 1);
      barrier_init(shared.keys_empty + 8 * stage, S::kWarps);
      barrier_init(shared.values_full + 8 * stage, 1);
      barrier_init(shared.values_empty + 8 * stage, S::kWarps);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();

  const Maps maps{&q_map, &k_map, &v_map, &o_map};
  const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::kProducerRegisters));
    if (threadIdx.x == 0) produce<kDim>(maps, problem, shared);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::kConsumerRegisters));
    Consumer<kDim>(maps, problem, shared, lse, warpgroup - 1).consume();
  }
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << what << ": " << cudaGetErrorString(status);
}

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

template <int kDim>
void launch(void* q, void* k, void* v, void* o, float* lse, int64_t heads, int64_t length, DLDevice device) {
  using S = Shape<kDim>;
  const CUtensorMap q_map = make_tensor_map("Q", q, heads, length, kDim, kGroupRows);
  const CUtensorMap k_map = make_tensor_map("K", k, heads, length, kDim, S::kKeys);
  const CUtensorMap v_map = make_tensor_map("V", v, heads, length, kDim, S::kKeys);
  const CUtensorMap o_map = make_tensor_map("O", o, heads, length, kDim, kWarpRows);
  check(cudaFuncSetAttribute(attention_kernel<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes),
        "shared memory of attention_forward");

  const int64_t tiles_per_head = (length + S::kTileRows - 1) / S::kTileRows;
  if (length > (1 << 30) || heads * tiles_per_head > (1 << 30)) {
    TVM_FFI_THROW(ValueError) << "too large: B * H = " << heads << ", S = " << length;
  }
  Problem problem;
  problem.heads = static_cast<int>(heads);
  problem.queries = static_cast<int>(length);
  problem.tiles_per_head = static_cast<int>(tiles_per_head);
  const int64_t section = kSectionBytes / (2 * length * kDim * static_cast<int64_t>(sizeof(__nv_bfloat16)));
  problem.section_heads = static_cast<int>(section < 1 ? 1 : (section < heads ? section : heads));

  int processors = 0;
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device.device_id), "multiprocessors");
  const int ctas = problem.tiles() < processors ? problem.tiles() : processors;
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  attention_kernel<kDim>
      <<<static_cast<unsigned>(ctas), S::kThreads, S::kSharedBytes, stream>>>(q_map, k_map, v_map, o_map, lse, problem);
  check(cudaGetLastError(), "launch of attention_forward");
}

void run(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, tvm::ffi::TensorView o,
         tvm::ffi::TensorView lse) {
  void* q_data = checked_tensor(q, "Q", q, 4, kDLBfloat, 16);
  void* k_data = checked_tensor(k, "K", q, 4, kDLBfloat, 16);
  void* v_data = checked_tensor(v, "V", q, 4, kDLBfloat, 16);
  void* o_data = checked_tensor(o, "O", q, 4, kDLBfloat, 16);
  float* lse_data = static_cast<float*>(checked_tensor(lse, "LSE", q, 3, kDLFloat, 32));
  const int64_t heads = q.size(0) * q.size(1);
  const int64_t length = q.size(2);
  if (heads == 0 || length == 0) return;
  const auto launch_for = [&](auto dim) {
    constexpr int kDim = decltype(dim)::value;
    if constexpr (kOnlyDim == 0 || kOnlyDim == kDim) {
      if (q.size(3) != kDim) return false;
      launch<kDim>(q_data, k_data, v_data, o_data, lse_data, heads, length, q.device());
      return true;
    }
    return false;
  };
  if (launch_for(std::integral_constant<int, 64>()) || launch_for(std::integral_constant<int, 128>())) return;
  TVM_FFI_THROW(ValueError) << "D is " << q.size(3) << "; this kernel does "
                            << (kOnlyDim == 0    ? "64 and 128"
                                : kOnlyDim == 64 ? "64"
                                                 : "128");
}

}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, attention_forward::run);
