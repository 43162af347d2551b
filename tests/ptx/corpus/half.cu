// Half, bfloat16 and 8-bit floating point.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

__global__ void halves(__half* h, __half2* h2, float* f) {
  const int i = threadIdx.x;
  h[i] = h[i] * h[i + 1] + h[i + 2] / h[i + 3] - __habs(h[4]) + hexp(h[5]) + hsqrt(h[6]) + __hmax(h[7], h[8]) + hrcp(h[9]);
  h2[i] = __hfma2(h2[0], h2[1], h2[2]) + __hmul2_sat(h2[3], h2[4]) + __hmax2_nan(h2[5], h2[6]) + h2tanh(h2[7]) + h2exp2(h2[8]) +
          __hfma2_relu(h2[1], h2[2], h2[3]) + __hneg2(h2[9]) + __floats2half2_rn(f[0], f[1]) + __hgt2(h2[1], h2[2]);
  f[i] = __half2float(h[10]) + __low2float(h2[10]) + __half2int_rn(h[11]) + (__hlt(h[12], h[13]) ? 1.f : 2.f) +
         (__hbeq2(h2[11], h2[12]) ? 3.f : 4.f);
  h[i + 1] = __float2half_rz(f[2]) + __int2half_rn(i) + __double2half(static_cast<double>(f[3]));
  atomicAdd(h2, h2[i]);
  atomicAdd(h, h[i]);
}

__global__ void brains(__nv_bfloat16* b, __nv_bfloat162* b2, float* f) {
  const int i = threadIdx.x;
  b[i] = b[i] * b[i + 1] + b[i + 2] / b[i + 3] - __habs(b[4]) + hexp(b[5]) + __hmin(b[7], b[8]) + htanh(b[9]);
  b2[i] = __hfma2(b2[0], b2[1], b2[2]) + __hmax2(b2[5], b2[6]) + h2exp2(b2[8]) + __hfma2_relu(b2[1], b2[2], b2[3]) +
          __floats2bfloat162_rn(f[0], f[1]) + __heq2(b2[1], b2[2]);
  f[i] = __bfloat162float(b[10]) + __high2float(b2[10]) + __bfloat162int_rz(b[11]) + (__hge(b[12], b[13]) ? 1.f : 2.f);
  b[i + 1] = __float2bfloat16_rz(f[2]) + __int2bfloat16_rn(i);
  atomicAdd(b2, b2[i]);
  atomicAdd(b, b[i]);
}

__global__ void eights(__nv_fp8_e4m3* q, __nv_fp8_e5m2* r, __nv_fp8x4_e4m3* x, float* f, __half2* h) {
  const int i = threadIdx.x;
  q[i] = __nv_fp8_e4m3(f[i]);
  r[i] = __nv_fp8_e5m2(f[i + 1]);
  f[i + 2] = static_cast<float>(q[i + 3]) + static_cast<float>(r[i + 4]);
  x[i] = __nv_fp8x4_e4m3(make_float4(f[0], f[1], f[2], f[3]));
  h[i] = static_cast<__half2>(__nv_fp8x2_e4m3(h[i + 1]));
}
