#include "gpu/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace ptxbench::gpu {
namespace {

// cuda.h renames calls to their newest versions by macros: the text is taken after that.
#define PTXBENCH_TEXT_(name) #name
#define PTXBENCH_TEXT(name) PTXBENCH_TEXT_(name)

Result<Driver> load_now() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return infrastructure_error("no CUDA driver on this machine ({}); use --backend emulator", ::dlerror());
  }
  Driver driver;
  const char* missing = nullptr;
#define PTXBENCH_LOOK_UP(name)                                                                  \
  driver.name = reinterpret_cast<decltype(driver.name)>(::dlsym(library, PTXBENCH_TEXT(name))); \
  if (driver.name == nullptr && missing == nullptr) missing = PTXBENCH_TEXT(name);
  PTXBENCH_DRIVER_CALLS(PTXBENCH_LOOK_UP)
#undef PTXBENCH_LOOK_UP
  if (missing != nullptr) {
    return infrastructure_error("the CUDA driver has no {}; a driver for CUDA 13.0 or later is needed", missing);
  }
  if (auto done = driver.check(driver.cuInit(0), "cuInit"); !done) return tl::unexpected<Error>(done.error());
  int version = 0;
  driver.cuDriverGetVersion(&version);
  if (version < 13000) {
    return infrastructure_error("the CUDA driver supports CUDA {}.{}; 13.0 or later is needed", version / 1000,
                                version % 1000 / 10);
  }
  return driver;
}

}  // namespace

Result<const Driver*> Driver::load() {
  static const Result<Driver> loaded = load_now();
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  return &*loaded;
}

std::string Driver::describe(CUresult result) const {
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  return fmt::format("{} ({})", name == nullptr ? fmt::format("error {}", static_cast<int>(result)) : name,
                     text == nullptr ? "unknown" : text);
}

Result<void> Driver::check(CUresult result, std::string_view what) const {
  if (result == CUDA_SUCCESS) return {};
  return infrastructure_error("{}: {}", what, describe(result));
}

}  // namespace ptxbench::gpu
