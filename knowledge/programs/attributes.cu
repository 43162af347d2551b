// The device attributes that numbers.toml names, one a line: name and value.
#include <cstdio>

#include "host.cuh"

int main() {
#define ATTRIBUTE(name)                                   \
  {                                                       \
    int value = 0;                                        \
    check(cudaDeviceGetAttribute(&value, name, 0), #name); \
    std::printf(#name " %d\n", value);                    \
  }
  ATTRIBUTE(cudaDevAttrMaxThreadsPerBlock)
  ATTRIBUTE(cudaDevAttrMaxThreadsPerMultiProcessor)
  ATTRIBUTE(cudaDevAttrMaxRegistersPerBlock)
  ATTRIBUTE(cudaDevAttrMaxSharedMemoryPerMultiprocessor)
  ATTRIBUTE(cudaDevAttrMaxSharedMemoryPerBlockOptin)
  ATTRIBUTE(cudaDevAttrReservedSharedMemoryPerBlock)
  ATTRIBUTE(cudaDevAttrMaxSharedMemoryPerBlock)
  ATTRIBUTE(cudaDevAttrMultiProcessorCount)
  return 0;
}
