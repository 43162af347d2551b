#include <cstring>

#include "cuda_shim/client/driver_internal.h"
#include "emulator/tensor/tensor_map.h"

using namespace ptxbench::cuda_shim::client;
using namespace ptxbench::cuda_shim::client::driver;
using ptxbench::cuda_shim::SharedKind;

namespace {

constexpr size_t kPitchAlignment = 512;

CUresult copy_bytes(void* to, const void* from, size_t count, CopyKind kind, CUstream stream, bool wait) {
  uint64_t id = 0;
  if (const int error = decode_stream(stream, id); error != 0) return result(error);
  return result(copy({to, from, count, count, count, 1}, kind, id, wait));
}

CUresult fill_values(CUdeviceptr to, size_t pitch, uint32_t value, unsigned bytes, size_t width, size_t height,
                     CUstream stream, bool wait) {
  uint64_t id = 0;
  if (const int error = decode_stream(stream, id); error != 0) return result(error);
  return result(fill(host(to), pitch, value, bytes, width, height, id, wait));
}

CUresult copy_2d(const CUDA_MEMCPY2D* what, CUstream stream, bool wait) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (what->srcMemoryType == CU_MEMORYTYPE_ARRAY || what->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    stop_unsupported("cuMemcpy2D with CUDA arrays");
  }
  const bool from_host = what->srcMemoryType == CU_MEMORYTYPE_HOST, to_host = what->dstMemoryType == CU_MEMORYTYPE_HOST;
  const auto* from = static_cast<const char*>(from_host ? what->srcHost : host(what->srcDevice));
  auto* to = static_cast<char*>(to_host ? what->dstHost : host(what->dstDevice));
  const size_t from_pitch = what->srcPitch != 0 ? what->srcPitch : what->WidthInBytes;
  const size_t to_pitch = what->dstPitch != 0 ? what->dstPitch : what->WidthInBytes;
  uint64_t id = 0;
  if (const int error = decode_stream(stream, id); error != 0) return result(error);
  return result(
      copy({to + what->dstY * to_pitch + what->dstXInBytes, from + what->srcY * from_pitch + what->srcXInBytes,
            to_pitch, from_pitch, what->WidthInBytes, what->Height},
           CopyKind::any, id, wait));
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return result(error);
  const auto reply = channel->call(ptxbench::cuda_shim::Op::memory_info, ptxbench::cuda_shim::BytesBody{});
  const auto info = ptxbench::cuda_shim::get_body<ptxbench::cuda_shim::MemoryInfoReply>(reply);
  if (reply.error == 0 && free_bytes != nullptr) *free_bytes = info.free_bytes;
  if (reply.error == 0 && total_bytes != nullptr) *total_bytes = info.total_bytes;
  return result(reply.error);
}
CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return result(allocate(bytes, as_output(out)));
}
CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  uint64_t id = 0;
  if (const int error = decode_stream(stream, id); error != 0) return result(error);
  return cuMemAlloc(out, bytes);
}
CUresult cuMemAllocPitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element) {
  if (pitch == nullptr || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pitch = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  if (*pitch > SIZE_MAX / height) return CUDA_ERROR_OUT_OF_MEMORY;
  return cuMemAlloc(out, *pitch * height);
}
CUresult cuMemFree(CUdeviceptr address) { return result(free_managed_or_device(host(address))); }
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  uint64_t id = 0;
  if (const int error = decode_stream(stream, id); error != 0) return result(error);
  return result(free_ordered(host(address), id));
}
CUresult cuMemAllocHost(void** out, size_t bytes) { return result(allocate_shared(bytes, SharedKind::pinned, 0, out)); }
CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  if (flags > 7) return CUDA_ERROR_INVALID_VALUE;
  return result(allocate_shared(bytes, SharedKind::pinned, flags, out));
}
CUresult cuMemFreeHost(void* pointer) { return result(free_host(pointer)); }
CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  return result(allocate_shared(bytes, SharedKind::managed, flags, as_output(out)));
}
CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return result(register_host(pointer, bytes, flags));
}
CUresult cuMemHostUnregister(void* pointer) { return result(unregister_host(pointer)); }
CUresult cuMemHostGetDevicePointer(CUdeviceptr* out, void* pointer, unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return result(host_device_pointer(pointer, as_output(out)));
}
CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return result(host_flags(pointer, *flags));
}
CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  PointerInfo info;
  if (const int error = pointer_info(host(address), info); error != 0) return result(error);
  if (info.place == MemoryPlace::pageable) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = info.begin;
  if (size != nullptr) *size = info.bytes;
  return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  PointerInfo info;
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const int error = pointer_info(host(address), info); error != 0) return result(error);
  if (info.place == MemoryPlace::pageable) return CUDA_ERROR_INVALID_VALUE;
  const bool is_host = info.place == MemoryPlace::pinned || info.place == MemoryPlace::registered;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return cuCtxGetCurrent(static_cast<CUcontext*>(data));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = info.device_address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (info.host_pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<void**>(data) = info.host_pointer;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = info.place == MemoryPlace::managed ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = info.begin;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = info.bytes;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<char*>(data) = 1;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = info.begin;
      return CUDA_SUCCESS;
    default:
      stop_unsupported(("cuPointerGetAttribute " + std::to_string(attribute)).c_str());
  }
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t count) {
  return copy_bytes(host(to), host(from), count, CopyKind::any, nullptr, true);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t count, CUstream stream) {
  return copy_bytes(host(to), host(from), count, CopyKind::any, stream, false);
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t count) {
  return copy_bytes(host(to), from, count, CopyKind::host_to_device, nullptr, true);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t count, CUstream stream) {
  return copy_bytes(host(to), from, count, CopyKind::host_to_device, stream, false);
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t count) {
  return copy_bytes(to, host(from), count, CopyKind::device_to_host, nullptr, true);
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t count, CUstream stream) {
  return copy_bytes(to, host(from), count, CopyKind::device_to_host, stream, false);
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t count) {
  return copy_bytes(host(to), host(from), count, CopyKind::device_to_device, nullptr, true);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t count, CUstream stream) {
  return copy_bytes(host(to), host(from), count, CopyKind::device_to_device, stream, false);
}
CUresult cuMemcpy2D(const CUDA_MEMCPY2D* what) { return copy_2d(what, nullptr, true); }
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* what) { return copy_2d(what, nullptr, true); }
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* what, CUstream stream) { return copy_2d(what, stream, false); }

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  return fill_values(to, 0, value, 1, count, 1, nullptr, true);
}
CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  return fill_values(to, 0, value, 2, count, 1, nullptr, true);
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  return fill_values(to, 0, value, 4, count, 1, nullptr, true);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill_values(to, 0, value, 1, count, 1, stream, false);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill_values(to, 0, value, 2, count, 1, stream, false);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill_values(to, 0, value, 4, count, 1, stream, false);
}
CUresult cuMemsetD2D8(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
  return fill_values(to, pitch, value, 1, width, height, nullptr, true);
}
CUresult cuMemsetD2D16(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height) {
  return fill_values(to, pitch, value, 2, width, height, nullptr, true);
}
CUresult cuMemsetD2D32(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height) {
  return fill_values(to, pitch, value, 4, width, height, nullptr, true);
}

// Tensor maps are made on the host and never touch the device.
CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill_kind) {
  static_assert(sizeof(cuuint64_t) == sizeof(uint64_t));
  const auto encoded = ptxbench::emulator::encode_tiled(
      out, static_cast<uint32_t>(type), rank, reinterpret_cast<uint64_t>(address),
      reinterpret_cast<const uint64_t*>(dims), reinterpret_cast<const uint64_t*>(strides), box, element_strides,
      static_cast<uint32_t>(interleave), static_cast<uint32_t>(swizzle), static_cast<uint32_t>(promotion),
      static_cast<uint32_t>(fill_kind));
  if (encoded) return CUDA_SUCCESS;
  // The real driver only says "invalid argument"; which one is the difference between a minute and a day.
  complain(encoded.error().message);
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  const auto replaced = ptxbench::emulator::replace_address(map, reinterpret_cast<uint64_t>(address));
  if (replaced) return CUDA_SUCCESS;
  complain(replaced.error().message);
  return CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"
