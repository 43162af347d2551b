// Device-wide algorithms of CUB, checked on the host. Compiled once per ALGORITHM: REDUCE, SCAN, RADIX_SORT, SELECT,
// HISTOGRAM, RUN_LENGTH.
#include <cub/cub.cuh>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#define REDUCE 1
#define SCAN 2
#define RADIX_SORT 3
#define SELECT 4
#define HISTOGRAM 5
#define RUN_LENGTH 6

#define CHECK(call)                                                                      \
  if (const cudaError_t error = (call); error != cudaSuccess) {                          \
    return std::printf("%s: %s\n", #call, cudaGetErrorString(error)), 1;                 \
  }
// CUB's protocol: the first call says how much scratch memory it wants.
#define CUB(call, ...)                                     \
  {                                                        \
    size_t bytes = 0;                                      \
    void* scratch = nullptr;                               \
    CHECK(call(scratch, bytes, __VA_ARGS__));              \
    CHECK(cudaMalloc(&scratch, bytes));                    \
    CHECK(call(scratch, bytes, __VA_ARGS__));              \
    CHECK(cudaDeviceSynchronize());                        \
  }

template <class T>
T* on_device(const std::vector<T>& values) {
  T* pointer = nullptr;
  if (cudaMalloc(&pointer, values.size() * sizeof(T)) != cudaSuccess ||
      cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice) != cudaSuccess) {
    std::exit(1);
  }
  return pointer;
}
template <class T>
std::vector<T> on_host(const T* pointer, size_t count) {
  std::vector<T> values(count);
  if (cudaMemcpy(values.data(), pointer, count * sizeof(T), cudaMemcpyDeviceToHost) != cudaSuccess) std::exit(1);
  return values;
}
template <class T>
bool same(const std::vector<T>& found, const std::vector<T>& expected, const char* what) {
  const auto at = std::mismatch(found.begin(), found.end(), expected.begin(), expected.end());
  if (at.first == found.end() && at.second == expected.end()) return true;
  return std::printf("%s differs at element %td\n", what, at.first - found.begin()), false;
}

struct IsEven {
  __host__ __device__ bool operator()(uint32_t value) const { return value % 2 == 0; }
};

int main() {
  constexpr int count = 20011;
  std::mt19937 generator(1);
  std::vector<uint32_t> values(count);
  for (uint32_t& value : values) value = generator();
  uint32_t* input = on_device(values);
  uint32_t* output = on_device(std::vector<uint32_t>(count, 0xdeadbeef));
  bool right = true;
#if ALGORITHM == REDUCE
  CUB(cub::DeviceReduce::Sum, input, output, count);
  CUB(cub::DeviceReduce::Max, input, output + 1, count);
  right = same(on_host(output, 2),
               {std::accumulate(values.begin(), values.end(), 0u), *std::max_element(values.begin(), values.end())},
               "reduction");
#elif ALGORITHM == SCAN
  CUB(cub::DeviceScan::InclusiveSum, input, output, count);
  std::vector<uint32_t> expected(count);
  std::partial_sum(values.begin(), values.end(), expected.begin());
  right = same(on_host(output, count), expected, "scan");
#elif ALGORITHM == RADIX_SORT
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t& value : values) value %= 5003;  // equal keys show whether the sort is stable
  input = on_device(values);
  uint32_t* order_in = on_device(order);
  uint32_t* order_out = on_device(std::vector<uint32_t>(count));
  CUB(cub::DeviceRadixSort::SortPairs, input, output, order_in, order_out, count);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return values[a] < values[b]; });
  std::vector<uint32_t> keys;
  for (const uint32_t at : order) keys.push_back(values[at]);
  right = same(on_host(output, count), keys, "keys") && same(on_host(order_out, count), order, "values");
#elif ALGORITHM == SELECT
  int* chosen = on_device(std::vector<int>(1));
  CUB(cub::DeviceSelect::If, input, output, chosen, count, IsEven());
  std::vector<uint32_t> expected;
  std::copy_if(values.begin(), values.end(), std::back_inserter(expected), IsEven());
  right = same(on_host(chosen, 1), {int(expected.size())}, "count") &&
          same(on_host(output, expected.size()), expected, "selection");
#elif ALGORITHM == HISTOGRAM
  std::vector<uint8_t> bytes(values.begin(), values.end());
  std::vector<int> expected(256);
  for (const uint8_t byte : bytes) ++expected[byte];
  uint8_t* samples = on_device(bytes);
  int* bins = on_device(std::vector<int>(256));
  CUB(cub::DeviceHistogram::HistogramEven, samples, bins, 257, 0, 256, count);
  right = same(on_host(bins, 256), expected, "histogram");
#elif ALGORITHM == RUN_LENGTH
  for (uint32_t& value : values) value %= 2;
  input = on_device(values);
  int* lengths = on_device(std::vector<int>(count));
  int* runs = on_device(std::vector<int>(1));
  CUB(cub::DeviceRunLengthEncode::Encode, input, output, lengths, runs, count);
  std::vector<uint32_t> keys;
  std::vector<int> expected;
  for (const uint32_t value : values) {
    if (keys.empty() || keys.back() != value) keys.push_back(value), expected.push_back(0);
    ++expected.back();
  }
  right = same(on_host(runs, 1), {int(keys.size())}, "runs") && same(on_host(output, keys.size()), keys, "keys") &&
          same(on_host(lengths, keys.size()), expected, "lengths");
#endif
  std::printf("%s\n", right ? "right" : "wrong");
  return !right;
}
