// One of the example kernels for attention backward as a program that checks itself; built as attention.cu is, with
// KERNEL attention_backward.cu or attention_backward_causal.cu.
//
// Arguments: B H S D [repetitions] (1 2 320 128 0). Gradients of the first and the last head are compared with sums in
// fp64; every element must have been written, and nothing around the outputs. With repetitions (on a GPU), each is one
// launch after the L2 cache was flushed, and the median is printed; above S = 2048 nothing is compared then, and O and
// L are made up. Exit code 0 if the results are right, 1 if not.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include KERNEL
#include "parts.cuh"

namespace {

struct Sizes {
  int64_t b = 1, h = 2, s = 320, d = 128;
  int64_t heads() const { return b * h; }
  int64_t elements() const { return heads() * s * d; }
};

using Matrix = std::vector<double>;  // [S, D] of one head

Matrix head_of(const std::vector<__nv_bfloat16>& tensor, const Sizes& sizes, int64_t head) {
  const auto begin = tensor.begin() + head * sizes.s * sizes.d;
  Matrix out;
  for (auto at = begin; at != begin + sizes.s * sizes.d; ++at) out.push_back(double{__bfloat162float(*at)});
  return out;
}

double dot(const double* x, const double* y, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i] * y[i];
  return sum;
}

int64_t keys_of(int64_t row, const Sizes& sizes) { return ATTENTION_CAUSAL ? row + 1 : sizes.s; }

// O and L of one head.
void forward(const Sizes& sizes, const Matrix& q, const Matrix& k, const Matrix& v, __nv_bfloat16* o, float* l) {
  for (int64_t i = 0; i < sizes.s; ++i) {
    std::vector<double> p;
    for (int64_t j = 0; j < keys_of(i, sizes); ++j) {
      p.push_back(dot(&q[i * sizes.d], &k[j * sizes.d], sizes.d) / std::sqrt(double(sizes.d)));
    }
    const double top = *std::max_element(p.begin(), p.end());
    double total = 0;
    for (double& x : p) total += x = std::exp(x - top);
    for (int64_t c = 0; c < sizes.d; ++c) {
      double sum = 0;
      for (size_t j = 0; j < p.size(); ++j) sum += p[j] * v[j * sizes.d + c];
      o[i * sizes.d + c] = __double2bfloat16(sum / total);
    }
    l[i] = static_cast<float>(top + std::log(total));
  }
}

struct Gradients {
  Matrix q, k, v;
};

Gradients backward(const Sizes& sizes, const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& o,
                   const Matrix& d_o, const float* l) {
  const int64_t d = sizes.d;
  Gradients out{Matrix(q.size()), Matrix(q.size()), Matrix(q.size())};
  const double scale = 1 / std::sqrt(double(d));
  for (int64_t i = 0; i < sizes.s; ++i) {
    const double delta = dot(&o[i * d], &d_o[i * d], d);
    for (int64_t j = 0; j < keys_of(i, sizes); ++j) {
      const double p = std::exp(scale * dot(&q[i * d], &k[j * d], d) - l[i]);
      const double ds = scale * p * (dot(&d_o[i * d], &v[j * d], d) - delta);
      for (int64_t c = 0; c < d; ++c) {
        out.v[j * d + c] += p * d_o[i * d + c];
        out.q[i * d + c] += ds * k[j * d + c];
        out.k[j * d + c] += ds * q[i * d + c];
      }
    }
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  int64_t* const extents[] = {&sizes.b, &sizes.h, &sizes.s, &sizes.d};
  for (int i = 0; i < 4 && i + 1 < argc; ++i) *extents[i] = std::atoll(argv[i + 1]);
  const int repetitions = argc > 5 ? std::atoi(argv[5]) : 0;
  const bool compare = sizes.s <= 2048;

  const int64_t count = sizes.elements();
  const int64_t rows = sizes.heads() * sizes.s;
  const Buffer q(2 * count), k(2 * count), v(2 * count), o(2 * count), d_o(2 * count), l(4 * rows);
  const Buffer d_q(2 * count), d_k(2 * count), d_v(2 * count);
  const auto blocks = static_cast<unsigned>((count + 255) / 256);
  uint32_t tensor_number = 0;
  for (const Buffer* input : {&q, &k, &v, &d_o, &o}) {
    fill<<<blocks, 256>>>(input->data<__nv_bfloat16>(), count, tensor_number++, 1.0f);
    check_cuda(cudaGetLastError(), "fill");
  }
  const auto q_host = q.copy<__nv_bfloat16>(), k_host = k.copy<__nv_bfloat16>(), v_host = v.copy<__nv_bfloat16>(),
             do_host = d_o.copy<__nv_bfloat16>();
  auto o_host = o.copy<__nv_bfloat16>();
  std::vector<float> l_host(static_cast<size_t>(rows), std::log(static_cast<float>(sizes.s)) + 0.5f);
  const int64_t heads[] = {0, sizes.heads() - 1};
  if (compare) {
    for (const int64_t head : heads) {
      forward(sizes, head_of(q_host, sizes, head), head_of(k_host, sizes, head), head_of(v_host, sizes, head),
              &o_host[head * sizes.s * sizes.d], &l_host[head * sizes.s]);
    }
    check_cuda(cudaMemcpy(o.data(), o_host.data(), 2 * count, cudaMemcpyHostToDevice), "copy");
  }
  check_cuda(cudaMemcpy(l.data(), l_host.data(), 4 * rows, cudaMemcpyHostToDevice), "copy");

  const DLDataType bf16, fp32{kDLFloat, 32, 1};
  const auto launch = [&] {
    const auto tensor = [&](const Buffer& buffer) {
      return tvm::ffi::TensorView(buffer.data(), {sizes.b, sizes.h, sizes.s, sizes.d}, bf16);
    };
    run_candidate(tensor(q), tensor(k), tensor(v), tensor(o), tensor(d_o),
                  {l.data(), {sizes.b, sizes.h, sizes.s}, fp32}, tensor(d_q), tensor(d_k), tensor(d_v));
  };
  launch();
  check_cuda(cudaDeviceSynchronize(), "the kernels");

  double worst = 0, worst_row = 0;
  int64_t unwritten = 0;
  bool intact = true;
  const Buffer* const outputs[] = {&d_q, &d_k, &d_v};
  std::vector<Gradients> truths;
  if (compare) {
    for (const int64_t head : heads) {
      truths.push_back(backward(sizes, head_of(q_host, sizes, head), head_of(k_host, sizes, head),
                                head_of(v_host, sizes, head), head_of(o_host, sizes, head),
                                head_of(do_host, sizes, head), &l_host[head * sizes.s]));
    }
  }
  for (int which = 0; which < 3; ++which) {
    const auto host = outputs[which]->copy<__nv_bfloat16>();
    intact = intact && outputs[which]->guards_intact();
    for (const __nv_bfloat16 x : host) unwritten += std::isnan(__bfloat162float(x));
    for (size_t i = 0; i < truths.size(); ++i) {
      const Matrix found = head_of(host, sizes, heads[i]);
      const Matrix& truth = which == 0 ? truths[i].q : which == 1 ? truths[i].k : truths[i].v;
      // With one key alone, dQ and dK are zero but for rounding: hence a floor.
      const double whole =
          std::max(dot(truth.data(), truth.data(), sizes.s * sizes.d), 1e-6 * double(sizes.s * sizes.d));
      double error = 0;
      for (int64_t row = 0; row < sizes.s; ++row) {
        double row_error = 0, row_norm = 0;
        for (int64_t c = row * sizes.d; c < (row + 1) * sizes.d; ++c) {
          row_error += (found[c] - truth[c]) * (found[c] - truth[c]);
          row_norm += truth[c] * truth[c];
        }
        error += row_error;
        // The gradient of a row that sees one key alone is zero.
        worst_row = std::max(worst_row, std::sqrt(row_error / std::max(row_norm, 0.01 * whole / double(sizes.s))));
      }
      worst = std::max(worst, std::sqrt(error / (whole)));
    }
  }
  const bool right = unwritten == 0 && intact && worst < 0.005 && worst_row < 0.01;
  std::printf("attention backward B=%lld H=%lld S=%lld D=%lld %s: error %.2e (worst row %.2e)%s%s: %s\n",
              static_cast<long long>(sizes.b), static_cast<long long>(sizes.h), static_cast<long long>(sizes.s),
              static_cast<long long>(sizes.d), ATTENTION_CAUSAL ? "causal" : "full", worst, worst_row,
              unwritten > 0 ? ", unwritten elements" : "", intact ? "" : ", overrun",
              !right    ? "FAIL"
              : compare ? "PASS"
                        : "not compared");

  if (repetitions > 0) {
    const std::vector<float> times = timed(launch, repetitions);
    const double ms = times[times.size() / 2];
    const double flop = 10.0 * sizes.s * sizes.s * sizes.d * sizes.heads() * (ATTENTION_CAUSAL ? 0.5 : 1.0);
    std::printf("median of %d: %.4f ms, %.1f TFLOP/s (fastest %.4f ms)\n", repetitions, ms, flop / ms * 1e-9, times[0]);
  }
  return right ? 0 : 1;
}
