// Prints what calls answer that should succeed and calls that should fail. The same program's output on an H200 is
// ../data/api_probe_h200.txt; the emulated device must print the same. Only what does not depend on the part is printed.
#include <cuda.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

#define E(call)                                                                       \
  do {                                                                                \
    const cudaError_t answer_ = (call);                                               \
    const cudaError_t last_ = cudaGetLastError();                                     \
    std::printf("%s = %d, last %d\n", #call, int(answer_), int(last_));               \
  } while (0)
#define D(call) std::printf("%s = %d\n", #call, int(call))

__device__ int device_variable;
__constant__ int constant_variable[16];
__managed__ int managed_variable = 7;

__global__ void plain(int* p) {
  if (p) p[threadIdx.x] = threadIdx.x;
}
__global__ void __launch_bounds__(128) bounded(int* p) {
  if (p) p[threadIdx.x] = 1;
}
__global__ void __cluster_dims__(2, 1, 1) clustered(int* p) {
  if (p) p[0] = 1;
}
__global__ void dynamic(int* p) {
  extern __shared__ int s[];
  s[threadIdx.x] = 1;
  if (p) p[0] = s[0];
}
__global__ void fixed(int* p) {
  __shared__ int s[8192];
  s[threadIdx.x] = 1;
  __syncthreads();
  if (p) p[0] = s[5];
}
struct Block {
  char a;
  int b;
  double c;
  char d[3];
};
__global__ void many(Block p, char c, float4 f, short s, Block q) {
  if (p.b == 12345) device_variable = c + s;
}

static cudaError_t launch_ex(void (*kernel)(int*), dim3 grid, dim3 block, size_t shared, unsigned cluster,
                             bool cooperative = false, bool programmatic = false) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  cudaLaunchAttribute attributes[3];
  unsigned count = 0;
  if (cluster != 0) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = cluster;
    attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
    ++count;
  }
  if (cooperative) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count++].val.cooperative = 1;
  }
  if (programmatic) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelEx(&config, kernel, static_cast<int*>(nullptr));
}

static int *d, *z, h[64];

static void memory_calls() {
  E(cudaMalloc(&d, 1 << 20));
  E(cudaMalloc(&z, 0));
  std::printf("%d\n", z == nullptr);
  E(cudaMalloc(&z, 1ull << 50));
  E(cudaMalloc(static_cast<void**>(nullptr), 16));
  E(cudaFree(nullptr));
  E(cudaFree(reinterpret_cast<void*>(0x1234000)));
  int* other = nullptr;
  E(cudaMalloc(&other, 64));
  E(cudaFree(other));
  E(cudaFree(other));
  E(cudaFree(d + 4));
  E(cudaMemcpy(d, h, 256, cudaMemcpyHostToDevice));
  E(cudaMemcpy(h, d, 256, cudaMemcpyHostToDevice));
  E(cudaMemcpy(h, h, 256, cudaMemcpyDeviceToDevice));
  E(cudaMemcpy(d, h, 256, cudaMemcpyDefault));
  E(cudaMemcpy(d, h, 256, static_cast<cudaMemcpyKind>(9)));
  E(cudaMemcpy(d + (1 << 18) - 4, h, 256, cudaMemcpyHostToDevice));
  E(cudaMemcpy(nullptr, h, 256, cudaMemcpyHostToDevice));
  E(cudaMemcpy(h, nullptr, 256, cudaMemcpyDeviceToHost));
  E(cudaMemcpy(d, h, 0, cudaMemcpyHostToDevice));
  E(cudaMemcpy(d, h, 256, cudaMemcpyHostToHost));
  E(cudaMemcpy(d, d + 64, 256, cudaMemcpyHostToDevice));
  E(cudaMemset(d, 0, 1 << 20));
  E(cudaMemset(d, 0, 1 << 21));
  E(cudaMemset(h, 0, 16));
  E(cudaMemset(nullptr, 0, 16));
  E(cudaMemcpy2D(d, 64, h, 32, 48, 2, cudaMemcpyHostToDevice));
  E(cudaMemcpy2D(d, 64, h, 64, 48, 2, cudaMemcpyHostToDevice));
  cudaPointerAttributes a;
  E(cudaPointerGetAttributes(&a, d + 3));
  std::printf("%d %d %d %d\n", a.type, a.device, a.devicePointer == d + 3, a.hostPointer == nullptr);
  E(cudaPointerGetAttributes(&a, h));
  std::printf("%d %d %d %d\n", a.type, a.device, a.devicePointer == nullptr, a.hostPointer == h);
  void *pinned = nullptr, *managed = nullptr;
  E(cudaMallocHost(&pinned, 4096));
  E(cudaPointerGetAttributes(&a, pinned));
  std::printf("%d %d %d %d\n", a.type, a.device, a.devicePointer == pinned, a.hostPointer == pinned);
  E(cudaMallocManaged(&managed, 4096));
  E(cudaPointerGetAttributes(&a, managed));
  std::printf("%d %d %d %d\n", a.type, a.device, a.devicePointer == managed, a.hostPointer == managed);
  E(cudaPointerGetAttributes(&a, nullptr));
  std::printf("%d\n", a.type);
  E(cudaHostRegister(h, 256, 0));
  E(cudaHostRegister(h, 256, 0));
  E(cudaHostUnregister(h));
  E(cudaHostUnregister(h));
  E(cudaFreeHost(pinned));
  E(cudaFreeHost(pinned));
  E(cudaFreeHost(h));
  E(cudaFree(managed));
  void* rows = nullptr;
  size_t pitch = 0;
  E(cudaMallocPitch(&rows, &pitch, 100, 10));
  std::printf("%zu\n", pitch);
  cudaPitchedPtr box{};
  E(cudaMalloc3D(&box, cudaExtent{100, 10, 3}));
  std::printf("%zu %zu %zu\n", box.pitch, box.xsize, box.ysize);
}

static void launch_calls() {
  plain<<<0, 32>>>(d);
  E(cudaPeekAtLastError());
  plain<<<1, 0>>>(d);
  E(cudaPeekAtLastError());
  plain<<<1, 1025>>>(d);
  E(cudaPeekAtLastError());
  plain<<<dim3(1, 65536), 32>>>(d);
  E(cudaPeekAtLastError());
  plain<<<1, dim3(1, 1, 65)>>>(d);
  E(cudaPeekAtLastError());
  plain<<<dim3(1u << 31), 32>>>(d);
  E(cudaPeekAtLastError());
  bounded<<<1, 256>>>(d);
  E(cudaPeekAtLastError());
  dynamic<<<1, 32, 49152>>>(d);
  E(cudaPeekAtLastError());
  dynamic<<<1, 32, 49153>>>(d);
  E(cudaPeekAtLastError());
  fixed<<<1, 32, 16384>>>(d);
  E(cudaPeekAtLastError());
  fixed<<<1, 32, 16385>>>(d);
  E(cudaPeekAtLastError());
  E(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448));
  E(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449));
  E(cudaFuncSetAttribute(fixed, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448 - 32768));
  E(cudaFuncSetAttribute(fixed, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448 - 32767));
  E(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, -1));
  dynamic<<<1, 32, 232448>>>(d);
  E(cudaPeekAtLastError());
  dynamic<<<1, 32, 232449>>>(d);
  E(cudaPeekAtLastError());
  E(launch_ex(plain, 4, 32, 0, 2));
  E(launch_ex(plain, 5, 32, 0, 2));
  E(launch_ex(plain, 9, 32, 0, 9));
  E(launch_ex(plain, 16, 32, 0, 16));
  E(launch_ex(plain, 17, 32, 0, 17));
  E(launch_ex(clustered, 4, 32, 0, 0));
  E(launch_ex(clustered, 5, 32, 0, 0));
  E(launch_ex(clustered, 4, 32, 0, 2));
  E(launch_ex(clustered, 4, 32, 0, 4));
  clustered<<<4, 32>>>(d);
  E(cudaPeekAtLastError());
  clustered<<<3, 32>>>(d);
  E(cudaPeekAtLastError());
  E(cudaFuncSetAttribute(plain, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  E(launch_ex(plain, 16, 32, 0, 16));
  E(launch_ex(plain, 32, 32, 0, 32));
  E(launch_ex(plain, 132 * 64, 32, 0, 0, true));
  E(launch_ex(plain, 132, 32, 0, 0, true));
  E(launch_ex(plain, 132, 32, 0, 0, false, true));
  E(cudaDeviceSynchronize());
  cudaFuncAttributes f;
  E(cudaFuncGetAttributes(&f, plain));
  std::printf("%zu %zu %d %d %d %d %d %d %d\n", f.sharedSizeBytes, f.localSizeBytes, f.maxThreadsPerBlock, f.ptxVersion,
              f.binaryVersion, f.maxDynamicSharedSizeBytes, f.preferredShmemCarveout, f.clusterDimMustBeSet,
              f.nonPortableClusterSizeAllowed);
  E(cudaFuncGetAttributes(&f, clustered));
  std::printf("%d %d %d %d\n", f.clusterDimMustBeSet, f.requiredClusterWidth, f.requiredClusterHeight,
              f.requiredClusterDepth);
  E(cudaFuncGetAttributes(&f, fixed));
  std::printf("%zu %d\n", f.sharedSizeBytes, f.maxDynamicSharedSizeBytes);
  const auto occupancy = [](const void* kernel, int threads, size_t shared) {
    int blocks = -1;
    const cudaError_t answer = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared);
    std::printf("occupancy %d threads, %zu bytes: %d (%d)\n", threads, shared, blocks, answer);
  };
  const void* p = reinterpret_cast<const void*>(plain);
  const void* y = reinterpret_cast<const void*>(dynamic);
  occupancy(p, 32, 0);
  occupancy(p, 1024, 0);
  occupancy(p, 1025, 0);
  occupancy(y, 128, 100000);
  occupancy(y, 128, 232448);
  occupancy(y, 128, 232449);
  occupancy(reinterpret_cast<const void*>(fixed), 128, 0);
  size_t bytes = 0;
  E(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, dynamic, 2, 128));
  std::printf("%zu\n", bytes);
  E(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, dynamic, 1, 128));
  std::printf("%zu\n", bytes);
  const char* name = nullptr;
  E(cudaFuncGetName(&name, reinterpret_cast<const void*>(many)));
  std::printf("%s\n", name);
  cudaFunction_t function = nullptr;
  E(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(many)));
  for (size_t i = 0; i < 6; ++i) {
    size_t offset = 0, size = 0;
    const CUresult answer = cuFuncGetParamInfo(reinterpret_cast<CUfunction>(function), i, &offset, &size);
    std::printf("parameter %zu: %zu %zu (%d)\n", i, answer ? 0 : offset, answer ? 0 : size, answer);
  }
}

static void stream_calls() {
  cudaEvent_t e0, e1, e2, e3;
  E(cudaEventCreate(&e0));
  E(cudaEventCreate(&e1));
  float ms = 0;
  E(cudaEventElapsedTime(&ms, e0, e1));
  E(cudaEventQuery(e0));
  E(cudaEventSynchronize(e0));
  E(cudaEventRecord(e0));
  E(cudaEventRecord(e1));
  E(cudaEventSynchronize(e1));
  E(cudaEventElapsedTime(&ms, e0, e1));
  E(cudaEventCreateWithFlags(&e2, cudaEventDisableTiming));
  E(cudaEventRecord(e2));
  E(cudaEventSynchronize(e2));
  E(cudaEventElapsedTime(&ms, e0, e2));
  E(cudaEventDestroy(e0));
  E(cudaEventDestroy(nullptr));
  E(cudaEventRecord(nullptr));
  E(cudaEventCreateWithFlags(&e3, 64));
  cudaStream_t s;
  E(cudaStreamCreateWithFlags(&s, 7));
  E(cudaStreamCreateWithPriority(&s, 1, -9));
  int priority = 0, low = 0, high = 0;
  E(cudaStreamGetPriority(s, &priority));
  E(cudaDeviceGetStreamPriorityRange(&low, &high));
  std::printf("%d %d %d\n", priority, low, high);
  E(cudaStreamQuery(nullptr));
  E(cudaStreamSynchronize(nullptr));
  E(cudaStreamDestroy(s));
  E(cudaStreamDestroy(nullptr));
  unsigned flags = 99;
  E(cudaStreamGetFlags(nullptr, &flags));
  std::printf("%u\n", flags);
}

static void other_calls() {
  int version = 0;
  E(cudaRuntimeGetVersion(&version));
  std::printf("%d\n", version);
  E(cudaSetDevice(0));
  E(cudaSetDevice(5));
  E(cudaSetDevice(-1));
  E(cudaMemcpyToSymbol(device_variable, h, 4));
  E(cudaMemcpyToSymbol(device_variable, h, 8));
  E(cudaMemcpyToSymbol(constant_variable, h, 64));
  E(cudaMemcpyToSymbol(constant_variable, h, 64, 4));
  E(cudaMemcpyFromSymbol(h, constant_variable, 4, 60));
  void* address = nullptr;
  size_t size = 0;
  E(cudaGetSymbolAddress(&address, device_variable));
  E(cudaGetSymbolAddress(&address, h[3]));
  E(cudaGetSymbolSize(&size, constant_variable));
  std::printf("%zu\n", size);
  E(cudaGetSymbolAddress(&address, managed_variable));
  std::printf("%d %d\n", managed_variable, address == static_cast<void*>(&managed_variable));
  for (int i : {0, 1, 2, 3, 4, 5, 7}) {
    const cudaError_t answer = cudaDeviceGetLimit(&size, static_cast<cudaLimit>(i));
    std::printf("limit %d: %zu (%d)\n", i, answer ? 0 : size, answer);
  }
  cudaGetLastError();
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  E(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
  std::printf("%d %d\n", found, entry != nullptr);
  E(cudaGetDriverEntryPointByVersion("cuNope", &entry, 12000, cudaEnableDefault, &found));
  std::printf("%d %d\n", found, entry != nullptr);
  E(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 11000, cudaEnableDefault, &found));
  std::printf("%d %d\n", found, entry != nullptr);
  int can = 0;
  E(cudaDeviceCanAccessPeer(&can, 0, 0));
  E(cudaDeviceEnablePeerAccess(0, 0));
  char bus[64];
  E(cudaDeviceGetPCIBusId(bus, 64, 0));
  std::printf("%zu\n", std::strlen(bus));
  E(cudaProfilerStart());
  E(cudaProfilerStop());
}

static void driver_calls() {
  CUcontext context = nullptr;
  D(cuCtxGetCurrent(&context));
  std::printf("%d\n", context != nullptr);
  CUmodule m = nullptr;
  CUfunction f = nullptr;
  D(cuModuleLoadData(&m, ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry e(.param .u32 x){ret;}\n"));
  D(cuModuleGetFunction(&f, m, "nope"));
  D(cuModuleGetFunction(&f, m, "e"));
  CUmodule bad = nullptr;
  D(cuModuleLoadData(&bad, "garbage"));
  D(cuModuleLoadData(&bad, nullptr));
  D(cuModuleLoad(&bad, "/nope.ptx"));
  unsigned x = 3;
  void* arguments[1] = {&x};
  D(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  D(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  D(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  CUdevice device = 0;
  D(cuDeviceGet(&device, 3));
  D(cuMemcpyHtoD(0x1000, h, 4));
  D(cuMemFree(0x1000));
  D(cuMemsetD32(reinterpret_cast<CUdeviceptr>(d) + 2, 1, 4));
  D(cuMemsetD32(reinterpret_cast<CUdeviceptr>(d), 1, 4));
  CUdeviceptr base = 0;
  size_t size = 0;
  D(cuMemGetAddressRange(&base, &size, reinterpret_cast<CUdeviceptr>(d) + 100));
  std::printf("%d %zu\n", base == reinterpret_cast<CUdeviceptr>(d), size);
  D(cuMemGetAddressRange(&base, &size, 0x1000));
}

static void after_a_fault() {
  plain<<<1, 32>>>(reinterpret_cast<int*>(0x1000));
  E(cudaPeekAtLastError());
  E(cudaDeviceSynchronize());
  E(cudaMalloc(&z, 16));
  E(cudaGetLastError());
  E(cudaMemcpy(d, h, 4, cudaMemcpyHostToDevice));
  plain<<<1, 32>>>(d);
  E(cudaPeekAtLastError());
  cudaFuncAttributes f;
  E(cudaFuncGetAttributes(&f, plain));
  E(cudaStreamQuery(nullptr));
  int value = 0;
  E(cudaGetDeviceCount(&value));
  E(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
  cudaEvent_t e;
  E(cudaEventCreate(&e));
  E(cudaFree(d));
  E(cudaDeviceReset());
}

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  memory_calls();
  launch_calls();
  stream_calls();
  other_calls();
  driver_calls();
  after_a_fault();
}
