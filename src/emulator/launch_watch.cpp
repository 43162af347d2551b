#include "emulator/launch_watch.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <random>

#include "emulator/definedness.h"
#include "emulator/loader.h"
#include "emulator/result_flow.h"
#include "emulator/wait_loops.h"
#include "emulator/write_saver.h"

namespace ptxbench::emulator {

LaunchWatch::LaunchWatch(const Subject& subject, RunClusters run)
    : subject_(subject),
      launch_(subject.launch),
      observer_(*subject.launch.observer),
      run_(std::move(run)),
      habits_(habits_of(subject.program, subject.request.function.function)) {}

std::optional<LaunchTotals> LaunchWatch::run_fast() {
  // What a host process sees of shared pages, or reads of what a kernel prints, cannot be taken back.
  if (launch_.host_can_write || habits_.prints) return std::nullopt;
  for (const auto way :
       {&LaunchWatch::retrace, &LaunchWatch::prove, &LaunchWatch::watch_kinds, &LaunchWatch::watch_on_all_threads}) {
    if (Totals totals = (this->*way)()) return totals;
  }
  return std::nullopt;
}

void LaunchWatch::take_back() {
  launch_.undo.restore();
  launch_.touches.clear();
  launch_.instructions = launch_.global_progress = 0;
  launch_.stopped = launch_.unproven = false;
}

bool LaunchWatch::met_undefined() const { return subject_.definedness != nullptr && subject_.definedness->met(); }

std::vector<std::byte> LaunchWatch::copy_pages(const std::vector<uint64_t>& pages) {
  std::vector<std::byte> contents(pages.size() * UndoLog::kPageBytes);
  for (size_t i = 0; i < pages.size(); ++i) {
    std::memcpy(contents.data() + i * UndoLog::kPageBytes, host_pointer(pages[i] * UndoLog::kPageBytes),
                UndoLog::kPageBytes);
  }
  return contents;
}

void LaunchWatch::put_pages(const std::vector<uint64_t>& pages, const std::vector<std::byte>& contents) {
  for (size_t i = 0; i < pages.size(); ++i) {
    std::memcpy(host_pointer(pages[i] * UndoLog::kPageBytes), contents.data() + i * UndoLog::kPageBytes,
                UndoLog::kPageBytes);
  }
}

LaunchWatch::Totals LaunchWatch::prove() {
  // Threads have 32-bit numbers.
  const bool fits = uint64_t{launch_.clusters} * launch_.threads_per_cta < GlobalTouches::kAtomics;
  if (!habits_.ordinary || launch_.ctas_per_cluster != 1 || !fits || !observer_.accepts_proof(subject_.event))
    return std::nullopt;
  const FunctionCode* kernel = launch_.kernel;
  launch_.program = &touching_program(subject_.program);
  launch_.kernel = launch_.program->functions[kernel->index].get();
  launch_.observer = nullptr;
  LaunchTotals totals = run_(habits_.depends_on_order ? 1 : subject_.options.threads, true, subject_.request.sample);
  launch_.program = &subject_.program;
  launch_.kernel = kernel;
  launch_.observer = &observer_;
  // Where a kernel stops, an observer can say more about the way there.
  if (launch_.unproven || (launch_.stopped && !cancelled())) {
    take_back();
    return std::nullopt;
  }
  std::vector<ByteRange> written;
  for (const auto& touches : launch_.touches) {
    touches->global.for_each_written([&](uint64_t address, uint64_t bytes) {
      written.push_back({address, static_cast<uint32_t>(bytes)});
    });
  }
  observer_.on_proved(subject_.event, written);
  return totals;
}

LaunchWatch::Totals LaunchWatch::watch_on_all_threads() {
  const unsigned threads = subject_.options.threads;
  if (habits_.depends_on_order || launch_.clusters < 2 || threads < 2) return std::nullopt;
  if (!observer_.accepts_workers(subject_.event, threads)) return std::nullopt;
  const bool remembers = subject_.options.traces != nullptr && !met_undefined();
  const auto defined = remembers ? digest_definedness() : std::nullopt;
  TraceObserver tracer(&observer_, subject_.event, launch_.clusters, threads);
  WriteSaver saver(remembers ? static_cast<Observer&>(tracer) : observer_, *launch_.memory, launch_.undo);
  launch_.observer = &saver;
  LaunchTotals totals = run_(threads, false, subject_.request.sample);
  launch_.observer = &observer_;
  const bool whole = !launch_.stopped || cancelled();
  if (!observer_.on_workers_end(subject_.event) || !whole) {
    take_back();
    return std::nullopt;
  }
  LaunchTrace trace;
  if (remembers && !launch_.stopped && !met_undefined() && tracer.finish(trace)) {
    add_results(trace, totals, defined);
    subject_.options.traces->keep(launch_.id, std::move(trace));
  }
  return totals;
}

LaunchWatch::Totals LaunchWatch::watch_kinds() {
  constexpr uint64_t kWorthwhile = 8;
  const DeviceOptions& options = subject_.options;
  const LaunchRequest& request = subject_.request;
  const uint64_t clusters = request.sample.empty() ? launch_.clusters : request.sample.size();
  const uint64_t threads = uint64_t{launch_.clusters} * launch_.ctas_per_cluster * launch_.threads_per_cta;
  if (habits_.depends_on_order || clusters < kWorthwhile || threads >= GlobalTouches::kAtomics || met_undefined() ||
      !observer_.accepts_proof(subject_.event))
    return std::nullopt;
  const auto defined = options.traces != nullptr ? digest_definedness() : std::nullopt;
  // Everything runs once, to see which kinds there are, and that no two threads conflict in global memory.
  LaunchTotals totals;
  LaunchTrace trace;
  {
    TraceObserver tracer(nullptr, subject_.event, launch_.clusters, options.threads);
    tracer.watch_global(*launch_.memory, launch_.undo, launch_.stopped, true);
    launch_.observer = &tracer;
    totals = run_(options.threads, false, request.sample);
    launch_.observer = &observer_;
    if (launch_.stopped || met_undefined() || !tracer.finish(trace)) {
      take_back();
      return std::nullopt;
    }
  }
  const std::vector<uint32_t> examples = choose_examples(trace);
  if (options.traces != nullptr) add_results(trace, totals, defined);
  const std::vector<uint64_t> pages = launch_.undo.saved();
  const std::vector<std::byte> contents = trace.has_results ? std::vector<std::byte>{} : copy_pages(pages);
  take_back();
  // One of each kind runs again, watched.
  const auto workers = static_cast<unsigned>(std::min<size_t>(options.threads, examples.size()));
  if (!observer_.accepts_examples(subject_.event, workers)) return std::nullopt;
  TraceObserver tracer(&observer_, subject_.event, launch_.clusters, workers);
  tracer.watch_global(*launch_.memory, launch_.undo, launch_.stopped, false);
  launch_.observer = &tracer;
  (void)run_(workers, false, examples);
  launch_.observer = &observer_;
  LaunchTrace watched;
  bool same =
      observer_.on_workers_end(subject_.event) && !launch_.stopped && !met_undefined() && tracer.finish(watched);
  for (const uint32_t example : examples) same = same && watched.kinds[example] == trace.kinds[example];
  take_back();
  if (!same) return std::nullopt;
  put_pages(pages, trace.has_results ? trace.contents : contents);
  observer_.on_proved(subject_.event, trace.written);
  if (options.traces != nullptr) {
    trace.schedules.clear();
    trace.kinds.clear();  // told apart what had to be watched; whole digests are what later policies compare
    options.traces->keep(launch_.id, std::move(trace));
  }
  return totals;
}

std::vector<uint32_t> LaunchWatch::choose_examples(LaunchTrace& trace) const {
  constexpr size_t kMost = 64, kLeast = 4, kOneIn = 8, kMostGroups = 32;
  std::map<uint64_t, uint32_t> first;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint32_t>> groups;
  for (uint32_t cluster = 0; cluster < trace.kinds.size(); ++cluster) {
    if (trace.kinds[cluster] == 0) continue;
    first.emplace(trace.kinds[cluster], cluster);
    groups[{trace.kinds[cluster], trace.schedules[cluster]}].push_back(cluster);
  }
  if (groups.size() <= kMostGroups && waits_leave_no_trace(subject_.program, launch_.kernel->index)) {
    std::mt19937_64 random(trace.kinds.size());
    for (auto& group : groups) {
      auto& clusters = group.second;
      trace.examples.push_back(clusters.front());
      if (clusters.size() > 1) trace.examples.push_back(clusters.back());
      if (clusters.size() <= 2) continue;
      const size_t count = std::clamp(clusters.size() / kOneIn, kLeast, kMost) - 2;
      std::sample(clusters.begin() + 1, clusters.end() - 1, std::back_inserter(trace.examples), count, random);
    }
    std::sort(trace.examples.begin(), trace.examples.end());
  }
  std::vector<uint32_t> result;
  result.reserve(first.size());
  for (const auto& [kind, cluster] : first) result.push_back(cluster);
  std::sort(result.begin(), result.end());
  return result;
}

std::optional<uint64_t> LaunchWatch::digest_definedness() const {
  if (subject_.definedness == nullptr) return 0;
  if (subject_.definedness->tracking()) return std::nullopt;
  return subject_.definedness->digest();
}

void LaunchWatch::add_results(LaunchTrace& trace, const LaunchTotals& totals, std::optional<uint64_t> defined) const {
  constexpr uint64_t kMostMemory = uint64_t{4} << 30, kProductsPerByte = 4, kBytesPerInstruction = 16;
  trace.shape = digest_shape(subject_.event, subject_.request.function.function, subject_.request.sample);
  trace.defined = defined;
  const uint64_t products = totals.tensor_core_macs + totals.legacy_mma_macs;
  trace.stores_products_only = products >= subject_.options.traces->many_products() &&
                               !tensor_results_decide(subject_.program, launch_.kernel->index) &&
                               waits_leave_no_trace(subject_.program, launch_.kernel->index);
  // What a digest and a copy of memory cost must be worth what they save.
  uint64_t worth = trace.stores_products_only ? products / kProductsPerByte : 0;
  if (!trace.examples.empty()) worth += totals.instructions * kBytesPerInstruction;
  if (!defined || live_bytes(*launch_.memory) > std::min(kMostMemory, worth)) return;
  std::vector<uint64_t> pages = launch_.undo.saved();
  std::sort(pages.begin(), pages.end());
  const size_t bytes = pages.size() * (UndoLog::kPageBytes + sizeof(uint64_t));
  if (trace.memory() + bytes > subject_.options.traces->room()) return;
  trace.has_results = true;
  trace.totals = totals;
  trace.before = digest_memory(*launch_.memory, &launch_.undo);
  trace.contents = copy_pages(pages);
  trace.pages = std::move(pages);
}

bool LaunchWatch::wrote_the_same(const LaunchTrace& known, const LaunchTrace& trace) {
  for (const ByteRange& range : trace.written) {
    for (uint64_t at = range.address, end = range.address + range.bytes; at < end;) {
      const uint64_t page = at / UndoLog::kPageBytes, stop = std::min(end, (page + 1) * UndoLog::kPageBytes);
      const auto found = std::lower_bound(known.pages.begin(), known.pages.end(), page);
      if (found == known.pages.end() || *found != page) return false;
      const auto index = static_cast<size_t>(found - known.pages.begin());
      const std::byte* then = known.contents.data() + index * UndoLog::kPageBytes + at % UndoLog::kPageBytes;
      if (std::memcmp(host_pointer(at), then, stop - at) != 0) return false;
      at = stop;
    }
  }
  return true;
}

LaunchWatch::Totals LaunchWatch::retrace() {
  if (subject_.options.traces == nullptr || met_undefined()) return std::nullopt;
  const LaunchRequest& request = subject_.request;
  const auto known = subject_.options.traces->find(
      launch_.id, digest_shape(subject_.event, request.function.function, request.sample));
  if (known == nullptr || known->defined != digest_definedness() || !observer_.accepts_proof(subject_.event))
    return std::nullopt;
  const FunctionCode* kernel = launch_.kernel;
  TraceObserver tracer(nullptr, subject_.event, launch_.clusters, subject_.options.threads);
  WriteSaver saver(tracer, *launch_.memory, launch_.undo);
  const bool same_memory = known->has_results && known->before == digest_memory(*launch_.memory, nullptr);
  const bool examples = same_memory && !known->examples.empty();
  launch_.skips_products = same_memory && known->stores_products_only && !examples;
  launch_.program = &retracing_program(subject_.program);
  launch_.kernel = launch_.program->functions[kernel->index].get();
  launch_.definedness = nullptr;
  launch_.observer = &saver;
  LaunchTotals totals = run_(subject_.options.threads, false, examples ? known->examples : request.sample);
  const bool incomplete = examples || launch_.skips_products;
  launch_.skips_products = false;
  launch_.program = &subject_.program;
  launch_.kernel = kernel;
  launch_.definedness = subject_.definedness;
  launch_.observer = &observer_;
  LaunchTrace trace;
  bool same = !launch_.stopped && tracer.finish(trace);
  if (same && examples) {
    for (const uint32_t cluster : known->examples) same = same && trace.clusters[cluster] == known->clusters[cluster];
    same = same && wrote_the_same(*known, trace);
  } else if (same) {
    same = trace.clusters == known->clusters;
  }
  if (!same) {
    take_back();
    return std::nullopt;
  }
  if (incomplete) put_pages(known->pages, known->contents);
  if (examples) totals = known->totals;
  if (subject_.definedness != nullptr) {
    for (const ByteRange& range : known->written) subject_.definedness->host_wrote(range.address, range.bytes);
  }
  observer_.on_proved(subject_.event, known->written);
  return totals;
}

}  // namespace ptxbench::emulator
