#include <cstring>

#include "cuda_shim/client/runtime.h"

using namespace ptxbench::cuda_shim::client;
using namespace ptxbench::cuda_shim::client::runtime;
using ptxbench::cuda_shim::SharedKind;

namespace {

constexpr std::size_t kPitchAlignment = 512;

int copy_kind(cudaMemcpyKind kind, CopyKind& out) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  out = static_cast<CopyKind>(kind);
  return 0;
}

int copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
              std::size_t height, cudaMemcpyKind kind, cudaStream_t stream, bool wait) {
  CopyKind direction{};
  if (const int error = copy_kind(kind, direction); error != 0) return error;
  uint64_t id = 0;
  if (const int error = decode_stream(stream, id); error != 0) return error;
  return copy({to, from, to_pitch, from_pitch, width, height}, direction, id, wait);
}

int fill_rows(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height, cudaStream_t stream,
              bool wait) {
  uint64_t id = 0;
  if (const int error = decode_stream(stream, id); error != 0) return error;
  return fill(to, pitch, static_cast<uint32_t>(value) & 0xff, 1, width, height, id, wait);
}

int copy_3d(const cudaMemcpy3DParms* what, cudaStream_t stream, bool wait) {
  if (what == nullptr) return cudaErrorInvalidValue;
  if (what->srcArray != nullptr || what->dstArray != nullptr) stop_unsupported("cudaMemcpy3D with CUDA arrays");
  const auto at = [](const cudaPitchedPtr& block, const cudaPos& position, std::size_t slice) {
    return static_cast<char*>(block.ptr) + (position.z + slice) * block.pitch * block.ysize + position.y * block.pitch +
           position.x;
  };
  for (std::size_t slice = 0; slice < what->extent.depth; ++slice) {
    const int error =
        copy_rows(at(what->dstPtr, what->dstPos, slice), what->dstPtr.pitch, at(what->srcPtr, what->srcPos, slice),
                  what->srcPtr.pitch, what->extent.width, what->extent.height, what->kind, stream, wait);
    if (error != 0) return error;
  }
  return 0;
}

/// A piece of a variable, checked against its size.
int symbol_range(const void* symbol, std::size_t count, std::size_t offset, void*& out) {
  uint64_t address = 0, bytes = 0;
  if (const int error = resolve_variable(symbol, address, bytes); error != 0) return error;
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  out = reinterpret_cast<void*>(address + offset);
  return 0;
}

int copy_to_symbol(const void* symbol, const void* from, std::size_t count, std::size_t offset, cudaMemcpyKind kind,
                   cudaStream_t stream, bool wait) {
  void* to = nullptr;
  if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (const int error = symbol_range(symbol, count, offset, to); error != 0) return error;
  return copy_rows(to, count, from, count, count, 1, kind, stream, wait);
}

int copy_from_symbol(void* to, const void* symbol, std::size_t count, std::size_t offset, cudaMemcpyKind kind,
                     cudaStream_t stream, bool wait) {
  void* from = nullptr;
  if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (const int error = symbol_range(symbol, count, offset, from); error != 0) return error;
  return copy_rows(to, count, from, count, count, 1, kind, stream, wait);
}

int require_device_zero(int device) { return device == 0 ? 0 : cudaErrorInvalidDevice; }

bool is_managed(const void* pointer) {
  PointerInfo info;
  return pointer_info(pointer, info) == 0 && info.place == MemoryPlace::managed;
}

cudaMemPool_t default_pool() {
  static int anchor = 0;
  return reinterpret_cast<cudaMemPool_t>(&anchor);
}
std::mutex g_pool_mutex;
int g_pool_reuse[4] = {0, 1, 1, 1};  // by attribute number
uint64_t g_pool_release_threshold = 0;

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** out, size_t bytes) { return finish(allocate(bytes, out)); }
cudaError_t cudaFree(void* pointer) { return finish(free_managed_or_device(pointer)); }
cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t stream) {
  uint64_t id = 0;
  if (const int error = decode_stream(stream, id); error != 0) return finish(error);
  return finish(allocate(bytes, out));
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  uint64_t id = 0;
  if (const int error = decode_stream(stream, id); error != 0) return finish(error);
  return finish(free_ordered(pointer, id));
}
cudaError_t cudaMallocFromPoolAsync(void** out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  if (pool != default_pool()) return finish(cudaErrorInvalidValue);
  return cudaMallocAsync(out, bytes, stream);
}
cudaError_t cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
  if (pitch == nullptr || width > SIZE_MAX - kPitchAlignment) return finish(cudaErrorInvalidValue);
  *pitch = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  if (height != 0 && *pitch > SIZE_MAX / height) return finish(cudaErrorMemoryAllocation);
  return finish(allocate(*pitch * height, out));
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* out, cudaExtent extent) {
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  if (extent.depth != 0 && extent.height > SIZE_MAX / extent.depth) return finish(cudaErrorMemoryAllocation);
  void* pointer = nullptr;
  std::size_t pitch = 0;
  const cudaError_t error = cudaMallocPitch(&pointer, &pitch, extent.width, extent.height * extent.depth);
  if (error == cudaSuccess) *out = {pointer, pitch, extent.width, extent.height};
  return error;
}
cudaError_t cudaMallocHost(void** out, size_t bytes) {
  return finish(allocate_shared(bytes, SharedKind::pinned, 0, out));
}
cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned flags) {
  constexpr unsigned kKnown = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if ((flags & ~kKnown) != 0) return finish(cudaErrorInvalidValue);
  return finish(allocate_shared(bytes, SharedKind::pinned, flags, out));
}
cudaError_t cudaFreeHost(void* pointer) { return finish(free_host(pointer)); }
cudaError_t cudaMallocManaged(void** out, size_t bytes, unsigned flags) {
  if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) return finish(cudaErrorInvalidValue);
  return finish(allocate_shared(bytes, SharedKind::managed, flags, out));
}
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  constexpr unsigned kKnown = cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly;
  if ((flags & ~kKnown) != 0) return finish(cudaErrorInvalidValue);
  return finish(register_host(pointer, bytes, flags));
}
cudaError_t cudaHostUnregister(void* pointer) { return finish(unregister_host(pointer)); }
cudaError_t cudaHostGetDevicePointer(void** out, void* host, unsigned flags) {
  if (flags != 0) return finish(cudaErrorInvalidValue);
  return finish(host_device_pointer(host, out));
}
cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  if (flags == nullptr) return finish(cudaErrorInvalidValue);
  return finish(host_flags(host, *flags));
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return finish(error);
  const auto reply = channel->call(ptxbench::cuda_shim::Op::memory_info, ptxbench::cuda_shim::BytesBody{});
  const auto info = ptxbench::cuda_shim::get_body<ptxbench::cuda_shim::MemoryInfoReply>(reply);
  if (reply.error == 0 && free_bytes != nullptr) *free_bytes = info.free_bytes;
  if (reply.error == 0 && total_bytes != nullptr) *total_bytes = info.total_bytes;
  return finish(reply.error);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t count, cudaMemcpyKind kind) {
  return finish(copy_rows(to, count, from, count, count, 1, kind, nullptr, true));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return finish(copy_rows(to, count, from, count, count, 1, kind, stream, false));
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return finish(cudaErrorInvalidPitchValue);
  return finish(copy_rows(to, to_pitch, from, from_pitch, width, height, kind, nullptr, true));
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return finish(cudaErrorInvalidPitchValue);
  return finish(copy_rows(to, to_pitch, from, from_pitch, width, height, kind, stream, false));
}
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* what) { return finish(copy_3d(what, nullptr, true)); }
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* what, cudaStream_t stream) {
  return finish(copy_3d(what, stream, false));
}
cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t count) {
  if (const int error = require_device_zero(to_device | from_device); error != 0) return finish(error);
  return cudaMemcpy(to, from, count, cudaMemcpyDefault);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t count,
                                cudaStream_t stream) {
  if (const int error = require_device_zero(to_device | from_device); error != 0) return finish(error);
  return cudaMemcpyAsync(to, from, count, cudaMemcpyDefault, stream);
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t count, size_t offset, cudaMemcpyKind kind) {
  return finish(copy_to_symbol(symbol, from, count, offset, kind, nullptr, true));
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t count, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return finish(copy_to_symbol(symbol, from, count, offset, kind, stream, false));
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind) {
  return finish(copy_from_symbol(to, symbol, count, offset, kind, nullptr, true));
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return finish(copy_from_symbol(to, symbol, count, offset, kind, stream, false));
}
cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  return finish(symbol_range(symbol, 0, 0, *out));
}
cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  uint64_t address = 0, bytes = 0;
  if (size == nullptr) return finish(cudaErrorInvalidValue);
  const int error = resolve_variable(symbol, address, bytes);
  if (error == 0) *size = bytes;
  return finish(error);
}

cudaError_t cudaMemset(void* to, int value, size_t count) {
  return finish(fill_rows(to, count, value, count, 1, nullptr, true));
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t count, cudaStream_t stream) {
  return finish(fill_rows(to, count, value, count, 1, stream, false));
}
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return finish(fill_rows(to, pitch, value, width, height, nullptr, true));
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  return finish(fill_rows(to, pitch, value, width, height, stream, false));
}
cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  for (std::size_t slice = 0; slice < extent.depth; ++slice) {
    void* at = static_cast<char*>(to.ptr) + slice * to.pitch * to.ysize;
    if (const int error = fill_rows(at, to.pitch, value, extent.width, extent.height, stream, false); error != 0) {
      return finish(error);
    }
  }
  return cudaSuccess;
}
cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  const cudaError_t error = cudaMemset3DAsync(to, value, extent, nullptr);
  return error == cudaSuccess ? finish(synchronize_stream(nullptr)) : error;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  std::memset(out, 0, sizeof *out);
  PointerInfo info;
  if (const int error = pointer_info(pointer, info); error != 0) return finish(error);
  out->devicePointer = reinterpret_cast<void*>(info.device_address);
  out->hostPointer = info.host_pointer;
  switch (info.place) {
    case MemoryPlace::pageable:
      out->type = cudaMemoryTypeUnregistered;
      out->device = -2;  // cudaInvalidDeviceId
      break;
    case MemoryPlace::device:
      out->type = cudaMemoryTypeDevice;
      break;
    case MemoryPlace::managed:
      out->type = cudaMemoryTypeManaged;
      break;
    case MemoryPlace::pinned:
    case MemoryPlace::registered:
      out->type = cudaMemoryTypeHost;
      break;
  }
  return cudaSuccess;
}

// Advice about where managed memory should live changes speed only.
cudaError_t cudaMemAdvise(const void* pointer, size_t, cudaMemoryAdvise, cudaMemLocation) {
  return finish(is_managed(pointer) ? 0 : cudaErrorInvalidValue);
}
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t, cudaMemLocation, unsigned flags, cudaStream_t stream) {
  uint64_t id = 0;
  if (const int error = decode_stream(stream, id); error != 0) return finish(error);
  return finish(flags == 0 && is_managed(pointer) ? 0 : cudaErrorInvalidValue);
}
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, size_t, unsigned) {
  uint64_t id = 0;
  if (const int error = decode_stream(stream, id); error != 0) return finish(error);
  return finish(is_managed(pointer) ? 0 : cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (pool == nullptr) return finish(cudaErrorInvalidValue);
  *pool = default_pool();
  return finish(require_device_zero(device));
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  if (pool != default_pool()) return finish(cudaErrorInvalidValue);
  return finish(require_device_zero(device));
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
  return finish(pool == default_pool() ? 0 : cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (pool != default_pool() || value == nullptr) return finish(cudaErrorInvalidValue);
  const std::lock_guard lock(g_pool_mutex);
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      g_pool_reuse[attribute] = *static_cast<int*>(value);
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
      g_pool_release_threshold = *static_cast<uint64_t*>(value);
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      return finish(*static_cast<uint64_t*>(value) == 0 ? 0 : cudaErrorInvalidValue);
    default:
      return finish(cudaErrorInvalidValue);
  }
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (pool != default_pool() || value == nullptr) return finish(cudaErrorInvalidValue);
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies: {
      const std::lock_guard lock(g_pool_mutex);
      *static_cast<int*>(value) = g_pool_reuse[attribute];
      return cudaSuccess;
    }
    case cudaMemPoolAttrReleaseThreshold: {
      const std::lock_guard lock(g_pool_mutex);
      *static_cast<uint64_t*>(value) = g_pool_release_threshold;
      return cudaSuccess;
    }
    case cudaMemPoolAttrReservedMemCurrent:
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemCurrent:
    case cudaMemPoolAttrUsedMemHigh: {
      // Every allocation counts: the pool of the emulated device is its memory.
      std::size_t free_bytes = 0, total = 0;
      if (const cudaError_t error = cudaMemGetInfo(&free_bytes, &total); error != cudaSuccess) return error;
      *static_cast<uint64_t*>(value) = total - free_bytes;
      return cudaSuccess;
    }
    default:
      return finish(cudaErrorInvalidValue);
  }
}

}  // extern "C"
