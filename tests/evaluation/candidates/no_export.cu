// Compiles, but exports nothing.
#include <cuda_runtime.h>

__global__ void kernel(float* c) { c[threadIdx.x] = 0; }

void run(float* c) { kernel<<<1, 32>>>(c); }
