#include "cuda_shim/session.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ptxbench::cuda_shim {

void DeviceOutput::append(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (overflowed_) return;
  if (text_.size() + text.size() > kMaxBytes) {
    overflowed_ = true;
    text_ += "\nptxbench: device output beyond 64 MiB was dropped\n";
    return;
  }
  text_ += text;
}

bool DeviceOutput::waits() const {
  const std::lock_guard lock(mutex_);
  return !text_.empty();
}

std::string DeviceOutput::take(std::size_t limit) {
  const std::lock_guard lock(mutex_);
  if (text_.size() <= limit) {
    overflowed_ = false;
    return std::exchange(text_, {});
  }
  std::string piece = text_.substr(0, limit);
  text_.erase(0, limit);
  return piece;
}

int fault_error(std::string_view rule) {
  struct Entry {
    std::string_view prefix;
    int error;
  };
  // First match wins: precise rules before families.
  static constexpr std::array kTable = {
      Entry{"memory.misaligned", cuda_error::kMisalignedAddress},
      Entry{"memory.alignment", cuda_error::kMisalignedAddress},
      Entry{"memory.address-space", cuda_error::kInvalidAddressSpace},
      Entry{"memory.", cuda_error::kIllegalAddress},
      Entry{"launch.assert", cuda_error::kAssert},
      Entry{"sync.assert", cuda_error::kAssert},
      Entry{"sync.deadlock", cuda_error::kLaunchTimeout},
      Entry{"sync.budget", cuda_error::kLaunchTimeout},
      Entry{"mbarrier.deadlock", cuda_error::kLaunchTimeout},
      Entry{"unsupported.", cuda_error::kNotSupported},
      Entry{"tma.", cuda_error::kIllegalInstruction},
      Entry{"mbarrier.", cuda_error::kIllegalInstruction},
      Entry{"wgmma.", cuda_error::kIllegalInstruction},
  };
  for (const Entry& entry : kTable) {
    if (rule.starts_with(entry.prefix)) return entry.error;
  }
  if (rule.find("assert") != std::string_view::npos) return cuda_error::kAssert;
  return cuda_error::kLaunchFailure;
}

Session::Session(DeviceBackend& backend, std::shared_ptr<DeviceOutput> output, const ShimOptions& options,
                 int lost_error)
    : backend_(backend), output_(std::move(output)), options_(options) {
  report_.clients = 1;
  if (lost_error != 0) executor_.lose(lost_error);
}

Session::~Session() { close(false); }

void Session::diagnose(std::string rule, std::string message, std::string remedy) {
  diagnose({std::move(rule), std::move(message), std::move(remedy), {}, {}, false});
}

void Session::diagnose(HostDiagnostic diagnostic) {
  const std::lock_guard lock(mutex_);
  if (report_.diagnostics.size() >= ShimReport::kMaxDiagnostics) {
    ++report_.diagnostics_dropped;
    return;
  }
  report_.diagnostics.push_back(std::move(diagnostic));
}

ShimReport Session::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

std::optional<std::string> Session::staged_text(const Connection& connection, uint64_t bytes) const {
  if (bytes == 0 || bytes > kMaxNameBytes) return std::nullopt;
  std::string text(reinterpret_cast<const char*>(connection.staging.view().data()), static_cast<std::size_t>(bytes));
  if (text.find('\0') != std::string::npos) return std::nullopt;
  return text;
}

void Session::release(Connection& connection) {
  const std::lock_guard lock(mutex_);
  image_bytes_ -= std::exchange(connection.image, {}).size();
}

Reply Session::handle(const Request& request, Connection& connection, int& descriptor) {
  Reply reply;
  reply.serial = request.serial;
  reply.error = request.op >= 1 && request.op <= static_cast<uint16_t>(Op::last_op)
                    ? dispatch(static_cast<Op>(request.op), request, connection, reply, descriptor)
                    : cuda_error::kInvalidValue;
  if (descriptor >= 0) reply.flags |= kReplyHasDescriptor;
  if (output_->waits()) reply.flags |= kReplyOutputWaits;
  reply.sticky = executor_.lost();
  return reply;
}

int Session::dispatch(Op op, const Request& request, Connection& connection, Reply& reply, int& descriptor) {
  // A lost context answers everything with its error, except what only tidies up or tells.
  switch (op) {
    case Op::fetch_output:
    case Op::report_unsupported:
    case Op::report_host_access:
    case Op::device_status:
    case Op::next_host_function:
    case Op::host_function_done:
    case Op::pointer_info:
    case Op::hello:
    case Op::launch_checked:
      break;
    default:
      if (const int lost = executor_.lost(); lost != 0) return lost;
  }
  switch (op) {
    case Op::hello:
      return cuda_error::kInvalidValue;  // answered by the server, once per connection
    case Op::fetch_output: {
      const std::string text = output_->take(static_cast<std::size_t>(kStagingBytes));
      std::memcpy(connection.staging.view().data(), text.data(), text.size());
      set_body(reply, BytesBody{text.size(), 0});
      return 0;
    }
    case Op::report_unsupported: {
      const auto name = staged_text(connection, get_body<BytesBody>(request).bytes);
      if (!name) return cuda_error::kInvalidValue;
      diagnose("unsupported.host-call", fmt::format("unsupported.host-call: {}", *name),
               "this call is not modelled; remove it or guard it for the emulated device");
      const std::lock_guard lock(mutex_);
      if (report_.unsupported.size() < ShimReport::kMaxDiagnostics) report_.unsupported.insert(*name);
      return 0;
    }
    case Op::report_host_access: {
      const auto body = get_body<AddressBody>(request);
      const auto block = backend_.find(body.address);
      diagnose("memory.host-access",
               fmt::format("host code touched {:#x}, which is {}", body.address,
                           block ? fmt::format("device memory: byte {} of an allocation of {} bytes",
                                               body.address - block->begin, block->bytes)
                                 : std::string("in the device's address range, outside any allocation")),
               "copy with cudaMemcpy, or use cudaMallocManaged or cudaMallocHost memory");
      return 0;
    }
    case Op::device_synchronize:
      return synchronized(executor_.synchronize_all());
    case Op::device_status:
      return executor_.lost();
    case Op::reset_device:
      return reset_device();
    case Op::allocate:
      return allocate(get_body<BytesBody>(request), reply);
    case Op::free:
      return free(get_body<AddressBody>(request));
    case Op::allocate_shared:
      return allocate_shared(get_body<BytesBody>(request), reply, descriptor);
    case Op::share_symbol:
      return share_symbol(get_body<ModuleBody>(request), connection, reply, descriptor);
    case Op::free_shared:
      return free_shared(get_body<AddressBody>(request));
    case Op::memory_info: {
      const uint64_t total = backend_.total_bytes(), used = std::min(total, backend_.used_bytes());
      set_body(reply, MemoryInfoReply{total - used, total});
      return 0;
    }
    case Op::pointer_info:
      return pointer_info(get_body<AddressBody>(request), reply);
    case Op::copy_to_device:
      return copy_to_device(get_body<CopyBody>(request), connection);
    case Op::copy_from_device:
      return copy_from_device(get_body<CopyBody>(request), connection);
    case Op::copy_on_device:
      return copy_on_device(get_body<CopyBody>(request));
    case Op::fill:
      return fill(get_body<FillBody>(request));
    case Op::append_image:
      return append_image(get_body<BytesBody>(request), connection);
    case Op::load_image:
      return load_image(get_body<BytesBody>(request), connection, reply);
    case Op::unload_module:
      return unload_module(get_body<ModuleBody>(request));
    case Op::find_function:
      return find_function(get_body<ModuleBody>(request), connection, reply);
    case Op::find_symbol:
      return find_symbol(get_body<ModuleBody>(request), connection, reply);
    case Op::set_function_limits:
      return set_function_limits(get_body<FunctionLimitsBody>(request));
    case Op::occupancy:
      return occupancy(get_body<OccupancyBody>(request), reply);
    case Op::launch:
      return launch(get_body<LaunchBody>(request), connection);
    case Op::create_stream: {
      const uint64_t id = executor_.create_stream((get_body<StreamBody>(request).flags & 1) != 0);
      if (id == 0) return cuda_error::kOutOfMemory;
      set_body(reply, StreamBody{id, 0, 0, 0});
      return 0;
    }
    case Op::destroy_stream:
      return executor_.destroy_stream(get_body<StreamBody>(request).stream);
    case Op::synchronize_stream:
      return synchronized(executor_.synchronize(get_body<StreamBody>(request).stream));
    case Op::query_stream:
      return synchronized(executor_.query(get_body<StreamBody>(request).stream));
    case Op::create_event: {
      const uint64_t id = executor_.create_event((get_body<StreamBody>(request).flags & 1) == 0);
      if (id == 0) return cuda_error::kOutOfMemory;
      set_body(reply, StreamBody{0, id, 0, 0});
      return 0;
    }
    case Op::destroy_event:
      return executor_.destroy_event(get_body<StreamBody>(request).event);
    case Op::record_event: {
      const auto body = get_body<StreamBody>(request);
      return executor_.record(body.event, body.stream);
    }
    case Op::stream_wait_event: {
      const auto body = get_body<StreamBody>(request);
      return executor_.wait_event(body.stream, body.event);
    }
    case Op::synchronize_event:
      return synchronized(executor_.synchronize_event(get_body<StreamBody>(request).event));
    case Op::query_event:
      return synchronized(executor_.query_event(get_body<StreamBody>(request).event));
    case Op::elapsed_time: {
      const auto body = get_body<ElapsedBody>(request);
      ElapsedReply answer;
      const int error = executor_.elapsed(body.start, body.end, answer.milliseconds);
      set_body(reply, answer);
      return error;
    }
    case Op::host_function: {
      const auto body = get_body<HostFunctionBody>(request);
      return executor_.host_function(body.stream, body.token, body.always != 0);
    }
    case Op::next_host_function: {
      StreamExecutor::HostFunction next;
      if (!executor_.next_host_function(next)) return cuda_error::kNotFound;
      HostFunctionBody body;
      body.token = next.token;
      body.status = next.status;
      set_body(reply, body);
      return 0;
    }
    case Op::host_function_done:
      return executor_.host_function_done(get_body<HostFunctionBody>(request).token);
    case Op::launch_checked: {
      const std::lock_guard lock(mutex_);
      unchecked_.checked = true;
      unchecked_.failed.clear();
      return 0;
    }
  }
  return cuda_error::kInvalidValue;
}

int Session::synchronized(int error) {
  if (error != 0) return error;
  backend_.synchronize();
  return executor_.lost();
}

void Session::close(bool finish) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
  }
  if (!finish) abandon();
  executor_.close(finish);
  tell_unchecked_launches();
  // The executing thread has ended and the server no longer hands us requests: nobody else uses what is freed now.
  for (const auto& [id, module] : modules_) static_cast<void>(backend_.unload(module.id));
  shared_symbols_.clear();
  for (const auto& [address, bytes] : allocations_) static_cast<void>(backend_.free(address));
  for (const auto& [address, block] : shared_) static_cast<void>(backend_.release(address));
  shared_.clear();
  allocations_.clear();
  modules_.clear();
  functions_.clear();
}

}  // namespace ptxbench::cuda_shim
