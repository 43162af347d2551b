// Runs kernels of the planted-fault corpus (tests/hazards) on a real Hopper GPU through the driver API, as their launch
// descriptions say, and compares the outputs. Built by run_hazards.sh; needs no CUDA library but the driver.
//
// Usage: hazard_runner ROUNDS BASE...      each BASE.cubin with BASE.toml
// Prints one line per kernel; exit code 0: all right, 1: some wrong output or CUDA error, 2: usage.
#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "launch/description.h"

namespace {

using namespace ptxbench;
using launch::Argument;
using launch::ArgumentKind;

#define PTXBENCH_TEXT(x) #x
#define PTXBENCH_NAME(x) PTXBENCH_TEXT(x)
/// The driver is looked up when the program runs: it is built where there is none.
#define DRIVER(function) driver<decltype(&function)>(PTXBENCH_NAME(function))

template <class Function>
class Entry {
 public:
  Entry(const char* name, void* address) : name_(name), function_(reinterpret_cast<Function>(address)) {}
  template <class... Args>
  void operator()(Args... args) const {
    if (function_ == nullptr) throw std::runtime_error(fmt::format("the driver has no {}", name_));
    if (const CUresult result = function_(args...); result != CUDA_SUCCESS)
      throw std::runtime_error(fmt::format("{} gave error {}", name_, static_cast<int>(result)));
  }

 private:
  const char* name_;
  Function function_;
};

template <class Function>
Entry<Function> driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) throw std::runtime_error("no libcuda.so.1");
  return {name, dlsym(library, name)};
}

std::vector<std::byte> contents(const Argument& argument, const launch::Fill& fill, size_t index) {
  const size_t rank = argument.shape.size();
  return launch::filled(argument.type, fill, argument.elements(), rank > 1 ? argument.shape[rank - 2] : 1,
                        rank > 0 ? argument.shape[rank - 1] : 1, static_cast<uint32_t>(index));
}

class Case {
 public:
  explicit Case(const std::string& base) {
    std::ifstream file(base + ".toml");
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    auto parsed = launch::parse(text, base + ".toml");
    if (!parsed) throw std::runtime_error(parsed.error().message);
    description_ = std::move(*parsed);
    DRIVER(cuModuleLoad)(&module_, (base + ".cubin").c_str());
    DRIVER(cuModuleEnumerateFunctions)(&function_, 1U, module_);
    const size_t count = description_.arguments.size();
    memory_.resize(count);
    words_.resize(count);
    maps_.resize(count);
    parameters_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      if (description_.arguments[i].kind == ArgumentKind::memory)
        DRIVER(cuMemAlloc)(&memory_[i], description_.arguments[i].bytes());
    }
    if (description_.dynamic_shared_bytes != 0) {
      DRIVER(cuFuncSetAttribute)
      (function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(description_.dynamic_shared_bytes));
    }
  }

  /// The first wrong element, or nothing.
  std::string run() {
    for (size_t i = 0; i < description_.arguments.size(); ++i) prepare(i);
    CUlaunchConfig config{};
    config.gridDimX = description_.grid[0], config.gridDimY = description_.grid[1],
    config.gridDimZ = description_.grid[2];
    config.blockDimX = description_.block[0], config.blockDimY = description_.block[1],
    config.blockDimZ = description_.block[2];
    config.sharedMemBytes = description_.dynamic_shared_bytes;
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {description_.cluster[0], description_.cluster[1], description_.cluster[2]};
    if (description_.cluster[0] != 0) config.attrs = &cluster, config.numAttrs = 1;
    for (uint32_t i = 0; i < description_.repeat; ++i)
      DRIVER(cuLaunchKernelEx)(&config, function_, parameters_.data(), static_cast<void**>(nullptr));
    DRIVER(cuCtxSynchronize)();
    for (size_t i = 0; i < description_.arguments.size(); ++i) {
      if (std::string wrong = compare(i); !wrong.empty()) return wrong;
    }
    return {};
  }

 private:
  size_t index_of(const std::string& name) const {
    for (size_t i = 0; i < description_.arguments.size(); ++i) {
      if (description_.arguments[i].name == name) return i;
    }
    throw std::runtime_error("no argument " + name);
  }

  void prepare(size_t i) {
    const Argument& argument = description_.arguments[i];
    if (argument.kind == ArgumentKind::tensor_map) return encode(i);
    if (argument.kind == ArgumentKind::scalar) {
      words_[i] = argument.scalar_bits;
    } else {
      const auto data = contents(argument, argument.fill, i);
      DRIVER(cuMemcpyHtoD)(memory_[i], static_cast<const void*>(data.data()), data.size());
      words_[i] = memory_[i];
    }
    parameters_[i] = &words_[i];
  }

  void encode(size_t i) {
    const Argument& argument = description_.arguments[i];
    const launch::TensorMapDescription& map = argument.map;
    const std::vector<cuuint64_t> size(map.size.begin(), map.size.end());
    std::vector<cuuint64_t> stride;
    cuuint64_t packed = size[0] * launch::bytes_of(argument.type);
    for (size_t d = 1; d < size.size(); ++d) {
      stride.push_back(map.stride.empty() ? packed : map.stride[d - 1]);
      packed *= size[d];
    }
    std::vector<cuuint32_t> steps = map.element_stride;
    if (steps.empty()) steps.assign(size.size(), 1);
    unsigned swizzle = 0;
    for (unsigned span = map.swizzle; span >= 32; span /= 2) ++swizzle;
    DRIVER(cuTensorMapEncodeTiled)
    (&maps_[i], static_cast<CUtensorMapDataType>(launch::tensor_type(argument.type)),
     static_cast<cuuint32_t>(size.size()), reinterpret_cast<void*>(memory_[index_of(map.memory)]), size.data(),
     stride.data(), map.box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
     static_cast<CUtensorMapSwizzle>(swizzle), CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    parameters_[i] = &maps_[i];
    if (!map.in_memory) return;
    if (memory_[i] == 0) DRIVER(cuMemAlloc)(&memory_[i], sizeof(CUtensorMap));
    DRIVER(cuMemcpyHtoD)(memory_[i], static_cast<const void*>(&maps_[i]), sizeof(CUtensorMap));
    words_[i] = memory_[i];
    parameters_[i] = &words_[i];
  }

  std::string compare(size_t i) {
    const Argument& argument = description_.arguments[i];
    if (!argument.output || !argument.expect) return {};
    std::vector<std::byte> got(argument.bytes());
    DRIVER(cuMemcpyDtoH)(static_cast<void*>(got.data()), memory_[i], got.size());
    const bool by_name = !argument.expect->argument.empty();
    const size_t source = by_name ? index_of(argument.expect->argument) : i;
    const Argument& model = description_.arguments[source];
    const auto wanted = contents(model, by_name ? model.fill : argument.expect->fill, source);
    for (uint64_t e = 0; e < argument.elements(); ++e) {
      const double w = launch::element(model.type, wanted.data(), e), g = launch::element(argument.type, got.data(), e);
      if (w != g) return fmt::format("{}[{}]: expected {}, got {}", argument.name, e, w, g);
    }
    return {};
  }

  launch::LaunchDescription description_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  std::vector<CUdeviceptr> memory_;
  std::vector<uint64_t> words_;
  std::vector<CUtensorMap> maps_;
  std::vector<void*> parameters_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: hazard_runner ROUNDS BASE...\n", stderr);
    return 2;
  }
  bool failed = false;
  const char* at = argv[0];
  try {
    CUdevice device = 0;
    CUcontext context = nullptr;
    DRIVER(cuInit)(0U);
    DRIVER(cuDeviceGet)(&device, 0);
    DRIVER(cuDevicePrimaryCtxRetain)(&context, device);
    DRIVER(cuCtxSetCurrent)(context);
    for (int i = 2; i < argc; ++i) {
      at = argv[i];
      Case one(at);
      std::string wrong;
      for (int round = std::atoi(argv[1]); round > 0 && wrong.empty(); --round) wrong = one.run();
      fmt::print("{}: {}\n", at, wrong.empty() ? "right" : wrong);
      failed = failed || !wrong.empty();
    }
  } catch (const std::exception& error) {
    fmt::print("{}: {}\n", at, error.what());
    std::fflush(stdout);
    std::_Exit(1);  // the context may be lost: nothing can be released
  }
  return failed ? 1 : 0;
}
