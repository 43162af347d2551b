// C[M,N] = A[M,K] B[N,K]^T, bf16 in and out, fp32 sums in tensor memory. N and K multiples of 8.
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
#include "tcgen05.cuh"
#include "tma.cuh"

// region kernel
constexpr int kM = 128, kN = 256, kK = 64;  // 64 bf16 are one 128-byte swizzle span
constexpr int kStages = 4;
constexpr uint32_t kABytes = kM * kK * 2, kBBytes = kN * kK * 2, kStageBytes = kABytes + kBBytes;
constexpr uint32_t kSharedBytes = kStages * kStageBytes + 1024;
constexpr uint32_t kInstruction = umma_instruction(kM, kN, 1, 1);  // bf16 and bf16

// Warp 0 loads, warp 1 multiplies, then all four store: lane r of tensor memory is row r of the tile.
__global__ void __launch_bounds__(128, 1)
    gemm(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, __nv_bfloat16* c, int m,
         int n, int k) {
  extern __shared__ uint8_t dynamic[];
  __shared__ alignas(8) uint64_t full[kStages], empty[kStages], done;
  __shared__ uint32_t tmem_slot;
  const uint32_t tiles = align_up(smem(dynamic), 1024), warp = warp_id();
  const int row0 = blockIdx.y * kM, col0 = blockIdx.x * kN, steps = (k + kK - 1) / kK;
  if (warp == 0) {
    tmem_alloc(smem(&tmem_slot), kN);
    tmem_relinquish();
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      mbar_init(smem(&full[i]), 1);
      mbar_init(smem(&empty[i]), 1);  // the commit
    }
    mbar_init(smem(&done), 1);
    mbar_init_fence();
  }
  tcgen05_fence_before();
  __syncthreads();
  tcgen05_fence_after();
  const uint32_t tmem = tmem_slot;

  Ring<kStages> at;
  if (warp == 0 && lane_id() == 0) {
    for (int step = 0; step < steps; ++step) {
      mbar_wait(smem(&empty[at.stage]), at.parity ^ 1);
      const uint32_t bar = smem(&full[at.stage]), tile = tiles + at.stage * kStageBytes;
      mbar_arrive_expect(bar, kStageBytes);
      tma_load(tile, &a_map, bar, step * kK, row0);
      tma_load(tile + kABytes, &b_map, bar, step * kK, col0);
      at.advance();
    }
  } else if (warp == 1 && lane_id() == 0) {
    for (int step = 0; step < steps; ++step) {
      mbar_wait(smem(&full[at.stage]), at.parity);
      tcgen05_fence_after();
      const uint32_t tile = tiles + at.stage * kStageBytes;
      const uint64_t a = umma_k(tile), b = umma_k(tile + kABytes);
#pragma unroll
      for (int i = 0; i < kK / 16; ++i) umma_f16(tmem, a + 2 * i, b + 2 * i, kInstruction, step + i > 0);
      umma_commit(smem(&empty[at.stage]));  // when the products have read the stage
      at.advance();
    }
    umma_commit(smem(&done));
  }
  __syncwarp();

  mbar_wait(smem(&done), 0);
  tcgen05_fence_after();
  const int row = row0 + threadIdx.x;
  for (int col = 0; col < kN; col += 32) {
    float v[32];
    tmem_load(v, tmem_at(tmem, warp * 32, col));  // every lane, also of rows beyond M
    tmem_load_wait();
    for (int i = 0; i < 32; i += 2) {
      if (row < m && col0 + col + i < n) {
        *reinterpret_cast<__nv_bfloat162*>(c + int64_t(row) * n + col0 + col + i) =
            __floats2bfloat162_rn(v[i], v[i + 1]);
      }
    }
  }
  tcgen05_fence_before();
  __syncthreads();
  if (warp == 0) tmem_dealloc(tmem, kN);
}

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(0);
  if (m == 0 || n == 0) return;
  const CUtensorMap a_map = tensor_map(a.data_ptr(), {uint64_t(k), uint64_t(m)}, {kK, kM});
  const CUtensorMap b_map = tensor_map(b.data_ptr(), {uint64_t(k), uint64_t(n)}, {kK, kN});
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  launch(gemm, dim3((n + kN - 1) / kN, (m + kM - 1) / kM), 128, kSharedBytes, 1, stream, a_map, b_map,
         static_cast<__nv_bfloat16*>(c.data_ptr()), int(m), int(n), int(k));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// endregion kernel
