// Atomics, votes, shuffles, fences, cooperative groups, barriers and pipelines.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

__global__ void atomics(int* a, unsigned* u, unsigned long long* w, float* f, double* d) {
  const int i = threadIdx.x;
  atomicAdd(a, 1);
  atomicSub(a, i);
  atomicMax(a, i);
  a[1] = atomicCAS(a + 2, i, 2);
  a[2] = atomicExch(a + 1, 3);
  atomicInc(u, 7);
  u[1] = atomicDec(u + 2, 9);
  atomicAnd(u, 3u);
  atomicXor(w, 5ull);
  w[1] = atomicMin(w + 2, 3ull);
  atomicAdd(f, 1.f);
  atomicAdd(d, 1.0);
  atomicAdd_block(a, 1);
  atomicAdd_system(a, 2);
  cuda::atomic_ref<int, cuda::thread_scope_device> ref(a[9]);
  ref.fetch_add(1, cuda::std::memory_order_release);
  a[10] = ref.load(cuda::std::memory_order_acquire);
  ref.store(1, cuda::std::memory_order_relaxed);
  cuda::atomic_thread_fence(cuda::std::memory_order_seq_cst, cuda::thread_scope_system);
  __threadfence();
  __threadfence_block();
  __threadfence_system();
}

__global__ void warps(int* a, unsigned long long* w) {
  const int i = threadIdx.x;
  a[i] = __shfl_sync(~0u, a[i], 3) + __shfl_up_sync(~0u, a[1], 1) + __shfl_down_sync(~0u, a[2], 2, 16) +
         __ballot_sync(~0u, a[3]) + __any_sync(~0u, a[4]) + __all_sync(~0u, a[5]) + __match_any_sync(~0u, a[6]) +
         __reduce_add_sync(~0u, a[7]) + __reduce_xor_sync(~0u, static_cast<unsigned>(a[8])) + __activemask();
  int same = 0;
  a[i + 1] = __match_all_sync(~0u, a[9], &same) + same;
  __syncwarp();
  a[i + 2] = __syncthreads_count(a[i]) + __syncthreads_and(a[i]) + __syncthreads_or(a[1]);
  w[0] = clock64();
  __nanosleep(100);
}

__global__ void __cluster_dims__(2, 1, 1) groups(int* a, int n) {
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<16>(block);
  a[tile.thread_rank()] = tile.shfl_down(a[0], 3);
  const cg::cluster_group cluster = cg::this_cluster();
  __shared__ int shared[32];
  shared[threadIdx.x] = n;
  cluster.sync();
  a[1] = *cluster.map_shared_rank(shared, cluster.block_rank() ^ 1);
  cluster.barrier_arrive();
  cluster.barrier_wait();
  cg::this_grid().sync();
  const auto active = cg::coalesced_threads();
  a[2] = active.size();
}

__global__ void pipelines(const float* in, float* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ float stage[256];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  cuda::memcpy_async(stage + threadIdx.x, in + threadIdx.x, cuda::aligned_size_t<4>(4), barrier);
  barrier.arrive_and_wait();
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto pipe = cuda::make_pipeline(cg::this_thread_block(), &state);
  pipe.producer_acquire();
  cuda::memcpy_async(stage + threadIdx.x, in + threadIdx.x, sizeof(float), pipe);
  pipe.producer_commit();
  pipe.consumer_wait();
  out[threadIdx.x] = stage[threadIdx.x ^ 1];
  pipe.consumer_release();
}
