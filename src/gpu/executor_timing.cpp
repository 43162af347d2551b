// The executor's timed calls (docs/gpu.md, "Timing").

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "gpu/executor.h"

namespace ptxbench::gpu {
namespace {

using base::Json;
using candidate::RunnerOutcome;
using candidate::RunnerReport;
using Clock = std::chrono::steady_clock;

// The driver takes about a thousand pieces of work ahead, and copies little from pageable memory without waiting for
// the stream. Whoever fills the queue behind a closed gate waits for ever.
constexpr std::size_t kMostQueued = 256;
constexpr std::size_t kMostWritten = std::size_t{32} << 10;

}  // namespace

// By reading, which leaves nothing that has to be written back while the next kernel runs: both halves are equal, so
// nothing is counted either.
Result<void> Executor::flush_cache() {
  return kernels_.count_differences(flush_, flush_ + flush_bytes_ / 2, flush_bytes_ / 16, changes_);
}

Result<void> Executor::mark_start(Marks& marks) {
  marks.ticket = ++ticket_;
  if (auto done = kernels_.gate(gate_address_, marks.ticket, marks.stamp_start); !done) return done;
  return device_->check(device_->driver().cuEventRecord(marks.start, device_->stream()), "cuEventRecord");
}

Result<void> Executor::mark_end(Marks& marks) {
  if (auto done = device_->check(device_->driver().cuEventRecord(marks.end, device_->stream()), "cuEventRecord"); !done)
    return done;
  if (auto done = kernels_.stamp(marks.stamp_end); !done) return done;
  return device_->check(device_->driver().cuEventRecord(marks.stamped, device_->stream()), "cuEventRecord");
}

void Executor::open_gate(std::uint32_t ticket) {
  std::atomic_ref<std::uint32_t> gate(*gate_);
  std::uint32_t now = gate.load();
  while (now < ticket && !gate.compare_exchange_weak(now, ticket)) {
  }
}

bool Executor::await(CUevent event, const std::string& what) {
  const auto started = Clock::now();
  while (true) {
    const CUresult result = device_->driver().cuEventQuery(event);
    if (result == CUDA_SUCCESS) return true;
    if (result != CUDA_ERROR_NOT_READY) {
      backend_->drain(what);
      return false;
    }
    if (Clock::now() - started > kernel_limit_) {
      timed_out_kernel_ = what;
      return false;
    }
  }
}

// What the baseline leaves is right: it is nowhere when the candidate runs.
Result<void> Executor::clear_baseline_outputs() {
  std::size_t output = 0;
  for (const WorkArgument& argument : workspace_->arguments()) {
    if (!argument.output) continue;
    if (auto done = kernels_.fill_words(baseline_outputs_[output++], ~std::uint64_t{0}, (argument.bytes + 7) / 8);
        !done)
      return done;
  }
  return {};
}

/// A row of timed calls. While the GPU runs one, the candidate's host code makes the next.
class Executor::Batch {
 public:
  Batch(Executor& owner, const Json& request)
      : e_(owner),
        request_(request),
        seeds_(request.at("seeds").get<std::vector<std::uint64_t>>()),
        order_(request.value("order", std::uint64_t{0})),
        most_(request.value("most_ms", std::int64_t{3'600'000})),
        contents_{kind_of(request.value("inputs", "")), 0, request.value("distribution", 0)},
        sets_(e_.workspace_->sets()) {
    if (!request.contains("keep")) return;
    for (const Json& one : request["keep"]) keeps_[one.at("call").get<std::size_t>()] = &one;
  }

  ~Batch() {
    if (sampling_) e_.clocks_->end();
    for (const Call& call : calls_) {
      for (const Marks* one : {&call.candidate, &call.baseline}) {
        for (CUevent event : {one->start, one->end, one->stamped}) {
          if (event != nullptr) cuda().cuEventDestroy(event);
        }
      }
    }
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  Result<Json> run() {
    const auto began = Clock::now();
    if (auto ready = prepare(); !ready) return tl::unexpected<Error>(ready.error());
    e_.clocks_->begin();
    sampling_ = true;
    std::size_t index = 0;
    bool cut = false;
    while (index < seeds_.size() && !cut && make(index)) {
      ++index;
      if (index > 1 && !collect(index - 2)) break;
      cut = Clock::now() - began > most_ && index < seeds_.size();
    }
    e_.backend_->close();  // of a call that did not end well
    e_.backend_->on_interruption({});
    e_.open_gate(e_.ticket_);
    if (good() && index > 0) collect(index - 1);
    if (failed_ && !refused_) {
      // Ours, unless the candidate's kernels have spoilt the context.
      e_.backend_->drain("a timed call");
      if (!e_.backend_->fault()) return tl::unexpected<Error>(failed_->error());
    }
    const auto readings = e_.clocks_->end();
    sampling_ = false;
    Json reply = e_.observations(waited_, report_);
    reply["seconds"] = std::chrono::duration<double>(Clock::now() - began).count();
    reply["samples"] = std::move(samples_);
    reply["cut"] = cut && good();
    reply["clocks"] = clocks_json(readings);
    if (!e_.clocks_->missing().empty()) reply["clocks_missing"] = e_.clocks_->missing();
    if (!e_.timed_out_kernel_.empty()) reply["kernel_timeout"] = true;
    if (const auto fault = e_.backend_->fault()) {
      reply["fault"] = fault_json(*fault);
    } else if (refused_) {
      reply["fault"] = std::move(*refused_);
    }
    if (good()) {
      if (auto done = finish(std::min(sets_, index), reply); !done) return tl::unexpected<Error>(done.error());
    }
    return reply;
  }

 private:
  struct Call {
    Marks candidate, baseline;
    GpuBackend::Noted noted;  ///< must live until the call has run
    bool interrupted = false, baseline_last = false;
  };

  /// How a call begins on the stream: when its notes are complete, or when the host wants a result before.
  struct Beginning {
    std::mutex mutex;
    bool begun = false, over = false;
    Result<void> result;
  };

  static Contents::Kind kind_of(std::string_view name) {
    // What is not random is copied, whatever it is.
    if (name == "fresh" || name == "partly-fresh") return Contents::Kind::fresh;
    return name == "permuted" ? Contents::Kind::permuted : Contents::Kind::given;
  }
  Contents contents(std::size_t call) const { return {contents_.kind, seeds_[call], contents_.distribution}; }
  const Driver& cuda() const { return e_.device_->driver(); }
  bool good() const { return !failed_ && !refused_ && good_; }

  /// Something of ours; the first error counts.
  void ours(const Result<void>& done) {
    if (!done && !failed_) failed_ = done;
  }
  /// Something of the candidate's that the driver refuses.
  void theirs(const Result<void>& done) {
    if (!done && !failed_ && !refused_)
      refused_ = Json{{"rule", "launch.refused"}, {"message", done.error().message}, {"remedy", ""}, {"kernel", ""}};
  }

  Result<void> prepare() {
    cuda().cuCtxResetPersistingL2Cache();
    const CUresult zeroed = cuda().cuMemsetD8Async(e_.changes_, 0, 2 * sizeof(std::uint64_t), e_.device_->stream());
    if (auto done = e_.device_->check(zeroed, "zeroing counters"); !done) return done;
    std::uint64_t stamp = e_.stamps_;
    for (Call& call : calls_) {
      for (Marks* one : {&call.candidate, &call.baseline}) {
        for (CUevent* event : {&one->start, &one->end, &one->stamped}) {
          const CUresult made = cuda().cuEventCreate(event, CU_EVENT_DEFAULT);
          if (auto done = e_.device_->check(made, "cuEventCreate"); !done) return done;
        }
        one->stamp_start = stamp;
        one->stamp_end = stamp + sizeof(std::uint64_t);
        stamp += 2 * sizeof(std::uint64_t);
      }
    }
    return {};
  }

  /// Everything of call `index`, up to its end on the stream; false when it went wrong.
  bool make(std::size_t index) {
    const std::size_t set = index % sets_;
    Call& call = calls_[index & 1];
    e_.present(set);
    ours(e_.workspace_->fill_inputs(set, contents(index)));
    ours(e_.workspace_->poison_outputs(set));
    if (!good()) return false;

    // Host code that can see how far the GPU is could disturb just the baseline of the call before.
    if (index > 0 && e_.backend_->shares_memory() && !await_end(calls_[(index - 1) & 1])) return false;

    const auto beginning = std::make_shared<Beginning>();
    const auto begin = [this, &call, beginning] {
      beginning->begun = true;
      beginning->result = e_.flush_cache();
      if (beginning->result) beginning->result = e_.mark_start(call.candidate);
    };
    e_.backend_->on_interruption([this, &call, beginning, begin] {
      const std::lock_guard lock(beginning->mutex);
      if (beginning->over) return;
      if (!beginning->begun) begin();
      e_.open_gate(call.candidate.ticket);
    });
    e_.backend_->set_mode(GpuBackend::Mode::recorded);
    if (auto told = e_.tell_runner(set); !told) {
      waited_ = Waited::runner_gone;
    } else {
      waited_ = e_.await_runner(report_);
    }
    call.noted = e_.backend_->close();
    {
      const std::lock_guard lock(beginning->mutex);
      beginning->over = true;
      call.interrupted = beginning->begun;
      ours(beginning->result);
    }
    if (waited_ != Waited::answered || report_.outcome != RunnerOutcome::finished || e_.backend_->fault()) {
      good_ = false;
      return false;
    }
    if (Json refused = e_.refused_in_call(); !refused.is_null()) {
      refused_ = std::move(refused);
      return false;
    }

    const bool with_baseline = e_.baseline_ != nullptr;
    const bool baseline_first = with_baseline && !call.interrupted && ((order_ >> (index & 63)) & 1) != 0;
    call.baseline_last = with_baseline && !baseline_first;
    if (baseline_first) {
      run_baseline(set, call.baseline);
      ours(e_.clear_baseline_outputs());
    }
    if (!call.interrupted) {
      begin();
      ours(beginning->result);
    }
    if (is_much(call.noted)) e_.open_gate(e_.ticket_);
    if (!good()) return false;
    for (const GpuBackend::Work& one : call.noted.work) theirs(e_.backend_->run(one));
    ours(e_.mark_end(call.candidate));
    if (const auto kept = keeps_.find(index); kept != keeps_.end()) ours(keep(*kept->second, set, contents(index)));
    if (call.baseline_last) {
      run_baseline(set, call.baseline);
      // Results for inputs that come again are cleared; those of inputs nobody sees again may stay.
      if (contents_.kind != Contents::Kind::fresh) ours(e_.clear_baseline_outputs());
    }
    e_.open_gate(e_.ticket_);
    return good();
  }

  static bool is_much(const GpuBackend::Noted& noted) {
    std::size_t written = 0;
    for (const GpuBackend::Work& one : noted.work) {
      if (const auto* write = std::get_if<GpuBackend::Write>(&one)) written += write->bytes.size();
    }
    return noted.work.size() > kMostQueued || written > kMostWritten;
  }

  void run_baseline(std::size_t set, Marks& marks) {
    ours(e_.flush_cache());
    ours(e_.mark_start(marks));
    if (!failed_) ours(e_.baseline_->run(e_.workspace_->addresses(set, false), e_.baseline_outputs_));
    ours(e_.mark_end(marks));
  }

  bool await_end(const Call& call) {
    if (e_.await(call.baseline_last ? call.baseline.stamped : call.candidate.stamped, "a timed call")) return true;
    good_ = false;
    return false;
  }

  /// Copies parts of a call's outputs aside, and counts changes of its inputs.
  Result<void> keep(const Json& kept, std::size_t set, const Contents& contents) {
    for (const Json& part : kept.at("parts")) {
      const auto argument = part.at(0).get<std::size_t>();
      const auto offset = part.at(1).get<std::uint64_t>(), bytes = part.at(2).get<std::uint64_t>();
      const std::uint64_t whole = e_.workspace_->arguments().at(argument).bytes;
      if (offset > whole || bytes > whole - offset || bytes > kKeptBytes - kept_bytes_)
        return infrastructure_error("a part beyond the tensor or the room for parts");
      const CUresult copied = cuda().cuMemcpyDtoDAsync(
          e_.kept_ + kept_bytes_, e_.workspace_->address(set, argument) + offset, bytes, e_.device_->stream());
      if (auto done = e_.device_->check(copied, "keeping outputs"); !done) return done;
      kept_bytes_ += bytes;
    }
    return e_.workspace_->count_changed(set, contents, e_.changes_);
  }

  /// The times of call `index`, once it has run; false when it went wrong.
  bool collect(std::size_t index) {
    Call& call = calls_[index & 1];
    if (!await_end(call)) return false;
    std::uint64_t stamps[kStamps]{};
    // Not on the stream, where the copy would wait for the next call.
    ours(e_.device_->check(cuda().cuMemcpyDtoH(stamps, call.candidate.stamp_start, sizeof stamps), "reading stamps"));
    if (failed_) return false;
    const auto span = [](std::uint64_t start, std::uint64_t end) { return 1e-6 * static_cast<double>(end - start); };
    const auto elapsed = [&](const Marks& one) {
      float milliseconds = 0;
      cuda().cuEventElapsedTime(&milliseconds, one.start, one.end);
      return static_cast<double>(milliseconds);
    };
    Json sample = {
        elapsed(call.candidate), span(stamps[0], stamps[1]), nullptr, nullptr, call.interrupted, index % sets_};
    if (e_.baseline_ != nullptr) {
      sample[2] = elapsed(call.baseline);
      sample[3] = span(stamps[2], stamps[3]);
    }
    samples_.push_back(std::move(sample));
    freed_.insert(freed_.end(), call.noted.freed.begin(), call.noted.freed.end());
    // Unmapping disturbs what runs meanwhile: at the end, unless memory is short.
    if (e_.memory_->used() > e_.device_->facts().memory_bytes / 4) e_.backend_->free_now(std::exchange(freed_, {}));
    return true;
  }

  /// What can be told when all calls have run.
  Result<void> finish(std::size_t used_sets, Json& reply) {
    if (auto done = e_.device_->synchronize("timed calls"); !done) return done;
    e_.backend_->free_now(std::exchange(freed_, {}));
    if (keeps_.empty()) return {};
    const auto to = request_.at("to").get<std::uint64_t>();
    if (to > e_.bulk_view_.size() || kept_bytes_ > e_.bulk_view_.size() - to)
      return infrastructure_error("what was kept does not fit the bulk memory");
    const auto stream = e_.device_->stream();
    std::uint64_t changes[2]{};
    CUresult read = CUDA_SUCCESS;
    if (auto counted = e_.workspace_->count_overrun(e_.changes_ + sizeof(std::uint64_t)); !counted) return counted;
    if (kept_bytes_ > 0) read = cuda().cuMemcpyDtoHAsync(e_.bulk_view_.data() + to, e_.kept_, kept_bytes_, stream);
    if (read == CUDA_SUCCESS) read = cuda().cuMemcpyDtoHAsync(changes, e_.changes_, sizeof changes, stream);
    if (auto done = e_.device_->check(read, "reading what was kept"); !done) return done;
    if (auto done = e_.device_->synchronize("reading what was kept"); !done) return done;
    reply["inputs_changed"] = changes[0] != 0;
    Json overrun = Json::array();
    for (std::size_t set = 0; changes[1] != 0 && set < used_sets; ++set) {
      auto names = e_.workspace_->overrun(set);
      if (!names) return tl::unexpected<Error>(names.error());
      for (std::string& name : *names) overrun.push_back(std::move(name));
    }
    reply["overrun"] = std::move(overrun);
    return {};
  }

  Executor& e_;
  const Json& request_;
  std::vector<std::uint64_t> seeds_;
  std::uint64_t order_;             ///< bit i: the baseline goes first in call i
  std::chrono::milliseconds most_;  ///< no further call is begun after this time
  Contents contents_;               ///< of a call, but for its seed
  std::size_t sets_;
  std::map<std::size_t, const Json*> keeps_;
  Call calls_[2];  ///< of call i: [i & 1]
  Json samples_ = Json::array();
  std::uint64_t kept_bytes_ = 0;
  std::vector<std::uint64_t> freed_;
  RunnerReport report_;
  Waited waited_ = Waited::answered;
  bool good_ = true;
  bool sampling_ = false;  ///< clocks are being read
  std::optional<Result<void>> failed_;
  std::optional<Json> refused_;
};

Result<Json> Executor::time(const Json& request) { return Batch(*this, request).run(); }

}  // namespace ptxbench::gpu
