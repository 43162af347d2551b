#include "gpu/flashinfer_module.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/files.h"
#include "base/text.h"

namespace ptxbench::gpu {

namespace abi = candidate::abi;
namespace fs = std::filesystem;

namespace {

/// Types from here on are objects with a count of references.
constexpr std::int32_t kFirstObjectType = 64;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

Result<FlashInferFolder> find_flashinfer() {
  constexpr const char* kRemedy = "run scripts/build_flashinfer.sh, or set PTXBENCH_FLASHINFER to what it built";
  std::vector<fs::path> places;
  if (const char* own = std::getenv("PTXBENCH_FLASHINFER"); own != nullptr && *own != '\0') {
    places.emplace_back(own);
  } else {
    if (const auto program = base::executable_path()) places.push_back(program->parent_path() / "flashinfer");
    if (const auto home = base::home_dir()) places.push_back(*home / ".deps" / "flashinfer");
  }
  std::string tried;
  for (const fs::path& place : places) {
    if (const auto version = base::read_file(place / "VERSION", 100))
      return FlashInferFolder{place, std::string(base::trim(*version))};
    tried += (tried.empty() ? "" : ", ") + place.string();
  }
  return infrastructure_error("FlashInfer not installed: nothing in {}; {}", tried, kRemedy);
}

void FfiArguments::tensor(void* data, Device device, Dtype dtype, std::initializer_list<std::int64_t> shape) {
  Storage& one = tensors_.emplace_back();
  one.shape = shape;
  one.strides.resize(one.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = one.shape.size(); i-- > 0;) {
    one.strides[i] = stride;
    stride *= one.shape[i];
  }
  one.tensor = {data, device, static_cast<std::int32_t>(one.shape.size()), dtype, one.shape.data(), one.strides.data(),
                0};
  Any& any = list_.emplace_back();
  any.type = abi::TypeIndex::tensor_pointer;
  any.tensor = &one.tensor;
}

void FfiArguments::integer(std::int64_t value) {
  Any& any = list_.emplace_back();
  any.type = abi::TypeIndex::integer;
  any.integer = value;
}

void FfiArguments::boolean(bool value) {
  Any& any = list_.emplace_back();
  any.type = abi::TypeIndex::boolean;
  any.integer = value ? 1 : 0;
}

void FfiArguments::number(double value) {
  Any& any = list_.emplace_back();
  any.type = abi::TypeIndex::floating;
  any.floating = value;
}

void FfiArguments::nothing(int count) {
  for (int i = 0; i < count; ++i) list_.emplace_back();
}

Result<FlashInferModule> FlashInferModule::load(const FlashInferFolder& folder, const std::string& name,
                                                std::initializer_list<const char*> functions) {
  FlashInferModule out;
  out.name_ = name;
  const char* missing = nullptr;
  const auto find = [&](void* file, auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(file, symbol));
    if (function == nullptr) missing = symbol;
  };
  // By its path and first: the modules then find it by its name, and never the candidates' runtime of the same name.
  const fs::path runtime = folder.path / "libtvm_ffi.so", library = folder.path / (name + ".so");
  for (const fs::path& file : {runtime, library}) {
    if (!is_there(file)) {
      return infrastructure_error("FlashInfer not installed: {} is missing; run scripts/build_flashinfer.sh again",
                                  file.string());
    }
  }
  void* ffi = ::dlopen(runtime.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (ffi == nullptr) return infrastructure_error("FlashInfer cannot be loaded: {}", ::dlerror());
  find(ffi, out.set_stream_, abi::kSetStreamSymbol);
  find(ffi, out.move_error_, abi::kMoveErrorSymbol);
  find(ffi, out.release_, abi::kReleaseSymbol);
  if (missing != nullptr) return infrastructure_error("{} has no {}", runtime.string(), missing);
  // Lazily, as FlashInfer does: its host code names kernels that are not built because nothing chooses them.
  void* file = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (file == nullptr) return infrastructure_error("FlashInfer cannot be loaded: {}", ::dlerror());
  for (const char* function : functions) {
    out.function_names_.emplace_back(function);
    find(file, out.functions_.emplace_back(), (std::string("__tvm_ffi_") + function).c_str());
    if (missing != nullptr) {
      return infrastructure_error("{} has no function {}; run scripts/build_flashinfer.sh again", library.string(),
                                  function);
    }
  }
  return out;
}

Result<abi::Any> FlashInferModule::call(std::size_t index, const FfiArguments& arguments, int device,
                                        void* stream) const {
  abi::Any result;
  // Of this thread, and the same afterwards: nobody else in an executor uses this runtime.
  int status = set_stream_(static_cast<std::int32_t>(abi::DeviceType::cuda), device, stream, nullptr);
  if (status == 0) {
    status = functions_.at(index)(nullptr, arguments.list().data(), static_cast<std::int32_t>(arguments.list().size()),
                                  &result);
  }
  if (status == 0) return result;
  void* raised = nullptr;
  move_error_(&raised);
  std::string why = "no reason given";
  if (raised != nullptr) {
    const auto* error = static_cast<const abi::ErrorObject*>(raised);
    why =
        std::string(error->kind.data, error->kind.size) + ": " + std::string(error->message.data, error->message.size);
    release_(raised);
  }
  return infrastructure_error("FlashInfer: {} of {}: {}", function_names_[index], name_, why);
}

void FlashInferModule::release(const abi::Any& value) const {
  if (static_cast<std::int32_t>(value.type) >= kFirstObjectType && value.pointer != nullptr) release_(value.pointer);
}

}  // namespace ptxbench::gpu
