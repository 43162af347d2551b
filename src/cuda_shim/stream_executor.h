#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "emulator/observer.h"

namespace ptxbench::cuda_shim {

/// Streams and events of one client. One thread executes all work, one piece at a time: of the streams whose oldest
/// piece may run it takes the piece submitted first. Rules of CUDA's streams: work of one stream runs in order; the
/// legacy default stream (0) waits for all earlier work of blocking streams and holds up their later work; non-blocking
/// streams are free of it.
///
/// Methods return CUDA error numbers (protocol.h). Thread safe.
class StreamExecutor {
 public:
  using Work = std::function<void()>;

  StreamExecutor();
  ~StreamExecutor();
  StreamExecutor(const StreamExecutor&) = delete;
  StreamExecutor& operator=(const StreamExecutor&) = delete;

  /// 0 when there are too many.
  uint64_t create_stream(bool non_blocking);
  /// Work already submitted still runs.
  int destroy_stream(uint64_t stream);
  bool has_stream(uint64_t stream) const;

  /// `bytes` is what the work holds on to; submitting waits while the queues hold too much.
  int submit(uint64_t stream, Work work, uint64_t bytes = 0);
  /// The same for a kernel. A `programmatic` one may begin when a kernel right before it in the stream has begun.
  int submit_kernel(uint64_t stream, Work work, uint64_t bytes, bool programmatic);
  /// Returns after this piece of work, and so after all that precedes it in the stream. Work is skipped when the
  /// context is lost. HostOrder::none: a GPU would not make the host wait, so that nothing the host does later counts
  /// as coming after it.
  enum class HostOrder : uint8_t { after, none };
  int submit_and_wait(uint64_t stream, Work work, HostOrder host_order = HostOrder::after);
  int synchronize(uint64_t stream);
  int synchronize_all();
  /// Inside a piece of work: its place among the streams. The host counts as one thread: what one of its calls waited
  /// for is complete for all later ones.
  std::shared_ptr<const emulator::StreamOrder> running() const;
  /// Memory that was freed in the order of a stream is handed out again: whoever uses it comes after that.
  void after_ordered_frees();
  void note_ordered_free(uint64_t stream);
  /// kNotReady while work is pending.
  int query(uint64_t stream);

  uint64_t create_event(bool timing);
  int destroy_event(uint64_t event);
  int record(uint64_t event, uint64_t stream);
  int wait_event(uint64_t stream, uint64_t event);
  int synchronize_event(uint64_t event);
  int query_event(uint64_t event);
  int elapsed(uint64_t start, uint64_t end, double& milliseconds) const;

  struct HostFunction {
    uint64_t token = 0;
    int status = 0;
  };
  /// Queues a function of the client: when the stream reaches it, next_host_function hands it out, and the stream goes
  /// on after host_function_done. With `always` it is handed out even when the context is lost.
  int host_function(uint64_t stream, uint64_t token, bool always);
  /// Waits; false once the client is gone or the executor closes.
  bool next_host_function(HostFunction& out);
  int host_function_done(uint64_t token);

  /// The context is lost: queued work is skipped and every wait returns `error`. The first call decides.
  void lose(int error);
  int lost() const;

  /// The client is gone: nobody runs host functions any more, so they count as done.
  void client_gone();
  /// Takes no more work. With `finish` the remaining work runs, else it is dropped.
  /// Returns when the thread has ended; whoever drops work must also end the piece that runs.
  void close(bool finish);
  /// Like close(false), but returns at once.
  void abandon();
  bool abandoned() const;

 private:
  /// By stream, how many of its pieces of work are complete. Shared, never changed.
  using Clock = std::shared_ptr<const emulator::StreamPositions>;
  struct Record {
    bool done = false;
    Clock clock;
    std::chrono::steady_clock::time_point time;
  };
  struct Operation {
    uint64_t sequence = 0;
    Work work;
    std::shared_ptr<Record> wait_for;
    uint64_t token = 0;
    bool is_host_function = false, handed_out = false, always = false, is_done = false;
    uint64_t bytes = 0;
    bool is_kernel = false, programmatic = false;
    /// What is complete when it begins: of other streams, and of its own.
    Clock before;
    uint64_t position = 0, own_before = 0;
    bool single_stream = true;
  };
  struct Stream {
    uint64_t id = 0;
    bool blocking = true, destroyed = false, running = false;
    std::deque<Operation> queue;
    uint64_t submitted = 0, completed = 0;
    Clock known;  ///< what the next piece of work comes after, besides what precedes it in the stream
    bool last_is_kernel = false;
    Clock last_before;  ///< of the last piece, if that is a kernel
    uint64_t last_own_before = 0;
  };
  struct Event {
    bool timing = true;
    std::shared_ptr<Record> record;
  };

  using Lock = std::unique_lock<std::mutex>;
  void run();
  Stream* pick();
  bool is_ready(uint64_t id, const Stream& stream) const;
  void finish_front(Stream& stream);
  int enqueue(Lock& lock, uint64_t stream, Operation operation, uint64_t* number = nullptr);
  template <class Predicate>
  int wait(Lock& lock, Predicate done);
  /// Finds out what an operation comes after that is about to be put on the stream.
  void place(Stream& stream, Operation& operation);
  static Clock join(const Clock& a, const Clock& b);
  static Clock first_of(const Stream& stream, uint64_t count);
  /// Everything that was put on the stream so far, and what that came after.
  Clock clock_of(const Stream& stream) const;
  void remember_gone(const Stream& stream);
  std::shared_ptr<const emulator::StreamOrder> order_of(const Stream& stream, const Operation& operation) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Stream> streams_;
  std::map<uint64_t, Event> events_;
  std::deque<HostFunction> host_functions_;
  Clock host_;           ///< what the host has waited for
  Clock gone_;           ///< the work of streams that are no more
  Clock gone_blocking_;  ///< of those, what the legacy stream waits for
  Clock ordered_frees_;  ///< what has to be complete before memory that was freed is used again
  std::set<uint64_t> used_streams_;
  std::shared_ptr<const emulator::StreamOrder> running_;
  uint64_t process_ = 0;
  uint64_t next_id_ = 16;
  uint64_t sequence_ = 0;
  uint64_t queued_bytes_ = 0, queued_operations_ = 0;
  int lost_ = 0;
  bool client_gone_ = false, closing_ = false, dropping_ = false;
  std::thread thread_;
};

}  // namespace ptxbench::cuda_shim
