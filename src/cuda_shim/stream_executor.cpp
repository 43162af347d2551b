#include "cuda_shim/stream_executor.h"

#include <algorithm>
#include <utility>

#include "cuda_shim/protocol.h"

namespace ptxbench::cuda_shim {
namespace {

// A hostile client could queue copies until the trusted process runs out of memory; beyond these bounds submitting
// waits.
constexpr uint64_t kMaxQueuedBytes = 256ull << 20;
constexpr uint64_t kMaxQueuedOperations = 16384;
constexpr std::size_t kMaxStreams = 4096, kMaxEvents = 1u << 20;

}  // namespace

StreamExecutor::StreamExecutor() {
  streams_[kLegacyStream];
  thread_ = std::thread([this] { run(); });
}

StreamExecutor::~StreamExecutor() { close(false); }

template <class Predicate>
int StreamExecutor::wait(Lock& lock, Predicate done) {
  changed_.wait(lock, [&] { return done() || lost_ != 0 || closing_; });
  if (lost_ != 0) return lost_;
  return done() ? cuda_error::kSuccess : cuda_error::kUnknown;
}

uint64_t StreamExecutor::create_stream(bool non_blocking) {
  const Lock lock(mutex_);
  if (streams_.size() >= kMaxStreams) return 0;
  const uint64_t id = next_id_++;
  streams_[id].blocking = !non_blocking;
  return id;
}

int StreamExecutor::destroy_stream(uint64_t stream) {
  const Lock lock(mutex_);
  const auto found = streams_.find(stream);
  if (stream == kLegacyStream || found == streams_.end() || found->second.destroyed) return cuda_error::kInvalidHandle;
  found->second.destroyed = true;
  if (found->second.queue.empty()) streams_.erase(found);
  return cuda_error::kSuccess;
}

bool StreamExecutor::has_stream(uint64_t stream) const {
  const Lock lock(mutex_);
  const auto found = streams_.find(stream);
  return found != streams_.end() && !found->second.destroyed;
}

int StreamExecutor::enqueue(Lock& lock, uint64_t stream, Operation operation, uint64_t* number) {
  const auto live = [&] {
    const auto found = streams_.find(stream);
    return found != streams_.end() && !found->second.destroyed ? &found->second : nullptr;
  };
  if (live() == nullptr) return cuda_error::kInvalidHandle;
  const int waited = wait(lock, [&] {
    return queued_operations_ < kMaxQueuedOperations &&
           (queued_bytes_ == 0 || queued_bytes_ + operation.bytes <= kMaxQueuedBytes);
  });
  if (waited != 0) return waited;
  Stream* target = live();
  if (target == nullptr) return cuda_error::kInvalidHandle;
  if (closing_) return cuda_error::kUnknown;
  operation.sequence = ++sequence_;
  queued_bytes_ += operation.bytes;
  ++queued_operations_;
  target->queue.push_back(std::move(operation));
  ++target->submitted;
  if (number != nullptr) *number = target->submitted;
  changed_.notify_all();
  return cuda_error::kSuccess;
}

int StreamExecutor::submit(uint64_t stream, Work work, uint64_t bytes) {
  Lock lock(mutex_);
  Operation operation;
  operation.work = std::move(work);
  operation.bytes = bytes;
  return enqueue(lock, stream, std::move(operation));
}

int StreamExecutor::submit_and_wait(uint64_t stream, Work work) {
  // The work may refer to the caller's variables, so it must have ended, or be sure never to start, when this returns.
  auto state = std::make_shared<std::pair<bool, bool>>(false, false);  // started, ended
  Lock lock(mutex_);
  Operation operation;
  operation.work = [this, state, work = std::move(work)] {
    {
      const Lock inner(mutex_);
      if (lost_ != 0 || dropping_) return;
      if (state->second) return;
      state->first = true;
    }
    work();
    const Lock inner(mutex_);
    state->second = true;
    changed_.notify_all();
  };
  if (const int error = enqueue(lock, stream, std::move(operation)); error != 0) return error;
  changed_.wait(lock, [&] { return state->second || (!state->first && (lost_ != 0 || closing_)); });
  const bool ran = state->second;
  state->second = true;  // a piece not yet started must not start any more
  if (lost_ != 0) return lost_;
  return ran ? cuda_error::kSuccess : cuda_error::kUnknown;
}

int StreamExecutor::synchronize(uint64_t stream) {
  Lock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.destroyed) return cuda_error::kInvalidHandle;
  if (stream == kLegacyStream) {
    const uint64_t now = sequence_;
    return wait(lock, [&] {
      return std::all_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
        return !entry.second.blocking || entry.second.queue.empty() || entry.second.queue.front().sequence > now;
      });
    });
  }
  const uint64_t goal = found->second.submitted;
  return wait(lock, [&] {
    const auto again = streams_.find(stream);
    return again == streams_.end() || again->second.completed >= goal;
  });
}

int StreamExecutor::synchronize_all() {
  Lock lock(mutex_);
  const uint64_t now = sequence_;
  return wait(lock, [&] {
    return std::all_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
      return entry.second.queue.empty() || entry.second.queue.front().sequence > now;
    });
  });
}

int StreamExecutor::query(uint64_t stream) const {
  const Lock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.destroyed) return cuda_error::kInvalidHandle;
  if (lost_ != 0) return lost_;
  return found->second.queue.empty() ? cuda_error::kSuccess : cuda_error::kNotReady;
}

uint64_t StreamExecutor::create_event(bool timing) {
  const Lock lock(mutex_);
  if (events_.size() >= kMaxEvents) return 0;
  const uint64_t id = next_id_++;
  events_[id].timing = timing;
  return id;
}

int StreamExecutor::destroy_event(uint64_t event) {
  const Lock lock(mutex_);
  return events_.erase(event) == 1 ? cuda_error::kSuccess : cuda_error::kInvalidHandle;
}

int StreamExecutor::record(uint64_t event, uint64_t stream) {
  Lock lock(mutex_);
  if (!events_.contains(event)) return cuda_error::kInvalidHandle;
  auto record = std::make_shared<Record>();
  Operation operation;
  operation.work = [this, record] {
    const Lock inner(mutex_);
    record->done = true;
    record->time = std::chrono::steady_clock::now();
  };
  if (const int error = enqueue(lock, stream, std::move(operation)); error != 0) return error;
  if (const auto found = events_.find(event); found != events_.end()) found->second.record = std::move(record);
  return cuda_error::kSuccess;
}

int StreamExecutor::wait_event(uint64_t stream, uint64_t event) {
  Lock lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) return cuda_error::kInvalidHandle;
  Operation operation;
  operation.wait_for = found->second.record;
  return enqueue(lock, stream, std::move(operation));
}

int StreamExecutor::synchronize_event(uint64_t event) {
  Lock lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) return cuda_error::kInvalidHandle;
  const std::shared_ptr<Record> record = found->second.record;
  return wait(lock, [&] { return record == nullptr || record->done; });
}

int StreamExecutor::query_event(uint64_t event) const {
  const Lock lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) return cuda_error::kInvalidHandle;
  if (lost_ != 0) return lost_;
  return found->second.record == nullptr || found->second.record->done ? cuda_error::kSuccess : cuda_error::kNotReady;
}

int StreamExecutor::elapsed(uint64_t start, uint64_t end, double& milliseconds) const {
  const Lock lock(mutex_);
  const auto first = events_.find(start), second = events_.find(end);
  if (first == events_.end() || second == events_.end()) return cuda_error::kInvalidHandle;
  if (lost_ != 0) return lost_;
  for (const auto& event : {first->second, second->second}) {
    if (!event.timing || event.record == nullptr) return cuda_error::kInvalidHandle;
  }
  if (!first->second.record->done || !second->second.record->done) return cuda_error::kNotReady;
  milliseconds =
      std::chrono::duration<double, std::milli>(second->second.record->time - first->second.record->time).count();
  return cuda_error::kSuccess;
}

int StreamExecutor::host_function(uint64_t stream, uint64_t token, bool always) {
  Lock lock(mutex_);
  Operation operation;
  operation.is_host_function = true;
  operation.token = token;
  operation.always = always;
  return enqueue(lock, stream, std::move(operation));
}

bool StreamExecutor::next_host_function(HostFunction& out) {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return !host_functions_.empty() || client_gone_; });
  if (host_functions_.empty() || client_gone_) return false;
  out = host_functions_.front();
  host_functions_.pop_front();
  return true;
}

int StreamExecutor::host_function_done(uint64_t token) {
  const Lock lock(mutex_);
  for (auto& [id, stream] : streams_) {
    if (stream.queue.empty()) continue;
    Operation& front = stream.queue.front();
    if (!front.is_host_function || !front.handed_out || front.token != token || front.is_done) continue;
    front.is_done = true;
    changed_.notify_all();
    return cuda_error::kSuccess;
  }
  return cuda_error::kInvalidValue;
}

void StreamExecutor::lose(int error) {
  const Lock lock(mutex_);
  if (lost_ == 0) lost_ = error;
  changed_.notify_all();
}

int StreamExecutor::lost() const {
  const Lock lock(mutex_);
  return lost_;
}

void StreamExecutor::client_gone() {
  const Lock lock(mutex_);
  client_gone_ = true;
  changed_.notify_all();
}

void StreamExecutor::close(bool finish) {
  {
    const Lock lock(mutex_);
    closing_ = client_gone_ = true;
    if (!finish) dropping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void StreamExecutor::abandon() {
  const Lock lock(mutex_);
  client_gone_ = closing_ = dropping_ = true;
  changed_.notify_all();
}

bool StreamExecutor::abandoned() const {
  const Lock lock(mutex_);
  return dropping_;
}

bool StreamExecutor::is_ready(uint64_t id, const Stream& stream) const {
  const Operation& front = stream.queue.front();
  if (id == kLegacyStream) {
    for (const auto& [other_id, other] : streams_) {
      if (other_id != kLegacyStream && other.blocking && !other.queue.empty() &&
          other.queue.front().sequence < front.sequence) {
        return false;
      }
    }
  } else if (stream.blocking) {
    const Stream& legacy = streams_.at(kLegacyStream);
    if (!legacy.queue.empty() && legacy.queue.front().sequence < front.sequence) return false;
  }
  if (front.wait_for != nullptr && lost_ == 0) return front.wait_for->done;
  if (front.is_host_function) return !front.handed_out || front.is_done || client_gone_;
  return true;
}

StreamExecutor::Stream* StreamExecutor::pick() {
  Stream* best = nullptr;
  for (auto& [id, stream] : streams_) {
    if (stream.queue.empty() || !is_ready(id, stream)) continue;
    if (best == nullptr || stream.queue.front().sequence < best->queue.front().sequence) best = &stream;
  }
  return best;
}

void StreamExecutor::finish_front(Stream& stream) {
  queued_bytes_ -= stream.queue.front().bytes;
  --queued_operations_;
  stream.queue.pop_front();
  ++stream.completed;
  if (stream.destroyed && stream.queue.empty()) {
    std::erase_if(streams_, [&](const auto& entry) { return &entry.second == &stream; });
  }
  changed_.notify_all();
}

void StreamExecutor::run() {
  Lock lock(mutex_);
  while (true) {
    Stream* stream = dropping_ ? nullptr : pick();
    if (stream == nullptr) {
      // An event that nobody will record any more cannot hold up the end: what is left then is dropped.
      if (closing_) break;
      changed_.wait(lock);
      continue;
    }
    Operation& front = stream->queue.front();
    if (front.is_host_function && !front.is_done && !client_gone_ && (lost_ == 0 || front.always)) {
      front.handed_out = true;
      host_functions_.push_back({front.token, lost_});
      changed_.notify_all();
      continue;
    }
    if (front.work && lost_ == 0) {
      const Work work = std::move(front.work);
      lock.unlock();
      work();
      lock.lock();
    }
    // Only this thread erases streams with a queue, so the pointer is still good.
    finish_front(*stream);
  }
  for (auto& [id, stream] : streams_) {
    while (!stream.queue.empty()) {
      queued_bytes_ -= stream.queue.front().bytes;
      --queued_operations_;
      stream.queue.pop_front();
    }
  }
  changed_.notify_all();
}

}  // namespace ptxbench::cuda_shim
