// Thin wrappers of the PTX instructions that the kernels of this folder need. One instruction each (loops of try_wait
// aside), so that the line of a call is the line of the instruction.
#pragma once

#include <cstdint>

#define DEVICE __device__ __forceinline__

/// As opaque as a CUtensorMap, without CUDA's headers.
struct alignas(64) TensorMap {
  uint64_t words[16];
};

DEVICE uint32_t smem(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }
DEVICE uint32_t lane_id() { return threadIdx.x % 32; }
DEVICE uint32_t warp_id() { return threadIdx.x / 32; }

// ---- mbarrier -------------------------------------------------------------------------------------------------------

DEVICE void mbar_init(uint64_t* bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(bar)), "r"(count) : "memory");
}
DEVICE void mbar_inval(uint64_t* bar) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(smem(bar)) : "memory");
}
DEVICE void mbar_arrive(uint64_t* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(bar)) : "memory");
}
DEVICE void mbar_arrive_relaxed(uint64_t* bar) {
  asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(smem(bar)) : "memory");
}
DEVICE void mbar_arrive_count(uint64_t* bar, uint32_t count) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(smem(bar)), "r"(count) : "memory");
}
DEVICE void mbar_arrive_expect(uint64_t* bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(bar)), "r"(bytes) : "memory");
}
DEVICE bool mbar_test(uint64_t* bar, uint32_t parity) {
  uint32_t done;
  asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(smem(bar)), "r"(parity)
               : "memory");
  return done != 0;
}
/// Returns once the phase of this parity is over.
DEVICE void mbar_wait(uint64_t* bar, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done)
                 : "r"(smem(bar)), "r"(parity)
                 : "memory");
  } while (done == 0);
}
/// The same with acquire semantics for the whole cluster: what remote arrivals release.
DEVICE void mbar_wait_cluster(uint64_t* bar, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(smem(bar)), "r"(parity)
        : "memory");
  } while (done == 0);
}

// ---- Clusters -------------------------------------------------------------------------------------------------------

DEVICE uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// shared::cluster address of the same variable in CTA `rank`.
DEVICE uint32_t mapa(const void* pointer, uint32_t rank) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(smem(pointer)), "r"(rank));
  return address;
}
DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
DEVICE void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
DEVICE void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}
DEVICE uint32_t ld_cluster(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
DEVICE void st_cluster(uint32_t address, uint32_t value) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
/// Store that reports its four bytes to an mbarrier of the same CTA as `address`.
DEVICE void st_async(uint32_t address, uint32_t value, uint32_t bar) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(address),
               "r"(value), "r"(bar)
               : "memory");
}
DEVICE void mbar_arrive_remote(uint32_t bar) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}
/// Without semantics and scope, as CUTLASS writes it.
DEVICE void mbar_arrive_remote_plain(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}
DEVICE void mbar_arrive_remote_relaxed(uint32_t bar) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}

// ---- Fences ---------------------------------------------------------------------------------------------------------

DEVICE void fence_async() { asm volatile("fence.proxy.async;" ::: "memory"); }
DEVICE void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void fence_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
DEVICE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void fence_acq_rel_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
DEVICE void fence_acq_rel_cta() { asm volatile("fence.acq_rel.cta;" ::: "memory"); }

// ---- Copies ---------------------------------------------------------------------------------------------------------

DEVICE void tma_load(void* to, const TensorMap* map, int x, int y, uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(smem(to)),
      "l"(map), "r"(x), "r"(y), "r"(smem(bar))
      : "memory");
}
/// Into the same place of every CTA in `mask`; each CTA's own barrier gets the bytes.
DEVICE void tma_load_multicast(void* to, const TensorMap* map, int x, int y, uint64_t* bar, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(smem(to)),
      "l"(map), "r"(x), "r"(y), "r"(smem(bar)), "h"(mask)
      : "memory");
}
DEVICE void tma_store(const TensorMap* map, int x, int y, const void* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x),
               "r"(y), "r"(smem(from))
               : "memory");
}
DEVICE void tma_reduce_add(const TensorMap* map, int x, int y, const void* from) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
               "r"(x), "r"(y), "r"(smem(from))
               : "memory");
}
DEVICE void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem(to)),
      "l"(from), "r"(bytes), "r"(smem(bar))
      : "memory");
}
DEVICE void bulk_store(void* to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(smem(from)), "r"(bytes)
               : "memory");
}
DEVICE void bulk_reduce_add(uint32_t* to, const void* from, uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(to), "r"(smem(from)),
               "r"(bytes)
               : "memory");
}
/// Shared memory to that of another CTA; `to` and `bar` are shared::cluster addresses.
DEVICE void bulk_to_peer(uint32_t to, const void* from, uint32_t bytes, uint32_t bar) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "r"(smem(from)), "r"(bytes), "r"(bar)
               : "memory");
}
DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N>
DEVICE void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
template <int N>
DEVICE void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

DEVICE void cp_async16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(to)), "l"(from) : "memory");
}
DEVICE void cp_async4(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(smem(to)), "l"(from) : "memory");
}
DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
/// Arrives at `bar` when this thread's earlier cp.async are complete; the arrival is one of those the barrier counts.
DEVICE void cp_async_arrive(uint64_t* bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(smem(bar)) : "memory");
}

// ---- Tensor maps on the device --------------------------------------------------------------------------------------

/// Changes the address inside a tensor map that lies in shared memory.
DEVICE void map_set_address(TensorMap* map_in_shared, const void* address) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(smem(map_in_shared)),
               "l"(address)
               : "memory");
}
DEVICE void map_set_address_global(TensorMap* map_in_global, const void* address) {
  asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(map_in_global), "l"(address)
               : "memory");
}
/// Whole warp: copies a map from shared to global memory and releases it to the tensor-map proxy.
DEVICE void map_publish(TensorMap* to_global, const TensorMap* from_shared) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
          to_global),
      "r"(smem(from_shared))
      : "memory");
}
DEVICE void fence_map_release() { asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory"); }
DEVICE void fence_map_acquire(const TensorMap* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

// ---- Block and warp -------------------------------------------------------------------------------------------------

DEVICE void named_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
DEVICE void named_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
template <int N>
DEVICE void registers_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
DEVICE void registers_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
DEVICE void ldmatrix_x4(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(smem(row))
               : "memory");
}
DEVICE void stmatrix_x4(void* row, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(smem(row)), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

// ---- Strong accesses to global memory -------------------------------------------------------------------------------

DEVICE void st_release(uint32_t* p, uint32_t v) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
DEVICE void st_release_cta(uint32_t* p, uint32_t v) {
  asm volatile("st.release.cta.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
DEVICE void st_relaxed(uint32_t* p, uint32_t v) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
DEVICE uint32_t ld_acquire(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
DEVICE uint32_t ld_relaxed(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

// ---- wgmma ----------------------------------------------------------------------------------------------------------
// D[64,8] (+)= A[64,16] * B[8,16]^T in bf16 with fp32 sums. Tiles are K-major with rows of 128 bytes (64 elements)
// under the 128-byte swizzle, based at multiples of 1024 bytes.

/// Byte offset of element (row, k) of such a tile.
DEVICE uint32_t swizzled(uint32_t row, uint32_t k) { return row * 128 + ((k * 2) ^ ((row & 7) << 4)); }
DEVICE uint64_t matrix_descriptor(uint32_t address, uint32_t stride_offset = 1024, uint32_t swizzle_code = 1) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) | uint64_t{1} << 16 |
         static_cast<uint64_t>(stride_offset >> 4) << 32 | static_cast<uint64_t>(swizzle_code) << 62;
}
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
DEVICE void wgmma(float (&d)[4], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b), "r"(accumulate)
      : "memory");
}
/// A from registers.
DEVICE void wgmma_ra(float (&d)[4], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %9, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1, 0;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate)
      : "memory");
}
/// Keeps what happens to the accumulators in the source's order: the compiler does not know that wgmma works on them
/// between its issue and the wait.
DEVICE void pin(float (&d)[4]) { asm volatile("" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory"); }
/// All four k-steps of a 64-element tile.
DEVICE void wgmma_tile(float (&d)[4], const void* a, const void* b, bool accumulate) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    wgmma(d, matrix_descriptor(smem(a) + 32 * k), matrix_descriptor(smem(b) + 32 * k), accumulate || k > 0);
  }
}
/// out[n][m] = D[m][n]: with A the identity, out is B (8 rows of 64).
DEVICE void store_transposed(float* out, const float (&d)[4]) {
  const uint32_t m = warp_id() % 4 * 16 + lane_id() / 4;
  const uint32_t n = lane_id() % 4 * 2;
  out[n * 64 + m] = d[0];
  out[(n + 1) * 64 + m] = d[1];
  out[n * 64 + m + 8] = d[2];
  out[(n + 1) * 64 + m + 8] = d[3];
}
constexpr uint32_t kTileA = 64 * 128, kTileB = 8 * 128;
/// The whole block: fills both tiles by TMA and waits for them.
DEVICE void load_tiles(void* a, void* b, uint64_t* full, const TensorMap* a_map, const TensorMap* b_map) {
  if (threadIdx.x == 0) {
    mbar_init(full, 1);
    fence_async_shared();  // the copy engine works on the barrier too
    mbar_arrive_expect(full, kTileA + kTileB);
    tma_load(a, a_map, 0, 0, full);
    tma_load(b, b_map, 0, 0, full);
  }
  __syncthreads();
  mbar_wait(full, 0);
}
