// The runtime API as a program's host code uses it; kernels are minimal. Prints one line per failed check and "done" at the end.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

static int failures = 0;
#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);             \
      ++failures;                                                             \
    }                                                                         \
  } while (0)
#define OK(call)                                                                                     \
  do {                                                                                               \
    const cudaError_t status_ = (call);                                                              \
    if (status_ != cudaSuccess) {                                                                    \
      std::printf("%s:%d: %s gives %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(status_));     \
      ++failures;                                                                                    \
    }                                                                                                \
  } while (0)

__device__ int counter = 5;
__constant__ float factors[4];
__managed__ int shared_value = 7;

__global__ void scale(float* data, float factor, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] *= factor;
}

struct Mixed {
  char tag;
  double value;
  short tail;
};
__global__ void take_struct(Mixed mixed, char letter, double* out) { *out = mixed.value + mixed.tag + mixed.tail + letter; }

__global__ void use_globals(float* out) {
  out[threadIdx.x] = factors[threadIdx.x] + static_cast<float>(counter);
  if (threadIdx.x == 0) {
    counter += 1;
    shared_value *= 2;
  }
}

__global__ void add_to_all(int* values, int count, int amount) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) values[i] += amount;
}

__global__ void cluster_ranks(unsigned* out) {
  unsigned rank, size;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  if (threadIdx.x == 0) out[blockIdx.x] = size * 100 + rank;
}

__global__ void dynamic_shared(int* out, int words) {
  extern __shared__ int buffer[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) buffer[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) *out = buffer[words - 1];
}

static void device_memory() {
  std::vector<float> host(1000);
  for (int i = 0; i < 1000; ++i) host[i] = static_cast<float>(i);
  float* device = nullptr;
  OK(cudaMalloc(&device, 1000 * sizeof(float)));
  OK(cudaMemcpy(device, host.data(), 1000 * sizeof(float), cudaMemcpyHostToDevice));
  scale<<<8, 128>>>(device, 3.0f, 1000);
  OK(cudaGetLastError());
  std::vector<float> back(1000);
  OK(cudaMemcpy(back.data(), device, 1000 * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 1000; ++i) CHECK(back[i] == 3.0f * static_cast<float>(i));
  OK(cudaMemset(device, 0xff, 4000));
  OK(cudaMemcpy(back.data(), device, 4000, cudaMemcpyDefault));
  uint32_t bits = 0;
  std::memcpy(&bits, &back[999], 4);
  CHECK(bits == 0xffffffffu);
  OK(cudaFree(device));

  // More than one staging segment in each direction, and a pitch.
  const std::size_t width = 3000, height = 4000;
  std::vector<unsigned char> picture(width * height), copy(width * height);
  for (std::size_t i = 0; i < picture.size(); ++i) picture[i] = static_cast<unsigned char>(i * 31 + i / 977);
  unsigned char* pitched = nullptr;
  std::size_t pitch = 0;
  OK(cudaMallocPitch(&pitched, &pitch, width, height));
  CHECK(pitch >= width && pitch % 512 == 0);
  OK(cudaMemcpy2D(pitched, pitch, picture.data(), width, width, height, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2D(copy.data(), width, pitched, pitch, width, height, cudaMemcpyDeviceToHost));
  CHECK(std::memcmp(picture.data(), copy.data(), picture.size()) == 0);
  unsigned char* flat = nullptr;
  OK(cudaMalloc(&flat, picture.size()));
  OK(cudaMemcpy2D(flat, width, pitched, pitch, width, height, cudaMemcpyDeviceToDevice));
  std::memset(copy.data(), 0, copy.size());
  OK(cudaMemcpy(copy.data(), flat, copy.size(), cudaMemcpyDeviceToHost));
  CHECK(std::memcmp(picture.data(), copy.data(), picture.size()) == 0);
  OK(cudaMemset2D(pitched, pitch, 7, 10, 3));
  OK(cudaMemcpy2D(copy.data(), width, pitched, pitch, width, 4, cudaMemcpyDeviceToHost));
  CHECK(copy[9] == 7 && copy[10] == picture[10] && copy[2 * width] == 7 && copy[3 * width] == picture[3 * width]);
  OK(cudaFree(pitched));
  OK(cudaFree(flat));
}

static void parameters() {
  double* out = nullptr;
  OK(cudaMalloc(&out, sizeof(double)));
  take_struct<<<1, 1>>>(Mixed{3, 0.25, 40}, 'a', out);
  double result = 0;
  OK(cudaMemcpy(&result, out, sizeof result, cudaMemcpyDeviceToHost));
  CHECK(result == 3 + 0.25 + 40 + 97);
  const Mixed mixed{1, 2.0, 4};
  char letter = 8;
  void* arguments[] = {const_cast<Mixed*>(&mixed), &letter, &out};
  OK(cudaLaunchKernel(reinterpret_cast<const void*>(&take_struct), dim3(1), dim3(1), arguments, 0, nullptr));
  OK(cudaMemcpy(&result, out, sizeof result, cudaMemcpyDeviceToHost));
  CHECK(result == 15.0);
  OK(cudaFree(out));
}

static void symbols() {
  const float values[4] = {1, 2, 3, 4};
  OK(cudaMemcpyToSymbol(factors, values, sizeof values));
  float* out = nullptr;
  OK(cudaMalloc(&out, 16));
  use_globals<<<1, 4>>>(out);
  float back[4];
  OK(cudaMemcpy(back, out, 16, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 4; ++i) CHECK(back[i] == values[i] + 5.0f);
  int now = 0;
  OK(cudaMemcpyFromSymbol(&now, counter, sizeof now));
  CHECK(now == 6);
  CHECK(shared_value == 14);
  shared_value = 3;
  use_globals<<<1, 4>>>(out);
  OK(cudaDeviceSynchronize());
  CHECK(shared_value == 6);
  void* address = nullptr;
  std::size_t size = 0;
  OK(cudaGetSymbolAddress(&address, counter));
  OK(cudaGetSymbolSize(&size, factors));
  CHECK(size == 16);
  OK(cudaMemcpy(&now, address, sizeof now, cudaMemcpyDeviceToHost));
  CHECK(now == 7);
  OK(cudaFree(out));
}

static void host_memory() {
  int* pinned = nullptr;
  OK(cudaMallocHost(&pinned, 100 * sizeof(int)));
  for (int i = 0; i < 100; ++i) pinned[i] = i;
  int* view = nullptr;
  OK(cudaHostGetDevicePointer(&view, pinned, 0));
  add_to_all<<<1, 32>>>(view, 100, 1000);
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < 100; ++i) CHECK(pinned[i] == 1000 + i);

  int* managed = nullptr;
  OK(cudaMallocManaged(&managed, 100 * sizeof(int)));
  for (int i = 0; i < 100; ++i) managed[i] = -i;
  add_to_all<<<1, 32>>>(managed, 100, 5);
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < 100; ++i) CHECK(managed[i] == 5 - i);

  std::vector<int> own(5000, 2);
  OK(cudaHostRegister(own.data(), own.size() * sizeof(int), cudaHostRegisterMapped));
  OK(cudaHostGetDevicePointer(&view, own.data() + 1000, 0));
  add_to_all<<<1, 32>>>(view, 50, 40);
  OK(cudaDeviceSynchronize());
  CHECK(own[999] == 2 && own[1000] == 42 && own[1049] == 42 && own[1050] == 2);
  int* device = nullptr;
  OK(cudaMalloc(&device, 4 * 50));
  OK(cudaMemcpyAsync(device, own.data() + 1000, 4 * 50, cudaMemcpyHostToDevice, nullptr));
  OK(cudaMemcpyAsync(pinned, device, 4 * 50, cudaMemcpyDeviceToHost, nullptr));
  OK(cudaStreamSynchronize(nullptr));
  CHECK(pinned[0] == 42 && pinned[49] == 42);
  OK(cudaHostUnregister(own.data()));
  CHECK(own[1000] == 42);
  own[1000] = 1;

  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, pinned + 3));
  CHECK(attributes.type == cudaMemoryTypeHost && attributes.devicePointer == pinned + 3);
  OK(cudaPointerGetAttributes(&attributes, managed));
  CHECK(attributes.type == cudaMemoryTypeManaged);
  OK(cudaPointerGetAttributes(&attributes, device));
  CHECK(attributes.type == cudaMemoryTypeDevice && attributes.hostPointer == nullptr);
  OK(cudaPointerGetAttributes(&attributes, own.data()));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  OK(cudaFreeHost(pinned));
  OK(cudaFree(managed));
  OK(cudaFree(device));
}

static void note(void* data) { static_cast<std::vector<int>*>(data)->push_back(1); }
static void CUDART_CB note_stream(cudaStream_t, cudaError_t status, void* data) {
  static_cast<std::vector<int>*>(data)->push_back(status == cudaSuccess ? 2 : -1);
}

static void streams() {
  cudaStream_t first, second;
  OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithPriority(&second, cudaStreamNonBlocking, -1));
  int priority = 0;
  unsigned flags = 0;
  OK(cudaStreamGetPriority(second, &priority));
  OK(cudaStreamGetFlags(first, &flags));
  CHECK(priority == -1 && flags == cudaStreamNonBlocking);
  cudaEvent_t start, stop;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&stop));
  int* values = nullptr;
  OK(cudaMallocAsync(&values, 400, first));
  OK(cudaMemsetAsync(values, 0, 400, first));
  OK(cudaEventRecord(start, first));
  for (int i = 0; i < 5; ++i) add_to_all<<<1, 32, 0, first>>>(values, 100, 1);
  OK(cudaEventRecord(stop, first));
  OK(cudaStreamWaitEvent(second, stop, 0));
  add_to_all<<<1, 32, 0, second>>>(values, 100, 100);
  std::vector<int> order;
  OK(cudaLaunchHostFunc(second, note, &order));
  OK(cudaStreamAddCallback(second, note_stream, &order, 0));
  std::vector<int> back(100);
  OK(cudaMemcpyAsync(back.data(), values, 400, cudaMemcpyDeviceToHost, second));
  OK(cudaStreamSynchronize(second));
  for (int value : back) CHECK(value == 105);
  CHECK(order == (std::vector<int>{1, 2}));
  OK(cudaEventSynchronize(stop));
  float milliseconds = -1;
  OK(cudaEventElapsedTime(&milliseconds, start, stop));
  CHECK(milliseconds >= 0);
  CHECK(cudaStreamQuery(first) == cudaSuccess);
  OK(cudaFreeAsync(values, second));
  OK(cudaStreamSynchronize(second));
  OK(cudaEventDestroy(start));
  OK(cudaEventDestroy(stop));
  OK(cudaStreamDestroy(first));
  OK(cudaStreamDestroy(second));
}

static void launches() {
  unsigned* out = nullptr;
  OK(cudaMalloc(&out, 8 * sizeof(unsigned)));
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(8);
  config.blockDim = dim3(32);
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = 4;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attributes;
  config.numAttrs = 2;
  OK(cudaLaunchKernelEx(&config, cluster_ranks, out));
  unsigned ranks[8];
  OK(cudaMemcpy(ranks, out, sizeof ranks, cudaMemcpyDeviceToHost));
  for (unsigned i = 0; i < 8; ++i) CHECK(ranks[i] == 400 + i % 4);
  OK(cudaFuncSetAttribute(dynamic_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000));
  int* last = reinterpret_cast<int*>(out);
  dynamic_shared<<<1, 64, 200000>>>(last, 50000);
  int value = 0;
  OK(cudaMemcpy(&value, last, sizeof value, cudaMemcpyDeviceToHost));
  CHECK(value == 49999);
  int grid = 0, block = 0;
  OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, scale));
  CHECK(block >= 32 && block <= 1024 && grid >= 132);
  OK(cudaFree(out));
}

static void threads() {
  std::vector<std::thread> workers;
  std::vector<int> bad(6, 0);
  for (int t = 0; t < 6; ++t) {
    workers.emplace_back([t, &bad] {
      cudaStream_t stream;
      int* values = nullptr;
      bad[t] += cudaStreamCreate(&stream) != cudaSuccess;
      bad[t] += cudaMalloc(&values, 64 * sizeof(int)) != cudaSuccess;
      for (int round = 0; round < 10; ++round) {
        bad[t] += cudaMemsetAsync(values, 0, 64 * sizeof(int), stream) != cudaSuccess;
        add_to_all<<<1, 32, 0, stream>>>(values, 64, t + round);
        int back[64];
        bad[t] += cudaMemcpyAsync(back, values, sizeof back, cudaMemcpyDeviceToHost, stream) != cudaSuccess;
        bad[t] += cudaStreamSynchronize(stream) != cudaSuccess;
        bad[t] += back[63] != t + round;
      }
      bad[t] += cudaFree(values) != cudaSuccess;
      bad[t] += cudaStreamDestroy(stream) != cudaSuccess;
      // Errors are kept per thread.
      if (t == 0) cudaSetDevice(9);
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (int count : bad) CHECK(count == 0);
  CHECK(cudaGetLastError() == cudaSuccess);
}

static void description() {
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  CHECK(std::strcmp(properties.name, "NVIDIA H100 80GB HBM3") == 0);
  CHECK(properties.major == 9 && properties.minor == 0 && properties.multiProcessorCount == 132);
  CHECK(properties.sharedMemPerBlockOptin == 232448 && properties.l2CacheSize == 50 << 20);
  CHECK(properties.maxThreadsDim[2] == 64 && properties.maxGridSize[0] == 2147483647 && properties.pageableMemoryAccess == 0);
  int count = 0, version = 0;
  OK(cudaGetDeviceCount(&count));
  OK(cudaRuntimeGetVersion(&version));
  CHECK(count == 1 && version == 13000);
  CHECK(std::strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress") == 0);
  CHECK(std::strlen(cudaGetErrorString(cudaErrorInvalidSurface)) > 0);
}

int main() {
  description();
  device_memory();
  parameters();
  symbols();
  host_memory();
  streams();
  launches();
  threads();
  OK(cudaDeviceReset());
  std::printf("done, %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
