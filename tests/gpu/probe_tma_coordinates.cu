// What tensor copies do with coordinates outside the tensor or off 16 bytes. One process per case, because a refused
// copy kills the context:   probe_tma_coordinates CASE      (0 .. 7; without an argument: lists them)
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kWidth = 64, kHeight = 16, kBoxWidth = 16, kBoxHeight = 4;

__global__ void copy(const __grid_constant__ CUtensorMap map, int x, int y, bool store, uint16_t* out) {
  __shared__ alignas(128) uint16_t tile[kBoxWidth * kBoxHeight];
  __shared__ alignas(8) uint64_t barrier;
  const uint32_t tile_address = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  const uint32_t barrier_address = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  for (int i = threadIdx.x; i < kBoxWidth * kBoxHeight; i += blockDim.x) tile[i] = 0x7000 + i;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier_address));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  asm volatile("fence.proxy.async;");
  __syncthreads();
  if (threadIdx.x == 0) {
    if (store) {
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x), "r"(y),
                   "r"(tile_address)
                   : "memory");
      asm volatile("cp.async.bulk.commit_group;");
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    } else {
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier_address), "r"(kBoxWidth * kBoxHeight * 2));
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                       tile_address),
                   "l"(&map), "r"(x), "r"(y), "r"(barrier_address)
                   : "memory");
    }
  }
  if (!store) {
    uint32_t done = 0;
    while (done == 0) {
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done)
                   : "r"(barrier_address)
                   : "memory");
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kBoxWidth * kBoxHeight; i += blockDim.x) out[i] = tile[i];
}

struct Case {
  const char* name;
  int x, y;
  bool store;
};
static const Case kCases[] = {{"load at (8, 1)", 8, 1, false},   {"load at (1, 1): 2 bytes off 16", 1, 1, false},
                              {"load at (-1, 0)", -1, 0, false}, {"load at (-8, -2)", -8, -2, false},
                              {"store at (8, 1)", 8, 1, true},   {"store at (1, 1): 2 bytes off 16", 1, 1, true},
                              {"store at (-8, 0)", -8, 0, true}, {"store at (0, -2)", 0, -2, true}};

int main(int argc, char** argv) {
  if (argc < 2) {
    for (size_t c = 0; c < sizeof kCases / sizeof kCases[0]; ++c) std::printf("%zu %s\n", c, kCases[c].name);
    return 0;
  }
  const Case& test = kCases[std::atoi(argv[1])];
  std::vector<uint16_t> tensor(kWidth * kHeight), tile(kBoxWidth * kBoxHeight);
  for (int i = 0; i < kWidth * kHeight; ++i) tensor[i] = static_cast<uint16_t>(i);
  uint16_t *memory, *out;
  cudaMalloc(&memory, tensor.size() * 2);
  cudaMalloc(&out, tile.size() * 2);
  cudaMemcpy(memory, tensor.data(), tensor.size() * 2, cudaMemcpyHostToDevice);
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  CUtensorMap map;
  cuuint64_t sizes[2] = {kWidth, kHeight}, strides[1] = {kWidth * 2};
  cuuint32_t box[2] = {kBoxWidth, kBoxHeight}, steps[2] = {1, 1};
  const CUresult encoded = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, memory, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  copy<<<1, 32>>>(map, test.x, test.y, test.store, out);
  const cudaError_t status = cudaDeviceSynchronize();
  int wrong = 0;
  if (status == cudaSuccess) {
    cudaMemcpy(tile.data(), out, tile.size() * 2, cudaMemcpyDeviceToHost);
    cudaMemcpy(tensor.data(), memory, tensor.size() * 2, cudaMemcpyDeviceToHost);
    for (int r = 0; r < kBoxHeight; ++r) {
      for (int c = 0; c < kBoxWidth; ++c) {
        const int gx = test.x + c, gy = test.y + r;
        const bool inside = gx >= 0 && gx < kWidth && gy >= 0 && gy < kHeight;
        if (test.store) {
          if (inside && tensor[gy * kWidth + gx] != 0x7000 + r * kBoxWidth + c) ++wrong;
        } else if (tile[r * kBoxWidth + c] != (inside ? gy * kWidth + gx : 0)) {
          ++wrong;
        }
      }
    }
  }
  std::printf("%s: encode %d, %s, %d of %d elements differ from clipping\n", test.name, static_cast<int>(encoded),
              cudaGetErrorName(status), wrong, kBoxWidth * kBoxHeight);
  return 0;
}
