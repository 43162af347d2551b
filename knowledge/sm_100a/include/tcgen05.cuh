// Tensor memory and the fifth-generation tensor cores. kCtas is 1, or 2 for a pair of CTAs; one kernel uses one value.
#pragma once
#include "cluster.cuh"

// region tmem
// By one whole warp (of each CTA of a pair). `columns` is a power of two from 32 to 512; the address is written to shared
// memory at `slot`. Blocks while another CTA of the SM holds what is missing. Everything is freed before the kernel ends.
template <int kCtas = 1>
DEVICE void tmem_alloc(uint32_t slot, uint32_t columns) {
  asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(slot), "r"(columns), "n"(kCtas)
               : "memory");
}
// No more allocations from this CTA: others on the SM may go ahead.
template <int kCtas = 1>
DEVICE void tmem_relinquish() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" ::"n"(kCtas) : "memory");
}
template <int kCtas = 1>
DEVICE void tmem_dealloc(uint32_t tmem, uint32_t columns) {
  asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(tmem), "r"(columns), "n"(kCtas)
               : "memory");
}
// An address: lane in the upper half, column (of 32 bits) in the lower. Always relative to what tmem_alloc gave.
DEVICE uint32_t tmem_at(uint32_t tmem, uint32_t lane, uint32_t column) { return tmem + (lane << 16) + column; }
// tcgen05 operations of different threads are ordered by a barrier only between these two.
DEVICE void tcgen05_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
DEVICE void tcgen05_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
DEVICE void tmem_load_wait() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
DEVICE void tmem_store_wait() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

// By a whole warp, whose lane l gets v[i] = column + i of tensor-memory lane 32 * (warp % 4) + l; `address` has that
// first lane. Not in a branch that some lanes skip. Values are there after tmem_load_wait().
// helpers: tmem_load tmem_store
#define TMEM_L8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TMEM_Q(c, i) \
  c(v[i]), c(v[i + 1]), c(v[i + 2]), c(v[i + 3]), c(v[i + 4]), c(v[i + 5]), c(v[i + 6]), c(v[i + 7])
#define TMEM_R8(c) TMEM_Q(c, 0)
#define TMEM_L16 TMEM_L8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TMEM_R16(c) TMEM_R8(c), TMEM_Q(c, 8)
#define TMEM_L32 TMEM_L16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TMEM_R32(c) TMEM_R16(c), TMEM_Q(c, 16), TMEM_Q(c, 24)
#define TMEM_L64 \
  TMEM_L32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TMEM_R64(c) TMEM_R32(c), TMEM_Q(c, 32), TMEM_Q(c, 40), TMEM_Q(c, 48), TMEM_Q(c, 56)
#define TMEM_ACCESS(n, type, c)                                                                                \
  DEVICE void tmem_load(type(&v)[n], uint32_t address) {                                                        \
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x" #n ".b32 {" TMEM_L##n "}, [%" #n "];"                        \
                 : TMEM_R##n("=" c)                                                                             \
                 : "r"(address)                                                                                 \
                 : "memory");                                                                                   \
  }
#define TMEM_STORE(n, type, c, ...)                                                                             \
  DEVICE void tmem_store(uint32_t address, const type(&v)[n]) {                                                 \
    asm volatile("tcgen05.st.sync.aligned.32x32b.x" #n ".b32 [%" #n "], {" TMEM_L##n "};" ::TMEM_R##n(c), "r"(address) \
                 : "memory");                                                                                   \
  }
TMEM_ACCESS(8, float, "f")
TMEM_ACCESS(16, float, "f")
TMEM_ACCESS(32, float, "f")
TMEM_ACCESS(64, float, "f")
TMEM_STORE(8, float, "f")
TMEM_STORE(16, float, "f")
TMEM_STORE(32, float, "f")
TMEM_STORE(16, uint32_t, "r")
TMEM_STORE(32, uint32_t, "r")
TMEM_STORE(64, uint32_t, "r")
// endregion tmem

// region umma_descriptor
// Of an operand in shared memory. kSpan: the swizzle it was written with, 128, 64 or 32 bytes, or 0.
template <uint32_t kSpan>
DEVICE uint64_t umma_descriptor(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes) {
  constexpr uint64_t kMode = kSpan == 128 ? 2 : kSpan == 64 ? 4 : kSpan == 32 ? 6 : 0;
  constexpr uint64_t kFixed = 1;  // bits 46-48 are 0b001
  return uint64_t(address >> 4 & 0x3fff) | uint64_t(leading_bytes >> 4 & 0x3fff) << 16 |
         uint64_t(stride_bytes >> 4 & 0x3fff) << 32 | kFixed << 46 | kMode << 61;
}
// K-major: rows of kSpan bytes along K. The next 32 bytes of K inside the span: descriptor + 2.
template <uint32_t kSpan = 128>
DEVICE uint64_t umma_k(uint32_t address) {
  return umma_descriptor<kSpan>(address, 16, 8 * kSpan);
}
// MN-major: rows of kSpan bytes along M or N. The next 16 of K (16-bit types): descriptor + kSpan.
template <uint32_t kSpan = 128>
DEVICE uint64_t umma_mn(uint32_t address, uint32_t next_span) {
  return umma_descriptor<kSpan>(address, next_span, 8 * kSpan);
}
// The 32-bit instruction descriptor. D is fp32. Formats: kind::f16: f16 0, bf16 1; tf32: 2; f8f6f4: e4m3 0, e5m2 1,
// e2m3 3, e3m2 4, e2m1 5. M is 128 for one CTA, 256 for a pair (half of that leaves lanes unused); N a multiple of 16 (a
// pair: 32) up to 256.
__host__ __device__ constexpr uint32_t umma_instruction(uint32_t m, uint32_t n, uint32_t a_format, uint32_t b_format,
                                                        bool a_mn_major = false, bool b_mn_major = false) {
  return 1u << 4 | a_format << 7 | b_format << 10 | uint32_t(a_mn_major) << 15 | uint32_t(b_mn_major) << 16 |
         (n >> 3) << 17 | (m >> 4) << 24;
}
// endregion umma_descriptor

// region umma
// D (+)= A B, by one thread; of a pair, by one thread of one CTA. A from shared memory (umma_...) or tensor memory
// (umma_..._ts). kinds: f16 (K = 16 a step, bf16 too), tf32 (8), f8f6f4 (32), i8 (32).
// helpers: umma_f16 umma_f16_ts umma_tf32 umma_tf32_ts umma_f8f6f4 umma_f8f6f4_ts umma_i8 umma_i8_ts
#define UMMA_KIND(name)                                                                                        \
  template <int kCtas = 1>                                                                                      \
  DEVICE void umma_##name(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool accumulate) {          \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                                    \
                 "tcgen05.mma.cta_group::%5.kind::" #name " [%0], %1, %2, %3, p;\n}" ::"r"(d), "l"(a), "l"(b),   \
                 "r"(instruction), "r"(int(accumulate)), "n"(kCtas)                                             \
                 : "memory");                                                                                   \
  }                                                                                                             \
  template <int kCtas = 1>                                                                                      \
  DEVICE void umma_##name##_ts(uint32_t d, uint32_t a, uint64_t b, uint32_t instruction, bool accumulate) {     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                                    \
                 "tcgen05.mma.cta_group::%5.kind::" #name " [%0], [%1], %2, %3, p;\n}" ::"r"(d), "r"(a), "l"(b), \
                 "r"(instruction), "r"(int(accumulate)), "n"(kCtas)                                             \
                 : "memory");                                                                                   \
  }
UMMA_KIND(f16)
UMMA_KIND(tf32)
UMMA_KIND(f8f6f4)
UMMA_KIND(i8)
// One arrival at `bar` when all tcgen05 operations that this thread issued before have finished. Fences by itself.
template <int kCtas = 1>
DEVICE void umma_commit(uint32_t bar) {
  asm volatile("tcgen05.commit.cta_group::%1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar), "n"(kCtas)
               : "memory");
}
// One arrival at the barrier at the same offset in every CTA of `mask`.
template <int kCtas = 1>
DEVICE void umma_commit_multicast(uint32_t bar, uint16_t mask) {
  asm volatile(
      "tcgen05.commit.cta_group::%2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(bar),
      "h"(mask), "n"(kCtas)
      : "memory");
}
// endregion umma

// region pair
// The pair's CTA with the even rank issues the products; it keeps the barriers on which both CTAs' copies count.
DEVICE uint32_t pair_leader() { return cluster_rank() & ~1u; }
// To this CTA's shared memory, counting on a barrier of this CTA or of the other one of the pair (map_to_cta).
DEVICE void tma_load_pair(uint32_t destination, const void* map, uint32_t mapped_bar, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(destination),
      "l"(map), "r"(mapped_bar), "r"(x), "r"(y)
      : "memory");
}
// endregion pair

// region scaled
// Block-scaled products. Scales lie in tensor memory: `a_scales` and `b_scales` are their addresses.
// mxf8f6f4: one ue8m0 scale per 32 of K (K = 32 a step); mxf4: the same for e2m1, two a step (K = 64);
// mxf4nvf4: one ue4m3 scale per 16 of K, four a step (K = 64).
// helpers: umma_mxf8f6f4 umma_mxf4 umma_mxf4nvf4
#define UMMA_SCALED(name, vector)                                                                               \
  template <int kCtas = 1>                                                                                      \
  DEVICE void umma_##name(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, uint32_t a_scales,          \
                          uint32_t b_scales, bool accumulate) {                                                 \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                                                    \
                 "tcgen05.mma.cta_group::%7.kind::" #name ".block_scale.scale_vec::" vector                      \
                 " [%0], %1, %2, %3, [%4], [%5], p;\n}" ::"r"(d), "l"(a), "l"(b), "r"(instruction), "r"(a_scales), \
                 "r"(b_scales), "r"(int(accumulate)), "n"(kCtas)                                                \
                 : "memory");                                                                                   \
  }
UMMA_SCALED(mxf8f6f4, "1X")
UMMA_SCALED(mxf4, "2X")
UMMA_SCALED(mxf4nvf4, "4X")
// Formats: mxf8f6f4 as for kind::f8f6f4; mxf4 and mxf4nvf4: e2m1 is 1. ue8m0 scales: 1, ue4m3: 0.
// a_scale_byte and b_scale_byte (0-3) say which byte of the scales' 32-bit columns this step uses.
__host__ __device__ constexpr uint32_t umma_scaled_instruction(uint32_t m, uint32_t n, uint32_t a_format,
                                                               uint32_t b_format, bool ue8m0, uint32_t a_scale_byte,
                                                               uint32_t b_scale_byte) {
  return b_scale_byte << 4 | a_format << 7 | b_format << 10 | (n >> 3) << 17 | uint32_t(ue8m0) << 23 | (m >> 7) << 27 |
         a_scale_byte << 29;
}
// Shared to tensor memory, asynchronous; products issued after it by the same thread see it. Scales: 32 lanes of 16
// bytes, repeated for the four quarters.
template <int kCtas = 1>
DEVICE void tmem_copy_scales(uint32_t tmem, uint64_t descriptor) {
  asm volatile("tcgen05.cp.cta_group::%2.32x128b.warpx4 [%0], %1;" ::"r"(tmem), "l"(descriptor), "n"(kCtas) : "memory");
}
template <int kCtas = 1>
DEVICE void tmem_copy(uint32_t tmem, uint64_t descriptor) {
  asm volatile("tcgen05.cp.cta_group::%2.128x256b [%0], %1;" ::"r"(tmem), "l"(descriptor), "n"(kCtas) : "memory");
}
// Elements of 32 bytes move one lane down; the address has a lane that is a multiple of 32.
template <int kCtas = 1>
DEVICE void tmem_shift_down(uint32_t tmem) {
  asm volatile("tcgen05.shift.cta_group::%1.down [%0];" ::"r"(tmem), "n"(kCtas) : "memory");
}
// endregion scaled

// region steal
// Cluster launch control: a running CTA takes over the work of one that has not started. By one thread (of one CTA of a
// cluster); the answer's 16 bytes count on `bar`.
DEVICE void steal_work(uint32_t answer, uint32_t bar) {
  asm volatile(
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(answer),
      "r"(bar)
      : "memory");
}
// After the wait: the stolen CTA's blockIdx.x, or -1 if there was none left.
DEVICE int stolen_block(uint32_t answer) {
  uint32_t x, found;
  asm volatile(
      "{\n.reg .b128 handle;\n.reg .pred p;\n"
      "ld.shared.b128 handle, [%2];\n"
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, handle;\n"
      "selp.u32 %1, 1, 0, p;\nmov.u32 %0, 0;\n"
      "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0, _, _, _}, handle;\n}"
      : "=r"(x), "=r"(found)
      : "r"(answer)
      : "memory");
  return found != 0 ? static_cast<int>(x) : -1;
}
// endregion steal
