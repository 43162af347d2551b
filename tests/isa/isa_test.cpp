#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>

#include "case_file.h"
#include "emulator/device.h"

/// Runs every case of tests/isa/*/*.txt on the emulator: with all lanes, with half of them, and lane by lane with
/// uniform operands. The last adds what the handlers for registers shared by a warp do.
namespace ptxbench::emulator {
namespace {

using isa_cases::Case;
using isa_cases::Variant;

struct Named {
  std::string id;
  std::string file;
  Case test;
};

std::vector<Named> all_cases() {
  std::vector<Named> found;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(PTXBENCH_ISA_CASES)) {
    if (entry.path().extension() == ".txt" && entry.path().filename() != "CMakeLists.txt")
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    for (Case& test : isa_cases::read_cases(file.string())) {
      std::string id = file.stem().string() + "_" + test.name;
      for (char& letter : id) {
        if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
      }
      found.push_back({std::move(id), file.string(), std::move(test)});
    }
  }
  return found;
}

Device& device() {
  static const std::unique_ptr<Device> instance = [] {
    DeviceOptions options;
    options.threads = 1;
    auto created = Device::create(options);
    if (!created) throw std::runtime_error(created.error().message);
    return std::move(*created);
  }();
  return *instance;
}

constexpr size_t kOutputCells = 3 * 32;

std::vector<uint64_t> run(const Case& test, Variant variant) {
  const std::string ptx = isa_cases::build_module(test, variant);
  const auto module = device().load_ptx(ptx, test.name);
  if (!module) throw std::runtime_error(module.error().message + "\n" + ptx);
  const auto kernel = device().find_kernel(*module, "test");
  if (!kernel) throw std::runtime_error(kernel.error().message);
  const std::vector<uint64_t> cells = isa_cases::input_cells(test);
  const uint64_t in = *device().memory().allocate(cells.size() * 8, AllocationKind::device, "in");
  const uint64_t out = *device().memory().allocate(kOutputCells * 8, AllocationKind::device, "out");
  if (auto written = device().write(in, std::as_bytes(std::span(cells))); !written)
    throw std::runtime_error(written.error().message);
  std::vector<uint64_t> result(kOutputCells, isa_cases::kSentinel);
  if (auto written = device().write(out, std::as_bytes(std::span(result))); !written)
    throw std::runtime_error(written.error().message);
  LaunchRequest request;
  request.function = *kernel;
  request.block[0] = 32;
  request.parameters.resize(16);
  std::memcpy(request.parameters.data(), &in, 8);
  std::memcpy(request.parameters.data() + 8, &out, 8);
  const auto report = device().launch(request);
  std::string problem;
  if (!report) {
    problem = report.error().message;
  } else if (report->fault) {
    problem = report->fault->rule + ": " + report->fault->message + " at " + report->fault->place.instruction;
  }
  if (auto read = device().read(out, std::as_writable_bytes(std::span(result))); !read && problem.empty())
    problem = read.error().message;
  (void)device().memory().free(in);
  (void)device().memory().free(out);
  (void)device().unload(*module);
  if (!problem.empty()) throw std::runtime_error(problem + "\n" + ptx);
  return result;
}

uint64_t low_bits(uint64_t value, unsigned width) { return width >= 64 ? value : value & ((uint64_t{1} << width) - 1); }

void check(const Case& test, Variant variant, const char* name) {
  const std::vector<uint64_t> result = run(test, variant);
  for (size_t j = 0; j < test.outputs.size(); ++j) {
    const auto& output = test.outputs[j];
    const unsigned width = isa_cases::cell_width(output.type);
    size_t lanes = output.values.size();
    if (variant == Variant::scalar) lanes = std::min<size_t>(lanes, isa_cases::kScalarLanes);
    for (size_t lane = 0; lane < lanes; ++lane) {
      const uint64_t bits = low_bits(result[j * 32 + lane], width);
      if (variant == Variant::masked && lane % 2 == 0) {
        const uint64_t kept = output.type == "pred" ? 1 : low_bits(isa_cases::kSentinel, width);
        EXPECT_EQ(bits, kept) << test.name << " (" << name << ") lane " << lane
                              << " is inactive but its output changed";
        continue;
      }
      EXPECT_TRUE(isa_cases::accepts(test, j, lane, bits)) << [&] {
        std::ostringstream text;
        text << test.ptx[0] << " (" << name << ") lane " << lane << " output " << j << ":" << std::hex;
        for (size_t k = 0; k < test.inputs.size(); ++k) {
          text << ' ' << isa_cases::input_register(k) << "="
               << test.inputs[k].values[lane % test.inputs[k].values.size()];
        }
        text << " gives " << bits << ", expected "
             << (output.special[lane].empty() ? isa_cases::detail::hex(output.values[lane], static_cast<int>(width / 4))
                                              : output.special[lane]);
        return text.str();
      }();
    }
  }
}

class IsaCase : public testing::TestWithParam<Named> {};

TEST_P(IsaCase, GivesTheExpectedValues) {
  const Case& test = GetParam().test;
  try {
    check(test, Variant::whole, "all lanes");
    if (!test.warp) {
      check(test, Variant::masked, "odd lanes");
      check(test, Variant::scalar, "uniform");
    }
  } catch (const std::exception& error) {
    FAIL() << GetParam().file << ": " << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, IsaCase, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Named>& instance) { return instance.param.id; });

}  // namespace
}  // namespace ptxbench::emulator
