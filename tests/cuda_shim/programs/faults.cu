// `faults NAME`: launches one kernel that fails in the named way and prints the error the runtime reports.
#include <cassert>
#include <cstdio>
#include <cstring>

#include <cuda_runtime.h>

__global__ void trap() { asm volatile("trap;"); }
__global__ void assertion(const int* p) { assert(p == nullptr); }
__global__ void misaligned(char* p) { *reinterpret_cast<volatile int*>(p + 1) = 1; }
__global__ void wild() { *reinterpret_cast<volatile int*>(0x10ull) = 1; }
__global__ void beyond(volatile int* p) { p[threadIdx.x + 16] = 1; }
__global__ void print_text() { printf("hello from thread %d, %s\n", threadIdx.x, "text"); }
__global__ void hang() {
  __shared__ unsigned long long barrier;
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(address));
  asm volatile(
      "{\n.reg .pred done;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra WAIT;\n}" ::"r"(address)
      : "memory");
}
/// A generator of period 2^64: for any patience it never ends.
__global__ void endless(int* p) {
  unsigned long long state = threadIdx.x;
  while (state != 0x123456789abcdefull) state = state * 6364136223846793005ull + 2 * threadIdx.x + 1442695040888963407ull;
  *p = static_cast<int>(state);
}

/// Decides by what cudaMalloc's memory held; with `set` the host has written it.
__global__ void decide(volatile int* p) {
  if (p[1] == 7) p[2] = 1;
}

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "";
  int* memory = nullptr;
  cudaMalloc(&memory, 64);
  if (std::strcmp(name, "trap") == 0) trap<<<1, 1>>>();
  if (std::strcmp(name, "assert") == 0) assertion<<<1, 1>>>(memory);
  if (std::strcmp(name, "misaligned") == 0) misaligned<<<1, 1>>>(reinterpret_cast<char*>(memory));
  if (std::strcmp(name, "wild") == 0) wild<<<1, 1>>>();
  if (std::strcmp(name, "beyond") == 0) beyond<<<1, 32>>>(memory);
  if (std::strcmp(name, "print") == 0) print_text<<<1, 1>>>();
  if (std::strcmp(name, "hang") == 0) hang<<<1, 1>>>();
  if (std::strcmp(name, "endless") == 0) endless<<<1, 32>>>(memory);
  if (std::strcmp(name, "undefined") == 0) decide<<<1, 1>>>(memory);
  if (std::strcmp(name, "set") == 0) {
    cudaMemset(memory, 0, 64);
    decide<<<1, 1>>>(memory);
  }
  std::printf("launched\n");
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorName(error));
  return 0;  // whatever happened: the device's verdict counts
}
