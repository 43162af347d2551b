#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

/// What the client libraries in the foreign process and the server in the trusted process say to each other.
///
/// One sequenced-packet Unix socket per client thread; every request is one fixed-size packet and has one fixed-size
/// reply, so a thread that waits (for a stream, say) never holds up another. Bytes of variable length (names, kernel
/// parameters, copies, module images) travel in the connection's staging segment: shared memory that the server made,
/// sized and sealed, whose descriptor came with the reply to `hello`. The server reads every value once and trusts
/// none.
namespace ptxbench::cuda_shim {

inline constexpr uint32_t kProtocolMagic = 0x5842'5850;
inline constexpr uint16_t kProtocolVersion = 1;
/// Path of the server's socket, in the client's environment.
inline constexpr char kSocketVariable[] = "PTXBENCH_SHIM_SOCKET";
inline constexpr uint64_t kStagingBytes = 4ull << 20;
/// CUDA passes at most this many bytes of kernel parameters on sm_70 and later.
inline constexpr uint32_t kMaxParameterBytes = 32764;
inline constexpr uint32_t kMaxParameters = 4096;
inline constexpr uint32_t kMaxNameBytes = 64 * 1024;

enum class Op : uint16_t {
  hello = 1,
  fetch_output,
  report_unsupported,
  report_host_access,
  device_synchronize,
  device_status,
  reset_device,
  allocate,
  free,
  allocate_shared,
  share_symbol,
  free_shared,
  memory_info,
  pointer_info,
  copy_to_device,
  copy_from_device,
  copy_on_device,
  fill,
  append_image,
  load_image,
  unload_module,
  find_function,
  find_symbol,
  set_function_limits,
  occupancy,
  launch,
  create_stream,
  destroy_stream,
  synchronize_stream,
  query_stream,
  create_event,
  destroy_event,
  record_event,
  stream_wait_event,
  synchronize_event,
  query_event,
  elapsed_time,
  host_function,
  next_host_function,
  host_function_done,
  launch_checked,
  last_op = launch_checked,
};

inline constexpr std::size_t kBodyBytes = 104;

struct Request {
  uint32_t magic = kProtocolMagic;
  uint16_t version = kProtocolVersion;
  uint16_t op = 0;
  uint64_t serial = 0;  ///< echoed in the reply
  std::byte body[kBodyBytes]{};
};

enum ReplyFlags : uint32_t {
  kReplyHasDescriptor = 1,  ///< a file descriptor came along
  kReplyOutputWaits = 2,    ///< device printf text is ready to be fetched
};

struct Reply {
  uint32_t magic = kProtocolMagic;
  int32_t error = 0;  ///< a CUDA error number; the runtime and the driver use the same ones
  uint32_t flags = 0;
  int32_t sticky = 0;  ///< the error of the context once it is lost, 0 before
  uint64_t serial = 0;
  std::byte body[kBodyBytes]{};
};
static_assert(sizeof(Request) == 120 && sizeof(Reply) == 128);

template <class Body, class Message>
Body get_body(const Message& message) {
  static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= kBodyBytes);
  Body body;
  std::memcpy(&body, message.body, sizeof body);
  return body;
}

template <class Message, class Body>
void set_body(Message& message, const Body& body) {
  static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= kBodyBytes);
  std::memcpy(message.body, &body, sizeof body);
}

// Bodies. Padding is spelled out so that no byte of a message is undefined.

struct HelloReply {
  uint64_t window_base = 0, window_bytes = 0;
  uint64_t staging_bytes = 0;
  uint64_t memory_bytes = 0;
};
/// hello; allocate, allocate_shared; append_image, load_image (bytes in the staging segment); fetch_output (reply).
struct BytesBody {
  uint64_t bytes = 0;
  uint64_t kind = 0;  ///< hello: 1 if this connection lasts as long as the process; allocate_shared: SharedKind;
                      ///< load_image: ImageKind
};
enum class SharedKind : uint64_t { pinned, managed, registered };
enum class ImageKind : uint64_t {
  fatbin,  ///< a fat binary container
  any,     ///< what cuModuleLoadData takes: PTX text, a container or a cubin
};
/// free, free_shared, pointer_info, report_host_access, and the replies of allocations.
struct AddressBody {
  uint64_t address = 0;
  uint64_t stream = 0;  ///< free: the stream whose earlier work must finish first, with `ordered`
  uint64_t ordered = 0;
};
struct SharedReply {
  uint64_t address = 0;        ///< first byte of the block
  uint64_t mapping_begin = 0;  ///< where the descriptor's pages are to be mapped, page aligned
  uint64_t mapping_bytes = 0;
};
struct MemoryInfoReply {
  uint64_t free_bytes = 0, total_bytes = 0;
};
enum class PointerKind : uint64_t { unknown, device, pinned, managed };
struct PointerInfoReply {
  uint64_t begin = 0, bytes = 0;
  PointerKind kind{};
};
/// Copies of `height` rows of `width` bytes. On the host side of copy_to_device and copy_from_device the rows lie
/// packed in the staging segment.
struct CopyBody {
  uint64_t destination = 0, source = 0;
  uint64_t width = 0, height = 1;
  uint64_t destination_pitch = 0, source_pitch = 0;
  uint64_t stream = 0;
  uint64_t wait = 0;  ///< reply only after the copy
};
struct FillBody {
  uint64_t destination = 0;
  uint64_t width = 0, height = 1;  ///< elements, rows
  uint64_t pitch = 0;              ///< bytes
  uint32_t value = 0, value_bytes = 1;
  uint64_t stream = 0;
  uint64_t wait = 0;  ///< reply only after the fill
};
struct ModuleBody {
  uint32_t module = 0;
  uint32_t name_bytes = 0;  ///< find_function, find_symbol, share_symbol: the name lies in the staging segment
};
struct SymbolReply {
  uint64_t address = 0, bytes = 0;
};
/// Offsets, then sizes of the parameters (u32 each) lie in the staging segment.
struct FunctionReply {
  uint32_t function = 0;
  uint32_t static_shared_bytes = 0, local_bytes = 0, constant_bytes = 0, registers = 0;
  uint32_t max_threads_per_block = 0;
  uint32_t parameter_bytes = 0, parameter_count = 0;
  uint32_t required_cluster[3]{};
  uint32_t max_dynamic_shared_bytes = 0;
  uint32_t explicit_cluster = 0;
};
struct FunctionLimitsBody {
  uint32_t function = 0;
  uint32_t max_dynamic_shared_bytes = 0;
  uint32_t non_portable_cluster = 0;
  uint32_t which = 0;  ///< bit 0: the first value is set, bit 1: the second
};
struct OccupancyBody {
  uint32_t function = 0, block_threads = 0, dynamic_shared_bytes = 0, unused = 0;
};
struct CountReply {
  uint64_t count = 0;
};
enum LaunchFlags : uint32_t { kLaunchCooperative = 1, kLaunchProgrammatic = 2 };
/// The host call that asks for a launch.
enum class LaunchCall : uint32_t {
  unknown,
  runtime,              ///< cudaLaunchKernel, which is what <<<>>> becomes: nobody sees its result
  runtime_extensible,   ///< cudaLaunchKernelExC, cudaLaunchKernelEx
  runtime_cooperative,  ///< cudaLaunchCooperativeKernel
  driver,               ///< cuLaunchKernel
  driver_extensible,    ///< cuLaunchKernelEx
  driver_cooperative,   ///< cuLaunchCooperativeKernel
};
struct LaunchBody {
  uint32_t function = 0;
  uint32_t grid[3]{}, block[3]{}, cluster[3]{};
  uint32_t dynamic_shared_bytes = 0;
  uint32_t parameter_bytes = 0;  ///< in the staging segment
  uint32_t flags = 0;
  LaunchCall call{};
  uint64_t stream = 0;
};
struct StreamBody {
  uint64_t stream = 0;
  uint64_t event = 0;
  uint32_t flags = 0;  ///< create: bit 0 non-blocking; create_event: bit 0 no timing
  int32_t priority = 0;
};
struct ElapsedBody {
  uint64_t start = 0, end = 0;
};
struct ElapsedReply {
  double milliseconds = 0;
};
/// host_function: `token` names the callback in the client; next_host_function's reply: the callback to run now.
struct HostFunctionBody {
  uint64_t stream = 0;
  uint64_t token = 0;
  int32_t status = 0;
  uint32_t always = 0;  ///< run it even when the context is lost (cudaStreamAddCallback)
};

/// Stream 0 is the legacy default stream. Others have numbers the server gave out.
inline constexpr uint64_t kLegacyStream = 0;

/// The CUDA error numbers the server speaks of, so that the trusted side needs no CUDA header.
namespace cuda_error {
inline constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kInitialization = 3, kNoBinary = 209,
                     kInvalidImage = 200, kInvalidPtx = 218, kUnsupportedPtx = 222, kInvalidHandle = 400,
                     kNotFound = 500, kNotReady = 600, kIllegalAddress = 700, kLaunchOutOfResources = 701,
                     kLaunchTimeout = 702, kAssert = 710, kIllegalInstruction = 715, kMisalignedAddress = 716,
                     kInvalidAddressSpace = 717, kInvalidPc = 718, kLaunchFailure = 719, kCooperativeTooLarge = 720,
                     kNotSupported = 801, kInvalidClusterSize = 912, kUnknown = 999;
}  // namespace cuda_error

}  // namespace ptxbench::cuda_shim
