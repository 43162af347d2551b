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

namespace {

constexpr int64_t kGuardBytes = 4096;
constexpr int64_t kFlushBytes = 256 << 20;

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

// Nearly normal numbers (sums of four uniform ones), a function of place alone, scaled to a standard deviation of 1.
__host__ __device__ float value(uint32_t tensor, uint64_t element) {
  uint64_t x = (element + 1) * 0x9e3779b97f4a7c15ull + tensor * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  x ^= x >> 31;
  float sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>((x >> (16 * i)) & 0xffff) / 65536.0f - 0.5f;
  return sum * 1.7320508f;
}

__global__ void fill(__nv_bfloat16* data, uint64_t count, uint32_t tensor, float scale) {
  const uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x;
  if (i < count) data[i] = __float2bfloat16(value(tensor, i) * scale);
}

// Memory with a poisoned zone before and behind it.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : bytes_(bytes) {
    check_cuda(cudaMalloc(&base_, bytes + 2 * kGuardBytes), "cudaMalloc");
    poison();
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(base_); }

  void poison() const { check_cuda(cudaMemset(base_, 0xff, bytes_ + 2 * kGuardBytes), "cudaMemset"); }

  template <class T = void>
  T* data() const {
    return reinterpret_cast<T*>(base_ + kGuardBytes);
  }

  template <class T>
  std::vector<T> copy() const {
    std::vector<T> host(static_cast<size_t>(bytes_) / sizeof(T));
    check_cuda(cudaMemcpy(host.data(), data(), bytes_, cudaMemcpyDeviceToHost), "copy");
    if (const char* path = std::getenv("ATTENTION_OUTPUTS")) {  // appended, to be compared with another machine's
      std::FILE* file = std::fopen(path, "ab");
      if (file == nullptr || std::fwrite(host.data(), sizeof(T), host.size(), file) != host.size()) std::exit(2);
      std::fclose(file);
    }
    return host;
  }

  bool guards_intact() const {
    std::vector<unsigned char> zone(2 * kGuardBytes);
    check_cuda(cudaMemcpy(zone.data(), base_, kGuardBytes, cudaMemcpyDeviceToHost), "copy");
    check_cuda(cudaMemcpy(zone.data() + kGuardBytes, base_ + kGuardBytes + bytes_, kGuardBytes, cudaMemcpyDeviceToHost),
               "copy");
    return std::all_of(zone.begin(), zone.end(), [](unsigned char byte) { return byte == 0xff; });
  }

 private:
  char* base_ = nullptr;
  int64_t bytes_;
};

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
    void* flush = nullptr;
    check_cuda(cudaMalloc(&flush, kFlushBytes), "cudaMalloc");
    cudaEvent_t begin = nullptr, end = nullptr;
    check_cuda(cudaEventCreate(&begin), "event");
    check_cuda(cudaEventCreate(&end), "event");
    std::vector<float> times;
    for (int i = -10; i < repetitions; ++i) {
      check_cuda(cudaMemsetAsync(flush, 0, kFlushBytes), "flush");
      check_cuda(cudaEventRecord(begin), "event");
      launch();
      check_cuda(cudaEventRecord(end), "event");
      check_cuda(cudaEventSynchronize(end), "event");
      float ms = 0;
      check_cuda(cudaEventElapsedTime(&ms, begin, end), "event");
      if (i >= 0) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    const double ms = times[times.size() / 2];
    const double flop = 4.0 * sizes.s * sizes.s * sizes.d * sizes.heads() * (ATTENTION_CAUSAL ? 0.5 : 1.0);
    std::printf("median of %d: %.4f ms, %.1f TFLOP/s (fastest %.4f ms)\n", repetitions, ms, flop / ms * 1e-9, times[0]);
    check_cuda(cudaFree(flush), "cudaFree");
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
