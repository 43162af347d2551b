#include "triton_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <immintrin.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>

#include "emulator/tensor/tensor_map.h"

namespace ptxbench::foreign {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(fmt::format("no {}: run scripts/setup_foreign.sh triton-ptx", path));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

void require(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().message);
}

}  // namespace

uint16_t to_bf16(double value) {
  const auto single = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &single, 4);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

double from_bf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, 4);
  return value;
}

uint16_t to_f16(double value) {
  return static_cast<uint16_t>(_cvtss_sh(static_cast<float>(value), _MM_FROUND_TO_NEAREST_INT));
}

double from_f16(uint16_t bits) { return _cvtsh_ss(bits); }

double from_e4m3(uint8_t bits) {
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (bits & 0x80) != 0 ? -size : size;
}

uint8_t to_e4m3(double value) {
  uint8_t best = 0;
  for (uint8_t code = 1; code < 0x7f; ++code) {
    const double gain = std::abs(std::abs(value) - from_e4m3(best)) - std::abs(std::abs(value) - from_e4m3(code));
    if (gain > 0 || (gain == 0 && code % 2 == 0)) best = code;
  }
  return static_cast<uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

std::vector<double> normal(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> distribution;
  std::vector<double> values(count);
  for (double& value : values) value = distribution(generator);
  return values;
}

TritonProgram::TritonProgram(const std::string& name) {
  constexpr uint64_t kBudget = 500'000'000;  // a hang ends soon
  if (const char* policy = std::getenv("PTXBENCH_FOREIGN_CHECK"); policy != nullptr) {
    check::CheckOptions options;
    options.instruction_budget = kBudget;
    const bool lazy = std::string(policy) == "lazy";
    if (std::string(policy) == "track") options.definedness = emulator::DefinednessMode::track;
    watch_ = value_of(
        check::Watch::start(options, lazy ? emulator::CompletionPolicy::lazy : emulator::CompletionPolicy::eager, {}));
    device_ = &watch_->device();
  } else {
    emulator::DeviceOptions options;
    options.instruction_budget = kBudget;
    own_ = value_of(emulator::Device::create(std::move(options)));
    device_ = own_.get();
  }
  load(name);
}

TritonProgram::~TritonProgram() {
  if (watch_ == nullptr) return;
  check::CheckReport report;
  const bool tracking = device_->options().definedness == emulator::DefinednessMode::track;
  if (tracking) {
    watch_->finish_tracking(report);
    EXPECT_EQ(report.verdict(), check::Verdict::clean) << check::to_text(report);
    return;
  }
  // A second device in one process is not to be had: the run that follows undefined values is the test under `track`.
  watch_->finish(report, true);
  EXPECT_EQ(report.verdict(), races_ ? check::Verdict::hazardous : check::Verdict::clean) << check::to_text(report);
  for (const check::CheckFinding& finding : report.findings) {
    EXPECT_TRUE(!races_ || finding.rule.starts_with("race.")) << check::to_text(report);
  }
}

void TritonProgram::load(const std::string& name) {
  const char* chosen = std::getenv("PTXBENCH_FOREIGN_PTX");
  const std::string folder = chosen != nullptr ? chosen : PTXBENCH_FOREIGN_PTX;
  const std::string path = fmt::format("{}/{}", folder, name);
  description_ = value_of(base::parse_json(read_text(path + ".json"), path + ".json"));
  const auto module = value_of(device_->load_ptx(read_text(path + ".ptx"), name + ".ptx"));
  function_ = value_of(device_->find_kernel(module, description_.at("kernel").get<std::string>()));
}

uint64_t TritonProgram::upload(std::span<const std::byte> bytes) {
  const uint64_t address =
      value_of(device_->memory().allocate(bytes.size(), emulator::AllocationKind::device, "tensor"));
  require(device_->write(address, bytes));
  return address;
}

void TritonProgram::download(uint64_t address, std::span<std::byte> bytes) { require(device_->read(address, bytes)); }

void TritonProgram::add_descriptor(Arguments& arguments, size_t index, uint64_t address, uint64_t rows,
                                   uint64_t columns) {
  const base::Json& wanted = description_.at("tensor_maps").at(index);
  const auto element = wanted.at("elem_size").get<uint64_t>();
  // Triton names the types as the device's tensormap.replace does; only bf16 is needed here (10, the driver's 9).
  if (wanted.at("elem_type").get<int>() != 10) throw std::runtime_error("descriptor of another type than bf16");
  constexpr uint32_t kBf16 = 9;
  const auto block = wanted.at("block_size").get<std::vector<uint32_t>>();
  const uint64_t dims[2] = {columns, rows}, strides[1] = {columns * element};
  const uint32_t box[2] = {block.at(1), block.at(0)}, steps[2] = {1, 1};
  alignas(64) emulator::TensorMap map;
  require(emulator::encode_tiled(&map, kBf16, 2, address, dims, strides, box, steps, 0,
                                 wanted.at("swizzle").get<uint32_t>(), 0, 0));
  arguments << map << static_cast<uint32_t>(rows) << static_cast<uint32_t>(columns) << columns << uint64_t{1};
}

emulator::LaunchReport TritonProgram::run(uint32_t grid_x, uint32_t grid_y, uint32_t grid_z,
                                          const Arguments& arguments) {
  const auto attributes = value_of(device_->attributes(function_));
  // Triton appends two pointers: scratch memory per CTA, and that of its profiler.
  Arguments all = arguments;
  const uint64_t scratch = description_.at("global_scratch_bytes").get<uint64_t>() * grid_x * grid_y * grid_z;
  all << (scratch == 0 ? uint64_t{0} : upload(std::vector<std::byte>(scratch))) << uint64_t{0};

  emulator::LaunchRequest request;
  request.function = function_;
  request.grid[0] = grid_x, request.grid[1] = grid_y, request.grid[2] = grid_z;
  request.block[0] = 32 * description_.at("num_warps").get<uint32_t>();
  request.dynamic_shared_bytes = description_.at("shared_bytes").get<uint32_t>();
  request.max_dynamic_shared_bytes = emulator::DeviceLimits::kSharedPerBlockOptIn;
  request.parameters.resize(attributes.parameter_bytes);
  if (all.values().size() != attributes.parameter_sizes.size()) {
    throw std::runtime_error(
        fmt::format("{} arguments for {} parameters", all.values().size(), attributes.parameter_sizes.size()));
  }
  for (size_t index = 0; index < all.values().size(); ++index) {
    const auto& value = all.values()[index];
    if (value.size() != attributes.parameter_sizes[index]) {
      throw std::runtime_error(fmt::format("argument {} has {} bytes, its parameter {}", index, value.size(),
                                           attributes.parameter_sizes[index]));
    }
    std::memcpy(request.parameters.data() + attributes.parameter_offsets[index], value.data(), value.size());
  }
  auto report = device_->launch(request);
  if (!report) throw std::runtime_error(report.error().message);
  if (report->fault) {
    throw std::runtime_error(fmt::format("{}: {} (PTX line {}: {})", report->fault->rule, report->fault->message,
                                         report->fault->place.ptx_line, report->fault->place.instruction));
  }
  return std::move(*report);
}

void expect_close(const std::vector<double>& actual, const std::vector<double>& expected, double absolute,
                  double relative) {
  ASSERT_EQ(actual.size(), expected.size());
  size_t wrong = 0;
  for (size_t index = 0; index < actual.size(); ++index) {
    const double a = actual[index], e = expected[index];
    const bool same = std::isnan(e)   ? std::isnan(a)
                      : std::isinf(e) ? a == e
                                      : std::abs(a - e) <= absolute + relative * std::abs(e);
    if (!same && wrong++ == 0) {
      ADD_FAILURE() << fmt::format("element {}: {} instead of {}", index, a, e);
    }
  }
  EXPECT_EQ(wrong, 0u) << "of " << actual.size();
}

}  // namespace ptxbench::foreign
