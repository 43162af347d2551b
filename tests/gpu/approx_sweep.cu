// Sweeps the approximate floating-point instructions. The same program runs on a GPU and on the emulator:
//   approx_sweep OUT.bin [inputs per function = 131072]
// It prints, per instruction, the largest error against the exact value rounded to nearest (in units of the last place of
// the result), and writes all raw results to OUT.bin so that two machines can be compared bit by bit (approx_compare.py).
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                                            \
  do {                                                                                         \
    cudaError_t status = (call);                                                               \
    if (status != cudaSuccess) {                                                               \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status));     \
      return 1;                                                                                \
    }                                                                                          \
  } while (0)

enum Function { kEx2, kEx2Ftz, kLg2, kLg2Ftz, kSin, kCos, kRcp, kRcpFtz, kRsqrt, kSqrt, kTanh, kDivApprox, kDivFull, kCount };
static const char* const kNames[kCount] = {"ex2.approx.f32",   "ex2.approx.ftz.f32", "lg2.approx.f32",  "lg2.approx.ftz.f32",
                                           "sin.approx.f32",   "cos.approx.f32",     "rcp.approx.f32",  "rcp.approx.ftz.f32",
                                           "rsqrt.approx.f32", "sqrt.approx.f32",    "tanh.approx.f32", "div.approx.f32",
                                           "div.full.f32"};

__global__ void evaluate(int function, const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float r = 0;
  const float a = x[i], b = y[i];
  switch (function) {
    case kEx2: asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); break;
    case kEx2Ftz: asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); break;
    case kLg2: asm("lg2.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); break;
    case kLg2Ftz: asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); break;
    case kSin: asm("sin.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); break;
    case kCos: asm("cos.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); break;
    case kRcp: asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); break;
    case kRcpFtz: asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); break;
    case kRsqrt: asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); break;
    case kSqrt: asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); break;
    case kTanh: asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); break;
    case kDivApprox: asm("div.approx.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); break;
    case kDivFull: asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); break;
  }
  out[i] = r;
}

static double exact(int function, double a, double b) {
  switch (function) {
    case kEx2: case kEx2Ftz: return std::exp2(a);
    case kLg2: case kLg2Ftz: return std::log2(a);
    case kSin: return std::sin(a);
    case kCos: return std::cos(a);
    case kRcp: case kRcpFtz: return 1 / a;
    case kRsqrt: return 1 / std::sqrt(a);
    case kSqrt: return std::sqrt(a);
    case kTanh: return std::tanh(a);
    default: return a / b;
  }
}

// Inputs cover every exponent the instruction documents, with mantissas from a multiplicative generator.
static float input(int function, uint32_t i, uint32_t n, bool second) {
  const uint32_t hash = (i + (second ? 77777u : 0u)) * 2654435761u + 12345u;
  auto bits = [&](uint32_t low_exponent, uint32_t high_exponent, bool sign) {
    const uint32_t exponent = low_exponent + static_cast<uint32_t>(uint64_t{i} * (high_exponent - low_exponent + 1) / n);
    uint32_t word = exponent << 23 | (hash >> 9);
    if (sign && (hash & 1) != 0) word |= 0x80000000u;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  };
  switch (function) {
    case kEx2: case kEx2Ftz: return bits(97, 133, true);      // |x| up to 128
    case kSin: case kCos: return bits(97, 128, true);         // |x| up to 4 (documented for [-pi, pi])
    case kTanh: return bits(97, 131, true);
    case kLg2: case kLg2Ftz: case kRsqrt: case kSqrt: return bits(1, 254, false);
    case kRcp: case kRcpFtz: return bits(2, 252, true);
    default: return second ? bits(64, 190, true) : bits(40, 214, true);
  }
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: approx_sweep OUT.bin [inputs per function]\n");
    return 2;
  }
  const int n = argc > 2 ? std::atoi(argv[2]) : 131072;
  std::FILE* file = std::fopen(argv[1], "wb");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot write %s\n", argv[1]);
    return 2;
  }
  float *x, *y, *out;
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  CHECK(cudaMalloc(&y, n * sizeof(float)));
  CHECK(cudaMalloc(&out, n * sizeof(float)));
  std::vector<float> a(n), b(n), r(n);
  std::printf("%-20s %12s %14s %14s\n", "instruction", "max ulp", "max abs error", "at");
  for (int f = 0; f < kCount; ++f) {
    for (int i = 0; i < n; ++i) {
      a[i] = input(f, i, n, false);
      b[i] = input(f, i, n, true);
    }
    CHECK(cudaMemcpy(x, a.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(y, b.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    evaluate<<<(n + 255) / 256, 256>>>(f, x, y, out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(r.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
    std::fwrite(r.data(), sizeof(float), n, file);
    double worst = 0, worst_absolute = 0;
    float at = 0;
    for (int i = 0; i < n; ++i) {
      const double e = exact(f, a[i], b[i]);
      if (!std::isfinite(e) || std::fabs(e) > 3.4e38 || std::fabs(e) < 1.2e-38) continue;
      int exponent;
      std::frexp(e, &exponent);
      const double ulp = std::ldexp(1.0, exponent - 24);
      const double error = std::fabs(static_cast<double>(r[i]) - e) / ulp;
      worst_absolute = std::fmax(worst_absolute, std::fabs(static_cast<double>(r[i]) - e) * (std::fabs(e) <= 1 ? 1 : 1 / std::fabs(e)));
      if (error > worst) {
        worst = error;
        at = a[i];
      }
    }
    std::printf("%-20s %12.4g %14.4g %14.8g\n", kNames[f], worst, worst_absolute, at);
  }
  std::fclose(file);
  return 0;
}
