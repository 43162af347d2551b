// The Blackwell patterns, executed: with the model of tcgen05 in place of the instructions. Small problems with tails.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <algorithm>
#include <cmath>

// The boxes of gemm_pair.cu: 128 rows of 64 bf16.
#define MODEL_BOX_BYTES 16384
#include "programs/tcgen05_model.cuh"
#include "testing.cuh"

#undef TVM_FFI_DLL_EXPORT_TYPED_FUNC
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, function) static_assert(true)
extern "C" TVMFFIStreamHandle TVMFFIEnvGetStream(int32_t, int32_t) { return nullptr; }

namespace gemm_minimal {
#include "sm_100a/patterns/gemm_minimal.cu"
}
// Two pairs for six tiles, so that both accumulators are used and used again.
#define cudaDeviceGetAttribute(result, attribute, device) (*(result) = 4, cudaSuccess)
namespace gemm_pair {
#include "sm_100a/patterns/gemm_pair.cu"
}
#undef cudaDeviceGetAttribute
namespace forward {
#include "sm_100a/patterns/attention_forward.cu"
}
namespace backward {
#include "sm_100a/patterns/attention_backward.cu"
}
#undef CAUSAL
#undef TRICKS
#define CAUSAL 1
#define TRICKS 0
namespace forward_causal {
#include "sm_100a/patterns/attention_forward.cu"
}
namespace backward_causal {
#include "sm_100a/patterns/attention_backward.cu"
}

namespace {

using testing::Buffer;
using Bf16 = __nv_bfloat16;

/// A tensor as a candidate gets it.
class Tensor {
 public:
  Tensor(void* data, std::vector<int64_t> shape, bool bf16) : shape_(std::move(shape)), strides_(shape_.size(), 1) {
    for (size_t i = shape_.size() - 1; i > 0; --i) strides_[i - 1] = strides_[i] * shape_[i];
    tensor_.data = data;
    tensor_.device = {kDLCUDA, 0};
    tensor_.ndim = static_cast<int32_t>(shape_.size());
    tensor_.dtype = {static_cast<uint8_t>(bf16 ? kDLBfloat : kDLFloat), static_cast<uint8_t>(bf16 ? 16 : 32), 1};
    tensor_.shape = shape_.data();
    tensor_.strides = strides_.data();
    tensor_.byte_offset = 0;
  }
  tvm::ffi::TensorView view() { return tvm::ffi::TensorView(&tensor_); }

 private:
  std::vector<int64_t> shape_, strides_;
  DLTensor tensor_;
};

std::vector<Bf16> random(size_t count, uint32_t seed) {
  std::vector<Bf16> values(count);
  for (size_t i = 0; i < count; ++i) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u + seed * 40503u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    values[i] = __float2bfloat16(static_cast<float>(x >> 8) / 16777216.0f * 4.0f - 2.0f);
  }
  return values;
}
std::vector<double> wide(const std::vector<Bf16>& values) {
  std::vector<double> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = __bfloat162float(values[i]);
  return result;
}

/// The error relative to the norm of what is wanted, and no element far off.
template <class Got>
void expect_near(const std::vector<Got>& got, const std::vector<double>& wanted, double limit, const std::string& what) {
  double error = 0, norm = 0, worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double difference = std::abs(static_cast<double>(static_cast<float>(got[i])) - wanted[i]);
    error += difference * difference;
    norm += wanted[i] * wanted[i];
    if (!(difference <= worst)) worst = difference, where = i;
  }
  const double rms = std::sqrt(norm / static_cast<double>(wanted.size()));
  testing::expect(std::sqrt(error / norm) < limit && worst < 20 * limit * std::max(rms, 1e-3),
                  what + ": relative error " + std::to_string(std::sqrt(error / norm)) + ", worst at " +
                      std::to_string(where) + ": " + std::to_string(static_cast<float>(got[where])) + ", not " +
                      std::to_string(wanted[where]));
}

void test_gemm(void (*run)(tvm::ffi::TensorView, tvm::ffi::TensorView, tvm::ffi::TensorView), int64_t m, int64_t n,
               int64_t k) {
  const auto a = random(m * k, 1), b = random(n * k, 2);
  const Buffer<Bf16> a_data(a), b_data(b), c_data(random(m * n, 3));
  run(Tensor(a_data.get(), {m, k}, true).view(), Tensor(b_data.get(), {n, k}, true).view(),
      Tensor(c_data.get(), {m, n}, true).view());
  const auto x = wide(a), y = wide(b);
  std::vector<double> wanted(m * n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t l = 0; l < k; ++l) wanted[i * n + j] += x[i * k + l] * y[j * k + l];
    }
  }
  expect_near(c_data.read(), wanted, 0.003, "C");
}

/// Attention in doubles. P is kept for the backward.
struct Attention {
  int64_t heads, length, dim = 128;
  bool causal;
  std::vector<double> q, k, v, o, lse, p;

  Attention(int64_t the_heads, int64_t the_length, bool is_causal, const std::vector<Bf16>& the_q,
            const std::vector<Bf16>& the_k, const std::vector<Bf16>& the_v)
      : heads(the_heads), length(the_length), causal(is_causal), q(wide(the_q)), k(wide(the_k)), v(wide(the_v)) {
    o.assign(q.size(), 0);
    lse.assign(heads * length, 0);
    p.assign(heads * length * length, 0);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < length; ++i) {
        const int64_t keys = causal ? i + 1 : length;
        double* row = &p[(h * length + i) * length];
        double top = -1e30, sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
          for (int64_t d = 0; d < dim; ++d) row[j] += q[(h * length + i) * dim + d] * k[(h * length + j) * dim + d];
          row[j] /= std::sqrt(static_cast<double>(dim));
          top = std::max(top, row[j]);
        }
        for (int64_t j = 0; j < keys; ++j) sum += row[j] = std::exp(row[j] - top);
        lse[h * length + i] = top + std::log(sum);
        for (int64_t j = 0; j < keys; ++j) {
          row[j] /= sum;
          for (int64_t d = 0; d < dim; ++d) o[(h * length + i) * dim + d] += row[j] * v[(h * length + j) * dim + d];
        }
      }
    }
  }
};

template <class Run>
void test_forward(Run run, bool causal, int64_t heads, int64_t length) {
  const int64_t count = heads * length * 128;
  const auto q = random(count, 1), k = random(count, 2), v = random(count, 3);
  const Attention truth(heads, length, causal, q, k, v);
  const Buffer<Bf16> q_data(q), k_data(k), v_data(v), o_data(random(count, 4));
  const Buffer<float> lse_data(std::vector<float>(heads * length, 99.0f));
  const std::vector<int64_t> shape = {1, heads, length, 128};
  run(Tensor(q_data.get(), shape, true).view(), Tensor(k_data.get(), shape, true).view(),
      Tensor(v_data.get(), shape, true).view(), Tensor(o_data.get(), shape, true).view(),
      Tensor(lse_data.get(), {1, heads, length}, false).view());
  expect_near(o_data.read(), truth.o, 0.005, "O");
  const auto lse = lse_data.read();
  for (size_t i = 0; i < lse.size(); ++i) testing::expect(std::abs(lse[i] - truth.lse[i]) < 2e-4, "LSE at " + std::to_string(i));
}

template <class Run>
void test_backward(Run run, bool causal, int64_t heads, int64_t length) {
  const int64_t count = heads * length * 128;
  const auto q = random(count, 1), k = random(count, 2), v = random(count, 3), d_o = random(count, 5);
  const Attention truth(heads, length, causal, q, k, v);
  std::vector<Bf16> o(count);
  for (int64_t i = 0; i < count; ++i) o[i] = __float2bfloat16(static_cast<float>(truth.o[i]));
  const std::vector<float> lse(truth.lse.begin(), truth.lse.end());
  const auto g = wide(d_o), o_wide = wide(o);
  std::vector<double> dq(count), dk(count), dv(count);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < length; ++i) {
      const int64_t row = (h * length + i) * 128;
      double delta = 0;
      for (int64_t d = 0; d < 128; ++d) delta += o_wide[row + d] * g[row + d];
      for (int64_t j = 0; j < (causal ? i + 1 : length); ++j) {
        const int64_t key = (h * length + j) * 128;
        const double p = truth.p[(h * length + i) * length + j];
        double dp = 0;
        for (int64_t d = 0; d < 128; ++d) dp += g[row + d] * truth.v[key + d];
        const double ds = p * (dp - delta) / std::sqrt(128.0);
        for (int64_t d = 0; d < 128; ++d) {
          dq[row + d] += ds * truth.k[key + d];
          dk[key + d] += ds * truth.q[row + d];
          dv[key + d] += p * g[row + d];
        }
      }
    }
  }
  const Buffer<Bf16> q_data(q), k_data(k), v_data(v), o_data(o), do_data(d_o), dq_data(random(count, 6)),
      dk_data(random(count, 7)), dv_data(random(count, 8));
  const Buffer<float> lse_data(lse);
  const std::vector<int64_t> shape = {1, heads, length, 128};
  run(Tensor(q_data.get(), shape, true).view(), Tensor(k_data.get(), shape, true).view(),
      Tensor(v_data.get(), shape, true).view(), Tensor(o_data.get(), shape, true).view(),
      Tensor(do_data.get(), shape, true).view(), Tensor(lse_data.get(), {1, heads, length}, false).view(),
      Tensor(dq_data.get(), shape, true).view(), Tensor(dk_data.get(), shape, true).view(),
      Tensor(dv_data.get(), shape, true).view());
  expect_near(dq_data.read(), dq, 0.006, "dQ");
  expect_near(dk_data.read(), dk, 0.006, "dK");
  expect_near(dv_data.read(), dv, 0.006, "dV");
}

}  // namespace

int main(int count, char** words) {
  testing::read_arguments(count, words);
  testing::run("gemm_minimal", [] { test_gemm(gemm_minimal::run, 130, 40, 360); });
  testing::run("gemm_pair", [] { test_gemm(gemm_pair::run, 1500, 40, 72); });
  testing::run("forward", [] { test_forward(forward::run, false, 1, 300); });
  testing::run("forward_causal", [] { test_forward(forward_causal::run, true, 1, 280); });
  testing::run("backward", [] { test_backward(backward::run, false, 1, 280); });
  testing::run("backward_causal", [] { test_backward(backward_causal::run, true, 1, 150); });
  return testing::result();
}
