// Loads from shared memory at random addresses, as table look-ups and sparse kernels make them: what a checker of every
// access pays most for. Each lane of a warp reads a word of its own, `steps` times, from a table that the block wrote.
//
// usage: shared_gather [STEPS] [BLOCKS]     prints the number of gathering warp instructions and PASS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr uint32_t kThreads = 256, kWords = 8192;

__host__ __device__ inline uint32_t next(uint32_t state) { return state * 1664525u + 1013904223u; }

__global__ void gather(uint32_t steps, uint32_t* sums) {
  __shared__ uint32_t table[kWords];
  for (uint32_t i = threadIdx.x; i < kWords; i += kThreads) table[i] = i * 2654435761u;
  __syncthreads();
  uint32_t state = blockIdx.x * kThreads + threadIdx.x, sum = 0;
  for (uint32_t step = 0; step < steps; step += 8) {
#pragma unroll
    for (int unrolled = 0; unrolled < 8; ++unrolled) {
      state = next(state);
      sum += table[state >> 19];
    }
  }
  sums[blockIdx.x * kThreads + threadIdx.x] = sum;
}

int main(int argc, char** argv) {
  const uint32_t steps = (argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 20000) / 8 * 8;
  const uint32_t blocks = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 16;
  std::vector<uint32_t> sums(size_t{blocks} * kThreads);
  uint32_t* device = nullptr;
  if (cudaMalloc(&device, sums.size() * 4) != cudaSuccess) return 1;
  gather<<<blocks, kThreads>>>(steps, device);
  if (cudaGetLastError() != cudaSuccess) return 1;
  if (cudaMemcpy(sums.data(), device, sums.size() * 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  for (uint32_t thread = 0; thread < sums.size(); thread += 97) {
    uint32_t state = thread, sum = 0;
    for (uint32_t step = 0; step < steps; ++step) {
      state = next(state);
      sum += (state >> 19) * 2654435761u;
    }
    if (sum != sums[thread]) {
      std::printf("FAIL: thread %u has %u, not %u\n", thread, sums[thread], sum);
      return 1;
    }
  }
  cudaFree(device);
  std::printf("%.1f million gathering warp instructions\nPASS\n", double(blocks) * (kThreads / 32.0) * steps / 1e6);
  return 0;
}
