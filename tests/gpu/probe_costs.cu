// What things cost on a Hopper SM, for the cost model of timelines (docs/timeline.md): prints cycles and bytes per cycle.
// nvcc -std=c++17 -gencode arch=compute_90a,code=[sm_90a,compute_90a] -o probe_costs probe_costs.cu && ./probe_costs
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                    \
  do {                                                                                 \
    const cudaError_t error = (call);                                                  \
    if (error != cudaSuccess) {                                                        \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      std::exit(1);                                                                    \
    }                                                                                  \
  } while (0)

namespace {

__device__ __forceinline__ long long now() {
  long long cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ __forceinline__ void init(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@done bra.uni END;\nbra.uni "
      "AGAIN;\nEND:\n}" ::"r"(barrier), "r"(parity) : "memory");
}
__device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// --- instructions: one chain, whose instructions depend on each other, and four

__global__ void instructions(double* out, float x) {
  float a = x, b = x + 1, c = x + 2, d = x + 3;
  const long long t0 = now();
#pragma unroll
  for (int i = 0; i < 256; ++i) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(a));
  const long long t1 = now();
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(a));
    asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(b));
    asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(c));
    asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(d));
  }
  const long long t2 = now();
  if (threadIdx.x == 0) {
    out[0] = double(t1 - t0) / 256;
    out[1] = double(t2 - t1) / 256;
    out[2] = double(a) + b + c + d;
  }
}

// --- loads: a chain of addresses

__global__ void chase_global(double* out, const uint64_t* chain, int steps) {
  const uint64_t* at = chain;
  for (int i = 0; i < steps; ++i) at = reinterpret_cast<const uint64_t*>(__ldcg(reinterpret_cast<const unsigned long long*>(at)));
  const long long t0 = now();
  for (int i = 0; i < steps; ++i) at = reinterpret_cast<const uint64_t*>(__ldcg(reinterpret_cast<const unsigned long long*>(at)));
  const long long t1 = now();
  out[0] = double(t1 - t0) / steps;
  out[1] = double(reinterpret_cast<uintptr_t>(at) & 1);
}

__global__ void chase_shared(double* out) {
  __shared__ uint32_t chain[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) chain[i] = (i * 33 + 17) % 1024;
  __syncthreads();
  uint32_t at = threadIdx.x;
  const long long t0 = now();
#pragma unroll 16
  for (int i = 0; i < 1024; ++i) at = chain[at];
  const long long t1 = now();
  if (threadIdx.x == 0) out[0] = double(t1 - t0) / 1024;
  if (at == 5000) out[1] = at;
}

__global__ void read_all(double* out, const uint4* data, size_t count, int rounds) {
  uint4 sum{};
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  __syncthreads();
  const long long t0 = now();
  for (int r = 0; r < rounds; ++r) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + 7 * stride < count; i += 8 * stride) {
      uint4 v[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) v[j] = __ldcg(data + i + j * stride);
#pragma unroll
      for (int j = 0; j < 8; ++j) sum.x ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
    }
  }
  __syncthreads();
  const long long t1 = now();
  if (threadIdx.x == 0) out[blockIdx.x] = double(t1 - t0);
  if (sum.x == 0x12345) out[0] = 0;
}

// --- TMA: tensor copies of boxes of 64 bf16 by `rows`, 128-byte swizzle

__global__ void tma(double* out, const __grid_constant__ CUtensorMap map, int rows, int copies, int slots) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ __align__(8) uint64_t barriers[16];
  const uint32_t base = (shared_address(memory) + 1023) / 1024 * 1024;
  const uint32_t bytes = rows * 128;
  if (threadIdx.x != 0) return;
  for (int s = 0; s < slots; ++s) init(shared_address(&barriers[s]), 1);
  const auto issue = [&](int i) {
    const int s = i % slots;
    expect(shared_address(&barriers[s]), bytes);
    const int y = (blockIdx.x * 67 + i) * rows % 32768;
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                     base + s * bytes),
                 "l"(&map), "r"(0), "r"(y), "r"(shared_address(&barriers[s]))
                 : "memory");
  };
  issue(0);
  wait(shared_address(&barriers[0]), 0);
  const long long t0 = now();
  // The first phases of the other slots, then each slot again as soon as it is full.
  for (int i = 1; i < 1 + slots && i < copies; ++i) issue(i);
  for (int i = 1; i < copies; ++i) {
    wait(shared_address(&barriers[i % slots]), (i / slots) & 1);
    if (i + slots < copies) issue(i + slots);
  }
  const long long t1 = now();
  out[blockIdx.x] = double(t1 - t0) / (copies - 1);
}

// --- wgmma m64n32k16: time of `count` of them in one group

__device__ __forceinline__ uint64_t descriptor(uint32_t address) {
  return uint64_t((address & 0x3ffff) >> 4) | uint64_t(1) << 16 | uint64_t(64) << 32 | uint64_t(1) << 62;
}

template <int kCount>
__device__ __forceinline__ long long products(uint64_t a, uint64_t b) {
  float d[16];
  for (float& one : d) one = 0;
  const long long t0 = now();
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, "
        "%16, %17, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(a), "l"(b));
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  const long long t1 = now();
  float sum = 0;
  for (const float one : d) sum += one;
  return t1 - t0 + (sum == 1.25f ? 1 : 0);
}

__global__ void wgmma(double* out) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const uint32_t base = (shared_address(memory) + 1023) / 1024 * 1024;
  unsigned char* aligned = memory + (base - shared_address(memory));
  for (int i = threadIdx.x; i < 32768 / 4; i += blockDim.x) reinterpret_cast<uint32_t*>(aligned)[i] = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const uint64_t a = descriptor(base), b = descriptor(base + 16384);
  long long best[4] = {1 << 30, 1 << 30, 1 << 30, 1 << 30};
  for (int i = 0; i < 8; ++i) {
    best[0] = min(best[0], products<1>(a, b));
    best[1] = min(best[1], products<2>(a, b));
    best[2] = min(best[2], products<16>(a, b));
    best[3] = min(best[3], products<64>(a, b));
  }
  if (threadIdx.x == 0)
    for (int i = 0; i < 4; ++i) out[i] = double(best[i]);
}

// --- mbarriers: two warps of a CTA, or of two CTAs, wake each other in turn

__global__ void ping_pong(double* out, int rounds) {
  __shared__ __align__(8) uint64_t barriers[2];
  if (threadIdx.x == 0) {
    init(shared_address(&barriers[0]), 1);
    init(shared_address(&barriers[1]), 1);
  }
  __syncthreads();
  const int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 != 0) return;
  const uint32_t mine = shared_address(&barriers[warp]), other = shared_address(&barriers[1 - warp]);
  const long long t0 = now();
  for (int i = 0; i < rounds; ++i) {
    if (warp == 0) arrive(other);
    wait(mine, i & 1);
    if (warp == 1) arrive(other);
  }
  const long long t1 = now();
  if (warp == 0) out[0] = double(t1 - t0) / rounds / 2;
}

__global__ void __cluster_dims__(2) ping_pong_remote(double* out, int rounds) {
  __shared__ __align__(8) uint64_t barrier;
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) init(shared_address(&barrier), 1);
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (threadIdx.x == 0) {
    uint32_t other;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(shared_address(&barrier)), "r"(1 - rank));
    const long long t0 = now();
    for (int i = 0; i < rounds; ++i) {
      if (rank == 0) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(other) : "memory");
      wait(shared_address(&barrier), i & 1);
      if (rank == 1) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(other) : "memory");
    }
    const long long t1 = now();
    if (rank == 0) out[0] = double(t1 - t0) / rounds / 2;
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__global__ void barriers(double* out, int rounds) {
  __syncthreads();
  const long long t0 = now();
  for (int i = 0; i < rounds; ++i) __syncthreads();
  const long long t1 = now();
  if (threadIdx.x == 0) out[0] = double(t1 - t0) / rounds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  const int sms = properties.multiProcessorCount;
  double* out = nullptr;
  CHECK(cudaMallocManaged(&out, 4096 * sizeof(double)));
  const auto done = [&] { CHECK(cudaDeviceSynchronize()); };
  std::printf("gpu: %s, %d SMs\n", properties.name, sms);

  for (int i = 0; i < 2; ++i) instructions<<<1, 32>>>(out, 1.0F), done();
  std::printf("instruction, dependent: %.2f cycles\ninstruction, four chains: %.2f cycles\n", out[0], out[1]);

  constexpr int kLinks = 4096;
  std::vector<uint64_t> chain(size_t{kLinks} * 32);
  uint64_t* device_chain = nullptr;
  CHECK(cudaMalloc(&device_chain, chain.size() * 8));
  for (int i = 0; i < kLinks; ++i) {
    const int next = (i * 17 + 5) % kLinks;
    chain[size_t(i) * 32] = reinterpret_cast<uint64_t>(device_chain + size_t(next) * 32);
  }
  CHECK(cudaMemcpy(device_chain, chain.data(), chain.size() * 8, cudaMemcpyHostToDevice));
  chase_global<<<1, 1>>>(out, device_chain, kLinks), done();
  std::printf("load, L2: %.0f cycles\n", out[0]);
  for (int i = 0; i < 2; ++i) chase_shared<<<1, 32>>>(out), done();
  std::printf("load, shared: %.1f cycles\n", out[0]);

  const size_t bytes = size_t{32} << 20;
  uint4* data = nullptr;
  CHECK(cudaMalloc(&data, bytes));
  CHECK(cudaMemset(data, 0, bytes));
  for (const int blocks : {1, sms}) {
    const size_t part = blocks == 1 ? size_t{1} << 20 : bytes;
    const int rounds = 8;
    for (int i = 0; i < 2; ++i) read_all<<<blocks, 1024>>>(out, data, part / 16, rounds), done();
    const double cycles = median(std::vector<double>(out, out + blocks));
    std::printf("loads, L2, %d SMs: %.1f bytes per cycle and SM\n", blocks, double(part) * rounds / blocks / cycles);
  }

  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found{};
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
  for (const int rows : {8, 64, 128, 256}) {
    CUtensorMap map;
    const cuuint64_t dims[2] = {64, 32768 + 256}, strides[1] = {128};
    const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(rows)}, steps[2] = {1, 1};
    const auto result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
        &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) return std::fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", result), 1;
    const int shared = 6 * rows * 128 + 1024;
    CHECK(cudaFuncSetAttribute(tma, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    for (const int blocks : {1, sms}) {
      for (const int slots : {1, 4, 6}) {
        for (int i = 0; i < 2; ++i) tma<<<blocks, 32, shared>>>(out, map, rows, 1 + 240, slots), done();
        const double cycles = median(std::vector<double>(out, out + blocks));
        std::printf("TMA load of %d bytes, %d in flight, %d SMs: %.0f cycles each, %.1f bytes per cycle and SM\n",
                    rows * 128, slots, blocks, cycles, rows * 128 / cycles);
      }
    }
  }

  CHECK(cudaFuncSetAttribute(wgmma, cudaFuncAttributeMaxDynamicSharedMemorySize, 40 * 1024));
  wgmma<<<1, 128, 40 * 1024>>>(out), done();
  std::printf("wgmma m64n32k16 bf16, 1, 2, 16, 64 in a group: %.0f %.0f %.0f %.0f cycles (%.1f each)\n", out[0], out[1],
              out[2], out[3], (out[3] - out[2]) / 48);
  for (int i = 0; i < 2; ++i) ping_pong<<<1, 64>>>(out, 1000), done();
  std::printf("mbarrier, arrive to the other warp's next instruction: %.1f cycles\n", out[0]);
  for (int i = 0; i < 2; ++i) ping_pong_remote<<<2, 32>>>(out, 1000), done();
  std::printf("mbarrier, the same in another CTA of the cluster: %.1f cycles\n", out[0]);
  for (const int threads : {128, 256, 1024}) {
    for (int i = 0; i < 2; ++i) barriers<<<1, threads>>>(out, 1000), done();
    std::printf("bar.sync of %d threads: %.1f cycles\n", threads, out[0]);
  }
  return 0;
}
