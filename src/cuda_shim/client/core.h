#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_shim/protocol.h"

/// What the runtime and the driver library share: the connection to the device, memory, modules, kernels, streams. It
/// lives in libcuda.so.1; libcudart.so.13 links to that. Functions return CUDA error numbers and never throw.
namespace ptxbench::cuda_shim::client {

/// Prints "ptxbench: unsupported.host-call: NAME", tells the server, ends the process. Nothing unmodelled may seem to
/// succeed.
[[noreturn]] void stop_unsupported(const char* name);
/// A line on standard error, prefixed with "ptxbench: ".
void complain(const std::string& text);

// --- connection
// -------------------------------------------------------------------------------------------------------

/// Exit status of a process stopped by stop_unsupported.
inline constexpr int kUnsupportedExit = 121;

/// One client thread's line to the server.
class Channel {
 public:
  /// This thread's channel, connected on first use; null (with `error`) when there is no device to talk to.
  static Channel* get(int& error);
  ~Channel();

  std::byte* staging() const { return staging_; }
  /// Sends and waits for the reply. A lost server gives kUnknown. `descriptor` receives a descriptor if one came.
  template <class Body>
  Reply call(Op op, const Body& body, int* descriptor = nullptr) {
    Request request;
    request.op = static_cast<uint16_t>(op);
    set_body(request, body);
    return exchange(request, descriptor);
  }
  /// Device printf text, into the process's standard output.
  void print_output();

  static Channel* connect_new(int& error, bool lasting = false);

 private:
  Channel() = default;
  Reply exchange(Request& request, int* descriptor);
  int fd_ = -1;
  std::byte* staging_ = nullptr;
  uint64_t serial_ = 0;
};

/// call() on this thread's channel for requests whose reply is only an error number.
template <class Body>
int simple_call(Op op, const Body& body, bool synchronizes = false) {
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return error;
  const Reply reply = channel->call(op, body);
  if (synchronizes && (reply.flags & kReplyOutputWaits) != 0) channel->print_output();
  return reply.error;
}

uint64_t device_memory_bytes();

// --- memory
// -----------------------------------------------------------------------------------------------------------

int allocate(std::size_t bytes, void** out);
int free_device(void* pointer);
int free_ordered(void* pointer, uint64_t stream);
int allocate_shared(std::size_t bytes, SharedKind kind, unsigned flags, void** out);
int free_host(void* pointer);
int free_managed_or_device(void* pointer);
/// Frees all memory of this process on the device, pinned and managed memory too.
int reset_device();
int register_host(void* pointer, std::size_t bytes, unsigned flags);
int unregister_host(void* pointer);
/// Pinned memory: its own address; registered memory: its address on the device. kInvalidValue for other pointers.
int host_device_pointer(void* host, void** out);
int host_flags(void* host, unsigned& flags);

enum class MemoryPlace { pageable, device, pinned, managed, registered };
struct PointerInfo {
  MemoryPlace place = MemoryPlace::pageable;
  uint64_t device_address = 0;  ///< 0 for pageable memory
  void* host_pointer = nullptr;
  uint64_t begin = 0, bytes = 0;  ///< the whole block
};
int pointer_info(const void* pointer, PointerInfo& info);
/// True for addresses of the device's window.
bool in_window(const void* pointer);

struct Copy2D {
  void* destination = nullptr;
  const void* source = nullptr;
  std::size_t destination_pitch = 0, source_pitch = 0;
  std::size_t width = 0, height = 1;
};
enum class CopyKind { host_to_host, host_to_device, device_to_host, device_to_device, any };
int copy(const Copy2D& what, CopyKind kind, uint64_t stream, bool wait);
/// `width` counts values.
int fill(void* destination, std::size_t pitch, uint32_t value, unsigned value_bytes, std::size_t width,
         std::size_t height, uint64_t stream, bool wait);

// --- modules
// ----------------------------------------------------------------------------------------------------------

struct Kernel;

/// Code registered by a fat binary or loaded by a module call; sent to the device when something in it is first needed.
struct Module {
  const void* data = nullptr;   ///< a fat binary's container, owned by the program
  std::vector<std::byte> copy;  ///< an image that was handed over
  ImageKind kind = ImageKind::any;
  bool needs_linking = false;  ///< relocatable device code
  std::mutex mutex;
  bool loaded = false;
  int error = 0;
  uint32_t id = 0;
  std::vector<std::unique_ptr<Kernel>> kernels;  ///< handed out; they live as long as the module
  /// Sends the image once; repeats the first outcome afterwards.
  int load();
};

struct Kernel {
  Module* module = nullptr;
  std::string name;
  const void* host_symbol = nullptr;
  bool resolved = false;
  int error = 0;
  FunctionReply info;
  std::vector<uint32_t> offsets, sizes;
  int carveout = -1;
  int cluster_policy = 0;
  bool non_portable = false;
  uint32_t max_dynamic_shared = 0;
  /// Finds it on the device. Cheap once done.
  int resolve();
  int set_max_dynamic_shared(uint32_t bytes);
  int set_non_portable(bool allowed);
};

/// Copies an image of the kinds cuModuleLoadData takes (a wrapper, a container, PTX text, a cubin); false if it is
/// none.
bool adopt_image(Module& module, const void* image);
bool read_image(Module& module, const char* path);
Module* add_module(std::unique_ptr<Module> module);
/// Null if it is no live module of ours.
Module* as_module(const void* handle);
int unload(Module* module);
/// The same object for the same name.
Kernel* add_kernel(Module& module, const std::string& name, const void* host_symbol);
Kernel* as_kernel(const void* handle);
int find_symbol(Module& module, const std::string& name, uint64_t& address, uint64_t& bytes);
/// Makes the variable's pages shared memory at the same address here and on the device.
int share_symbol(Module& module, const std::string& name, uint64_t& address, uint64_t& bytes);
int occupancy(Kernel& kernel, unsigned block_threads, std::size_t dynamic_shared, unsigned& blocks);
/// Clusters of `blocks` blocks the whole device holds at once.
int active_clusters(Kernel& kernel, unsigned block_threads, std::size_t dynamic_shared, unsigned blocks,
                    unsigned& clusters);

struct Launch {
  unsigned grid[3]{1, 1, 1}, block[3]{1, 1, 1}, cluster[3]{};
  std::size_t dynamic_shared = 0;
  uint64_t stream = 0;
  uint32_t flags = 0;
  LaunchCall call{};
  void* const* arguments = nullptr;  ///< one pointer per parameter, or
  const void* packed = nullptr;      ///< all of them, laid out
  std::size_t packed_bytes = 0;
};
int launch(Kernel& kernel, const Launch& what);

// --- streams and events
// -----------------------------------------------------------------------------------------------

/// While one of these lives in a thread, the null stream there means the thread's own (the _ptsz and _ptds entry
/// points).
class PerThreadDefault {
 public:
  PerThreadDefault();
  ~PerThreadDefault();
  PerThreadDefault(const PerThreadDefault&) = delete;
  PerThreadDefault& operator=(const PerThreadDefault&) = delete;
};

/// From an API handle (null, cudaStreamLegacy, cudaStreamPerThread or one we gave out).
int decode_stream(const void* handle, uint64_t& id);
int create_stream(unsigned flags, int priority, void** out);
int destroy_stream(void* handle);
int stream_properties(const void* handle, unsigned& flags, int& priority, uint64_t& id);
int synchronize_stream(const void* handle);
int query_stream(const void* handle);
int create_event(unsigned flags, void** out);
int destroy_event(void* handle);
int record_event(void* event, const void* stream);
int wait_event(const void* stream, void* event);
int synchronize_event(void* event);
int query_event(void* event);
int elapsed(void* start, void* end, float& milliseconds);
int synchronize_device();

/// Exactly one of the two is set. Runs on a thread of its own, in stream order.
struct HostCallback {
  void (*function)(void* data) = nullptr;
  void (*stream_callback)(void* stream, int status, void* data) = nullptr;
  void* stream = nullptr;
  void* data = nullptr;
};
int add_host_callback(const void* stream, const HostCallback& callback);

// --- the device's description
// -------------------------------------------------------------------------------------------

inline constexpr char kDeviceName[] = "NVIDIA H100 80GB HBM3";
inline constexpr int kCudaVersion = 13000;
/// Value of a cudaDeviceAttr / CUdevice_attribute (they share their numbers).
int device_attribute(int attribute, int& value);
const unsigned char* device_uuid();
/// Names as in cudaError and CUresult; null for numbers that are none.
const char* runtime_error_name(int error);
const char* driver_error_name(int error);
const char* error_text(int error);
/// A driver entry point by its API name ("cuMemAlloc" gives the newest version); null if there is none.
void* find_driver_function(const char* name, int cuda_version, bool per_thread_default, bool& too_new);

}  // namespace ptxbench::cuda_shim::client
