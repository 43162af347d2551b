// C[M,N] = A[M,K] B[N,K]^T, bf16: persistent clusters of two CTAs that share each tile of B by multicast.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <algorithm>

#include "cluster.cuh"
#include "host.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

// region share
constexpr int kM = 128, kN = 256, kK = 64, kStages = 4, kThreads = 3 * 128;
constexpr uint32_t kABytes = kM * kK * 2, kBBytes = kN * kK * 2, kStageBytes = kABytes + kBBytes;
constexpr uint32_t kShareBytes = kBBytes / 2;  // the half of B that one CTA loads for both
constexpr uint32_t kStoreBytes = 64 * 128;
constexpr uint32_t kSharedBytes = kStages * kStageBytes + 2 * kStoreBytes + 1024;

struct Shared {
  uint32_t tiles, staging, full, empty;
};
// endregion share

// region walk
// Pairs of tiles (256 rows of C) in bands of 8, column by column inside a band: what runs together shares operands in L2.
struct Walk {
  int pair_rows, tile_cols, steps;
  DEVICE int pairs() const { return pair_rows * tile_cols; }
  DEVICE int2 place(int pair) const {  // x: tile column, y: pair row
    const int band = pair / (8 * tile_cols), inside = pair % (8 * tile_cols), rows = min(8, pair_rows - band * 8);
    return {inside / rows, band * 8 + inside % rows};
  }
};
// endregion walk

// region produce
DEVICE void produce(const CUtensorMap& a_map, const CUtensorMap& b_map, Shared s, Walk walk) {
  const int rank = cluster_rank();
  Ring<kStages> at;
  for (int pair = cluster_index(); pair < walk.pairs(); pair += cluster_count()) {
    const int2 place = walk.place(pair);
    const int row = (place.y * 2 + rank) * kM, b_row = place.x * kN + rank * (kN / 2);
    for (int step = 0; step < walk.steps; ++step) {
      mbar_wait(s.empty + 8 * at.stage, at.parity ^ 1);  // the consumers of both CTAs have left the stage
      const uint32_t full = s.full + 8 * at.stage, tile = s.tiles + at.stage * kStageBytes;
      mbar_arrive_expect(full, kStageBytes);  // own A and both halves of B
      tma_load(tile, &a_map, full, step * kK, row);
      tma_load_multicast(tile + kABytes + rank * kShareBytes, &b_map, full, 3, step * kK, b_row);
      at.advance();
    }
  }
}
// endregion produce

// region consume
// A stage is written by both CTAs: every consumer warp tells both producers that it has left it.
DEVICE void release(Shared s, uint32_t stage) {
  if (lane_id() < 2) mbar_arrive_remote(s.empty + 8 * stage, lane_id());
}

DEVICE void multiply(float (&d)[128], Ring<kStages>& at, Shared s, uint32_t group, int steps) {
  uint32_t previous = 0;
  pin(d);
  for (int step = 0; step < steps; ++step) {
    mbar_wait(s.full + 8 * at.stage, at.parity);
    const uint32_t tile = s.tiles + at.stage * kStageBytes;
    const uint64_t a = descriptor_k(tile + group * (64 * 128)), b = descriptor_k(tile + kABytes);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kK / 16; ++i) wgmma_bf16(d, a + 2 * i, b + 2 * i, step + i > 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (step > 0) release(s, previous);
    previous = at.stage;
    at.advance();
  }
  wgmma_wait<0>();
  pin(d);
  release(s, previous);
}
// endregion consume

// region store
DEVICE void store_tile(const float (&d)[128], const CUtensorMap& c_map, uint32_t staging, uint32_t group, int row,
                       int col) {
  const uint32_t line = threadIdx.x / 32 % 4 * 16 + stmatrix_row(), chunk = stmatrix_chunk();
#pragma unroll
  for (int part = 0; part < kN / 64; ++part) {
    if (threadIdx.x % 128 == 0) tma_store_wait_read<0>();
    bar_sync(1 + group, 128);
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const float* v = d + part * 32 + 8 * g;
      stmatrix(staging + line * 128 + ((2 * g + chunk) ^ line % 8) * 16, pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]),
               pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7]));
    }
    fence_async_shared();
    bar_sync(1 + group, 128);
    if (threadIdx.x % 128 == 0) {
      tma_store(&c_map, staging, col + part * 64, row);
      tma_store_commit();
    }
  }
}
// endregion store

// region kernel
__global__ void __launch_bounds__(kThreads, 1)
    gemm(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
         const __grid_constant__ CUtensorMap c_map, Walk walk) {
  extern __shared__ uint8_t dynamic[];
  __shared__ alignas(8) uint64_t full[kStages], empty[kStages];
  Shared s;
  s.tiles = align_up(smem(dynamic), 1024);  // the same in both CTAs, as multicast needs
  s.staging = s.tiles + kStages * kStageBytes;
  s.full = smem(full);
  s.empty = smem(empty);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      mbar_init(s.full + 8 * i, 1);
      mbar_init(s.empty + 8 * i, 2 * 8);  // 8 consumer warps in each of 2 CTAs
    }
    mbar_init_fence();
  }
  cluster_sync();  // the neighbour's barriers exist before anything is sent there

  const uint32_t role = warpgroup_id();
  if (role == 0) {
    registers_give<40>();
    if (threadIdx.x == 0) produce(a_map, b_map, s, walk);
  } else {
    registers_take<232>();
    float d[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) d[i] = 0.0f;
    Ring<kStages> at;  // runs on from tile to tile
    for (int pair = cluster_index(); pair < walk.pairs(); pair += cluster_count()) {
      const int2 place = walk.place(pair);
      multiply(d, at, s, role - 1, walk.steps);
      store_tile(d, c_map, s.staging + (role - 1) * kStoreBytes, role - 1,
                 (place.y * 2 + cluster_rank()) * kM + 64 * (role - 1), place.x * kN);
    }
    if (threadIdx.x % 128 == 0) tma_store_wait<0>();
  }
  __syncwarp();  // lanes that had nothing to do wait for the one that had
  cluster_sync();  // nobody leaves while the neighbour still arrives here or copies into here
}
// endregion kernel

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(0);
  if (m == 0 || n == 0) return;
  const CUtensorMap a_map = tensor_map(a.data_ptr(), {uint64_t(k), uint64_t(m)}, {kK, kM});
  const CUtensorMap b_map = tensor_map(b.data_ptr(), {uint64_t(k), uint64_t(n)}, {kK, kN / 2});
  const CUtensorMap c_map = tensor_map(c.data_ptr(), {uint64_t(n), uint64_t(m)}, {64, 64});
  const Walk walk{int((m + 2 * kM - 1) / (2 * kM)), int((n + kN - 1) / kN), int((k + kK - 1) / kK)};
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  // region host
  int processors = 0;
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, a.device().device_id), "multiprocessors");
  const int clusters = std::min(processors / 2, walk.pair_rows * walk.tile_cols);  // no more than fit: grid.x is 2 * that
  launch(gemm, dim3(2 * clusters), kThreads, kSharedBytes, 2, stream, a_map, b_map, c_map, walk);
  // endregion host
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
