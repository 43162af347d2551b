// `launch_faults NAME [right]`: launches that a GPU refuses, or whose result nobody looks at; with `right` the correct twin.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

extern __shared__ unsigned dynamic[];

/// Each thread stores one word of its own.
__device__ unsigned place() {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  return block * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
}

__global__ void fill(unsigned* out) { out[place()] = 7; }
__global__ void __launch_bounds__(128) fill_bounded(unsigned* out) { out[place()] = 7; }
__global__ void fill_dynamic(unsigned* out) {
  dynamic[threadIdx.x] = threadIdx.x;
  out[place()] = dynamic[threadIdx.x];
}
__global__ void fill_dynamic_and_static(unsigned* out) {
  __shared__ unsigned fixed[2048];
  fixed[threadIdx.x] = threadIdx.x;
  dynamic[threadIdx.x] = fixed[threadIdx.x];
  out[place()] = dynamic[threadIdx.x];
}
__global__ void __cluster_dims__(2, 1, 1) fill_pairs(unsigned* out) { out[place()] = 7; }
__global__ void __cluster_dims__() fill_clusters(unsigned* out) { out[place()] = 7; }
/// Stores into the first block's shared memory from the second of a cluster.
__global__ void fill_peer(unsigned* out) {
  __shared__ unsigned word;
  const auto cluster = cooperative_groups::this_cluster();
  if (threadIdx.x == 0) word = 1;
  cluster.sync();
  if (threadIdx.x == 0) {
    unsigned peer;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(&word))), "r"(blockIdx.x ^ 1u));
    unsigned value;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(peer) : "memory");
    out[blockIdx.x] = value;
  }
  cluster.sync();
}
/// The same through the generic address of the peer's word.
__global__ void fill_peer_generic(unsigned* out) {
  __shared__ unsigned word;
  const auto cluster = cooperative_groups::this_cluster();
  if (threadIdx.x == 0) word = 1;
  cluster.sync();
  if (threadIdx.x == 0) {
    unsigned long long peer;
    asm("mapa.u64 %0, %1, %2;" : "=l"(peer) : "l"(&word), "r"(blockIdx.x ^ 1u));
    out[blockIdx.x] = *reinterpret_cast<volatile unsigned*>(peer);
  }
  cluster.sync();
}
/// Needs many registers, all of them live at once.
__global__ void fill_wide(unsigned* out, const unsigned* in) {
  unsigned values[160];
#pragma unroll
  for (int i = 0; i < 160; ++i) values[i] = in[(threadIdx.x + 31u * i) & 1023u];
  __syncthreads();
  unsigned mix = 0;
#pragma unroll
  for (int i = 159; i >= 0; --i) mix = mix * 3 + (values[i] ^ values[(i * 7 + 3) % 160]);
  out[place()] = mix;
}

template <class... Arguments>
void launch_clusters(void (*kernel)(Arguments...), unsigned blocks, unsigned cluster, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = 32;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "";
  const bool right = argc > 2;
  const auto is = [&](const char* wanted) { return std::strcmp(name, wanted) == 0; };
  unsigned *out = nullptr, *in = nullptr;
  cudaMalloc(&out, 4u << 20);
  cudaMalloc(&in, 4096);
  cudaMemset(in, 1, 4096);
  const auto opt_in = [](auto* kernel, int bytes) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  bool looks = true;

  if (is("shared_opt_in")) {
    if (right) opt_in(fill_dynamic, 65536);
    fill_dynamic<<<2, 32, 65536>>>(out);
  } else if (is("shared_static_too")) {
    // 48 KiB in all without an opt-in: 8 of them are static.
    if (right) opt_in(fill_dynamic_and_static, 45056);
    fill_dynamic_and_static<<<2, 32, 45056>>>(out);
  } else if (is("shared_opt_in_smaller")) {
    opt_in(fill_dynamic, right ? 98304 : 65536);
    fill_dynamic<<<2, 32, 98304>>>(out);
  } else if (is("shared_too_much")) {
    opt_in(fill_dynamic, 232448);
    fill_dynamic<<<2, 32, right ? 232448 : 300000>>>(out);
  } else if (is("cluster_grid")) {
    launch_clusters(fill, right ? 4 : 3, 2, out);
  } else if (is("cluster_grid_fixed")) {
    fill_pairs<<<right ? 4 : 5, 32>>>(out);
  } else if (is("cluster_mismatch")) {
    launch_clusters(fill_pairs, 4, right ? 2 : 4, out);
  } else if (is("cluster_sixteen")) {
    if (right) cudaFuncSetAttribute(fill, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    launch_clusters(fill, 32, 16, out);
  } else if (is("cluster_thirty_two")) {
    cudaFuncSetAttribute(fill, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    launch_clusters(fill, 32, right ? 16 : 32, out);
  } else if (is("cluster_missing")) {
    if (right) {
      launch_clusters(fill_clusters, 4, 2, out);
    } else {
      fill_clusters<<<4, 32>>>(out);
    }
  } else if (is("cluster_missing_peer")) {
    if (right) {
      launch_clusters(fill_peer, 2, 2, out);
    } else {
      fill_peer<<<2, 32>>>(out);
    }
  } else if (is("cluster_missing_peer_generic")) {
    if (right) {
      launch_clusters(fill_peer_generic, 2, 2, out);
    } else {
      fill_peer_generic<<<2, 32>>>(out);
    }
  } else if (is("threads_too_many")) {
    fill<<<1, right ? 1024 : 1025>>>(out);
  } else if (is("threads_beyond_bounds")) {
    fill_bounded<<<1, right ? 128 : 256>>>(out);
  } else if (is("grid_y")) {
    fill<<<right ? dim3(70000) : dim3(1, 70000), 1>>>(out);
  } else if (is("grid_empty")) {
    fill<<<right ? 1 : 0, 32>>>(out);
  } else if (is("registers_1024")) {
    fill_wide<<<1, right ? 128 : 1024>>>(out, in);
  } else if (is("registers_768")) {
    fill_wide<<<2, dim3(32, right ? 4 : 24)>>>(out, in);
  } else if (is("cooperative_grid")) {
    void* arguments[] = {&out};
    cudaLaunchCooperativeKernel(fill, dim3(right ? 264 : 265), dim3(1024), arguments, 0, nullptr);
  } else if (is("cooperative_shared")) {
    // One block fits on an SM.
    opt_in(fill_dynamic, 131072);
    void* arguments[] = {&out};
    cudaLaunchCooperativeKernel(fill_dynamic, dim3(right ? 132 : 133), dim3(32), arguments, 131072, nullptr);
  } else if (is("unchecked")) {
    looks = right;
    fill<<<2, 32>>>(out);
  } else if (is("unchecked_failure")) {
    // The first launch is looked at; the second one, which fails, only in the correct twin.
    fill<<<2, 32>>>(out);
    cudaGetLastError();
    looks = right;
    if (!right) fill<<<1, 2000>>>(out);
  } else if (is("unchecked_before")) {
    // Looking before the launch says nothing about it.
    cudaGetLastError();
    fill<<<2, 32>>>(out);
    looks = right;
  } else {
    return 9;
  }
  if (looks) std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  cudaDeviceSynchronize();
  return 0;
}
