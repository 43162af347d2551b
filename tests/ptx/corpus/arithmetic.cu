// Integer, bit, video, floating-point and mathematical-library code.
#include <cstdint>

__global__ void integers(int* a, unsigned* u, long long* l, unsigned long long* w, short* s, unsigned char* b) {
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  a[i] = a[i] * a[i + 1] / (a[i + 2] | 1) % 17 + (a[i] << 3) - (a[i] >> u[i]) + min(a[i], 5) + max(a[i + 1], -7) + abs(a[i]);
  u[i] = u[i] / 7 + u[i + 1] % 13 + (u[i] >> 5) + min(u[i], 9u) + __umulhi(u[0], u[1]) + __brev(u[2]) + __popc(u[3]);
  l[i] = l[i] * l[i + 1] / (l[i + 2] | 1) + (l[i] >> 7) + __mul64hi(l[0], l[1]) + llabs(l[3]) + __clzll(l[2]);
  w[i] = w[i] / 10 + w[i + 1] % 1000000007ull + __umul64hi(w[0], w[1]) + __popcll(w[2]) + __brevll(w[3]);
  s[i] = static_cast<short>(s[i] * s[i + 1] - s[i + 2]);
  b[i] = static_cast<unsigned char>(b[i] + b[i + 1]);
  a[i + 64] = __byte_perm(a[0], a[1], 0x1234) + __funnelshift_l(a[0], a[1], a[2]) + __funnelshift_rc(a[0], a[1], a[2]) +
              __ffs(a[3]) + __clz(a[4]) + __mulhi(a[5], a[6]) + __mul24(a[7], a[8]) + __sad(a[1], a[2], 3u) + __hadd(a[1], a[2]);
  u[i + 64] = __dp4a(u[0], u[1], u[2]) + __vadd4(u[1], u[2]) + __vabsdiffu4(u[3], u[4]) + __vmaxs2(u[1], u[2]) +
              __vsetltu4(u[1], u[2]) + __vavgu4(u[1], u[3]) + __dp2a_lo(a[0], a[1], a[2]) + __vsub2(u[1], u[2]);
  if (a[i] > 3 && u[i] != 7u || l[i] < 0) w[i + 1] = a[i] >= 0 ? w[i] : ~w[i];
}

__global__ void carries(unsigned __int128* x) { x[0] = x[1] * x[2] + x[3] - x[4]; }

__global__ void floats(float* f, double* d, int* i, unsigned long long* w) {
  const int t = threadIdx.x;
  f[t] = fmaf(f[0], f[1], f[2]) / f[3] + sqrtf(f[4]) + fabsf(f[5]) + fminf(f[6], f[7]) + fmaxf(f[8], 0.5f) + rintf(f[9]) +
         floorf(f[10]) + ceilf(f[11]) + truncf(f[12]) + copysignf(f[13], f[14]) + __saturatef(f[15]);
  f[t + 1] = __fadd_rz(f[0], f[1]) + __fmul_ru(f[2], f[3]) + __fdiv_rd(f[4], f[5]) + __fsqrt_rz(f[6]) + __frcp_rn(f[7]) +
             __fmaf_rd(f[1], f[2], f[3]) + __expf(f[8]) + __logf(f[9]) + __sinf(f[10]) + __cosf(f[11]) + rsqrtf(f[12]);
  d[t] = fma(d[0], d[1], d[2]) / d[3] + sqrt(d[4]) + fabs(d[5]) + fmin(d[6], 1.5) + rint(d[7]) + __dadd_ru(d[8], d[9]) + 1.0 / d[10];
  i[t] = static_cast<int>(f[20]) + __float2int_rn(f[21]) + __double2int_rz(d[20]) + static_cast<int>(static_cast<unsigned>(f[22])) +
         __float_as_int(f[23]) + (isnan(f[24]) ? 1 : 0) + (isinf(d[21]) ? 2 : 0) + __double2hiint(d[2]);
  w[t] = static_cast<unsigned long long>(d[22]) + __float2ull_rn(f[25]) + __double_as_longlong(d[23]);
  f[t + 2] = static_cast<float>(i[0]) + static_cast<float>(w[0]) + static_cast<float>(d[24]) + __ll2float_rd(static_cast<long long>(w[1]));
  d[t + 1] = static_cast<double>(i[1]) + static_cast<double>(w[1]) + static_cast<double>(f[26]) + __hiloint2double(i[2], i[3]);
}

__global__ void library(float* f, double* d) {
  const int t = threadIdx.x;
  f[t] = sinf(f[0]) + cosf(f[1]) + expf(f[2]) + logf(f[3]) + powf(f[4], f[5]) + tanhf(f[6]) + erff(f[7]) + fmodf(f[8], f[9]) +
         atan2f(f[10], f[11]) + cbrtf(f[12]);
  d[t] = sin(d[0]) + exp(d[1]) + log(d[2]) + pow(d[3], d[4]) + tgamma(d[5]);
}
