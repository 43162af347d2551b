// Warp instructions per second of the emulator on the classic 32x32 shared-memory tiled SGEMM.
//   bench_sgemm [PTX] [n=1024] [repetitions=5]
// Prints the best and the median of the repetitions on one thread and on all cores, unchecked and with all hazard
// checks, and checks a sample of the result.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>
#include <vector>

#include "checker/checker.h"
#include "emulator/device.h"

namespace {

using namespace ptxbench;
using emulator::Device;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(const std::string& ptx, uint32_t n, int repetitions, unsigned threads, bool checked) {
  checker::Checker checker;
  emulator::DeviceOptions options;
  options.threads = threads;
  if (checked) options.observer = &checker;
  auto device = Device::create(options);
  if (!device) {
    fmt::print(stderr, "{}\n", device.error().message);
    return 3;
  }
  auto module = (*device)->load_ptx(ptx, "sgemm_tiled.ptx");
  if (!module) {
    fmt::print(stderr, "{}\n", module.error().message);
    return 2;
  }
  emulator::LaunchRequest request;
  // The kernel has internal linkage and thus a mangled name: it is the module's only entry.
  bool found = false;
  for (uint32_t f = 0; f < 16 && !found; ++f) {
    request.function = {*module, f};
    found = (*device)->attributes(request.function).has_value();
  }
  if (!found) {
    fmt::print(stderr, "no kernel in the module\n");
    return 2;
  }
  const size_t bytes = size_t{n} * n * sizeof(float);
  std::vector<float> a(size_t{n} * n), b(size_t{n} * n), c(size_t{n} * n);
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  for (auto& x : a) x = normal(generator);
  for (auto& x : b) x = normal(generator);
  const uint64_t da = *(*device)->memory().allocate(bytes, emulator::AllocationKind::device, "a");
  const uint64_t db = *(*device)->memory().allocate(bytes, emulator::AllocationKind::device, "b");
  const uint64_t dc = *(*device)->memory().allocate(bytes, emulator::AllocationKind::device, "c");
  (void)(*device)->write(da, std::as_bytes(std::span(a)));
  (void)(*device)->write(db, std::as_bytes(std::span(b)));
  request.grid[0] = request.grid[1] = n / 32;
  request.block[0] = request.block[1] = 32;
  request.parameters.resize(28);
  std::memcpy(request.parameters.data(), &da, 8);
  std::memcpy(request.parameters.data() + 8, &db, 8);
  std::memcpy(request.parameters.data() + 16, &dc, 8);
  const int size = static_cast<int>(n);
  std::memcpy(request.parameters.data() + 24, &size, 4);
  std::vector<double> seconds;
  uint64_t instructions = 0;
  for (int r = 0; r < repetitions; ++r) {
    auto report = (*device)->launch(request);
    if (!report) {
      fmt::print(stderr, "{}\n", report.error().message);
      return 2;
    }
    if (report->fault) {
      fmt::print(stderr, "{}: {} at {}:{} ({})\n", report->fault->rule, report->fault->message,
                 report->fault->place.file, report->fault->place.line, report->fault->place.instruction);
      return 1;
    }
    seconds.push_back(report->seconds);
    instructions = report->warp_instructions;
  }
  (void)(*device)->read(dc, std::as_writable_bytes(std::span(c)));
  for (size_t i = 0; i < c.size(); i += 4099) {
    double sum = 0;
    for (size_t k = 0; k < n; ++k) sum += double{a[i / n * n + k]} * double{b[k * n + i % n]};
    if (!(std::abs(sum - c[i]) < 1e-2)) {
      fmt::print(stderr, "wrong element {}: {} instead of {}\n", i, c[i], sum);
      return 1;
    }
  }
  if (checked && (!checker.findings().empty() || !checker.unknown().empty())) {
    fmt::print(stderr, "the checker is not content: {} findings\n", checker.findings().size());
    return 1;
  }
  const double best = *std::min_element(seconds.begin(), seconds.end());
  fmt::print("sgemm_tiled n={} threads={} {}: {:.1f} M warp instructions, best {:.3f} s, median {:.3f} s, {:.0f} M/s\n",
             n, threads, checked ? "checked" : "unchecked", static_cast<double>(instructions) / 1e6, best,
             median(seconds), static_cast<double>(instructions) / 1e6 / best);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "";
  std::ifstream file(path);
  const std::string ptx{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (ptx.empty()) {
    fmt::print(stderr, "usage: bench_sgemm SGEMM_TILED.ptx [n=1024] [repetitions=5]\n");
    return 2;
  }
  const uint32_t n = argc > 2 ? static_cast<uint32_t>(std::atoi(argv[2])) : 1024;
  const int repetitions = argc > 3 ? std::atoi(argv[3]) : 5;
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  for (unsigned threads = 1; threads <= cores; threads = threads == 1 && cores > 1 ? cores : cores + 1) {
    for (const bool checked : {false, true}) {
      if (const int code = run(ptx, n, repetitions, threads, checked); code != 0) return code;
    }
  }
  return 0;
}
