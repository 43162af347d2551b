#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "cuda_shim/client/core.h"

namespace ptxbench::cuda_shim::client {
namespace {

constexpr int kInvalidPitch = 12, kAlreadyRegistered = 712, kNotRegistered = 713, kFreeHostInvalid = 1;
constexpr uint64_t kPage = 4096;

/// A shared block as this process knows it.
struct Shared {
  uint64_t address = 0, bytes = 0;
  SharedKind kind{};
  unsigned flags = 0;
};
/// Memory of the program whose pages were replaced by shared ones.
struct Registered {
  uint64_t host_begin = 0, host_bytes = 0;    // as registered
  uint64_t pages_begin = 0, pages_bytes = 0;  // what was replaced
  uint64_t device_begin = 0;                  // window address of pages_begin
  unsigned flags = 0;
};

std::mutex g_mutex;
// Never destroyed: calls may come from static destructors and from threads that outlive main.
std::map<uint64_t, Shared>& g_shared = *new std::map<uint64_t, Shared>;              // by address
std::map<uint64_t, Registered>& g_registered = *new std::map<uint64_t, Registered>;  // by host_begin

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
void* pointer_to(uint64_t address) { return reinterpret_cast<void*>(address); }

template <class Map>
typename Map::mapped_type* find_around(Map& map, uint64_t address,
                                       uint64_t (*bytes)(const typename Map::mapped_type&)) {
  auto after = map.upper_bound(address);
  if (after == map.begin()) return nullptr;
  --after;
  return address - after->first < bytes(after->second) ? &after->second : nullptr;
}
Shared* shared_around(uint64_t address) {
  return find_around(
      g_shared, address, +[](const Shared& block) { return block.bytes; });
}
Registered* registered_around(uint64_t address) {
  return find_around(
      g_registered, address, +[](const Registered& block) { return block.host_bytes; });
}

/// Asks for a shared block and maps it at the address the server chose (or not at all).
int request_shared(std::size_t bytes, SharedKind kind, SharedReply& block, int& descriptor) {
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return error;
  descriptor = -1;
  const Reply reply = channel->call(Op::allocate_shared, BytesBody{bytes, static_cast<uint64_t>(kind)}, &descriptor);
  if (reply.error != 0) return reply.error;
  block = get_body<SharedReply>(reply);
  if (descriptor < 0) return cuda_error::kUnknown;
  void* wanted = pointer_to(block.mapping_begin);
  if (::mmap(wanted, block.mapping_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0) != wanted) {
    ::close(descriptor);
    return cuda_error::kOutOfMemory;
  }
  return 0;
}

void unmap_window(uint64_t address, uint64_t bytes) {
  (void)::mmap(pointer_to(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/// The address the device knows this byte by; 0 for pageable memory.
uint64_t device_address(const void* pointer) {
  if (in_window(pointer)) return address_of(pointer);
  const std::lock_guard lock(g_mutex);
  if (const Registered* block = registered_around(address_of(pointer)); block != nullptr) {
    return block->device_begin + (address_of(pointer) - block->pages_begin);
  }
  return 0;
}

void copy_on_host(const Copy2D& what) {
  auto* to = static_cast<std::byte*>(what.destination);
  const auto* from = static_cast<const std::byte*>(what.source);
  for (std::size_t row = 0; row < what.height; ++row) {
    std::memmove(to + row * what.destination_pitch, from + row * what.source_pitch, what.width);
  }
}

/// Pieces of a copy that fit the staging segment: `rows` rows of `width` bytes at (row, column).
template <class Piece>
int for_pieces(const Copy2D& what, Piece piece) {
  if (what.width > kStagingBytes) {
    for (std::size_t row = 0; row < what.height; ++row) {
      for (std::size_t column = 0; column < what.width; column += kStagingBytes) {
        const std::size_t width = std::min<std::size_t>(kStagingBytes, what.width - column);
        if (const int error = piece(row, column, width, std::size_t{1}); error != 0) return error;
      }
    }
    return 0;
  }
  const std::size_t at_once = std::max<std::size_t>(1, kStagingBytes / what.width);
  for (std::size_t row = 0; row < what.height; row += at_once) {
    const std::size_t rows = std::min(at_once, what.height - row);
    if (const int error = piece(row, std::size_t{0}, what.width, rows); error != 0) return error;
  }
  return 0;
}

int copy_up(const Copy2D& what, uint64_t destination, uint64_t stream, bool wait) {
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return error;
  bool output = false;
  error = for_pieces(what, [&](std::size_t row, std::size_t column, std::size_t width, std::size_t rows) {
    const auto* from = static_cast<const std::byte*>(what.source) + row * what.source_pitch + column;
    for (std::size_t r = 0; r < rows; ++r)
      std::memcpy(channel->staging() + r * width, from + r * what.source_pitch, width);
    const Reply reply =
        channel->call(Op::copy_to_device, CopyBody{destination + row * what.destination_pitch + column, 0, width, rows,
                                                   what.destination_pitch, 0, stream, wait ? 1u : 0u});
    output = (reply.flags & kReplyOutputWaits) != 0;
    return reply.error;
  });
  if (wait && output) channel->print_output();
  return error;
}

int copy_down(const Copy2D& what, uint64_t source, uint64_t stream) {
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return error;
  bool output = false;
  error = for_pieces(what, [&](std::size_t row, std::size_t column, std::size_t width, std::size_t rows) {
    const Reply reply = channel->call(Op::copy_from_device, CopyBody{0, source + row * what.source_pitch + column,
                                                                     width, rows, 0, what.source_pitch, stream, 1});
    if (reply.error != 0) return reply.error;
    auto* to = static_cast<std::byte*>(what.destination) + row * what.destination_pitch + column;
    for (std::size_t r = 0; r < rows; ++r)
      std::memcpy(to + r * what.destination_pitch, channel->staging() + r * width, width);
    output = (reply.flags & kReplyOutputWaits) != 0;
    return 0;
  });
  if (output) channel->print_output();
  return error;
}

}  // namespace

int allocate(std::size_t bytes, void** out) {
  if (out == nullptr) return cuda_error::kInvalidValue;
  if (bytes == 0) {
    *out = nullptr;
    return 0;
  }
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return error;
  const Reply reply = channel->call(Op::allocate, BytesBody{bytes, 0});
  if (reply.error == 0) *out = pointer_to(get_body<AddressBody>(reply).address);
  return reply.error;
}

int free_device(void* pointer) {
  if (pointer == nullptr) return 0;
  return simple_call(Op::free, AddressBody{address_of(pointer), 0, 0}, true);
}

int free_ordered(void* pointer, uint64_t stream) {
  if (pointer == nullptr) return 0;
  return simple_call(Op::free, AddressBody{address_of(pointer), stream, 1});
}

int allocate_shared(std::size_t bytes, SharedKind kind, unsigned flags, void** out) {
  if (out == nullptr) return cuda_error::kInvalidValue;
  if (bytes == 0) {
    *out = nullptr;
    return kind == SharedKind::managed ? cuda_error::kInvalidValue : 0;
  }
  SharedReply block;
  int descriptor = -1;
  if (const int error = request_shared(bytes, kind, block, descriptor); error != 0) return error;
  ::close(descriptor);
  const std::lock_guard lock(g_mutex);
  g_shared[block.address] = Shared{block.address, bytes, kind, flags};
  *out = pointer_to(block.address);
  return 0;
}

namespace {
int release_shared(uint64_t address, uint64_t bytes) {
  const int error = simple_call(Op::free_shared, AddressBody{address, 0, 0}, true);
  if (error != 0) return error;
  unmap_window(address, (bytes + kPage - 1) / kPage * kPage);
  return 0;
}

int free_shared_kind(void* pointer, bool managed) {
  Shared block;
  {
    const std::lock_guard lock(g_mutex);
    const auto found = g_shared.find(address_of(pointer));
    if (found == g_shared.end() || (found->second.kind == SharedKind::managed) != managed) return kFreeHostInvalid;
    block = found->second;
    g_shared.erase(found);
  }
  return release_shared(block.address, block.bytes);
}
}  // namespace

int free_host(void* pointer) { return pointer == nullptr ? 0 : free_shared_kind(pointer, false); }

int free_managed_or_device(void* pointer) {
  bool is_managed = false;
  {
    const std::lock_guard lock(g_mutex);
    const auto found = g_shared.find(address_of(pointer));
    is_managed = found != g_shared.end() && found->second.kind == SharedKind::managed;
  }
  return is_managed ? free_shared_kind(pointer, true) : free_device(pointer);
}

int register_host(void* pointer, std::size_t bytes, unsigned flags) {
  if (pointer == nullptr || bytes == 0 || in_window(pointer)) return cuda_error::kInvalidValue;
  Registered block;
  block.host_begin = address_of(pointer);
  block.host_bytes = bytes;
  block.pages_begin = block.host_begin / kPage * kPage;
  block.pages_bytes = (block.host_begin + bytes + kPage - 1) / kPage * kPage - block.pages_begin;
  block.flags = flags;
  {
    const std::lock_guard lock(g_mutex);
    for (const auto& [begin, other] : g_registered) {
      if (block.pages_begin < other.pages_begin + other.pages_bytes &&
          other.pages_begin < block.pages_begin + block.pages_bytes) {
        return kAlreadyRegistered;
      }
    }
  }
  SharedReply shared;
  int descriptor = -1;
  if (const int error = request_shared(block.pages_bytes, SharedKind::registered, shared, descriptor); error != 0)
    return error;
  block.device_begin = shared.address;
  // The program's pages become the shared ones, contents and all: it sees what kernels write, and the device what it
  // writes.
  std::memcpy(pointer_to(shared.address), pointer_to(block.pages_begin), block.pages_bytes);
  const void* got = ::mmap(pointer_to(block.pages_begin), block.pages_bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_FIXED, descriptor, 0);
  ::close(descriptor);
  if (got == MAP_FAILED) {
    release_shared(shared.address, block.pages_bytes);
    return cuda_error::kInvalidValue;
  }
  const std::lock_guard lock(g_mutex);
  g_registered[block.host_begin] = block;
  return 0;
}

int unregister_host(void* pointer) {
  Registered block;
  {
    const std::lock_guard lock(g_mutex);
    const auto found = g_registered.find(address_of(pointer));
    if (found == g_registered.end()) return kNotRegistered;
    block = found->second;
    g_registered.erase(found);
  }
  if (const int error = synchronize_device(); error != 0) return error;
  void* fresh = ::mmap(nullptr, block.pages_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return cuda_error::kOutOfMemory;
  std::memcpy(fresh, pointer_to(block.pages_begin), block.pages_bytes);
  if (::mremap(fresh, block.pages_bytes, block.pages_bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
               pointer_to(block.pages_begin)) == MAP_FAILED) {
    return cuda_error::kUnknown;
  }
  return release_shared(block.device_begin, block.pages_bytes);
}

int reset_device() {
  const int error = simple_call(Op::reset_device, BytesBody{}, true);
  if (error != 0)
    return 0;  // a lost context can be reset without an error; what follows keeps failing, as on the hardware
  const std::lock_guard lock(g_mutex);
  for (const auto& [address, block] : g_shared) unmap_window(address, (block.bytes + kPage - 1) / kPage * kPage);
  g_shared.clear();
  g_registered.clear();
  return 0;
}

int host_device_pointer(void* host, void** out) {
  if (out == nullptr) return cuda_error::kInvalidValue;
  const std::lock_guard lock(g_mutex);
  if (shared_around(address_of(host)) != nullptr) {
    *out = host;
    return 0;
  }
  if (const Registered* block = registered_around(address_of(host)); block != nullptr) {
    *out = pointer_to(block->device_begin + (address_of(host) - block->pages_begin));
    return 0;
  }
  return cuda_error::kInvalidValue;
}

int host_flags(void* host, unsigned& flags) {
  const std::lock_guard lock(g_mutex);
  if (const Shared* block = shared_around(address_of(host)); block != nullptr && block->kind == SharedKind::pinned) {
    flags = block->flags;
    return 0;
  }
  if (const Registered* block = registered_around(address_of(host)); block != nullptr) {
    flags = block->flags;
    return 0;
  }
  return cuda_error::kInvalidValue;
}

int pointer_info(const void* pointer, PointerInfo& info) {
  info = {};
  info.host_pointer = const_cast<void*>(pointer);
  if (!in_window(pointer)) {
    int error = 0;
    if (Channel::get(error) == nullptr) return error;
    const std::lock_guard lock(g_mutex);
    if (const Registered* block = registered_around(address_of(pointer)); block != nullptr) {
      info.place = MemoryPlace::registered;
      info.device_address = block->device_begin + (address_of(pointer) - block->pages_begin);
      info.begin = block->host_begin;
      info.bytes = block->host_bytes;
    }
    return 0;
  }
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return error;
  const Reply reply = channel->call(Op::pointer_info, AddressBody{address_of(pointer), 0, 0});
  if (reply.error != 0) return reply.error;
  const auto answer = get_body<PointerInfoReply>(reply);
  switch (answer.kind) {
    case PointerKind::unknown:
      return 0;
    case PointerKind::device:
      info.place = MemoryPlace::device;
      info.host_pointer = nullptr;
      break;
    case PointerKind::pinned:
      info.place = MemoryPlace::pinned;
      break;
    case PointerKind::managed:
      info.place = MemoryPlace::managed;
      break;
  }
  info.device_address = address_of(pointer);
  info.begin = answer.begin;
  info.bytes = answer.bytes;
  return 0;
}

int copy(const Copy2D& what, CopyKind kind, uint64_t stream, bool wait) {
  if (what.width == 0 || what.height == 0) return 0;
  if (what.height > 1 && (what.destination_pitch < what.width || what.source_pitch < what.width)) return kInvalidPitch;
  int error = 0;
  if (Channel::get(error) == nullptr) return error;
  if (what.destination == nullptr || what.source == nullptr) return cuda_error::kInvalidValue;
  const uint64_t to = device_address(what.destination), from = device_address(what.source);
  // The kind may only claim what the pointers are; beyond that the pointers decide, as on the hardware.
  const bool to_device = kind == CopyKind::host_to_device || kind == CopyKind::device_to_device;
  const bool from_device = kind == CopyKind::device_to_host || kind == CopyKind::device_to_device;
  if ((to_device && to == 0) || (from_device && from == 0)) return cuda_error::kInvalidValue;
  if (to == 0 && from == 0) {
    error = simple_call(Op::synchronize_stream, StreamBody{stream, 0, 0, 0}, true);
    if (error == 0) copy_on_host(what);
    return error;
  }
  if (from == 0) return copy_up(what, to, stream, wait);
  if (to == 0) return copy_down(what, from, stream);
  return simple_call(
      Op::copy_on_device,
      CopyBody{to, from, what.width, what.height, what.destination_pitch, what.source_pitch, stream, wait ? 1u : 0u},
      wait);
}

int fill(void* destination, std::size_t pitch, uint32_t value, unsigned value_bytes, std::size_t width,
         std::size_t height, uint64_t stream, bool wait) {
  if (width == 0 || height == 0) return 0;
  int error = 0;
  if (Channel::get(error) == nullptr) return error;
  const uint64_t to = device_address(destination);
  if (to == 0) return cuda_error::kInvalidValue;
  FillBody body;
  body.destination = to;
  body.width = width;
  body.height = height;
  body.pitch = pitch;
  body.value = value;
  body.value_bytes = value_bytes;
  body.stream = stream;
  body.wait = wait ? 1 : 0;
  return simple_call(Op::fill, body, wait);
}

}  // namespace ptxbench::cuda_shim::client
