#include <algorithm>
#include <cstring>

#include "cuda_shim/session.h"

namespace ptxbench::cuda_shim {
namespace {

/// Bytes from the first to behind the last byte of `height` rows; nothing on overflow or nonsense.
std::optional<uint64_t> extent(uint64_t width, uint64_t height, uint64_t pitch) {
  constexpr uint64_t kLimit = 1ull << 46;
  if (width == 0 || height == 0 || width > kLimit || height > kLimit || pitch > kLimit) return std::nullopt;
  if (height == 1) return width;
  if (pitch < width || (height - 1) > kLimit / pitch) return std::nullopt;
  return (height - 1) * pitch + width;
}

/// CUDA Runtime API, "API synchronization behavior": copies within device memory and fills of device memory are
/// asynchronous with respect to the host, also without Async in the name.
StreamExecutor::HostOrder host_order(bool device_only) {
  return device_only ? StreamExecutor::HostOrder::none : StreamExecutor::HostOrder::after;
}

constexpr uint64_t kMaxRows = 65536;

/// The rows of a copy; what they lie in when there are too many to list.
std::vector<emulator::StreamCopyEvent::Range> rows_of(uint64_t address, uint64_t width, uint64_t height,
                                                      uint64_t pitch) {
  if (height > 1 && pitch == width) return {{address, width * height}};
  if (height > kMaxRows) return {{address, (height - 1) * pitch + width}};
  std::vector<emulator::StreamCopyEvent::Range> rows;
  for (uint64_t row = 0; row < height; ++row) rows.push_back({address + row * pitch, width});
  return rows;
}

}  // namespace

void Session::observe(std::string_view what, const std::vector<emulator::StreamCopyEvent::Range>& reads,
                      const std::vector<emulator::StreamCopyEvent::Range>& writes, bool parts_only) {
  const auto order = executor_.running();
  emulator::StreamCopyEvent event;
  event.what = what;
  event.order = order.get();
  event.reads = reads;
  event.writes = writes;
  event.parts_only = parts_only;
  backend_.observe(event);
}

void Session::check(const Result<void>& result, const char* what) {
  if (result) return;
  diagnose("memory.copy", fmt::format("{}: {}", what, result.error().message),
           "keep both buffers allocated until the stream has finished");
  executor_.lose(cuda_error::kIllegalAddress);
}

/// Rows of a hostile size can be billions: whoever ends the session must not wait for all of them.
template <class Row>
void Session::for_rows(uint64_t rows, Row row) {
  for (uint64_t index = 0; index < rows; ++index) {
    if (index % 4096 == 4095 && executor_.abandoned()) return;
    if (!row(index)) return;
  }
}

bool Session::is_device_only(uint64_t address) {
  if (backend_.is_host_shared(address)) return false;
  const auto block = backend_.find(address);
  const std::lock_guard lock(mutex_);
  return block != nullptr && !shared_symbols_.contains(block->begin / kPageBytes * kPageBytes);
}

bool Session::may_write(uint64_t address, uint64_t bytes) {
  if (!options_.may_write || options_.may_write(address, bytes)) return true;
  diagnose("launch.refused-copy",
           fmt::format("writing {} bytes at {:#x} from the host is not allowed here", bytes, address),
           "compute outputs on the device");
  return false;
}

int Session::allocate(const BytesBody& body, Reply& reply) {
  executor_.after_ordered_frees();
  auto address = backend_.allocate(body.bytes, "");
  if (!address) return cuda_error::kOutOfMemory;
  const std::lock_guard lock(mutex_);
  allocations_[*address] = body.bytes;
  set_body(reply, AddressBody{*address, 0, 0});
  return 0;
}

int Session::free(const AddressBody& body) {
  {
    const std::lock_guard lock(mutex_);
    if (!allocations_.contains(body.address)) return cuda_error::kInvalidValue;
  }
  const uint64_t address = body.address;
  const auto release = [this, address] {
    {
      const std::lock_guard lock(mutex_);
      if (allocations_.erase(address) == 0) return;
    }
    check(backend_.free(address), "freeing device memory");
  };
  if (body.ordered != 0) {
    const int submitted = executor_.submit(body.stream, release);
    if (submitted == 0) executor_.note_ordered_free(body.stream);
    return submitted;
  }
  // cudaFree waits for the whole device, as work that is still queued may use the block.
  if (const int error = executor_.synchronize_all(); error != 0) return error;
  release();
  return 0;
}

uint64_t Session::reserve_shared_range(uint64_t bytes) {
  const uint64_t span = bytes + kPageBytes;  // an inaccessible page behind every block
  for (auto gap = shared_gaps_.begin(); gap != shared_gaps_.end(); ++gap) {
    if (gap->second < span) continue;
    const auto [begin, length] = *gap;
    shared_gaps_.erase(gap);
    if (length > span) shared_gaps_[begin + span] = length - span;
    return begin;
  }
  const uint64_t end = emulator::kGlobalWindow + emulator::kGlobalWindowBytes;
  if (span > end - next_shared_) return 0;
  const uint64_t begin = next_shared_;
  next_shared_ += span;
  return begin;
}

int Session::allocate_shared(const BytesBody& body, Reply& reply, int& descriptor) {
  if (body.kind > static_cast<uint64_t>(SharedKind::registered) || body.bytes == 0) return cuda_error::kInvalidValue;
  const auto kind = static_cast<SharedKind>(body.kind);
  const uint64_t mapped = round_to_pages(body.bytes);
  const std::lock_guard lock(mutex_);
  if (mapped < body.bytes || mapped > options_.max_shared_bytes - shared_bytes_) return cuda_error::kOutOfMemory;
  auto memory = SharedMemory::create(body.bytes);
  if (!memory) return cuda_error::kOutOfMemory;
  const uint64_t address = reserve_shared_range(mapped);
  if (address == 0 || !memory->map(address)) return cuda_error::kOutOfMemory;
  if (!backend_.adopt(address, body.bytes, kind == SharedKind::managed ? "managed memory" : "pinned host memory")) {
    return cuda_error::kOutOfMemory;
  }
  descriptor = memory->fd();
  shared_bytes_ += mapped;
  shared_.emplace(address, SharedBlock{std::move(*memory), body.bytes,
                                       kind == SharedKind::managed ? PointerKind::managed : PointerKind::pinned});
  set_body(reply, SharedReply{address, address, mapped});
  return 0;
}

int Session::free_shared(const AddressBody& body) {
  {
    const std::lock_guard lock(mutex_);
    if (!shared_.contains(body.address)) return cuda_error::kInvalidValue;
  }
  if (const int error = executor_.synchronize_all(); error != 0) return error;
  const std::lock_guard lock(mutex_);
  const auto found = shared_.find(body.address);
  if (found == shared_.end()) return cuda_error::kInvalidValue;
  const auto released = backend_.release(body.address);
  const uint64_t mapped = found->second.memory.bytes();
  shared_bytes_ -= mapped;
  shared_gaps_[body.address] = mapped + kPageBytes;
  shared_.erase(found);
  return released ? 0 : cuda_error::kInvalidValue;
}

int Session::reset_device() {
  if (const int error = executor_.synchronize_all(); error != 0) return error;
  const std::lock_guard lock(mutex_);
  for (const auto& [address, bytes] : allocations_) static_cast<void>(backend_.free(address));
  allocations_.clear();
  for (const auto& [address, block] : shared_) {
    static_cast<void>(backend_.release(address));
    shared_gaps_[address] = block.memory.bytes() + kPageBytes;
  }
  shared_.clear();
  shared_bytes_ = 0;
  return 0;
}

int Session::share_symbol(const ModuleBody& body, const Connection& connection, Reply& reply, int& descriptor) {
  const auto name = staged_text(connection, body.name_bytes);
  if (!name) return cuda_error::kInvalidValue;
  if (!backend_.shares_symbols()) {
    diagnose("unsupported.host-call", fmt::format("unsupported.host-call: __managed__ variable {}", *name),
             "use a __device__ variable and cudaMemcpyToSymbol, or cudaMallocManaged");
    const std::lock_guard lock(mutex_);
    if (report_.unsupported.size() < ShimReport::kMaxDiagnostics) report_.unsupported.insert("__managed__ variables");
    return cuda_error::kNotSupported;
  }
  emulator::ModuleId module = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = modules_.find(body.module);
    if (found == modules_.end()) return cuda_error::kInvalidHandle;
    module = found->second.id;
  }
  const auto symbol = backend_.find_symbol(module, *name);
  if (!symbol) return cuda_error::kNotFound;
  const auto block = backend_.find(symbol->address);
  if (!block) return cuda_error::kNotFound;
  // Whole pages of the variable's allocation become shared memory at the same address in both processes. Variables of
  // one allocation are of one module, all the client's own, so nothing of others is exposed.
  const uint64_t begin = block->begin / kPageBytes * kPageBytes;
  const uint64_t bytes = round_to_pages(block->end() - begin);
  int error = 0;
  const int submitted = executor_.submit_and_wait(kLegacyStream, [&] {
    const std::lock_guard lock(mutex_);
    auto found = shared_symbols_.find(begin);
    if (found == shared_symbols_.end()) {
      auto memory = SharedMemory::create(bytes);
      if (!memory || !memory->map()) {
        error = cuda_error::kOutOfMemory;
        return;
      }
      std::memcpy(memory->view().data(), emulator::host_pointer(begin), static_cast<std::size_t>(bytes));
      auto fixed = SharedMemory::remap(std::move(*memory), begin);
      if (!fixed) {
        error = cuda_error::kOutOfMemory;
        return;
      }
      found = shared_symbols_.emplace(begin, std::move(*fixed)).first;
    }
    descriptor = found->second.fd();
  });
  if (submitted != 0) return submitted;
  set_body(reply, SharedReply{symbol->address, begin, bytes});
  return error;
}

int Session::pointer_info(const AddressBody& body, Reply& reply) {
  PointerInfoReply info;
  if (const auto block = backend_.find(body.address)) {
    info.begin = block->begin;
    info.bytes = block->bytes;
    info.kind = PointerKind::device;
    const std::lock_guard lock(mutex_);
    if (const auto shared = shared_.find(block->begin); shared != shared_.end()) info.kind = shared->second.kind;
    if (shared_symbols_.contains(block->begin / kPageBytes * kPageBytes)) info.kind = PointerKind::managed;
  }
  set_body(reply, info);
  return 0;
}

int Session::copy_to_device(const CopyBody& body, const Connection& connection) {
  const auto span = extent(body.width, body.height, body.destination_pitch);
  if (!span || body.width > kStagingBytes / body.height || !backend_.contains(body.destination, *span)) {
    return cuda_error::kInvalidValue;
  }
  if (!may_write(body.destination, *span)) return cuda_error::kNotSupported;
  const uint64_t bytes = body.width * body.height;
  {
    const std::lock_guard lock(mutex_);
    report_.bytes_to_device += bytes;
  }
  const auto write_rows = [this, body](const std::byte* data) {
    observe("a copy to the device", {}, rows_of(body.destination, body.width, body.height, body.destination_pitch),
            body.height > kMaxRows);
    for (uint64_t row = 0; row < body.height; ++row) {
      const Result<void> result = backend_.write(body.destination + row * body.destination_pitch,
                                                 {data + row * body.width, static_cast<std::size_t>(body.width)});
      if (!result) return check(result, "copy to the device");
    }
  };
  const std::byte* staging = connection.staging.view().data();
  if (body.wait != 0) return executor_.submit_and_wait(body.stream, [&] { write_rows(staging); });
  // The snapshot of the call: the client may reuse its buffer at once.
  auto copy = std::make_shared<std::vector<std::byte>>(staging, staging + bytes);
  return executor_.submit(
      body.stream, [write_rows, copy] { write_rows(copy->data()); }, bytes);
}

int Session::copy_from_device(const CopyBody& body, const Connection& connection) {
  const auto span = extent(body.width, body.height, body.source_pitch);
  if (!span || body.width > kStagingBytes / body.height || !backend_.contains(body.source, *span)) {
    return cuda_error::kInvalidValue;
  }
  {
    const std::lock_guard lock(mutex_);
    report_.bytes_from_device += body.width * body.height;
  }
  std::byte* staging = connection.staging.view().data();
  return executor_.submit_and_wait(body.stream, [&] {
    observe("a copy from the device", rows_of(body.source, body.width, body.height, body.source_pitch), {},
            body.height > kMaxRows);
    for (uint64_t row = 0; row < body.height; ++row) {
      const Result<void> result = backend_.read(body.source + row * body.source_pitch,
                                                {staging + row * body.width, static_cast<std::size_t>(body.width)});
      if (!result) return check(result, "copy from the device");
    }
  });
}

int Session::copy_on_device(const CopyBody& body) {
  const auto from = extent(body.width, body.height, body.source_pitch);
  const auto to = extent(body.width, body.height, body.destination_pitch);
  if (!from || !to || !backend_.contains(body.source, *from) || !backend_.contains(body.destination, *to)) {
    return cuda_error::kInvalidValue;
  }
  const auto is_host = [this](uint64_t address) { return backend_.is_host_shared(address); };
  if (is_host(body.source) && !is_host(body.destination)) {
    if (!may_write(body.destination, *to)) return cuda_error::kNotSupported;
    const std::lock_guard lock(mutex_);
    report_.bytes_to_device += body.width * body.height;
  } else if (!is_host(body.source) && is_host(body.destination)) {
    const std::lock_guard lock(mutex_);
    report_.bytes_from_device += body.width * body.height;
  }
  const auto work = [this, body] {
    observe("a copy on the device", rows_of(body.source, body.width, body.height, body.source_pitch),
            rows_of(body.destination, body.width, body.height, body.destination_pitch), body.height > kMaxRows);
    for_rows(body.height, [&](uint64_t row) {
      const Result<void> result = backend_.copy(body.destination + row * body.destination_pitch,
                                                body.source + row * body.source_pitch, body.width);
      check(result, "copy on the device");
      return result.has_value();
    });
  };
  if (body.wait == 0) return executor_.submit(body.stream, work);
  const bool on_device = is_device_only(body.source) && is_device_only(body.destination);
  return executor_.submit_and_wait(body.stream, work, host_order(on_device));
}

int Session::fill(const FillBody& body) {
  const uint32_t size = body.value_bytes;
  if ((size != 1 && size != 2 && size != 4) || body.width > (1ull << 46) || body.destination % size != 0) {
    return cuda_error::kInvalidValue;
  }
  const auto span = extent(body.width * size, body.height, body.pitch);
  if (!span || !backend_.contains(body.destination, *span)) return cuda_error::kInvalidValue;
  if (!may_write(body.destination, *span)) return cuda_error::kNotSupported;
  const auto work = [this, body] {
    observe("a fill", {}, rows_of(body.destination, body.width * body.value_bytes, body.height, body.pitch),
            body.height > kMaxRows);
    for_rows(body.height, [&](uint64_t row) {
      const Result<void> result =
          backend_.fill(body.destination + row * body.pitch, body.value, body.value_bytes, body.width);
      check(result, "fill");
      return result.has_value();
    });
  };
  if (body.wait == 0) return executor_.submit(body.stream, work);
  return executor_.submit_and_wait(body.stream, work, host_order(is_device_only(body.destination)));
}

}  // namespace ptxbench::cuda_shim
