#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace gemm_simt {

constexpr int kTileM = 128;
constexpr int kTileN = 128;
constexpr int kTileK = 16;
constexpr int kThreads = 256;
constexpr int kPerThread = 8;
constexpr int kVector = 8;
constexpr int kPitch = 128 + 4;

static_assert(kTileM == kTileN, "both operand tiles are loaded by the same code");
static_assert(kTileM * kTileK == kThreads * kVector, "one 16-byte load per thread fills one operand tile");

__device__ __forceinline__ uint4 load_row_piece(const __nv_bfloat16* matrix, int row, int rows, int k, int depth) {
  if (row >= rows || k >= depth) return make_uint4(0u, 0u, 0u, 0u);
  return *reinterpret_cast<const uint4*>(matrix + static_cast<size_t>(row) * depth + k);
}

__device__ __forceinline__ void store_transposed(float (*tile)[kPitch], uint4 piece, int row, int k) {
  const uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    tile[k + 2 * i][row] = __uint_as_float(words[i] << 16);
    tile[k + 2 * i + 1][row] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    gemm_kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
  __shared__ __align__(16) float a_tile[2][kTileK][kPitch];
  __shared__ __align__(16) float b_tile[2][kTileK][kPitch];

  const int tid = static_cast<int>(threadIdx.x);
  const int m0 = static_cast<int>(blockIdx.y) * kTileM;
  const int n0 = static_cast<int>(blockIdx.x) * kTileN;

  const int load_row = tid % kTileM;
  const int load_k = tid / kTileM * kVector;

  const int ty = tid / 16;
  const int tx = tid % 16;

  float acc[kPerThread][kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) acc[i][j] = 0.0f;
  }

  uint4 a_piece = load_row_piece(a, m0 + load_row, m, load_k, k);
  uint4 b_piece = load_row_piece(b, n0 + load_row, n, load_k, k);

  int buffer = 0;
  for (int k0 = 0; k0 < k; k0 += kTileK) {
    store_transposed(a_tile[buffer], a_piece, load_row, load_k);
    store_transposed(b_tile[buffer], b_piece, load_row, load_k);

    a_piece = load_row_piece(a, m0 + load_row, m, k0 + kTileK + load_k, k);
    b_piece = load_row_piece(b, n0 + load_row, n, k0 + kTileK + load_k, k);

#pragma unroll
    for (int kk = 0; kk < kTileK; ++kk) {
      const float4 a_lo = *reinterpret_cast<const float4*>(&a_tile[buffer][kk][4 * ty]);
      const float4 a_hi = *reinterpret_cast<const float4*>(&a_tile[buffer][kk][64 + 4 * ty]);
      const float4 b_lo = *reinterpret_cast<const float4*>(&b_tile[buffer][kk][4 * tx]);
      const float4 b_hi = *reinterpret_cast<const float4*>(&b_tile[buffer][kk][64 + 4 * tx]);
      const float a_frag[8] = {a_lo.x, a_lo.y, a_lo.z, a_lo.w, a_hi.x, a_hi.y, a_hi.z, a_hi.w};
      const float b_frag[8] = {b_lo.x, b_lo.y, b_lo.z, b_lo.w, b_hi.x, b_hi.y, b_hi.z, b_hi.w};
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) acc[i][j] = fmaf(a_frag[i], b_frag[j], acc[i][j]);
      }
    }
    buffer ^= 1;
  }

#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int row = m0 + (i / 4) * 64 + 4 * ty + i % 4;
    if (row >= m) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int col = n0 + half * 64 + 4 * tx;
      if (col >= n) continue;
      const __nv_bfloat162 pair0 = __floats2bfloat162_rn(acc[i][4 * half], acc[i][4 * half + 1]);
      const __nv_bfloat162 pair1 = __floats2bfloat162_rn(acc[i][4 * half + 2], acc[i][4 * half + 3]);
      uint2 packed;
      packed.x = *reinterpret_cast<const uint32_t*>(&pair0);
      packed.y = *reinterpret_cast<const uint32_t*>(&pair1);
      *reinterpret_cast<uint2*>(c + static_cast<size_t>(row) * n + col) = packed;
    }
  }
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << what << ": " << cudaGetErrorString(status);
}

__nv_bfloat16* checked_matrix(const tvm::ffi::TensorView& t, const char* name, int64_t rows, int64_t cols) {
  const DLDataType dtype = t.dtype();
  if (t.device().device_type != kDLCUDA) TVM_FFI_THROW(ValueError) << name << " must be a CUDA tensor";
  if (dtype.code != kDLBfloat || dtype.bits != 16 || dtype.lanes != 1) {
    TVM_FFI_THROW(TypeError) << name << " must be bfloat16";
  }
  if (t.ndim() != 2 || t.size(0) != rows || t.size(1) != cols) {
    TVM_FFI_THROW(ValueError) << name << " must have shape [" << rows << ", " << cols << "]";
  }
  if (!t.is_contiguous()) TVM_FFI_THROW(ValueError) << name << " must be contiguous";
  return reinterpret_cast<__nv_bfloat16*>(static_cast<char*>(t.data_ptr()) + t.byte_offset());
}

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  if (a.ndim() != 2 || b.ndim() != 2) TVM_FFI_THROW(ValueError) << "A and B must be matrices";
  const int64_t m = a.size(0);
  const int64_t k = a.size(1);
  const int64_t n = b.size(0);
  const __nv_bfloat16* a_data = checked_matrix(a, "A", m, k);
  const __nv_bfloat16* b_data = checked_matrix(b, "B", n, k);
  __nv_bfloat16* c_data = checked_matrix(c, "C", m, n);
  if (n % kVector != 0 || k % kVector != 0) TVM_FFI_THROW(ValueError) << "N and K must be multiples of 8";
  if (m == 0 || n == 0) return;

  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  const dim3 grid(static_cast<unsigned>((n + kTileN - 1) / kTileN), static_cast<unsigned>((m + kTileM - 1) / kTileM));
  gemm_kernel<<<grid, kThreads, 0, stream>>>(a_data, b_data, c_data, static_cast<int>(m), static_cast<int>(n),
                                             static_cast<int>(k));
  check(cudaGetLastError(), "launch of gemm_simt");
}

}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, gemm_simt::run);
