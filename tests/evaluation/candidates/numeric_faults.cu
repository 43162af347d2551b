// A GEMM in tiles of 16x16, 32 of K at a time, whose numbers are wrong in a way that the number of rows chooses: 64 + mode.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

enum Mode {
  kSound = 0,
  kLastTileOfKMissing = 1,
  kMiddleTileOfKMissing = 2,
  kTileOfKTwice = 3,
  kFirstTileOfKTwice = 4,
  kStaleTileOfA = 5,
  kStaleTilesOfBoth = 6,
  kTooBig = 7,
  kHalf = 8,
  kPartialSumHalved = 9,
  kRowsScaled = 10,
  kTilesTransposed = 11,
  kOperandTransposed = 12,
  kStaleColumnTile = 13,
  kStaleRowTile = 14,
  kTailRows = 15,
  kTailColumns = 16,
  kOutputAdded = 17,
  kOverflow = 18,
  kZero = 19,
  kConstant = 20,
  kRowsExchanged = 21,
  kRowsRotated = 22,
  kColumnsExchanged = 23,
  kColumnsRotated = 24,
  kPiecesExchanged = 25,
  kPiecesSwizzled = 26,
  kOneElement = 27,
  kNoBarrier = 28,
};
constexpr int kTile = 16, kDepth = 32;

__global__ void gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k, int mode) {
  __shared__ float a_tile[kTile][kDepth], b_tile[kTile][kDepth];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  int row_tile = static_cast<int>(blockIdx.y), column_tile = static_cast<int>(blockIdx.x);
  if (mode == kStaleRowTile && row_tile == 2) row_tile = 0;
  if (mode == kStaleColumnTile && column_tile == 5) column_tile = 4;
  const bool tail_rows = mode == kTailRows && row_tile == 4;
  const bool tail_columns = mode == kTailColumns && column_tile == 15;

  float sum = mode == kOutputAdded && blockIdx.y == 1 ? __bfloat162float(c[(row_tile * kTile + y) * n + column_tile * kTile + x]) : 0.0f;
  const int tiles = k / kDepth;
  for (int tile = 0; tile < (mode == kLastTileOfKMissing ? tiles - 1 : tiles); ++tile) {
    __syncthreads();
    for (int i = x; i < kDepth; i += kTile) {
      const int at = tile * kDepth + i, row = row_tile * kTile + y, column = column_tile * kTile + y;
      const int row_length = tail_rows ? k - 1 : k, column_length = tail_columns ? k - 1 : k;
      const bool stale_a = (mode == kStaleTileOfA && tile == 3) || (mode == kStaleTilesOfBoth && tile == 4);
      if (!stale_a) a_tile[y][i] = row < m ? __bfloat162float(a[row * row_length + at]) : 0.0f;
      if (mode != kStaleTilesOfBoth || tile != 4) {
        b_tile[y][i] = __bfloat162float(mode == kOperandTransposed ? b[at * n + column] : b[column * column_length + at]);
      }
    }
    if (mode != kNoBarrier) __syncthreads();
    if (mode == kMiddleTileOfKMissing && tile == 2) continue;
    if (mode == kPartialSumHalved && tile == 3) sum *= 0.5f;
    const int times = (mode == kTileOfKTwice && tile == 2) || (mode == kFirstTileOfKTwice && tile == 0) ? 2 : 1;
    for (int time = 0; time < times; ++time) {
      for (int i = 0; i < kDepth; ++i) sum += a_tile[y][i] * b_tile[x][i];
    }
  }

  int row = static_cast<int>(blockIdx.y) * kTile + y, column = static_cast<int>(blockIdx.x) * kTile + x;
  const bool whole = static_cast<int>(blockIdx.y + 1) * kTile <= m;
  if (mode == kTooBig) sum *= 1.25f;
  if (mode == kHalf) sum *= 0.5f;
  if (mode == kRowsScaled) sum /= static_cast<float>(row + 1);
  if (mode == kOverflow && row == 7) sum = 1e30f * 1e30f * (sum * sum + 1);
  if (mode == kZero) sum = 0;
  if (mode == kConstant) sum = 7;
  if (mode == kOneElement && row == 9 && column == 33) sum += 100;
  if (mode == kTilesTransposed && whole) {
    row += x - y;
    column += y - x;
  }
  if (mode == kRowsExchanged && whole) row ^= 1;
  if (mode == kRowsRotated && whole) row = row / kTile * kTile + (row + 5) % kTile;
  if (mode == kColumnsExchanged) column ^= 1;
  if (mode == kColumnsRotated) column = column / kTile * kTile + (column + 3) % kTile;
  if (mode == kPiecesExchanged) column ^= (row & 1) * 8;
  if (mode == kPiecesSwizzled) column ^= (row & 7) * 8;
  if (row < m) c[row * n + column] = __float2bfloat16(sum);
}

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int m = static_cast<int>(a.size(0)), k = static_cast<int>(a.size(1)), n = static_cast<int>(b.size(0));
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  gemm<<<dim3(static_cast<unsigned>(n / kTile), static_cast<unsigned>((m + kTile - 1) / kTile)), dim3(kTile, kTile), 0, stream>>>(
      static_cast<const __nv_bfloat16*>(a.data_ptr()), static_cast<const __nv_bfloat16*>(b.data_ptr()),
      static_cast<__nv_bfloat16*>(c.data_ptr()), m, n, k, m - 64);
  const cudaError_t launched = cudaGetLastError();
  if (launched != cudaSuccess) TVM_FFI_THROW(RuntimeError) << cudaGetErrorString(launched);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
