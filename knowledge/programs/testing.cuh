// What the self-checking programs share. A program prints one line per case and exits with 0 if all agree.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "host.cuh"

namespace testing {

inline int failures = 0;

inline void expect(bool good, const std::string& what) {
  if (good) return;
  ++failures;
  if (failures <= 20) std::printf("FAILED: %s\n", what.c_str());
}

/// Device memory with the contents of a vector.
template <class T>
class Buffer {
 public:
  explicit Buffer(const std::vector<T>& values) : size_(values.size()) {
    check(cudaMalloc(&data_, size_ * sizeof(T)), "cudaMalloc");
    check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "copy to the device");
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }
  T* get() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), "copy from the device");
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

/// Runs the case unless another one was named on the command line.
inline int only = 0;
inline std::vector<std::string> wanted;
inline void run(const std::string& name, const std::function<void()>& body) {
  if (!wanted.empty()) {
    bool found = false;
    for (const std::string& one : wanted) found = found || name == one;
    if (!found) return;
  }
  const int before = failures;
  try {
    body();
    check(cudaDeviceSynchronize(), "synchronisation");
  } catch (const std::exception& error) {
    expect(false, name + ": " + error.what());
  }
  std::printf("%s: %s\n", name.c_str(), failures == before ? "ok" : "FAILED");
}

inline void read_arguments(int count, char** words) {
  for (int i = 1; i < count; ++i) wanted.emplace_back(words[i]);
}
inline int result() {
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace testing
