#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace gemm_warp_specialized {

constexpr int kTileM = 128;
constexpr int kTileN = 256;
constexpr int kTileK = 64;
constexpr int kStages = 4;
constexpr int kConsumerWarps = 8;
constexpr int kThreads = (kConsumerWarps + 1) * 32;
constexpr int kVector = 8;
constexpr uint64_t kStepUnits = 16 * sizeof(__nv_bfloat16) / 16;
constexpr uint32_t kABytes = kTileM * kTileK * 2;
constexpr uint32_t kBBytes = kTileN * kTileK * 2;
constexpr uint32_t kHalfBytes = 64 * kTileK * 2;
constexpr uint32_t kStageBytes = kABytes + kBBytes;
constexpr uint32_t kAtomBytes = 1024;
constexpr uint32_t kSharedBytes = kStages * kStageBytes + kAtomBytes;

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
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

template <int kLeftInFlight>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeftInFlight) : "memory");
}

__device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred keep;\n"
      "setp.ne.b32 keep, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      " %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      " %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, keep, 1, 1, 0, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),
        "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),
        "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),
        "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]),
        "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]),
        "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]),
        "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]),
        "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]),
        "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]),
        "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]),
        "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]),
        "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

__device__ __forceinline__ void pin(float (&d)[128]) {
#pragma unroll
  for (int i = 0; i < 128; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

struct RingPosition {
  uint32_t stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

__device__ __forceinline__ void produce(const CUtensorMap* a_map, const CUtensorMap* b_map, uint32_t ring,
                                        uint32_t full, uint32_t empty, int m0, int n0, int slices) {
  RingPosition at;
  for (int slice = 0; slice < slices; ++slice) {
    barrier_wait(empty + 8 * at.stage, at.parity ^ 1);
    const uint32_t a_box = ring + at.stage * kStageBytes;
    barrier_arrive_expecting(full + 8 * at.stage, kStageBytes);
    load_box(a_box, a_map, slice * kTileK, m0, full + 8 * at.stage);
    load_box(a_box + kABytes, b_map, slice * kTileK, n0, full + 8 * at.stage);
    at.advance();
  }
}

__device__ __forceinline__ void consume(float (&d)[128], uint32_t ring, uint32_t full, uint32_t empty, int half,
                                        int slices) {
  const bool releases = threadIdx.x % 32 == 0;
  RingPosition at;
  uint32_t previous = 0;
  pin(d);
  for (int slice = 0; slice < slices; ++slice) {
    barrier_wait(full + 8 * at.stage, at.parity);
    const uint32_t a_box = ring + at.stage * kStageBytes;
    const uint64_t a_descriptor = matrix_descriptor(a_box + static_cast<uint32_t>(half) * kHalfBytes);
    const uint64_t b_descriptor = matrix_descriptor(a_box + kABytes);

    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kTileK / 16; ++step) {
      multiply(d, a_descriptor + kStepUnits * step, b_descriptor + kStepUnits * step, slice > 0 || step > 0);
    }
    wgmma_commit();

    wgmma_wait<1>();
    if (slice > 0 && releases) barrier_arrive(empty + 8 * previous);
    previous = at.stage;
    at.advance();
  }
  wgmma_wait<0>();
  pin(d);
}

__device__ __forceinline__ void store_half(__nv_bfloat16* c, const float (&d)[128], int row0, int col0, int m, int n) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
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

__global__ void __launch_bounds__(kThreads, 1)
    gemm_kernel(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, __nv_bfloat16* c,
                int m, int n, int k) {
  extern __shared__ unsigned char shared[];
  __shared__ __align__(8) uint64_t full_barriers[kStages];
  __shared__ __align__(8) uint64_t empty_barriers[kStages];

  const uint32_t ring = (shared_address(shared) + kAtomBytes - 1) & ~(kAtomBytes - 1);
  const uint32_t full = shared_address(full_barriers);
  const uint32_t empty = shared_address(empty_barriers);
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  const int m0 = static_cast<int>(blockIdx.y) * kTileM;
  const int n0 = static_cast<int>(blockIdx.x) * kTileN;
  const int slices = (k + kTileK - 1) / kTileK;

  if (threadIdx.x == 0) {
#pragma unroll
    for (uint32_t stage = 0; stage < kStages; ++stage) {
      barrier_init(full + 8 * stage, 1);
      barrier_init(empty + 8 * stage, kConsumerWarps);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }

  if (warp == kConsumerWarps) {
    if (threadIdx.x % 32 == 0) produce(&a_map, &b_map, ring, full, empty, m0, n0, slices);
  } else {
    float d[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) d[i] = 0.0f;
    const int half = warp / 4;
    consume(d, ring, full, empty, half, slices);
    store_half(c, d, m0 + 64 * half, n0, m, n);
  }
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
  check(cudaFuncSetAttribute(gemm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
        "shared memory of gemm_warp_specialized");
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  const dim3 grid(static_cast<unsigned>((n + kTileN - 1) / kTileN), static_cast<unsigned>((m + kTileM - 1) / kTileM));
  gemm_kernel<<<grid, kThreads, kSharedBytes, stream>>>(a_map, b_map, c_data, static_cast<int>(m), static_cast<int>(n),
                                                        static_cast<int>(k));
  check(cudaGetLastError(), "launch of gemm_warp_specialized");
}

}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, gemm_warp_specialized::run);
