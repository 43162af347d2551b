// One of the example attention kernels as a program, for tools that check whole programs and for timing variants.
//   nvcc -O3 -std=c++17 -cudart shared -lineinfo -I bench/programs/include
//     -DKERNEL='"../../examples/kernels/attention_forward.cu"'
//     -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]' bench/programs/attention.cu -o attention_forward
// The mask is part of the kernel: KERNEL is attention_forward_causal.cu for the causal one. Its tuning can be set too,
// as in -DATTENTION_KEYS=128 -DATTENTION_STAGES=2 -DATTENTION_CONSUMERS=2.
//
// Arguments: B H S D [spread [repetitions]] (1 2 320 128 1 0). Scores have the standard deviation `spread`.
// Some rows of some heads are compared with sums in fp64; every element must have been written, and nothing around the
// outputs. With repetitions (on a GPU), each is one launch after the L2 cache was flushed, and the median is printed.
// Exit code 0 if the results are right, 1 if not.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include KERNEL
#include "parts.cuh"

namespace {

struct Sizes {
  int64_t b = 1, h = 2, s = 320, d = 128;
  int64_t heads() const { return b * h; }
  int64_t elements() const { return heads() * s * d; }
};

// One row of O and its LSE, from the rounded inputs.
double reference_row(const Sizes& sizes, const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                     int64_t head, int64_t row, std::vector<double>& o) {
  const int64_t keys = ATTENTION_CAUSAL ? row + 1 : sizes.s;
  const auto at = [&](const __nv_bfloat16* tensor, int64_t r, int64_t c) {
    return static_cast<double>(__bfloat162float(tensor[(head * sizes.s + r) * sizes.d + c]));
  };
  std::vector<double> p(static_cast<size_t>(keys));
  double top = -INFINITY;
  for (int64_t j = 0; j < keys; ++j) {
    double sum = 0;
    for (int64_t c = 0; c < sizes.d; ++c) sum += at(q, row, c) * at(k, j, c);
    p[j] = sum / std::sqrt(static_cast<double>(sizes.d));
    top = std::max(top, p[j]);
  }
  double total = 0;
  for (double& x : p) total += x = std::exp(x - top);
  o.assign(static_cast<size_t>(sizes.d), 0.0);
  for (int64_t j = 0; j < keys; ++j) {
    for (int64_t c = 0; c < sizes.d; ++c) o[c] += p[j] * at(v, j, c);
  }
  for (double& x : o) x /= total;
  return top + std::log(total);
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  int64_t* const extents[] = {&sizes.b, &sizes.h, &sizes.s, &sizes.d};
  for (int i = 0; i < 4 && i + 1 < argc; ++i) *extents[i] = std::atoll(argv[i + 1]);
  const float spread = argc > 5 ? static_cast<float>(std::atof(argv[5])) : 1.0f;
  const int repetitions = argc > 6 ? std::atoi(argv[6]) : 0;

  const int64_t count = sizes.elements();
  const int64_t rows = sizes.heads() * sizes.s;
  const Buffer q(2 * count), k(2 * count), v(2 * count), o(2 * count), lse(4 * rows);
  const auto blocks = static_cast<unsigned>((count + 255) / 256);
  fill<<<blocks, 256>>>(q.data<__nv_bfloat16>(), count, 0, spread);
  fill<<<blocks, 256>>>(k.data<__nv_bfloat16>(), count, 1, 1.0f);
  fill<<<blocks, 256>>>(v.data<__nv_bfloat16>(), count, 2, 1.0f);
  check_cuda(cudaGetLastError(), "fill");

  const DLDataType bf16, fp32{kDLFloat, 32, 1};
  const auto launch = [&] {
    const auto tensor = [&](const Buffer& buffer) {
      return tvm::ffi::TensorView(buffer.data(), {sizes.b, sizes.h, sizes.s, sizes.d}, bf16);
    };
    run_candidate(tensor(q), tensor(k), tensor(v), tensor(o), {lse.data(), {sizes.b, sizes.h, sizes.s}, fp32});
  };
  launch();
  check_cuda(cudaDeviceSynchronize(), "the kernel");

  if (repetitions > 0) {
    const std::vector<float> times = timed(launch, repetitions);
    const double ms = times[times.size() / 2];
    const double flop = 4.0 * sizes.s * sizes.s * sizes.d * sizes.heads() * (ATTENTION_CAUSAL ? 0.5 : 1.0);
    std::printf("median of %d: %.4f ms, %.1f TFLOP/s (fastest %.4f ms)\n", repetitions, ms, flop / ms * 1e-9, times[0]);
    // One more for the comparison: a kernel that leaves something behind shows after many launches.
    for (const Buffer* output : {&o, &lse}) output->poison();
    launch();
    check_cuda(cudaDeviceSynchronize(), "the last launch");
  }

  const auto q_host = q.copy<__nv_bfloat16>(), k_host = k.copy<__nv_bfloat16>(), v_host = v.copy<__nv_bfloat16>(),
             o_host = o.copy<__nv_bfloat16>();
  const auto lse_host = lse.copy<float>();
  int64_t unwritten = 0;
  for (const __nv_bfloat16 x : o_host) unwritten += std::isnan(__bfloat162float(x));
  for (const float x : lse_host) unwritten += std::isnan(x);

  // Rows at both ends of tiles and of heads, and others spread over everything.
  std::vector<int64_t> looked_at;
  for (const int64_t head : {int64_t{0}, sizes.heads() - 1}) {
    for (int64_t row = 0; row < sizes.s; row += 64) {
      for (const int64_t near : {row - 1, row}) looked_at.push_back(head * sizes.s + std::max<int64_t>(near, 0));
    }
    looked_at.push_back((head + 1) * sizes.s - 1);
  }
  for (int64_t row = 0; row < rows; row += rows / 97 + 1) looked_at.push_back(row);
  std::sort(looked_at.begin(), looked_at.end());
  looked_at.erase(std::unique(looked_at.begin(), looked_at.end()), looked_at.end());

  double error = 0, norm = 0, worst_row = 0, worst_lse = 0;
  std::vector<double> truth;
  for (const int64_t row : looked_at) {
    const double true_lse =
        reference_row(sizes, q_host.data(), k_host.data(), v_host.data(), row / sizes.s, row % sizes.s, truth);
    double row_error = 0, row_norm = 0;
    for (int64_t c = 0; c < sizes.d; ++c) {
      const double x = __bfloat162float(o_host[static_cast<size_t>(row * sizes.d + c)]);
      row_error += (x - truth[c]) * (x - truth[c]);
      row_norm += truth[c] * truth[c];
    }
    error += row_error;
    norm += row_norm;
    worst_row = std::max(worst_row, std::sqrt(row_error / row_norm));
    worst_lse = std::max(worst_lse, std::abs(lse_host[static_cast<size_t>(row)] - true_lse));
  }
  const bool intact = o.guards_intact() && lse.guards_intact();
  const bool right = unwritten == 0 && intact && std::sqrt(error / norm) < 0.004 && worst_row < 0.008 &&
                     worst_lse < 1e-4 * std::max(1.0f, spread);
  std::printf(
      "attention B=%lld H=%lld S=%lld D=%lld %s: %zu rows: O error %.2e (worst row %.2e), LSE error %.1e%s%s: %s\n",
      static_cast<long long>(sizes.b), static_cast<long long>(sizes.h), static_cast<long long>(sizes.s),
      static_cast<long long>(sizes.d), ATTENTION_CAUSAL ? "causal" : "full", looked_at.size(), std::sqrt(error / norm),
      worst_row, worst_lse, unwritten > 0 ? ", unwritten elements" : "", intact ? "" : ", overrun",
      right ? "PASS" : "FAIL");

  return right ? 0 : 1;
}
