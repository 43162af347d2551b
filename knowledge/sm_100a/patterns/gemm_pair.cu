// C[M,N] = A[M,K] B[N,K]^T, bf16: persistent pairs of CTAs share products of 256 x 256; sums of one tile are stored
// while the next is computed.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <algorithm>

#include "host.cuh"
#include "tcgen05.cuh"
#include "tma.cuh"

// region pair
// Each CTA holds 128 rows of A, 128 of the 256 rows of B, and the sums of its 128 rows of C in all 256 columns.
constexpr int kM = 128, kN = 256, kK = 64, kStages = 6, kThreads = 6 * 32;
constexpr uint32_t kABytes = kM * kK * 2, kBBytes = kN / 2 * kK * 2, kStageBytes = kABytes + kBBytes;
constexpr uint32_t kInstruction = umma_instruction(2 * kM, kN, 1, 1);
constexpr uint32_t kStoreBytes = 32 * 128;  // of one warp: 32 rows of 64 columns
constexpr uint32_t kSharedBytes = kStages * kStageBytes + 4 * kStoreBytes + 1024;

struct Barriers {
  uint64_t full[kStages], empty[kStages], sums_full[2], sums_empty[2];
};

// Pairs of tiles (256 rows of C) in bands of 8, column by column inside a band: what runs together shares operands in L2.
struct Walk {
  int pair_rows, tile_cols, steps;
  DEVICE int pairs() const { return pair_rows * tile_cols; }
  DEVICE int2 place(int pair) const {
    const int band = pair / (8 * tile_cols), inside = pair % (8 * tile_cols), rows = min(8, pair_rows - band * 8);
    return {inside / rows, band * 8 + inside % rows};
  }
};
// endregion pair

// region pair_load
// One thread in each CTA. Bytes of both CTAs count on the leader's `full`.
DEVICE void produce(const CUtensorMap& a_map, const CUtensorMap& b_map, Barriers& bar, uint32_t tiles, Walk walk) {
  const uint32_t rank = cluster_rank(), leader = pair_leader();
  Ring<kStages> at;
  for (int pair = cluster_index(); pair < walk.pairs(); pair += cluster_count()) {
    const int2 place = walk.place(pair);
    const int row = (place.y * 2 + rank) * kM, b_row = place.x * kN + rank * (kN / 2);
    for (int step = 0; step < walk.steps; ++step) {
      mbar_wait(smem(&bar.empty[at.stage]), at.parity ^ 1);
      const uint32_t full = smem(&bar.full[at.stage]), tile = tiles + at.stage * kStageBytes;
      if (rank == leader) mbar_arrive_expect(full, 2 * kStageBytes);
      tma_load_pair(tile, &a_map, map_to_cta(full, leader), step * kK, row);
      tma_load_pair(tile + kABytes, &b_map, map_to_cta(full, leader), step * kK, b_row);
      at.advance();
    }
  }
}
// endregion pair_load

// region pair_multiply
// One thread of the leader. Descriptors name the same offsets in both CTAs; commits go to the barriers of both.
DEVICE void multiply(Barriers& bar, uint32_t tiles, uint32_t tmem, Walk walk) {
  Ring<kStages> at;
  Ring<2> sums;  // two accumulators of 256 columns
  for (int pair = cluster_index(); pair < walk.pairs(); pair += cluster_count()) {
    mbar_wait_cluster(smem(&bar.sums_empty[sums.stage]), sums.parity ^ 1);
    tcgen05_fence_after();
    for (int step = 0; step < walk.steps; ++step) {
      mbar_wait(smem(&bar.full[at.stage]), at.parity);
      tcgen05_fence_after();
      const uint32_t tile = tiles + at.stage * kStageBytes;
      const uint64_t a = umma_k(tile), b = umma_k(tile + kABytes);
#pragma unroll
      for (int i = 0; i < kK / 16; ++i) {
        umma_f16<2>(tmem + sums.stage * kN, a + 2 * i, b + 2 * i, kInstruction, step + i > 0);
      }
      umma_commit_multicast<2>(smem(&bar.empty[at.stage]), 3);
      at.advance();
    }
    umma_commit_multicast<2>(smem(&bar.sums_full[sums.stage]), 3);
    sums.advance();
  }
}
// endregion pair_multiply

// region pair_store
// Four warps of each CTA: warp w reads lanes 32 (w % 4) on, its share of the rows, and stores them by TMA.
DEVICE void store(const CUtensorMap& c_map, Barriers& bar, uint32_t staging, uint32_t tmem, Walk walk) {
  const uint32_t quarter = threadIdx.x / 32 % 4, line = lane_id();
  staging += quarter * kStoreBytes;
  Ring<2> sums;
  for (int pair = cluster_index(); pair < walk.pairs(); pair += cluster_count()) {
    const int2 place = walk.place(pair);
    const int row = (place.y * 2 + cluster_rank()) * kM + quarter * 32;
    mbar_wait(smem(&bar.sums_full[sums.stage]), sums.parity);
    tcgen05_fence_after();
    for (int part = 0; part < kN / 64; ++part) {
      float v[64];
      tmem_load(v, tmem_at(tmem, quarter * 32, sums.stage * kN + part * 64));
      tmem_load_wait();
      if (line == 0) tma_store_wait_read<0>();  // the store before has left the buffer
      __syncwarp();
#pragma unroll
      for (int chunk = 0; chunk < 8; ++chunk) {  // a row of 64 bf16: eight chunks of 16 bytes, swizzled
        const float* x = v + 8 * chunk;
        store_shared(staging + line * 128 + (chunk ^ line % 8) * 16,
                     make_uint4(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]),
                                pack_bf16(x[6], x[7])));
      }
      fence_async_shared();
      __syncwarp();
      if (line == 0) {
        tma_store(&c_map, staging, place.x * kN + part * 64, row);
        tma_store_commit();
      }
    }
    // All of this warp's lanes have read: the leader may overwrite the sums.
    tcgen05_fence_before();
    __syncwarp();
    if (line == 0) mbar_arrive_remote_release(smem(&bar.sums_empty[sums.stage]), pair_leader());
    sums.advance();
  }
  if (line == 0) tma_store_wait<0>();
}
// endregion pair_store

// region pair_kernel
// Warps 0-3 store, warp 4 loads, warp 5 multiplies.
__global__ void __launch_bounds__(kThreads, 1)
    gemm(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
         const __grid_constant__ CUtensorMap c_map, Walk walk) {
  extern __shared__ uint8_t dynamic[];
  __shared__ alignas(8) Barriers bar;
  __shared__ uint32_t tmem_slot;
  const uint32_t tiles = align_up(smem(dynamic), 1024), warp = warp_id();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      mbar_init(smem(&bar.full[i]), 1);
      mbar_init(smem(&bar.empty[i]), 1);
    }
    for (int i = 0; i < 2; ++i) {
      mbar_init(smem(&bar.sums_full[i]), 1);
      mbar_init(smem(&bar.sums_empty[i]), 2 * 4);  // four storing warps in each CTA
    }
    mbar_init_fence();
  }
  cluster_sync();  // both CTAs are resident and have their barriers, before anything is allocated or sent
  if (warp == 0) {
    tmem_alloc<2>(smem(&tmem_slot), 2 * kN);
    tmem_relinquish<2>();
  }
  tcgen05_fence_before();
  cluster_sync();  // and their tensor memory
  tcgen05_fence_after();
  const uint32_t tmem = tmem_slot;

  if (warp < 4) {
    store(c_map, bar, tiles + kStages * kStageBytes, tmem, walk);
  } else if (warp == 4 && lane_id() == 0) {
    produce(a_map, b_map, bar, tiles, walk);
  } else if (warp == 5 && lane_id() == 0 && cluster_rank() == pair_leader()) {
    multiply(bar, tiles, tmem, walk);
  }
  __syncwarp();
  tcgen05_fence_before();
  cluster_sync();
  if (warp == 0) tmem_dealloc<2>(tmem, 2 * kN);
}
// endregion pair_kernel

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(0);
  if (m == 0 || n == 0) return;
  const CUtensorMap a_map = tensor_map(a.data_ptr(), {uint64_t(k), uint64_t(m)}, {kK, kM});
  const CUtensorMap b_map = tensor_map(b.data_ptr(), {uint64_t(k), uint64_t(n)}, {kK, kN / 2});
  const CUtensorMap c_map = tensor_map(c.data_ptr(), {uint64_t(n), uint64_t(m)}, {64, 32});
  const Walk walk{int((m + 2 * kM - 1) / (2 * kM)), int((n + kN - 1) / kN), int((k + kK - 1) / kK)};
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  int processors = 0;
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, a.device().device_id), "multiprocessors");
  const int pairs = std::min(processors / 2, walk.pair_rows * walk.tile_cols);
  launch(gemm, dim3(2 * pairs), kThreads, kSharedBytes, 2, stream, a_map, b_map, c_map, walk);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
