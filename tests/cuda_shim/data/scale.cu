// Source of the .fatbin files beside it (nvcc 13.0): see README.md.
extern "C" __global__ void scale(float* data, float factor, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] *= factor;
}
