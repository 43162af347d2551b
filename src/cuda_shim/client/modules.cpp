#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "cuda_shim/client/core.h"
#include "cuda_shim/fatbin.h"

namespace ptxbench::cuda_shim::client {
namespace {

constexpr uint32_t kSharedPerBlockOptIn = 232448;

std::mutex g_mutex;
// Never destroyed: fat binaries are unregistered by exit handlers of the program.
auto& g_modules = *new std::unordered_map<const void*, std::unique_ptr<Module>>;
auto& g_kernels = *new std::unordered_map<const void*, Kernel*>;

/// Puts a name into the staging segment; null channel or too long a name give the error.
Channel* stage_name(const std::string& name, int& error) {
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return nullptr;
  if (name.empty() || name.size() > kMaxNameBytes) {
    error = cuda_error::kNotFound;
    return nullptr;
  }
  std::memcpy(channel->staging(), name.data(), name.size());
  return channel;
}

}  // namespace

int Module::load() {
  const std::lock_guard lock(mutex);
  if (loaded) return error;
  int failure = 0;
  Channel* channel = Channel::get(failure);
  if (channel == nullptr) return failure;  // not remembered: nothing was tried
  loaded = true;
  if (needs_linking) {
    complain(
        "unsupported.host-call: relocatable device code (-rdc=true) needs device linking, which is not modelled; "
        "compile "
        "each kernel with the functions it calls in one source file");
    return error = cuda_error::kNoBinary;
  }
  const std::byte* bytes = copy.data();
  uint64_t total = copy.size();
  if (data != nullptr) {
    bytes = static_cast<const std::byte*>(data);
    const auto size = fatbin_bytes({bytes, kFatbinHeaderBytes});
    if (!size) return error = cuda_error::kInvalidImage;
    total = *size;
  }
  for (uint64_t at = 0; at < total; at += kStagingBytes) {
    const uint64_t piece = std::min(kStagingBytes, total - at);
    std::memcpy(channel->staging(), bytes + at, static_cast<std::size_t>(piece));
    error = channel->call(Op::append_image, BytesBody{piece, 0}).error;
    if (error != 0) return error;
  }
  const Reply reply = channel->call(Op::load_image, BytesBody{total, static_cast<uint64_t>(kind)});
  error = reply.error;
  if (error == 0) id = get_body<ModuleBody>(reply).module;
  copy = {};
  return error;
}

int Kernel::resolve() {
  if (const int failure = module->load(); failure != 0) return failure;
  const std::lock_guard lock(module->mutex);
  if (resolved) return error;
  int failure = 0;
  Channel* channel = stage_name(name, failure);
  if (channel == nullptr) return failure;
  const Reply reply = channel->call(Op::find_function, ModuleBody{module->id, static_cast<uint32_t>(name.size())});
  error = reply.error;
  resolved = true;
  if (error != 0) return error;
  info = get_body<FunctionReply>(reply);
  offsets.resize(info.parameter_count);
  sizes.resize(info.parameter_count);
  const std::size_t bytes = info.parameter_count * sizeof(uint32_t);
  std::memcpy(offsets.data(), channel->staging(), bytes);
  std::memcpy(sizes.data(), channel->staging() + bytes, bytes);
  max_dynamic_shared = info.max_dynamic_shared_bytes;
  return 0;
}

int Kernel::set_max_dynamic_shared(uint32_t bytes) {
  if (const int failure = resolve(); failure != 0) return failure;
  const int failure = simple_call(Op::set_function_limits, FunctionLimitsBody{info.function, bytes, 0, 1});
  if (failure == 0) max_dynamic_shared = bytes;
  return failure;
}

int Kernel::set_non_portable(bool allowed) {
  if (const int failure = resolve(); failure != 0) return failure;
  const int failure = simple_call(Op::set_function_limits, FunctionLimitsBody{info.function, 0, allowed ? 1u : 0u, 2});
  if (failure == 0) non_portable = allowed;
  return failure;
}

bool adopt_image(Module& module, const void* image) {
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic == kFatbinWrapperMagic) {
    const void* container = nullptr;
    std::memcpy(&container, static_cast<const std::byte*>(image) + 8, sizeof container);
    if (container == nullptr) return false;
    image = container;
    std::memcpy(&magic, image, sizeof magic);
  }
  const auto* bytes = static_cast<const std::byte*>(image);
  std::size_t size = 0;
  if (magic == kFatbinMagic) {
    size = static_cast<std::size_t>(fatbin_bytes({bytes, kFatbinHeaderBytes}).value_or(0));
  } else if (std::memcmp(image, "\177ELF", 4) == 0) {
    size = 64;  // refused by its first bytes
  } else {
    size = std::strlen(static_cast<const char*>(image)) + 1;
  }
  module.kind = ImageKind::any;
  module.copy.assign(bytes, bytes + size);
  return size != 0;
}

bool read_image(Module& module, const char* path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "rb"), std::fclose);
  if (file == nullptr) return false;
  module.kind = ImageKind::any;
  std::byte buffer[65536];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, file.get())) {
    module.copy.insert(module.copy.end(), buffer, buffer + got);
  }
  return !module.copy.empty();
}

Module* add_module(std::unique_ptr<Module> module) {
  Module* handle = module.get();
  const std::lock_guard lock(g_mutex);
  g_modules[handle] = std::move(module);
  return handle;
}

Module* as_module(const void* handle) {
  const std::lock_guard lock(g_mutex);
  const auto found = g_modules.find(handle);
  return found == g_modules.end() ? nullptr : found->second.get();
}

int unload(Module* module) {
  int error = 0;
  if (module->loaded && module->error == 0) error = simple_call(Op::unload_module, ModuleBody{module->id, 0}, true);
  const std::lock_guard lock(g_mutex);
  for (const auto& kernel : module->kernels) g_kernels.erase(kernel.get());
  g_modules.erase(module);
  return error;
}

Kernel* add_kernel(Module& module, const std::string& name, const void* host_symbol) {
  const std::lock_guard lock(module.mutex);
  for (const auto& kernel : module.kernels) {
    if (kernel->name == name) return kernel.get();
  }
  auto kernel = std::make_unique<Kernel>();
  kernel->module = &module;
  kernel->name = name;
  kernel->host_symbol = host_symbol;
  Kernel* handle = kernel.get();
  module.kernels.push_back(std::move(kernel));
  const std::lock_guard registry(g_mutex);
  g_kernels[handle] = handle;
  return handle;
}

Kernel* as_kernel(const void* handle) {
  const std::lock_guard lock(g_mutex);
  const auto found = g_kernels.find(handle);
  return found == g_kernels.end() ? nullptr : found->second;
}

int find_symbol(Module& module, const std::string& name, uint64_t& address, uint64_t& bytes) {
  if (const int error = module.load(); error != 0) return error;
  int error = 0;
  Channel* channel = stage_name(name, error);
  if (channel == nullptr) return error;
  const Reply reply = channel->call(Op::find_symbol, ModuleBody{module.id, static_cast<uint32_t>(name.size())});
  if (reply.error != 0) return reply.error;
  const auto symbol = get_body<SymbolReply>(reply);
  address = symbol.address;
  bytes = symbol.bytes;
  return 0;
}

int share_symbol(Module& module, const std::string& name, uint64_t& address, uint64_t& bytes) {
  if (const int error = find_symbol(module, name, address, bytes); error != 0) return error;
  int error = 0;
  Channel* channel = stage_name(name, error);
  if (channel == nullptr) return error;
  int descriptor = -1;
  const Reply reply =
      channel->call(Op::share_symbol, ModuleBody{module.id, static_cast<uint32_t>(name.size())}, &descriptor);
  if (reply.error != 0) return reply.error;
  const auto block = get_body<SharedReply>(reply);
  void* wanted = reinterpret_cast<void*>(block.mapping_begin);
  const void* got = descriptor < 0 ? MAP_FAILED
                                   : ::mmap(wanted, block.mapping_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                            descriptor, 0);
  if (descriptor >= 0) ::close(descriptor);
  return got == wanted ? 0 : cuda_error::kOutOfMemory;
}

int occupancy(Kernel& kernel, unsigned block_threads, std::size_t dynamic_shared, unsigned& blocks) {
  blocks = 0;
  if (const int error = kernel.resolve(); error != 0) return error;
  if (block_threads == 0) return cuda_error::kInvalidValue;
  if (block_threads > 1024 || dynamic_shared > kSharedPerBlockOptIn) return 0;  // none fits
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return error;
  const Reply reply = channel->call(
      Op::occupancy, OccupancyBody{kernel.info.function, block_threads, static_cast<uint32_t>(dynamic_shared), 0});
  if (reply.error == 0) blocks = static_cast<unsigned>(get_body<CountReply>(reply).count);
  return reply.error;
}

int active_clusters(Kernel& kernel, unsigned block_threads, std::size_t dynamic_shared, unsigned blocks,
                    unsigned& clusters) {
  clusters = 0;
  unsigned per_sm = 0;
  if (const int error = occupancy(kernel, block_threads, dynamic_shared, per_sm); error != 0) return error;
  if (blocks == 0 || per_sm == 0) return 0;
  // A cluster lives within one GPC. Parts differ in how their 132 SMs are spread; with this layout one block per SM
  // gives the counts measured on a part: 132, 66, 30, 15 and 7 clusters of 1, 2, 4, 8 and 16.
  static constexpr unsigned kSmsOfGpc[] = {18, 18, 18, 18, 18, 16, 16, 10};
  for (const unsigned sms : kSmsOfGpc) clusters += sms * per_sm / blocks;
  return 0;
}

int launch(Kernel& kernel, const Launch& what) {
  if (const int error = kernel.resolve(); error != 0) return error;
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return error;
  const FunctionReply& info = kernel.info;
  if (what.packed != nullptr) {
    if (what.packed_bytes < info.parameter_bytes) return cuda_error::kInvalidValue;
    std::memcpy(channel->staging(), what.packed, info.parameter_bytes);
  } else if (info.parameter_count != 0) {
    if (what.arguments == nullptr) return cuda_error::kInvalidValue;
    std::memset(channel->staging(), 0, info.parameter_bytes);
    for (uint32_t i = 0; i < info.parameter_count; ++i) {
      if (what.arguments[i] == nullptr) return cuda_error::kInvalidValue;
      std::memcpy(channel->staging() + kernel.offsets[i], what.arguments[i], kernel.sizes[i]);
    }
  }
  LaunchBody body;
  body.function = info.function;
  std::copy_n(what.grid, 3, body.grid);
  std::copy_n(what.block, 3, body.block);
  std::copy_n(what.cluster, 3, body.cluster);
  // The server refuses what is too much, and says so.
  body.dynamic_shared_bytes = static_cast<uint32_t>(std::min<std::size_t>(what.dynamic_shared, UINT32_MAX));
  body.parameter_bytes = info.parameter_bytes;
  body.flags = what.flags;
  body.call = what.call;
  body.stream = what.stream;
  return channel->call(Op::launch, body).error;
}

}  // namespace ptxbench::cuda_shim::client
