#include "evaluation/memory_need.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "emulator/device.h"

namespace ptxbench::evaluation {
namespace {

/// Memory that the system can give without swapping; nothing where it does not say.
std::optional<std::uint64_t> available_memory() {
  const auto text = base::read_file("/proc/meminfo");
  if (!text) return std::nullopt;
  const std::size_t at = text->find("MemAvailable:");
  if (at == std::string::npos) return std::nullopt;
  return std::strtoull(text->c_str() + at + 13, nullptr, 10) << 10;
}

}  // namespace

Result<void> check_memory(const problem::Problem& workload) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  const auto bytes_of = [](const std::vector<problem::Shape>& shapes, const auto& specs) {
    double bytes = 0;
    for (std::size_t i = 0; i < shapes.size() && i < specs.size(); ++i) {
      double elements = 1;
      for (const auto extent : shapes[i]) elements *= static_cast<double>(extent);
      bytes += elements * static_cast<double>(problem::bytes_of(specs[i].dtype, 8)) / 8;
    }
    return bytes;
  };
  const double inputs = bytes_of(workload.input_shapes, workload.definition.inputs);
  const double outputs = bytes_of(workload.output_shapes, workload.definition.outputs);
  const double device = static_cast<double>(emulator::DeviceOptions{}.memory_bytes);
  if (inputs + outputs > device) {
    return input_error("the tensors take {:.1f} GiB, the GPU has {:.1f}: choose smaller axes",
                       (inputs + outputs) / kGib, device / kGib);
  }
  // Inputs are kept beside the device's copy, outputs with their truth in fp32.
  const double needed = 2 * inputs + 4 * outputs;
  if (const auto available = available_memory(); available && needed > static_cast<double>(*available)) {
    return input_error(
        "judging this workload takes about {:.1f} GiB of memory, {:.1f} are available: choose smaller axes",
        needed / kGib, static_cast<double>(*available) / kGib);
  }
  return {};
}

}  // namespace ptxbench::evaluation
