// `streams NAME`: kernels and copies on several streams, and programmatic dependent launches. Each fault has a right
// twin of the same name with `_right` behind it.
#include <cstdio>
#include <cstring>
#include <string>

#include <cuda_runtime.h>

constexpr int kThreads = 128, kCount = 4 * kThreads;
constexpr int kManyRows = 70000;  // more than are kept

__global__ void fill(int* to, int value) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  to[i] = value + i;
}
__global__ void copy(const int* from, int* to) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  to[i] = from[i];
}

// ---- Programmatic dependent launch ----------------------------------------------------------------------------------

__device__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ void wait_for_primary() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

__global__ void primary(const int* from, int* to) {
  launch_dependents();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  to[i] = from[i] + 1;
}
__global__ void holding_primary(int* to) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  to[i] = i;
}
template <bool Waits>
__global__ void middle(const int* from, int* to) {
  if (Waits) wait_for_primary();
  launch_dependents();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  to[i] = from[i];
}
/// One warp waits and another one triggers.
template <bool Meets>
__global__ void middle_of_warps(const int* from, int* to) {
  if (threadIdx.x < 32) wait_for_primary();
  if (Meets) __syncthreads();
  if (threadIdx.x >= 32) launch_dependents();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  to[i] = from[i];
}
/// Reads the primary's output; `weights` are there from the beginning.
template <bool ReadsEarly>
__global__ void dependent(const int* weights, const int* input, int* to) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  int sum = weights[i];
  if (ReadsEarly) sum += input[i];
  wait_for_primary();
  if (!ReadsEarly) sum += input[i];
  to[i] = sum;
}
template <bool Meets>
__global__ void one_thread_waits(const int* input, int* to) {
  if (threadIdx.x == 0) wait_for_primary();
  if (Meets) __syncthreads();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  to[i] = input[i];
}
/// Clears a buffer that the primary may still read.
template <bool Waits>
__global__ void clear_early(int* scratch) {
  if (Waits) wait_for_primary();
  scratch[blockIdx.x * kThreads + threadIdx.x] = 0;
}

// ---- A flag between kernels that run at the same time ---------------------------------------------------------------

__global__ void publish(int* data, unsigned* flag) {
  data[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}
/// The flag says nothing about what is written after it.
__global__ void publish_early(int* data, unsigned* flag) {
  if (threadIdx.x == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
  __syncthreads();
  data[threadIdx.x] = static_cast<int>(threadIdx.x);
}
/// The counter orders nothing without fences on both sides.
template <bool Fences>
__global__ void publish_by_counter(int* data, unsigned* flag) {
  data[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (Fences) __threadfence();
  if (threadIdx.x == 0) atomicAdd(flag, 1);
}
template <bool Fences>
__global__ void receive_by_counter(const int* data, unsigned* flag, int* to) {
  if (threadIdx.x == 0) {
    while (atomicAdd(flag, 0) == 0) {
    }
    if (Fences) __threadfence();
  }
  __syncthreads();
  to[threadIdx.x] = data[threadIdx.x];
}
__global__ void pass_on(const unsigned* from, unsigned* to) {
  if (threadIdx.x != 0) return;
  unsigned seen = 0;
  while (seen == 0) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(from) : "memory");
  asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(to) : "memory");
}
__global__ void receive(const int* data, const unsigned* flag, int* to) {
  if (threadIdx.x == 0) {
    unsigned seen = 0;
    while (seen == 0) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
  }
  __syncthreads();
  to[threadIdx.x] = data[threadIdx.x];
}

template <class... Parameters, class... Arguments>
void launch_dependent(cudaStream_t stream, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(kCount / kThreads);
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

int main(int argc, char** argv) {
  std::string name = argc > 1 ? argv[1] : "";
  const bool right = name.size() > 6 && name.substr(name.size() - 6) == "_right";
  if (right) name.resize(name.size() - 6);
  const auto is = [&](const char* wanted) { return name == wanted; };
  constexpr dim3 kGrid(kCount / kThreads), kBlock(kThreads);
  constexpr size_t kBytes = kCount * sizeof(int);
  int *a = nullptr, *b = nullptr, *c = nullptr, *pinned = nullptr;
  int* large = nullptr;
  unsigned* flag = nullptr;
  cudaMalloc(&a, kBytes);
  cudaMalloc(&b, kBytes);
  cudaMalloc(&c, kBytes);
  cudaMalloc(&flag, 8);
  cudaMalloc(&large, 4 * (kManyRows + kCount));
  cudaMallocHost(&pinned, kBytes);
  std::memset(pinned, 0, kBytes);
  cudaMemset(a, 0, kBytes);
  cudaMemset(b, 0, kBytes);
  cudaMemset(c, 0, kBytes);
  cudaMemset(flag, 0, 8);
  cudaDeviceSynchronize();
  cudaStream_t first, second;
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  cudaEvent_t event;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  static int host[kCount];

  if (is("no_event")) {
    fill<<<kGrid, kBlock, 0, first>>>(a, 3);
    if (right) cudaEventRecord(event, first);
    if (right) cudaStreamWaitEvent(second, event);
    copy<<<kGrid, kBlock, 0, second>>>(a, b);
  } else if (is("event_too_early")) {
    if (!right) cudaEventRecord(event, first);
    fill<<<kGrid, kBlock, 0, first>>>(a, 3);
    if (right) cudaEventRecord(event, first);
    cudaStreamWaitEvent(second, event);
    copy<<<kGrid, kBlock, 0, second>>>(a, b);
  } else if (is("overwritten_by_other_stream")) {
    copy<<<kGrid, kBlock, 0, first>>>(a, b);
    if (right) cudaStreamSynchronize(first);
    fill<<<kGrid, kBlock, 0, second>>>(a, 7);
  } else if (is("copy_before_kernel_ends")) {
    // cudaMemcpy waits for the legacy default stream, which non-blocking streams have no part in.
    fill<<<kGrid, kBlock, 0, first>>>(a, 3);
    if (right) cudaStreamSynchronize(first);
    cudaMemcpy(host, a, kBytes, cudaMemcpyDeviceToHost);
  } else if (is("upload_on_other_stream")) {
    cudaMemcpyAsync(a, pinned, kBytes, cudaMemcpyHostToDevice, first);
    copy<<<kGrid, kBlock, 0, right ? first : second>>>(a, b);
  } else if (is("two_copies")) {
    fill<<<kGrid, kBlock, 0, first>>>(b, 1);
    cudaMemsetAsync(a, 1, kBytes, first);
    if (right) cudaEventRecord(event, first);
    if (right) cudaStreamWaitEvent(second, event);
    cudaMemcpyAsync(pinned, a, kBytes, cudaMemcpyDeviceToHost, second);
  } else if (is("destroyed_stream")) {
    // The legacy stream has no part in the work of a non-blocking stream, also when that is gone.
    fill<<<kGrid, kBlock, 0, first>>>(a, 3);
    cudaStreamDestroy(first);
    if (right) cudaDeviceSynchronize();
    copy<<<kGrid, kBlock>>>(a, b);
  } else if (is("fill_is_asynchronous")) {
    cudaMemset(a, 1, kBytes);
    if (right) cudaStreamSynchronize(nullptr);
    copy<<<kGrid, kBlock, 0, first>>>(a, b);
  } else if (is("copy_on_device_is_asynchronous")) {
    cudaMemcpy(a, c, kBytes, cudaMemcpyDeviceToDevice);
    if (right) cudaStreamSynchronize(nullptr);
    copy<<<kGrid, kBlock, 0, first>>>(a, b);
  } else if (is("many_rows")) {
    fill<<<kGrid, kBlock, 0, first>>>(large, 3);
    if (right) cudaStreamSynchronize(first);
    cudaMemcpy2DAsync(pinned, 1, large, 4, 1, kBytes, cudaMemcpyDeviceToHost, second);
  } else if (is("too_many_rows")) {
    // Bytes between the rows are written, but what the rows are is not kept.
    fill<<<kGrid, kBlock, 0, first>>>(large, 3);
    if (right) cudaStreamSynchronize(first);
    cudaMemset2DAsync(large + kCount, 4, 1, 2, kManyRows, second);
    cudaMemset2DAsync(large, 4, 1, 2, kManyRows, second);
  } else if (is("too_many_rows_first")) {
    cudaMemset2DAsync(large, 4, 1, 2, kManyRows, second);
    fill<<<kGrid, kBlock, 0, first>>>(large + 1, 3);
  } else if (is("legacy_stream_not_waited_for")) {
    // Without memory that the host sees, and with one stream only, the first kernel need not be watched.
    cudaFreeHost(pinned);
    fill<<<kGrid, kBlock>>>(a, 3);
    if (right) cudaDeviceSynchronize();
    copy<<<kGrid, kBlock, 0, first>>>(a, b);
  } else if (is("overwritten_by_later_stream")) {
    // What the first kernel reads is known only if it was watched.
    cudaFreeHost(pinned);
    copy<<<kGrid, kBlock>>>(a, b);
    if (right) cudaDeviceSynchronize();
    fill<<<kGrid, kBlock, 0, first>>>(a, 7);
  } else if (is("later_stream_elsewhere")) {
    cudaFreeHost(pinned);
    copy<<<kGrid, kBlock>>>(a, b);
    cudaMemcpyAsync(c, host, kBytes, cudaMemcpyHostToDevice, first);
    fill<<<kGrid, kBlock, 0, first>>>(c, 7);
  } else if (is("halves")) {
    fill<<<2, kBlock, 0, first>>>(a, 3);
    fill<<<2, kBlock, 0, second>>>(a + 2 * kThreads, 3);
    copy<<<2, kBlock, 0, first>>>(a, b);
    copy<<<2, kBlock, 0, second>>>(a + 2 * kThreads, b + 2 * kThreads);
  } else if (is("chain_of_events")) {
    // first -> second by an event, second -> the host by a query, the host -> a third stream; destroyed streams count.
    cudaStream_t third;
    fill<<<kGrid, kBlock, 0, first>>>(a, 3);
    cudaEventRecord(event, first);
    cudaStreamWaitEvent(second, event);
    copy<<<kGrid, kBlock, 0, second>>>(a, b);
    while (cudaStreamQuery(second) == cudaErrorNotReady) cudaGetLastError();
    cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking);
    fill<<<kGrid, kBlock, 0, third>>>(a, 4);
    cudaStreamDestroy(third);
    cudaDeviceSynchronize();
    copy<<<kGrid, kBlock, 0, first>>>(a, b);
  } else if (is("legacy_stream")) {
    // Blocking streams and the legacy default stream wait for each other.
    cudaStream_t blocking, other;
    cudaStreamCreate(&blocking);
    cudaStreamCreate(&other);
    fill<<<kGrid, kBlock, 0, blocking>>>(a, 3);
    copy<<<kGrid, kBlock>>>(a, b);
    fill<<<kGrid, kBlock, 0, other>>>(a, 5);
  } else if (is("stream_ordered_memory")) {
    int* memory = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&memory), kBytes, first);
    fill<<<kGrid, kBlock, 0, first>>>(memory, 3);
    cudaFreeAsync(memory, first);
    while (cudaStreamQuery(first) == cudaErrorNotReady) cudaGetLastError();
    cudaMallocAsync(reinterpret_cast<void**>(&memory), kBytes, second);
    fill<<<kGrid, kBlock, 0, second>>>(memory, 4);
    cudaFreeAsync(memory, second);
  } else if (is("flag_between_streams")) {
    publish<<<1, kBlock, 0, first>>>(a, flag);
    receive<<<1, kBlock, 0, second>>>(a, flag, b);
  } else if (is("flag_too_early")) {
    if (right) {
      publish<<<1, kBlock, 0, first>>>(a, flag);
    } else {
      publish_early<<<1, kBlock, 0, first>>>(a, flag);
    }
    receive<<<1, kBlock, 0, second>>>(a, flag, b);
  } else if (is("counter_without_release")) {
    if (right) {
      publish_by_counter<true><<<1, kBlock, 0, first>>>(a, flag);
    } else {
      publish_by_counter<false><<<1, kBlock, 0, first>>>(a, flag);
    }
    receive_by_counter<true><<<1, kBlock, 0, second>>>(a, flag, b);
  } else if (is("counter_without_acquire")) {
    publish_by_counter<true><<<1, kBlock, 0, first>>>(a, flag);
    if (right) {
      receive_by_counter<true><<<1, kBlock, 0, second>>>(a, flag, b);
    } else {
      receive_by_counter<false><<<1, kBlock, 0, second>>>(a, flag, b);
    }
  } else if (is("chain_of_flags")) {
    // The third kernel reads what the first one wrote and the second one was told of.
    cudaStream_t third;
    cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking);
    publish<<<1, kBlock, 0, first>>>(a, flag);
    pass_on<<<1, kBlock, 0, second>>>(flag, flag + 1);
    receive<<<1, kBlock, 0, third>>>(a, flag + 1, c);
  } else if (is("flag_after_fill")) {
    // The kernel that sets the flag comes after what precedes it on its stream.
    cudaMemsetAsync(c, 1, kBytes, first);
    publish<<<1, kBlock, 0, first>>>(a, flag);
    receive<<<1, kBlock, 0, second>>>(c, flag, b);
  } else if (is("dependent_reads_early")) {
    primary<<<kGrid, kBlock, 0, first>>>(a, b);
    if (right) {
      launch_dependent(first, dependent<false>, a, b, c);
    } else {
      launch_dependent(first, dependent<true>, a, b, c);
    }
  } else if (is("dependent_in_default_stream")) {
    // The only stream, and no memory that the host sees: several workers may watch the first kernel.
    cudaFreeHost(pinned);
    primary<<<kGrid, kBlock>>>(a, b);
    if (right) {
      launch_dependent(nullptr, dependent<false>, a, b, c);
    } else {
      launch_dependent(nullptr, dependent<true>, a, b, c);
    }
  } else if (is("dependent_without_barrier")) {
    primary<<<kGrid, kBlock, 0, first>>>(a, b);
    if (right) {
      launch_dependent(first, one_thread_waits<true>, b, c);
    } else {
      launch_dependent(first, one_thread_waits<false>, b, c);
    }
  } else if (is("dependent_clears_early")) {
    primary<<<kGrid, kBlock, 0, first>>>(a, b);
    if (right) {
      launch_dependent(first, clear_early<true>, a);
    } else {
      launch_dependent(first, clear_early<false>, a);
    }
  } else if (is("dependent_chain")) {
    // The last kernel reads what the first one wrote, before its own wait. It may, if the one between has waited
    // before it let its dependents go.
    primary<<<kGrid, kBlock, 0, first>>>(a, b);
    if (right) {
      launch_dependent(first, middle<true>, pinned, pinned);
    } else {
      launch_dependent(first, middle<false>, pinned, pinned);
    }
    launch_dependent(first, dependent<false>, b, a, c);
  } else if (is("dependent_chain_of_warps")) {
    primary<<<kGrid, kBlock, 0, first>>>(a, b);
    if (right) {
      launch_dependent(first, middle_of_warps<true>, pinned, pinned);
    } else {
      launch_dependent(first, middle_of_warps<false>, pinned, pinned);
    }
    launch_dependent(first, dependent<false>, b, a, c);
  } else if (is("dependent_of_holder")) {
    holding_primary<<<kGrid, kBlock, 0, first>>>(b);
    launch_dependent(first, dependent<true>, a, b, c);
  } else if (is("dependent_after_copy")) {
    // Only a kernel right before it can be overlapped.
    primary<<<kGrid, kBlock, 0, first>>>(a, b);
    cudaMemcpyAsync(pinned, a, kBytes, cudaMemcpyDeviceToHost, first);
    launch_dependent(first, dependent<true>, a, b, c);
  } else {
    return 9;
  }
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error != cudaSuccess) std::printf("%s\n", cudaGetErrorName(error));
  return error == cudaSuccess ? 0 : 1;
}
