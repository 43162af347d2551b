// The example kernel for attention over a paged cache as a program that checks itself.
//   nvcc -O3 -std=c++17 -cudart shared -lineinfo -I bench/programs/include
//     -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]' bench/programs/paged_decode.cu -o paged_decode
// Arguments: tokens of the longest request, heads of K and V, repetitions (700 8 0). There are 15 requests: an empty
// one, one of a single token, one of the full length, others in between. With repetitions (on a GPU), each is one
// launch after the L2 cache was flushed, and the median is printed. Exit code 0 if everything is right, 1 if not.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "../../examples/kernels/attention_paged_decode.cu"
#include "parts.cuh"

namespace {

constexpr int kRequests = 15;
constexpr int kGroup = attention_paged_decode::kGroup;
constexpr int kDim = attention_paged_decode::kDim;

uint64_t state = 20261130;
uint64_t next_random() {
  state += 0x9e3779b97f4a7c15ull;
  uint64_t x = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

std::vector<__nv_bfloat16> random_values(int64_t count) {
  std::vector<__nv_bfloat16> values(static_cast<size_t>(count));
  for (auto& value : values) {
    const uint64_t x = next_random();
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>((x >> (16 * i)) & 0xffff) / 65536.0f - 0.5f;
    value = __float2bfloat16(sum * 1.7320508f);
  }
  return values;
}

template <class T>
T* on_device(const std::vector<T>& values) {
  T* data = nullptr;
  check_cuda(cudaMalloc(&data, values.size() * sizeof(T)), "cudaMalloc");
  check_cuda(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
  return data;
}

}  // namespace

int main(int argc, char** argv) {
  const int longest = argc > 1 ? std::atoi(argv[1]) : 700;
  const int64_t kv_heads = argc > 2 ? std::atoll(argv[2]) : 8;
  const int repetitions = argc > 3 ? std::atoi(argv[3]) : 0;
  const int64_t heads = kv_heads * kGroup;

  std::vector<int> indptr = {0};
  for (int i = 0; i < kRequests; ++i) {
    const int length = i == 0 ? longest : i == 4 ? 0 : i == 7 ? 1 : static_cast<int>(next_random() % (longest + 1));
    indptr.push_back(indptr.back() + length);
  }
  const int tokens = indptr.back();
  const int64_t pages = 2 * tokens + 1;
  std::vector<int> indices;
  for (int i = 0; i < tokens; ++i) indices.push_back(static_cast<int>(next_random() % pages));
  const auto q = random_values(kRequests * heads * kDim);
  const auto k = random_values(pages * kv_heads * kDim);
  const auto v = random_values(pages * kv_heads * kDim);
  const double scale = 1 / std::sqrt(double{kDim});

  __nv_bfloat16* q_device = on_device(q);
  __nv_bfloat16* k_device = on_device(k);
  __nv_bfloat16* v_device = on_device(v);
  int* indptr_device = on_device(indptr);
  int* indices_device = on_device(indices);
  std::vector<__nv_bfloat16> output(q.size(), __float2bfloat16(NAN));
  std::vector<float> lse(static_cast<size_t>(kRequests * heads), NAN);
  __nv_bfloat16* output_device = on_device(output);
  float* lse_device = on_device(lse);

  const DLDataType bf16, fp32{kDLFloat, 32, 1}, int32{kDLInt, 32, 1};
  const auto launch = [&] {
    run_candidate({q_device, {kRequests, heads, kDim}, bf16}, {k_device, {pages, 1, kv_heads, kDim}, bf16},
                  {v_device, {pages, 1, kv_heads, kDim}, bf16}, {indptr_device, {kRequests + 1}, int32},
                  {indices_device, {tokens}, int32}, scale, {output_device, {kRequests, heads, kDim}, bf16},
                  {lse_device, {kRequests, heads}, fp32});
  };
  launch();
  check_cuda(cudaDeviceSynchronize(), "the kernel");
  check_cuda(cudaMemcpy(output.data(), output_device, output.size() * 2, cudaMemcpyDeviceToHost), "copy");
  check_cuda(cudaMemcpy(lse.data(), lse_device, lse.size() * 4, cudaMemcpyDeviceToHost), "copy");

  double error = 0, norm = 0, worst_lse = 0;
  bool empty_right = true;
  for (int request = 0; request < kRequests; ++request) {
    const int length = indptr[request + 1] - indptr[request];
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t at = request * heads + head;
      const auto row = [&](const std::vector<__nv_bfloat16>& cache, int i) {
        return cache.data() + (indices[indptr[request] + i] * kv_heads + head / kGroup) * kDim;
      };
      std::vector<double> p(static_cast<size_t>(length));
      double top = -INFINITY, total = 0;
      for (int i = 0; i < length; ++i) {
        double sum = 0;
        for (int c = 0; c < kDim; ++c) {
          sum += double{__bfloat162float(q[at * kDim + c])} * double{__bfloat162float(row(k, i)[c])};
        }
        top = std::max(top, p[i] = sum * scale);
      }
      for (double& x : p) total += x = std::exp(x - top);
      if (length == 0) {
        empty_right = empty_right && lse[at] == -INFINITY;
      } else {
        worst_lse = std::max(worst_lse, std::abs(lse[at] - (top + std::log(total)) / std::log(2.0)));
      }
      for (int c = 0; c < kDim; ++c) {
        double truth = 0;
        for (int i = 0; i < length; ++i) truth += p[i] / total * double{__bfloat162float(row(v, i)[c])};
        const double found = __bfloat162float(output[at * kDim + c]);
        error += (found - truth) * (found - truth);
        norm += truth * truth;
      }
    }
  }
  // Not "error < limit": a NaN must fail.
  const bool right = empty_right && std::sqrt(error / norm) < 0.004 && worst_lse < 1e-4;
  std::printf("paged decode, %d requests, %d tokens, %d heads of K and V: error %.2e, LSE error %.1e: %s\n", kRequests,
              tokens, static_cast<int>(kv_heads), std::sqrt(error / norm), worst_lse, right ? "PASS" : "FAIL");

  if (repetitions > 0) {
    const std::vector<float> times = timed(launch, repetitions);
    const double ms = times[times.size() / 2];
    std::printf("median of %d: %.1f us, %.0f GB/s of K and V\n", repetitions, ms * 1e3,
                4e-6 * kDim * tokens * kv_heads / ms);
  }
  for (void* pointer : std::initializer_list<void*>{q_device, k_device, v_device, indptr_device, indices_device,
                                                    output_device, lse_device}) {
    check_cuda(cudaFree(pointer), "cudaFree");
  }
  return right ? 0 : 1;
}
