#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/device.h"
#include "launch/description.h"

namespace ptxbench::launch {

/// Device memory of one argument.
struct NamedRange {
  std::string name;
  uint64_t address = 0;
  uint64_t bytes = 0;
};

/// An output that does not hold what was expected.
struct OutputMismatch {
  std::string argument;
  uint64_t wrong = 0, elements = 0;
  uint64_t first_wrong = 0;  ///< index of the first wrong element, row-major
  double expected = 0, got = 0;
  /// "argument 'out': 3 of 64 elements are wrong, the first at index 5: expected 5, got nan"
  std::string text() const;
};

/// A description made ready on a device: memory allocated and filled, tensor maps encoded, parameters laid out. Frees
/// the memory at the end of its life; the device must outlive it.
class PreparedLaunch {
 public:
  /// Errors name the description's file and line, or are the device's when memory runs out.
  static Result<PreparedLaunch> create(emulator::Device& device, emulator::ModuleId module,
                                       const LaunchDescription& description);
  PreparedLaunch(PreparedLaunch&& other) noexcept;
  PreparedLaunch& operator=(PreparedLaunch&&) = delete;
  ~PreparedLaunch();

  /// To be launched `description().repeat` times.
  const emulator::LaunchRequest& request() const { return request_; }
  const LaunchDescription& description() const { return description_; }
  const std::vector<NamedRange>& ranges() const { return ranges_; }

  /// Compares the outputs that have an `expect`; none of the result means they are right.
  Result<std::vector<OutputMismatch>> check_outputs() const;

 private:
  PreparedLaunch(emulator::Device& device, LaunchDescription description);
  Result<void> find_kernel(emulator::ModuleId module);
  Result<void> allocate();
  Result<void> encode_maps();
  Result<void> lay_out();
  const NamedRange* range_of(const std::string& name) const;
  template <class... Args>
  tl::unexpected<Error> error(uint32_t line, fmt::format_string<Args...> format, Args&&... args) const;

  struct ParameterValue {
    std::vector<std::byte> bytes;
  };
  emulator::Device* device_;
  LaunchDescription description_;
  emulator::LaunchRequest request_;
  std::vector<NamedRange> ranges_;
  std::vector<uint64_t> owned_;             ///< addresses to free
  std::vector<ParameterValue> parameters_;  ///< by argument
};

}  // namespace ptxbench::launch
