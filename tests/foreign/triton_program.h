#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "check/watch.h"
#include "emulator/device.h"

namespace ptxbench::foreign {

/// Rounding by the CPU's own instructions or by a few lines of integer arithmetic: nothing of the emulator's.
uint16_t to_bf16(double value);
double from_bf16(uint16_t bits);
uint16_t to_f16(double value);
double from_f16(uint16_t bits);
double from_e4m3(uint8_t bits);
/// Nearest, ties to even, finite maximum instead of infinity.
uint8_t to_e4m3(double value);

/// `count` standard normal numbers.
std::vector<double> normal(size_t count, uint32_t seed);

/// The arguments of one launch, in the order of the PTX parameters.
class Arguments {
 public:
  template <class T>
  Arguments& operator<<(const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    values_.emplace_back(bytes.begin(), bytes.end());
    return *this;
  }
  const std::vector<std::vector<std::byte>>& values() const { return values_; }

 private:
  std::vector<std::vector<std::byte>> values_;
};

/// One kernel that Triton compiled (generate_triton.py), on a device of its own. Anything wrong throws, which fails the
/// test with the message.
class TritonProgram {
 public:
  explicit TritonProgram(const std::string& name);
  ~TritonProgram();

  /// Loads one more kernel on the same device and makes it the one that run() launches.
  void load(const std::string& name);

  template <class T>
  uint64_t tensor(const std::vector<T>& values) {
    return upload(std::as_bytes(std::span(values)));
  }
  template <class T>
  std::vector<T> read(uint64_t address, size_t count) {
    std::vector<T> values(count);
    download(address, std::as_writable_bytes(std::span(values)));
    return values;
  }
  /// A tensor map of a row-major matrix, with the box and swizzle that the compiler asked for its `index`th descriptor,
  /// and the shape and strides that follow it in the parameter list.
  void add_descriptor(Arguments& arguments, size_t index, uint64_t address, uint64_t rows, uint64_t columns);
  /// The program has a race of its own, which the checker must find.
  void expect_a_race() { races_ = true; }
  emulator::LaunchReport run(uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, const Arguments& arguments);

 private:
  uint64_t upload(std::span<const std::byte> bytes);
  void download(uint64_t address, std::span<std::byte> bytes);

  bool races_ = false;
  /// With PTXBENCH_FOREIGN_CHECK in the environment the kernels run under the hazard checker, which must find nothing.
  std::unique_ptr<check::Watch> watch_;
  std::unique_ptr<emulator::Device> own_;
  emulator::Device* device_ = nullptr;
  emulator::FunctionId function_;
  base::Json description_;
};

/// Every element within `absolute` + `relative` * |expected|; infinities and NaN must be the same. Reports the first
/// that is not.
void expect_close(const std::vector<double>& actual, const std::vector<double>& expected, double absolute,
                  double relative);

template <class T, class Convert>
auto converted(const std::vector<T>& values, Convert convert) {
  std::vector<decltype(convert(values[0]))> result;
  result.reserve(values.size());
  for (const T& value : values) result.push_back(convert(value));
  return result;
}

inline std::vector<float> to_f32(const std::vector<double>& values) {
  return converted(values, [](double value) { return static_cast<float>(value); });
}
inline std::vector<double> widen(const std::vector<float>& values) {
  return converted(values, [](float value) { return static_cast<double>(value); });
}

}  // namespace ptxbench::foreign
