// The smallest program that uses Hopper's copy engine and tensor cores: one CTA of one warpgroup brings a 64x64 tile of
// A and of B into shared memory by TMA, multiplies them with four wgmma steps and stores C = A * B^T. The host checks
// the result.
// Build: nvcc -cudart shared -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]' tma_wgmma_tile.cu -o tma_wgmma_tile

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kSize = 64;
constexpr int kThreads = 128;
constexpr uint32_t kTileBytes = kSize * kSize * sizeof(__nv_bfloat16);

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits until the phase of the given parity has completed.
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

// Starts the copy of one box into shared memory; (k, row) is its first element. Completion counts on `barrier`.
__device__ __forceinline__ void load_box(uint32_t destination, const CUtensorMap* map, int k, int row,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
      :
      : "r"(destination), "l"(map), "r"(k), "r"(row), "r"(barrier)
      : "memory");
}

// Matrix descriptor of a K-major operand whose rows are 128 bytes under the 128-byte swizzle. Eight such rows make an
// atom of 1024 bytes, the stride between groups of eight rows; the leading offset is unused in this layout.
__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t address) {
  constexpr uint64_t kLeadingOffset = 1;
  constexpr uint64_t kStrideOffset = 1024 >> 4;
  constexpr uint64_t kSwizzle128 = 1;
  return static_cast<uint64_t>(address >> 4) | kLeadingOffset << 16 | kStrideOffset << 32 | kSwizzle128 << 62;
}

// D[64,64] (+)= A[64,16] * B[64,16]^T; without `accumulate` the old D is not used.
__device__ __forceinline__ void multiply(float (&d)[32], uint64_t a, uint64_t b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred keep;\n"
      "setp.ne.b32 keep, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, keep, 1, 1, 0, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

// Keeps the compiler from moving accesses to the accumulators across this point: it does not know that wgmma works on
// them between its issue and the wait.
__device__ __forceinline__ void pin(float (&d)[32]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

__global__ void __launch_bounds__(kThreads)
    tile_kernel(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, float* c) {
  __shared__ __align__(1024) unsigned char a_tile[kTileBytes];
  __shared__ __align__(1024) unsigned char b_tile[kTileBytes];
  __shared__ __align__(8) uint64_t full_barrier;
  const uint32_t full = shared_address(&full_barrier);

  if (threadIdx.x == 0) {
    barrier_init(full, 1);
    // The copy engine works on the barrier too, through the async proxy.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barrier_arrive_expecting(full, 2 * kTileBytes);
    load_box(shared_address(a_tile), &a_map, 0, 0, full);
    load_box(shared_address(b_tile), &b_map, 0, 0, full);
  }
  __syncthreads();
  barrier_wait(full, 0);

  float d[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) d[i] = 0.0f;
  pin(d);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int step = 0; step < kSize / 16; ++step) {
    const uint32_t k_bytes = static_cast<uint32_t>(step) * 32;
    multiply(d, matrix_descriptor(shared_address(a_tile) + k_bytes),
             matrix_descriptor(shared_address(b_tile) + k_bytes), step > 0);
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  pin(d);

  const int row = static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
  const int col = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int j = 0; j < kSize / 8; ++j) {
    *reinterpret_cast<float2*>(c + row * kSize + 8 * j + col) = make_float2(d[4 * j], d[4 * j + 1]);
    *reinterpret_cast<float2*>(c + (row + 8) * kSize + 8 * j + col) = make_float2(d[4 * j + 2], d[4 * j + 3]);
  }
}

// Describes a row-major 64x64 bf16 matrix, copied whole under the 128-byte swizzle.
CUtensorMap make_tensor_map(void* data) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
        "look-up of cuTensorMapEncodeTiled");
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    std::fprintf(stderr, "the driver has no cuTensorMapEncodeTiled\n");
    std::exit(2);
  }
  CUtensorMap map;
  const cuuint64_t sizes[2] = {kSize, kSize};
  const cuuint64_t row_bytes[1] = {kSize * sizeof(__nv_bfloat16)};
  const cuuint32_t box[2] = {kSize, kSize};
  const cuuint32_t element_strides[2] = {1, 1};
  const CUresult status = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function)(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, sizes, row_bytes, box, element_strides,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    std::fprintf(stderr, "cuTensorMapEncodeTiled failed with code %d\n", static_cast<int>(status));
    std::exit(2);
  }
  return map;
}

}  // namespace

int main() {
  // Small integers: every product and sum is exact in fp32, so the result must match exactly, in any order of addition.
  std::vector<__nv_bfloat16> a(kSize * kSize);
  std::vector<__nv_bfloat16> b(kSize * kSize);
  std::vector<float> c(kSize * kSize, -1.0f);
  for (int i = 0; i < kSize * kSize; ++i) {
    a[i] = __float2bfloat16(static_cast<float>(i * 7 % 31 - 15));
    b[i] = __float2bfloat16(static_cast<float>(i * 5 % 23 - 11));
  }

  __nv_bfloat16* device_a = nullptr;
  __nv_bfloat16* device_b = nullptr;
  float* device_c = nullptr;
  check(cudaMalloc(&device_a, kTileBytes), "cudaMalloc");
  check(cudaMalloc(&device_b, kTileBytes), "cudaMalloc");
  check(cudaMalloc(&device_c, c.size() * sizeof(float)), "cudaMalloc");
  check(cudaMemcpy(device_a, a.data(), kTileBytes, cudaMemcpyHostToDevice), "copy of A");
  check(cudaMemcpy(device_b, b.data(), kTileBytes, cudaMemcpyHostToDevice), "copy of B");
  check(cudaMemcpy(device_c, c.data(), c.size() * sizeof(float), cudaMemcpyHostToDevice), "copy of C");

  tile_kernel<<<1, kThreads>>>(make_tensor_map(device_a), make_tensor_map(device_b), device_c);
  check(cudaGetLastError(), "launch");
  check(cudaMemcpy(c.data(), device_c, c.size() * sizeof(float), cudaMemcpyDeviceToHost), "copy of C");

  int wrong = 0;
  for (int row = 0; row < kSize; ++row) {
    for (int col = 0; col < kSize; ++col) {
      float sum = 0.0f;
      for (int k = 0; k < kSize; ++k) {
        sum += __bfloat162float(a[row * kSize + k]) * __bfloat162float(b[col * kSize + k]);
      }
      wrong += c[row * kSize + col] != sum;
    }
  }

  check(cudaFree(device_a), "cudaFree");
  check(cudaFree(device_b), "cudaFree");
  check(cudaFree(device_c), "cudaFree");
  std::printf("tma_wgmma_tile: %d of %d elements wrong: %s\n", wrong, kSize * kSize, wrong == 0 ? "PASS" : "FAIL");
  return wrong == 0 ? 0 : 1;
}
