// C[M,N] = A[M,K] B[N,K]^T, bf16 in and out, fp32 sums. N and K multiples of 8.
// region includes
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
// endregion includes

#include "host.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

// region kernel
constexpr int kM = 128, kN = 128, kK = 64;  // 64 bf16 are one 128-byte swizzle span
constexpr int kStages = 4;
constexpr uint32_t kABytes = kM * kK * 2, kBBytes = kN * kK * 2, kStageBytes = kABytes + kBBytes;
constexpr uint32_t kSharedBytes = kStages * kStageBytes + 1024;  // 1024 to align the tiles

// Two warpgroups, 64 rows each. Thread 0 also feeds the stages.
__global__ void __launch_bounds__(256, 1)
    gemm(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, __nv_bfloat16* c, int m,
         int n, int k) {
  extern __shared__ uint8_t dynamic[];
  __shared__ alignas(8) uint64_t full[kStages];
  const uint32_t tiles = align_up(smem(dynamic), 1024);
  const int row0 = blockIdx.y * kM, col0 = blockIdx.x * kN, steps = (k + kK - 1) / kK;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) mbar_init(smem(&full[i]), 1);
    mbar_init_fence();
  }
  __syncthreads();

  const auto load = [&](int step) {
    const uint32_t stage = step % kStages, tile = tiles + stage * kStageBytes, bar = smem(&full[stage]);
    mbar_arrive_expect(bar, kStageBytes);  // whole boxes, even where TMA clips them
    tma_load(tile, &a_map, bar, step * kK, row0);
    tma_load(tile + kABytes, &b_map, bar, step * kK, col0);
  };
  if (threadIdx.x == 0) {
    for (int step = 0; step < kStages - 1 && step < steps; ++step) load(step);
  }

  float d[kN / 2];
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) d[i] = 0.0f;
  pin(d);
  const uint32_t group = warpgroup_id();
  for (int step = 0; step < steps; ++step) {
    const uint32_t stage = step % kStages, tile = tiles + stage * kStageBytes;
    mbar_wait(smem(&full[stage]), step / kStages % 2);  // every thread that uses the tile waits
    wgmma_fence();
    const uint64_t a = descriptor_k(tile + group * (64 * 128)), b = descriptor_k(tile + kABytes);
#pragma unroll
    for (int i = 0; i < kK / 16; ++i) wgmma_bf16(d, a + 2 * i, b + 2 * i, step + i > 0);
    wgmma_commit();
    wgmma_wait<1>();  // the step before has finished, this one runs on
    __syncthreads();  // in both warpgroups: its stage is free
    if (threadIdx.x == 0 && step + kStages - 1 < steps) load(step + kStages - 1);
  }
  wgmma_wait<0>();
  pin(d);

#pragma unroll
  for (int i = 0; i < kN / 2; i += 2) {
    const int row = row0 + group * 64 + accumulator_row(i), col = col0 + accumulator_col(i);
    if (row < m && col < n) {
      *reinterpret_cast<__nv_bfloat162*>(c + int64_t(row) * n + col) = __floats2bfloat162_rn(d[i], d[i + 1]);
    }
  }
}

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(0);
  if (m == 0 || n == 0) return;
  const CUtensorMap a_map = tensor_map(a.data_ptr(), {uint64_t(k), uint64_t(m)}, {kK, kM});
  const CUtensorMap b_map = tensor_map(b.data_ptr(), {uint64_t(k), uint64_t(n)}, {kK, kN});
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  launch(gemm, dim3((n + kN - 1) / kN, (m + kM - 1) / kM), 256, kSharedBytes, 1, stream, a_map, b_map,
         static_cast<__nv_bfloat16*>(c.data_ptr()), int(m), int(n), int(k));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// endregion kernel
