#include "cuda_shim/stream_executor.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/cpu_meter.h"
#include "cuda_shim/protocol.h"

namespace ptxbench::cuda_shim {
namespace {

// A hostile client could queue copies until the trusted process runs out of memory; beyond these bounds submitting
// waits.
constexpr uint64_t kMaxQueuedBytes = 256ull << 20;
constexpr uint64_t kMaxQueuedOperations = 16384;
constexpr std::size_t kMaxStreams = 4096, kMaxEvents = 1u << 20;
// Clocks have an entry for each stream that was ever used; of more the order is not kept.
constexpr std::size_t kMaxOrderedStreams = 128;

std::atomic<uint64_t> processes{0};

}  // namespace

StreamExecutor::StreamExecutor() : process_(++processes) {
  streams_[kLegacyStream];
  thread_ = std::thread([this, meter = base::CpuMeter::current()] {
    const base::CpuScope scope(meter);
    run();
  });
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
  streams_[id].id = id;
  streams_[id].blocking = !non_blocking;
  return id;
}

int StreamExecutor::destroy_stream(uint64_t stream) {
  const Lock lock(mutex_);
  const auto found = streams_.find(stream);
  if (stream == kLegacyStream || found == streams_.end() || found->second.destroyed) return cuda_error::kInvalidHandle;
  found->second.destroyed = true;
  if (found->second.queue.empty()) {
    remember_gone(found->second);
    streams_.erase(found);
  }
  return cuda_error::kSuccess;
}

void StreamExecutor::remember_gone(const Stream& stream) {
  gone_ = join(gone_, clock_of(stream));
  if (stream.blocking) gone_blocking_ = join(gone_blocking_, clock_of(stream));
}

bool StreamExecutor::has_stream(uint64_t stream) const {
  const Lock lock(mutex_);
  const auto found = streams_.find(stream);
  return found != streams_.end() && !found->second.destroyed;
}

StreamExecutor::Clock StreamExecutor::join(const Clock& a, const Clock& b) {
  if (b == nullptr || a == b) return a;
  if (a == nullptr) return b;
  emulator::StreamPositions joined;
  bool news = false;
  auto mine = a->begin();
  for (const emulator::StreamPosition& other : *b) {
    while (mine != a->end() && mine->stream < other.stream) joined.push_back(*mine++);
    if (mine != a->end() && mine->stream == other.stream) {
      news = news || other.count > mine->count;
      joined.push_back({other.stream, std::max(other.count, mine->count)});
      ++mine;
    } else {
      news = true;
      joined.push_back(other);
    }
  }
  if (!news) return a;
  joined.insert(joined.end(), mine, a->end());
  return std::make_shared<const emulator::StreamPositions>(std::move(joined));
}

StreamExecutor::Clock StreamExecutor::first_of(const Stream& stream, uint64_t count) {
  return std::make_shared<const emulator::StreamPositions>(1, emulator::StreamPosition{stream.id, count});
}

StreamExecutor::Clock StreamExecutor::clock_of(const Stream& stream) const {
  if (stream.submitted == 0 || used_streams_.size() > kMaxOrderedStreams) return stream.known;
  return join(stream.known, first_of(stream, stream.submitted));
}

std::shared_ptr<const emulator::StreamOrder> StreamExecutor::order_of(const Stream& stream,
                                                                      const Operation& operation) const {
  auto order = std::make_shared<emulator::StreamOrder>();
  order->process = process_;
  order->stream = stream.id;
  order->position = operation.position;
  order->own_before = operation.own_before;
  if (operation.before != nullptr) order->before = *operation.before;
  order->programmatic = operation.programmatic;
  order->single_stream = operation.single_stream;
  order->known = used_streams_.size() <= kMaxOrderedStreams;
  return order;
}

void StreamExecutor::place(Stream& stream, Operation& operation) {
  const uint64_t id = stream.id;
  used_streams_.insert(id);
  operation.single_stream = used_streams_.size() == 1;
  operation.position = stream.submitted + 1;
  operation.own_before = stream.submitted;
  if (used_streams_.size() > kMaxOrderedStreams) return;
  Clock elsewhere = host_;
  if (id == kLegacyStream) {
    elsewhere = join(elsewhere, gone_blocking_);
    for (const auto& [other_id, other] : streams_) {
      if (other_id != kLegacyStream && other.blocking) elsewhere = join(elsewhere, clock_of(other));
    }
  } else if (stream.blocking) {
    elsewhere = join(elsewhere, clock_of(streams_.at(kLegacyStream)));
  }
  stream.known = join(stream.known, elsewhere);
  operation.before = stream.known;
  // Only the kernel right before it is what a programmatic launch may overlap.
  if (operation.programmatic && stream.last_is_kernel) {
    operation.before = join(stream.last_before, elsewhere);
    operation.own_before = stream.last_own_before;
  } else {
    operation.programmatic = false;
  }
  stream.last_is_kernel = operation.is_kernel;
  stream.last_before = operation.before;
  stream.last_own_before = operation.own_before;
}

std::shared_ptr<const emulator::StreamOrder> StreamExecutor::running() const {
  const Lock lock(mutex_);
  return running_;
}

void StreamExecutor::note_ordered_free(uint64_t stream) {
  const Lock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found != streams_.end()) ordered_frees_ = join(ordered_frees_, clock_of(found->second));
}

void StreamExecutor::after_ordered_frees() {
  const Lock lock(mutex_);
  host_ = join(host_, ordered_frees_);
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
  place(*target, operation);
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

int StreamExecutor::submit_kernel(uint64_t stream, Work work, uint64_t bytes, bool programmatic) {
  Lock lock(mutex_);
  Operation operation;
  operation.work = std::move(work);
  operation.bytes = bytes;
  operation.is_kernel = true;
  operation.programmatic = programmatic;
  return enqueue(lock, stream, std::move(operation));
}

int StreamExecutor::submit_and_wait(uint64_t stream, Work work, HostOrder host_order) {
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
  const Clock clock = clock_of(streams_.at(stream));
  changed_.wait(lock, [&] { return state->second || (!state->first && (lost_ != 0 || closing_)); });
  const bool ran = state->second;
  if (host_order == HostOrder::after) host_ = join(host_, clock);
  state->second = true;  // a piece not yet started must not start any more
  if (lost_ != 0) return lost_;
  return ran ? cuda_error::kSuccess : cuda_error::kUnknown;
}

int StreamExecutor::synchronize(uint64_t stream) {
  Lock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.destroyed) return cuda_error::kInvalidHandle;
  Clock clock = clock_of(found->second);
  if (stream == kLegacyStream) {
    const uint64_t now = sequence_;
    clock = join(clock, gone_blocking_);
    for (const auto& [id, other] : streams_) {
      if (other.blocking) clock = join(clock, clock_of(other));
    }
    const int waited = wait(lock, [&] {
      return std::all_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
        return !entry.second.blocking || entry.second.queue.empty() || entry.second.queue.front().sequence > now;
      });
    });
    host_ = join(host_, clock);
    return waited;
  }
  const uint64_t goal = found->second.submitted;
  const int waited = wait(lock, [&] {
    const auto again = streams_.find(stream);
    return again == streams_.end() || again->second.completed >= goal;
  });
  host_ = join(host_, clock);
  return waited;
}

int StreamExecutor::synchronize_all() {
  Lock lock(mutex_);
  const uint64_t now = sequence_;
  Clock clock = gone_;
  for (const auto& [id, stream] : streams_) clock = join(clock, clock_of(stream));
  const int waited = wait(lock, [&] {
    return std::all_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
      return entry.second.queue.empty() || entry.second.queue.front().sequence > now;
    });
  });
  host_ = join(host_, clock);
  return waited;
}

int StreamExecutor::query(uint64_t stream) {
  const Lock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.destroyed) return cuda_error::kInvalidHandle;
  if (lost_ != 0) return lost_;
  if (!found->second.queue.empty()) return cuda_error::kNotReady;
  host_ = join(host_, clock_of(found->second));
  return cuda_error::kSuccess;
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
  record->clock = clock_of(streams_.at(stream));
  if (const auto found = events_.find(event); found != events_.end()) found->second.record = std::move(record);
  return cuda_error::kSuccess;
}

int StreamExecutor::wait_event(uint64_t stream, uint64_t event) {
  Lock lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) return cuda_error::kInvalidHandle;
  Operation operation;
  const std::shared_ptr<Record> record = found->second.record;
  operation.wait_for = record;
  if (const int error = enqueue(lock, stream, std::move(operation)); error != 0) return error;
  if (record != nullptr) {
    Stream& waiting = streams_.at(stream);
    waiting.known = join(waiting.known, record->clock);
  }
  return cuda_error::kSuccess;
}

int StreamExecutor::synchronize_event(uint64_t event) {
  Lock lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) return cuda_error::kInvalidHandle;
  const std::shared_ptr<Record> record = found->second.record;
  const int waited = wait(lock, [&] { return record == nullptr || record->done; });
  if (record != nullptr) host_ = join(host_, record->clock);
  return waited;
}

int StreamExecutor::query_event(uint64_t event) {
  const Lock lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) return cuda_error::kInvalidHandle;
  if (lost_ != 0) return lost_;
  const std::shared_ptr<Record>& record = found->second.record;
  if (record == nullptr) return cuda_error::kSuccess;
  if (!record->done) return cuda_error::kNotReady;
  host_ = join(host_, record->clock);
  return cuda_error::kSuccess;
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
    remember_gone(stream);
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
      // What the function does on the host comes after the work before it.
      host_ = join(host_, front.before);
      if (front.own_before != 0) host_ = join(host_, first_of(*stream, front.own_before));
      host_functions_.push_back({front.token, lost_});
      changed_.notify_all();
      continue;
    }
    if (front.work && lost_ == 0) {
      const Work work = std::move(front.work);
      running_ = order_of(*stream, front);
      lock.unlock();
      work();
      lock.lock();
      running_ = nullptr;
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
