// C[M,N] = A[M,K] B[N,K]^T, bf16: a producer warpgroup feeds a ring, two consumer warpgroups multiply and store by TMA.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include "host.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

// region roles
constexpr int kM = 128, kN = 256, kK = 64, kStages = 4, kThreads = 3 * 128;
constexpr uint32_t kABytes = kM * kK * 2, kBBytes = kN * kK * 2, kStageBytes = kABytes + kBBytes;
constexpr uint32_t kStoreBytes = 64 * 128;  // 64 rows of 64 columns on their way to C
constexpr uint32_t kSharedBytes = kStages * kStageBytes + 2 * kStoreBytes + 1024;

struct Shared {
  uint32_t tiles, staging, full, empty;
};

DEVICE void produce(const CUtensorMap& a_map, const CUtensorMap& b_map, Shared s, int row0, int col0, int steps) {
  Ring<kStages> at;
  for (int step = 0; step < steps; ++step) {
    mbar_wait(s.empty + 8 * at.stage, at.parity ^ 1);  // returns at once in the first turn
    const uint32_t full = s.full + 8 * at.stage, tile = s.tiles + at.stage * kStageBytes;
    mbar_arrive_expect(full, kStageBytes);
    tma_load(tile, &a_map, full, step * kK, row0);
    tma_load(tile + kABytes, &b_map, full, step * kK, col0);
    at.advance();
  }
}

// One warpgroup: 64 rows, 256 columns.
DEVICE void multiply(float (&d)[128], Shared s, uint32_t group, int steps) {
  Ring<kStages> at;
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
    wgmma_wait<1>();  // the step before is through: its stage goes back, one arrival per warp
    if (step > 0 && lane_id() == 0) mbar_arrive(s.empty + 8 * previous);
    previous = at.stage;
    at.advance();
  }
  wgmma_wait<0>();
  pin(d);
}
// endregion roles

// region store
// 64 rows of C leave through stmatrix and TMA, 64 columns at a time. TMA clips what lies outside C.
template <int kCols>
DEVICE void store_tile(const float (&d)[kCols / 2], const CUtensorMap& c_map, uint32_t staging, uint32_t group, int row,
                       int col) {
  const uint32_t line = threadIdx.x / 32 % 4 * 16 + stmatrix_row(), chunk = stmatrix_chunk();
#pragma unroll
  for (int part = 0; part < kCols / 64; ++part) {
    if (threadIdx.x % 128 == 0) tma_store_wait_read<0>();  // the store before has left the buffer
    bar_sync(1 + group, 128);
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const float* v = d + part * 32 + 8 * g;
      stmatrix(staging + line * 128 + ((2 * g + chunk) ^ line % 8) * 16, pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]),
               pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7]));
    }
    fence_async_shared();  // every writer, before the barrier
    bar_sync(1 + group, 128);
    if (threadIdx.x % 128 == 0) {
      tma_store(&c_map, staging, col + part * 64, row);
      tma_store_commit();
    }
  }
  if (threadIdx.x % 128 == 0) tma_store_wait<0>();
}
// endregion store

// region kernel
__global__ void __launch_bounds__(kThreads, 1)
    gemm(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
         const __grid_constant__ CUtensorMap c_map, int steps) {
  extern __shared__ uint8_t dynamic[];
  __shared__ alignas(8) uint64_t full[kStages], empty[kStages];
  Shared s;
  s.tiles = align_up(smem(dynamic), 1024);
  s.staging = s.tiles + kStages * kStageBytes;
  s.full = smem(full);
  s.empty = smem(empty);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      mbar_init(s.full + 8 * i, 1);   // the producer's expect
      mbar_init(s.empty + 8 * i, 8);  // 2 warpgroups of 4 warps
    }
    mbar_init_fence();
  }
  __syncthreads();

  const int row0 = blockIdx.y * kM, col0 = blockIdx.x * kN;
  const uint32_t role = warpgroup_id();
  if (role == 0) {
    registers_give<40>();  // 168 at launch (65536 / 384); 40 + 2 * 232 = 3 * 168
    if (threadIdx.x == 0) produce(a_map, b_map, s, row0, col0, steps);
  } else {
    registers_take<232>();
    float d[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) d[i] = 0.0f;
    multiply(d, s, role - 1, steps);
    store_tile<kN>(d, c_map, s.staging + (role - 1) * kStoreBytes, role - 1, row0 + 64 * (role - 1), col0);
  }
}
// endregion kernel

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(0);
  if (m == 0 || n == 0) return;
  const CUtensorMap a_map = tensor_map(a.data_ptr(), {uint64_t(k), uint64_t(m)}, {kK, kM});
  const CUtensorMap b_map = tensor_map(b.data_ptr(), {uint64_t(k), uint64_t(n)}, {kK, kN});
  const CUtensorMap c_map = tensor_map(c.data_ptr(), {uint64_t(n), uint64_t(m)}, {64, 64});
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  launch(gemm, dim3((n + kN - 1) / kN, (m + kM - 1) / kM), kThreads, kSharedBytes, 1, stream, a_map, b_map, c_map,
         int((k + kK - 1) / kK));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
