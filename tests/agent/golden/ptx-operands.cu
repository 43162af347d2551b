#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace gemm_tma_wgmma {

constexpr int kTileM = 128;
constexpr int kTileN = 128;
constexpr int kTileK = 64;
constexpr int kThreads = 128;
constexpr int kVector = 8;
constexpr uint32_t kBoxBytes = 128 * kTileK * 2;
constexpr uint32_t kHalfBytes = 64 * kTileK * 2;

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  do {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}

__device__ __forceinline__ void load_box(uint32_t destination, const CUtensorMap* map, int k, int row,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
      :
      : "r"(destination), "l"(map), "r"(k), "r"(row), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t address) {
  constexpr uint64_t kLeadingOffset = 1;
  constexpr uint64_t kStrideOffset = 1024 >> 4;
  constexpr uint64_t kSwizzle128 = 1;
  return static_cast<uint64_t>(address >> 4) | kLeadingOffset << 16 | kStrideOffset << 32 | kSwizzle128 << 62;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_wait_all() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

__device__ __forceinline__ void multiply(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred keep;\n"
      "setp.ne.b32 keep, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, keep, 1, 1;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),
        "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),
        "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),
        "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

__device__ __forceinline__ void pin(float (&d)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

__device__ __forceinline__ void store_half(__nv_bfloat16* c, const float (&d)[64], int row0, int col0, int m, int n) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + 16 * warp + lane / 4 + 8 * half;
    if (row >= m) continue;
#pragma unroll
    for (int j = 0; j < kTileN / 8; ++j) {
      const int col = col0 + 8 * j + lane % 4 * 2;
      if (col >= n) continue;
      *reinterpret_cast<__nv_bfloat162*>(c + static_cast<size_t>(row) * n + col) =
          __floats2bfloat162_rn(d[4 * j + 2 * half], d[4 * j + 2 * half + 1]);
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    gemm_kernel(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, __nv_bfloat16* c,
                int m, int n, int k) {
  __shared__ __align__(1024) unsigned char a_box[kBoxBytes];
  __shared__ __align__(1024) unsigned char b_box[kBoxBytes];
  __shared__ __align__(8) uint64_t full_barrier;

  const bool is_leader = threadIdx.x == 0;
  const int m0 = static_cast<int>(blockIdx.y) * kTileM;
  const int n0 = static_cast<int>(blockIdx.x) * kTileN;
  const uint32_t full = shared_address(&full_barrier);
  const uint32_t a_address = shared_address(a_box);
  const uint32_t b_address = shared_address(b_box);

  if (is_leader) {
    barrier_init(full, 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();

  float upper[64];
  float lower[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    upper[i] = 0.0f;
    lower[i] = 0.0f;
  }

  const int slices = (k + kTileK - 1) / kTileK;
  for (int slice = 0; slice < slices; ++slice) {
    if (is_leader) {
      barrier_arrive_expecting(full, 2 * kBoxBytes);
      load_box(a_address, &a_map, slice * kTileK, m0, full);
      load_box(b_address, &b_map, slice * kTileK, n0, full);
    }
    barrier_wait(full, static_cast<uint32_t>(slice & 1));
    __syncwarp();

    pin(upper);
    pin(lower);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kTileK / 16; ++step) {
      const uint32_t k_bytes = static_cast<uint32_t>(step) * 32;
      const uint64_t b_desc = matrix_descriptor(b_address + k_bytes);
      multiply(upper, matrix_descriptor(a_address + k_bytes), b_desc, true);
      multiply(lower, matrix_descriptor(a_address + kHalfBytes + k_bytes), b_desc, true);
    }
    wgmma_commit();
    wgmma_wait_all();
    pin(upper);
    pin(lower);
    __syncthreads();
  }

  store_half(c, upper, m0, n0, m, n);
  store_half(c, lower, m0 + 64, n0, m, n);
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << what << ": " << cudaGetErrorString(status);
}

PFN_cuTensorMapEncodeTiled_v12000 encode_function() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
        "look-up of cuTensorMapEncodeTiled");
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    TVM_FFI_THROW(RuntimeError) << "the driver has no cuTensorMapEncodeTiled";
  }
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

CUtensorMap make_tensor_map(const char* name, void* data, int64_t rows, int64_t cols, uint32_t box_rows) {
  CUtensorMap map;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t row_bytes[1] = {static_cast<cuuint64_t>(cols) * sizeof(__nv_bfloat16)};
  const cuuint32_t box[2] = {64, box_rows};
  const cuuint32_t element_strides[2] = {1, 1};
  const CUresult status = encode_function()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, sizes, row_bytes, box,
                                            element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    TVM_FFI_THROW(RuntimeError) << "cuTensorMapEncodeTiled for " << name << " failed with code "
                                << static_cast<int>(status);
  }
  return map;
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
  __nv_bfloat16* a_data = checked_matrix(a, "A", m, k);
  __nv_bfloat16* b_data = checked_matrix(b, "B", n, k);
  __nv_bfloat16* c_data = checked_matrix(c, "C", m, n);
  if (n % kVector != 0 || k % kVector != 0) TVM_FFI_THROW(ValueError) << "N and K must be multiples of 8";
  if (k == 0) TVM_FFI_THROW(ValueError) << "K must be positive";
  if (m == 0 || n == 0) return;
  const CUtensorMap a_map = make_tensor_map("A", a_data, m, k, kTileM);
  const CUtensorMap b_map = make_tensor_map("B", b_data, n, k, kTileN);
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  const dim3 grid(static_cast<unsigned>((n + kTileN - 1) / kTileN), static_cast<unsigned>((m + kTileM - 1) / kTileM));
  gemm_kernel<<<grid, kThreads, 0, stream>>>(a_map, b_map, c_data, static_cast<int>(m), static_cast<int>(n),
                                             static_cast<int>(k));
  check(cudaGetLastError(), "launch of gemm_tma_wgmma");
}

}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, gemm_tma_wgmma::run);
