#include <algorithm>
#include <map>
#include <thread>

#include "cuda_shim/client/core.h"

namespace ptxbench::cuda_shim::client {
namespace {

// Handles are numbers in disguise, with addresses no memory has: using one as a pointer fails at once.
constexpr uint64_t kStreamTag = 0x5354'0000'0000'0000, kEventTag = 0x4556'0000'0000'0000,
                   kTagMask = 0xffff'0000'0000'0000;
constexpr int kHighestPriority = -5;
constexpr unsigned kNonBlocking = 1, kBlockingSync = 1, kDisableTiming = 2, kInterprocess = 4;

struct Properties {
  unsigned flags = 0;
  int priority = 0;
};
std::mutex g_mutex;
auto& g_streams = *new std::map<uint64_t, Properties>;  // never destroyed, like the callbacks

thread_local int t_per_thread_default = 0;
thread_local uint64_t t_own_stream = 0;

std::mutex g_callback_mutex;
auto& g_callbacks = *new std::map<uint64_t, HostCallback>;
uint64_t g_next_token = 1;
bool g_callback_thread = false;

void run_callbacks() {
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return;
  while (true) {
    const Reply reply = channel->call(Op::next_host_function, HostFunctionBody{});
    if (reply.error != 0) return;
    const auto next = get_body<HostFunctionBody>(reply);
    HostCallback callback;
    {
      const std::lock_guard lock(g_callback_mutex);
      const auto found = g_callbacks.find(next.token);
      if (found == g_callbacks.end()) continue;
      callback = found->second;
      g_callbacks.erase(found);
    }
    if (callback.function != nullptr) callback.function(callback.data);
    if (callback.stream_callback != nullptr) callback.stream_callback(callback.stream, next.status, callback.data);
    channel->call(Op::host_function_done, HostFunctionBody{0, next.token, 0, 0});
  }
}

int decode_event(const void* handle, uint64_t& id) {
  const auto value = reinterpret_cast<uint64_t>(handle);
  if ((value & kTagMask) != kEventTag) return cuda_error::kInvalidHandle;
  id = value & ~kTagMask;
  return 0;
}

int create(Op op, unsigned flags, uint64_t StreamBody::*field, uint64_t& id) {
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return error;
  const Reply reply = channel->call(op, StreamBody{0, 0, flags, 0});
  if (reply.error == 0) id = get_body<StreamBody>(reply).*field;
  return reply.error;
}

}  // namespace

PerThreadDefault::PerThreadDefault() { ++t_per_thread_default; }
PerThreadDefault::~PerThreadDefault() { --t_per_thread_default; }

int decode_stream(const void* handle, uint64_t& id) {
  const auto value = reinterpret_cast<uint64_t>(handle);
  if (value == 2 || (value == 0 && t_per_thread_default > 0)) {
    if (t_own_stream == 0) {
      if (const int error = create(Op::create_stream, 0, &StreamBody::stream, t_own_stream); error != 0) return error;
    }
    id = t_own_stream;
    return 0;
  }
  if (value <= 1) {
    id = kLegacyStream;
    return 0;
  }
  if ((value & kTagMask) != kStreamTag) return cuda_error::kInvalidHandle;
  id = value & ~kTagMask;
  return 0;
}

int create_stream(unsigned flags, int priority, void** out) {
  if (out == nullptr || (flags & ~kNonBlocking) != 0) return cuda_error::kInvalidValue;
  uint64_t id = 0;
  if (const int error = create(Op::create_stream, flags, &StreamBody::stream, id); error != 0) return error;
  const std::lock_guard lock(g_mutex);
  g_streams[id] = {flags, std::clamp(priority, kHighestPriority, 0)};
  *out = reinterpret_cast<void*>(kStreamTag | id);
  return 0;
}

int destroy_stream(void* handle) {
  const auto value = reinterpret_cast<uint64_t>(handle);
  if ((value & kTagMask) != kStreamTag) return cuda_error::kInvalidHandle;
  const uint64_t id = value & ~kTagMask;
  const int error = simple_call(Op::destroy_stream, StreamBody{id, 0, 0, 0});
  const std::lock_guard lock(g_mutex);
  g_streams.erase(id);
  return error;
}

int stream_properties(const void* handle, unsigned& flags, int& priority, uint64_t& id) {
  if (const int error = decode_stream(handle, id); error != 0) return error;
  flags = 0;
  priority = 0;
  if ((reinterpret_cast<uint64_t>(handle) & kTagMask) != kStreamTag) return 0;
  const std::lock_guard lock(g_mutex);
  const auto found = g_streams.find(id);
  if (found == g_streams.end()) return cuda_error::kInvalidHandle;
  flags = found->second.flags;
  priority = found->second.priority;
  return 0;
}

int synchronize_stream(const void* handle) {
  uint64_t id = 0;
  if (const int error = decode_stream(handle, id); error != 0) return error;
  return simple_call(Op::synchronize_stream, StreamBody{id, 0, 0, 0}, true);
}

int query_stream(const void* handle) {
  uint64_t id = 0;
  if (const int error = decode_stream(handle, id); error != 0) return error;
  return simple_call(Op::query_stream, StreamBody{id, 0, 0, 0});
}

int create_event(unsigned flags, void** out) {
  if (out == nullptr || (flags & ~(kBlockingSync | kDisableTiming | kInterprocess)) != 0)
    return cuda_error::kInvalidValue;
  if ((flags & kInterprocess) != 0) stop_unsupported("cudaEventInterprocess");
  uint64_t id = 0;
  const int error = create(Op::create_event, (flags & kDisableTiming) != 0 ? 1 : 0, &StreamBody::event, id);
  if (error == 0) *out = reinterpret_cast<void*>(kEventTag | id);
  return error;
}

int destroy_event(void* handle) {
  uint64_t id = 0;
  if (const int error = decode_event(handle, id); error != 0) return error;
  return simple_call(Op::destroy_event, StreamBody{0, id, 0, 0});
}

int record_event(void* event, const void* stream) {
  uint64_t event_id = 0, stream_id = 0;
  if (const int error = decode_event(event, event_id); error != 0) return error;
  if (const int error = decode_stream(stream, stream_id); error != 0) return error;
  return simple_call(Op::record_event, StreamBody{stream_id, event_id, 0, 0});
}

int wait_event(const void* stream, void* event) {
  uint64_t event_id = 0, stream_id = 0;
  if (const int error = decode_event(event, event_id); error != 0) return error;
  if (const int error = decode_stream(stream, stream_id); error != 0) return error;
  return simple_call(Op::stream_wait_event, StreamBody{stream_id, event_id, 0, 0});
}

int synchronize_event(void* event) {
  uint64_t id = 0;
  if (const int error = decode_event(event, id); error != 0) return error;
  return simple_call(Op::synchronize_event, StreamBody{0, id, 0, 0}, true);
}

int query_event(void* event) {
  uint64_t id = 0;
  if (const int error = decode_event(event, id); error != 0) return error;
  return simple_call(Op::query_event, StreamBody{0, id, 0, 0});
}

int elapsed(void* start, void* end, float& milliseconds) {
  uint64_t start_id = 0, end_id = 0;
  if (const int error = decode_event(start, start_id); error != 0) return error;
  if (const int error = decode_event(end, end_id); error != 0) return error;
  int error = 0;
  Channel* channel = Channel::get(error);
  if (channel == nullptr) return error;
  const Reply reply = channel->call(Op::elapsed_time, ElapsedBody{start_id, end_id});
  if (reply.error == 0) milliseconds = static_cast<float>(get_body<ElapsedReply>(reply).milliseconds);
  return reply.error;
}

int synchronize_device() { return simple_call(Op::device_synchronize, BytesBody{}, true); }

int add_host_callback(const void* stream, const HostCallback& callback) {
  uint64_t id = 0;
  if (const int error = decode_stream(stream, id); error != 0) return error;
  if (callback.function == nullptr && callback.stream_callback == nullptr) return cuda_error::kInvalidValue;
  uint64_t token = 0;
  {
    const std::lock_guard lock(g_callback_mutex);
    if (!g_callback_thread) {
      g_callback_thread = true;
      std::thread(run_callbacks).detach();
    }
    token = g_next_token++;
    g_callbacks[token] = callback;
  }
  const int error =
      simple_call(Op::host_function, HostFunctionBody{id, token, 0, callback.stream_callback != nullptr ? 1u : 0u});
  if (error != 0) {
    const std::lock_guard lock(g_callback_mutex);
    g_callbacks.erase(token);
  }
  return error;
}

}  // namespace ptxbench::cuda_shim::client
