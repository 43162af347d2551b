#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace gemm_mma {

constexpr int kTileM = 128;
constexpr int kTileN = 128;
constexpr int kTileK = 64;
constexpr int kStages = 3;
constexpr int kThreads = 256;
constexpr int kVector = 8;
constexpr int kChunks = kTileK / kVector;
constexpr int kWarpM = 64;
constexpr int kWarpN = 32;
constexpr int kFragsM = kWarpM / 16;
constexpr int kFragsN = kWarpN / 8;
constexpr uint32_t kOperandBytes = kTileM * kTileK * 2;
constexpr uint32_t kStageBytes = 2 * kOperandBytes;
constexpr uint32_t kSharedBytes = kStages * kStageBytes;

static_assert(kTileM == kTileN, "both operand slices are copied by the same code");

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void copy_chunk(uint32_t destination, const void* source, bool valid) {
  const uint32_t source_bytes = valid ? 16u : 0u;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(destination), "l"(__cvta_generic_to_global(source)), "r"(source_bytes)
               : "memory");
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kLeftInFlight>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeftInFlight) : "memory");
}

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t swizzled(int row, int chunk) {
  return static_cast<uint32_t>(row * kChunks * 16 + ((chunk ^ (row % 8)) * 16));
}

__device__ __forceinline__ void copy_slice(uint32_t destination, const __nv_bfloat16* matrix, int row0, int rows,
                                           int k0, int depth) {
#pragma unroll
  for (int i = 0; i < kTileM * kChunks / kThreads; ++i) {
    const int index = static_cast<int>(threadIdx.x) + i * kThreads;
    const int row = index / kChunks;
    const int chunk = index % kChunks;
    const int k = k0 + chunk * kVector;
    const bool valid = row0 + row < rows && k < depth;
    const __nv_bfloat16* source = valid ? matrix + static_cast<size_t>(row0 + row) * depth + k : matrix;
    copy_chunk(destination + swizzled(row, chunk), source, valid);
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    gemm_kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t ring = shared_address(shared);

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_m = warp / 4 * kWarpM;
  const int warp_n = warp % 4 * kWarpN;
  const int m0 = static_cast<int>(blockIdx.y) * kTileM;
  const int n0 = static_cast<int>(blockIdx.x) * kTileN;
  const int slices = (k + kTileK - 1) / kTileK;

  float acc[kFragsM][kFragsN][4];
#pragma unroll
  for (int i = 0; i < kFragsM; ++i) {
#pragma unroll
    for (int j = 0; j < kFragsN; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i][j][e] = 0.0f;
    }
  }

  auto start_slice = [&](int slice) {
    if (slice < slices) {
      const uint32_t stage = ring + static_cast<uint32_t>(slice % kStages) * kStageBytes;
      copy_slice(stage, a, m0, m, slice * kTileK, k);
      copy_slice(stage + kOperandBytes, b, n0, n, slice * kTileK, k);
    }
    commit_copies();
  };

#pragma unroll
  for (int slice = 0; slice < kStages - 1; ++slice) start_slice(slice);

  for (int slice = 0; slice < slices; ++slice) {
    wait_copies<kStages - 2>();
    __syncthreads();
    start_slice(slice + kStages - 1);

    const uint32_t a_slice = ring + static_cast<uint32_t>(slice % kStages) * kStageBytes;
    const uint32_t b_slice = a_slice + kOperandBytes;
#pragma unroll
    for (int step = 0; step < kTileK / 16; ++step) {
      uint32_t a_frag[kFragsM][4];
#pragma unroll
      for (int i = 0; i < kFragsM; ++i) {
        load_matrices(a_frag[i], a_slice + swizzled(warp_m + 16 * i + lane % 16, 2 * step + lane / 16));
      }
      uint32_t b_frag[kFragsN / 2][4];
#pragma unroll
      for (int j = 0; j < kFragsN / 2; ++j) {
        const int row = warp_n + 16 * j + lane / 16 * 8 + lane % 8;
        load_matrices(b_frag[j], b_slice + swizzled(row, 2 * step + lane / 8 % 2));
      }
#pragma unroll
      for (int i = 0; i < kFragsM; ++i) {
#pragma unroll
        for (int j = 0; j < kFragsN; ++j) {
          multiply(acc[i][j], a_frag[i], b_frag[j / 2][j % 2 * 2], b_frag[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
  }
  wait_copies<0>();

#pragma unroll
  for (int i = 0; i < kFragsM; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m0 + warp_m + 16 * i + 8 * half + lane / 4;
#pragma unroll
      for (int j = 0; j < kFragsN; ++j) {
        const int col = n0 + warp_n + 8 * j + lane % 4 * 2;
        if (col >= n) continue;
        *reinterpret_cast<__nv_bfloat162*>(c + static_cast<size_t>(row) * n + col) =
            __floats2bfloat162_rn(acc[i][j][2 * half], acc[i][j][2 * half + 1]);
      }
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
  check(cudaFuncSetAttribute(gemm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
        "shared memory of gemm_mma_cp_async");
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  const dim3 grid(static_cast<unsigned>((n + kTileN - 1) / kTileN), static_cast<unsigned>((m + kTileM - 1) / kTileM));
  gemm_kernel<<<grid, kThreads, kSharedBytes, stream>>>(a_data, b_data, c_data, static_cast<int>(m),
                                                        static_cast<int>(n), static_cast<int>(k));
  check(cudaGetLastError(), "launch of gemm_mma_cp_async");
}

}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, gemm_mma::run);
