// Warpgroup matrix multiply: fences, groups, descriptors, and D[64,n] (+)= A[64,k] B[k,n] for every n and type.
#pragma once
#include "base.cuh"

// region sync
// Before the first wgmma, and again whenever ordinary code has written accumulators or register operands.
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// At most kLeft committed groups are still running.
template <int kLeft>
DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
// The compiler does not know that wgmma works on registers between issue and wait. Pin accumulators (and register
// operands) before wgmma_fence() and after wgmma_wait(), so that it moves no access to them across.
template <int kCount>
DEVICE void pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int kCount>
DEVICE void pin(uint32_t (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(d[i])::"memory");
}
// endregion sync

// region descriptor
// kSpan: the swizzle that the tile was written with, 128, 64 or 32 bytes, or 0.
template <uint32_t kSpan>
DEVICE uint64_t wgmma_descriptor(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes) {
  constexpr uint64_t kMode = kSpan == 128 ? 1 : kSpan == 64 ? 2 : kSpan == 32 ? 3 : 0;
  return uint64_t(address >> 4 & 0x3fff) | uint64_t(leading_bytes >> 4 & 0x3fff) << 16 |
         uint64_t(stride_bytes >> 4 & 0x3fff) << 32 | kMode << 62;
}
// K-major: a row of kSpan bytes runs along K; rows of M or N follow each other. The next 32 bytes of K inside the
// span: descriptor + 2. Beyond the span: the next box.
template <uint32_t kSpan = 128>
DEVICE uint64_t descriptor_k(uint32_t address) {
  return wgmma_descriptor<kSpan>(address, 16, 8 * kSpan);
}
// MN-major (16-bit types only; kTransA or kTransB = 1): a row of kSpan bytes runs along M or N; rows of K follow each
// other. `next_span`: bytes to the next kSpan bytes of M or N. The next 16 of K: descriptor + kSpan.
template <uint32_t kSpan = 128>
DEVICE uint64_t descriptor_mn(uint32_t address, uint32_t next_span) {
  return wgmma_descriptor<kSpan>(address, next_span, 8 * kSpan);
}
// endregion descriptor

// region fragment
// Element i of a thread's accumulator, float d[n / 2], is D[accumulator_row(i), accumulator_col(i)].
DEVICE int accumulator_row(int i) { return threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8; }
DEVICE int accumulator_col(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }
// An accumulator as register operand A of a second product: columns 16s..16s+15 are a + 4 * s. 16-bit types only.
template <int kCount>
DEVICE void accumulator_to_operand(uint32_t (&a)[kCount / 2], const float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) a[i] = pack_bf16(d[2 * i], d[2 * i + 1]);
}
// Where this lane points stmatrix for d[8g .. 8g+7], columns 16g .. 16g+15 of its warp's 16 rows: the row, and the 16-byte
// chunk counted from 2g.
DEVICE uint32_t stmatrix_row() { return lane_id() / 8 % 2 * 8 + lane_id() % 8; }
DEVICE uint32_t stmatrix_chunk() { return lane_id() / 16; }
// endregion fragment

// region wgmma_lists
#define WGMMA_Q(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define WGMMA_E(c, i) WGMMA_Q(c, i), WGMMA_Q(c, i + 4), WGMMA_Q(c, i + 8), WGMMA_Q(c, i + 12)
#define WGMMA_D32 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_R32(c) WGMMA_E(c, 0), WGMMA_E(c, 16)
#define WGMMA_D64 \
  WGMMA_D32 \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_R64(c) WGMMA_R32(c), WGMMA_E(c, 32), WGMMA_E(c, 48)
#define WGMMA_D96 \
  WGMMA_D64 \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_R96(c) WGMMA_R64(c), WGMMA_E(c, 64), WGMMA_E(c, 80)
#define WGMMA_D128 \
  WGMMA_D96 \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_R128(c) WGMMA_R96(c), WGMMA_E(c, 96), WGMMA_E(c, 112)
// endregion wgmma_lists

// region wgmma_16bit
// wgmma_bf16 and wgmma_f16: k = 16; wgmma_..._rs takes A from registers. n follows from the length of d: n / 2 floats.
// `accumulate` false: D = A B, and what d held is not used; ..._first does that without keeping old registers alive.
#define WGMMA_16BIT(name, type, n, r, s1, s2, s3, s4, s5, s6)                                                       \
  template <int kTransA = 0, int kTransB = 0>                                                                       \
  DEVICE void wgmma_##name(float(&d)[r], uint64_t a, uint64_t b, bool accumulate) {                                  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #s2 ", 0;\n"                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" WGMMA_D##r "}, %" #r ", %" #s1  \
                 ", p, 1, 1, %" #s3 ", %" #s4 ";\n}"                                                                \
                 : WGMMA_R##r("+f")                                                                                  \
                 : "l"(a), "l"(b), "r"(int(accumulate)), "n"(kTransA), "n"(kTransB)                                  \
                 : "memory");                                                                                        \
  }                                                                                                                  \
  template <int kTransA = 0, int kTransB = 0>                                                                       \
  DEVICE void wgmma_##name##_first(float(&d)[r], uint64_t a, uint64_t b) {                                            \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"                                                          \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" WGMMA_D##r "}, %" #r ", %" #s1  \
                 ", p, 1, 1, %" #s2 ", %" #s3 ";\n}"                                                                \
                 : WGMMA_R##r("=f")                                                                                  \
                 : "l"(a), "l"(b), "n"(kTransA), "n"(kTransB)                                                        \
                 : "memory");                                                                                        \
  }                                                                                                                  \
  template <int kTransB = 0>                                                                                         \
  DEVICE void wgmma_##name##_rs(float(&d)[r], const uint32_t* a, uint64_t b, bool accumulate) {                       \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #s5 ", 0;\n"                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" WGMMA_D##r "}, {%" #r ", %" #s1 \
                 ", %" #s2 ", %" #s3 "}, %" #s4 ", p, 1, 1, %" #s6 ";\n}"                                           \
                 : WGMMA_R##r("+f")                                                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)), "n"(kTransB)            \
                 : "memory");                                                                                        \
  }
// One line per n: n, n / 2, then the numbers that follow n / 2.
WGMMA_16BIT(bf16, "bf16", 64, 32, 33, 34, 35, 36, 37, 38)
WGMMA_16BIT(bf16, "bf16", 128, 64, 65, 66, 67, 68, 69, 70)
WGMMA_16BIT(bf16, "bf16", 192, 96, 97, 98, 99, 100, 101, 102)
WGMMA_16BIT(bf16, "bf16", 256, 128, 129, 130, 131, 132, 133, 134)
// endregion wgmma_16bit

// region wgmma_types
template <int kCount>
DEVICE void pin(int32_t (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(d[i])::"memory");
}
// The other types have no transposes, both operands K-major: k = 8 for tf32, 32 for FP8 and int8. FP8 and tf32
// accumulate in float, int8 in int32_t (and has no scale immediates: `tail` is empty).
#define WGMMA_OTHER(name, spelled, c, element, tail, n, r, s1, s2, s3, s4, s5)                                        \
  DEVICE void wgmma_##name(element(&d)[r], uint64_t a, uint64_t b, bool accumulate) {                                \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #s2 ", 0;\n"                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #n spelled " {" WGMMA_D##r "}, %" #r ", %" #s1 ", p" tail ";\n}" \
                 : WGMMA_R##r(c)                                                                                     \
                 : "l"(a), "l"(b), "r"(int(accumulate))                                                              \
                 : "memory");                                                                                        \
  }                                                                                                                  \
  DEVICE void wgmma_##name##_rs(element(&d)[r], const uint32_t* a, uint64_t b, bool accumulate) {                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #s5 ", 0;\n"                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #n spelled " {" WGMMA_D##r "}, {%" #r ", %" #s1 ", %" #s2 ", %"   \
                 #s3 "}, %" #s4 ", p" tail ";\n}"                                                                   \
                 : WGMMA_R##r(c)                                                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate))                          \
                 : "memory");                                                                                        \
  }
#define WGMMA_TYPES(...)                                                       \
  WGMMA_OTHER(e4m3, "k32.f32.e4m3.e4m3", "+f", float, ", 1, 1", __VA_ARGS__)      \
  WGMMA_OTHER(e5m2, "k32.f32.e5m2.e5m2", "+f", float, ", 1, 1", __VA_ARGS__)      \
  WGMMA_OTHER(e4m3_e5m2, "k32.f32.e4m3.e5m2", "+f", float, ", 1, 1", __VA_ARGS__) \
  WGMMA_OTHER(e5m2_e4m3, "k32.f32.e5m2.e4m3", "+f", float, ", 1, 1", __VA_ARGS__) \
  WGMMA_OTHER(tf32, "k8.f32.tf32.tf32", "+f", float, ", 1, 1", __VA_ARGS__)
#define WGMMA_INTEGERS(...)                                            \
  WGMMA_OTHER(s8, "k32.s32.s8.s8", "+r", int32_t, "", __VA_ARGS__) \
  WGMMA_OTHER(u8, "k32.s32.u8.u8", "+r", int32_t, "", __VA_ARGS__)
WGMMA_TYPES(64, 32, 33, 34, 35, 36, 37)
WGMMA_TYPES(128, 64, 65, 66, 67, 68, 69)
WGMMA_TYPES(256, 128, 129, 130, 131, 132, 133)
// Integers: n = 8, 24, and the multiples of 16 only.
WGMMA_INTEGERS(64, 32, 33, 34, 35, 36, 37)
WGMMA_INTEGERS(128, 64, 65, 66, 67, 68, 69)
WGMMA_INTEGERS(256, 128, 129, 130, 131, 132, 133)
// endregion wgmma_types

WGMMA_TYPES(192, 96, 97, 98, 99, 100, 101)
WGMMA_INTEGERS(192, 96, 97, 98, 99, 100, 101)
WGMMA_16BIT(f16, "f16", 64, 32, 33, 34, 35, 36, 37, 38)
WGMMA_16BIT(f16, "f16", 128, 64, 65, 66, 67, 68, 69, 70)
WGMMA_16BIT(f16, "f16", 192, 96, 97, 98, 99, 100, 101, 102)
WGMMA_16BIT(f16, "f16", 256, 128, 129, 130, 131, 132, 133, 134)
