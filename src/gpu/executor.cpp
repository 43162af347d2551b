#include "gpu/executor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "gpu/reports.h"
#include "gpu/sass_counts.h"

namespace ptxbench::gpu {
namespace {

using base::Json;
using candidate::RunnerOutcome;
using candidate::RunnerReport;
using candidate::RunnerStep;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxLaunches = 64;

Contents contents_of(const Json& request) {
  return {Contents::Kind::given, request.at("seed").get<std::uint64_t>(), request.value("distribution", 0)};
}

/// Cuts a text field that the candidate's process may have written.
template <std::size_t N>
std::string text_of(const char (&field)[N]) {
  return {field, ::strnlen(field, N)};
}

}  // namespace

Executor::Executor(std::unique_ptr<Device> device, Channel channel)
    : device_(std::move(device)), channel_(std::move(channel)) {}

Executor::~Executor() {
  if (server_ != nullptr) server_->stop(false);
}

Result<std::unique_ptr<Executor>> Executor::create(int ordinal, Channel channel) {
  const auto began = Clock::now();
  auto device = Device::open(ordinal);
  if (!device) return tl::unexpected<Error>(device.error());
  std::unique_ptr<Executor> out(new Executor(std::make_unique<Device>(std::move(*device)), std::move(channel)));
  if (auto done = out->start(began); !done) return tl::unexpected<Error>(done.error());
  return out;
}

Result<void> Executor::start(Clock::time_point began) {
  Json seconds = {{"context", std::chrono::duration<double>(Clock::now() - began).count()}};
  auto last = Clock::now();
  const auto step = [&](const char* name) {
    const auto now = Clock::now();
    seconds[name] = std::chrono::duration<double>(now - last).count();
    last = now;
  };
  // The upper half of the window is for memory that the client shares: it must stay free of other mappings.
  void* const shared = reinterpret_cast<void*>(emulator::kHostSharedBase);
  const std::uint64_t shared_bytes = emulator::kGlobalWindowBytes / 2;
  if (::mmap(shared, shared_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
             0) != shared) {
    return infrastructure_error("cannot reserve addresses for memory shared with the candidate: {}",
                                std::strerror(errno));
  }
  auto memory = DeviceMemory::create(*device_);
  if (!memory) return tl::unexpected<Error>(memory.error());
  memory_ = std::move(*memory);
  step("addresses");
  auto kernels = Kernels::load(*device_);
  if (!kernels) return tl::unexpected<Error>(kernels.error());
  kernels_ = *kernels;
  step("kernels");
  auto backend = std::make_unique<GpuBackend>(*device_, *memory_);
  backend_ = backend.get();
  guarded_ = std::make_unique<cuda_shim::GuardedBackend>(
      std::move(backend), std::vector<cuda_shim::TensorRange>{}, [](emulator::LaunchRequest&) {},
      cuda_shim::GuardedBackend::Limits{});
  const auto reader = std::make_shared<ClockReader>(device_->facts().pci_bus_id);
  clocks_ = std::make_unique<ClockSampler>([reader] { return reader->read(); }, reader->missing());
  step("clocks");

  const Driver& cuda = device_->driver();
  flush_bytes_ = 2 * device_->facts().l2_bytes;
  auto flush = memory_->allocate(flush_bytes_, "", true);
  if (!flush) return tl::unexpected<Error>(flush.error());
  flush_ = *flush;
  if (auto filled = kernels_.fill_words(flush_, 0, flush_bytes_ / 8); !filled) return filled;
  auto stamps = memory_->allocate(kStamps * 2 * sizeof(std::uint64_t), "", true);
  if (!stamps) return tl::unexpected<Error>(stamps.error());
  stamps_ = *stamps;
  auto kept = memory_->allocate(kKeptBytes, "", true);
  if (!kept) return tl::unexpected<Error>(kept.error());
  kept_ = *kept;
  auto changes = memory_->allocate(2 * sizeof(std::uint64_t), "", true);
  if (!changes) return tl::unexpected<Error>(changes.error());
  changes_ = *changes;
  void* gate = nullptr;
  CUresult result = cuda.cuMemHostAlloc(&gate, sizeof(std::uint32_t), CU_MEMHOSTALLOC_DEVICEMAP);
  gate_ = static_cast<std::uint32_t*>(gate);
  CUdeviceptr gate_address = 0;
  if (result == CUDA_SUCCESS) {
    *gate_ = 0;
    result = cuda.cuMemHostGetDevicePointer(&gate_address, gate, 0);
  }
  gate_address_ = gate_address;
  if (auto done = device_->check(result, "memory for the gate"); !done) return done;

  cuda_shim::ShimOptions options;
  options.expects_client = true;
  options.on_launch = [this](const emulator::LaunchReport& report) {
    const std::lock_guard lock(launches_mutex_);
    if (launches_.size() < kMaxLaunches)
      launches_.push_back(
          {{"kernel", report.kernel.substr(0, 1024)}, {"blocks", report.clusters_total}, {"seconds", report.seconds}});
  };
  auto server = cuda_shim::ShimServer::start(*guarded_, output_, std::move(options));
  if (!server) return tl::unexpected<Error>(server.error());
  server_ = std::move(*server);
  step("rest");

  const DeviceFacts& facts = device_->facts();
  return channel_.send({{"ready", true},
                        {"socket", server_->socket_path().string()},
                        {"seconds", seconds},
                        {"device",
                         {{"name", facts.name},
                          {"ordinal", facts.ordinal},
                          {"driver", facts.driver_version},
                          {"multiprocessors", facts.multiprocessors},
                          {"memory_bytes", facts.memory_bytes},
                          {"l2_bytes", facts.l2_bytes},
                          {"sm_clock_hz", facts.sm_clock_hz},
                          {"memory_bytes_per_second", facts.memory_bytes_per_second}}}});
}

Result<void> Executor::serve() {
  while (true) {
    auto message = channel_.receive();
    if (!message) return {};  // the other side is gone: so are we
    const Json reply = answer((*message)->json, (*message)->descriptors);
    if (auto sent = channel_.send(reply); !sent) return sent;
  }
}

Json Executor::answer(const Json& request, std::vector<cuda_shim::OwnedFd>& descriptors) {
  device_->activate();
  Result<Json> reply = [&]() -> Result<Json> {
    // Json access throws on a field that is missing: a fault of the other side's program.
    try {
      const std::string op = request.value("op", "");
      if (op == "plan") return plan(request);
      if (op == "prepare") return prepare(request, descriptors);
      if (op == "call") return call(request);
      if (op == "time") return time(request);
      if (op == "download") return download(request);
      if (op == "count") return count(request);
      return infrastructure_error("unknown request '{}'", op);
    } catch (const std::exception& error) {
      return infrastructure_error("a damaged request: {}", error.what());
    }
  }();
  if (!reply)
    return {{"ok", false}, {"error", reply.error().message}, {"input", reply.error().kind == ErrorKind::input}};
  (*reply)["ok"] = true;
  return std::move(*reply);
}

Json Executor::plan(const Json& request) {
  const Json& description = request.at("baseline");
  planned_.emplace(description, make_baseline(*device_, description));
  return Json::object();
}

Result<Json> Executor::prepare(const Json& request, std::vector<cuda_shim::OwnedFd>& descriptors) {
  Json seconds = Json::object();
  auto last = Clock::now();
  const auto step = [&](const char* name) {
    const auto now = Clock::now();
    seconds[name] = std::chrono::duration<double>(now - last).count();
    last = now;
  };
  if (descriptors.size() != 2) return infrastructure_error("prepare needs the runner's socket and bulk memory");
  runner_ = std::move(descriptors[0]);
  server_->expect(request.at("runner").get<pid_t>());
  struct stat status {};
  if (::fstat(descriptors[1].get(), &status) != 0) return infrastructure_error("bulk memory: {}", std::strerror(errno));
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes > 0) {
    void* view = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors[1].get(), 0);
    if (view == MAP_FAILED) return infrastructure_error("bulk memory: {}", std::strerror(errno));
    bulk_view_ = {static_cast<std::byte*>(view), bytes};
    // Pinned, for speed only.
    device_->driver().cuMemHostRegister(view, bytes, 0);
  }
  step("bulk memory");
  host_limit_ = std::chrono::milliseconds(request.value("host_ms", 10'000));
  kernel_limit_ = std::chrono::milliseconds(request.value("kernel_ms", 10'000));
  backend_->allow(request.at("cubins").get<std::set<std::string>>());

  workspace_ = std::make_unique<Workspace>(*device_, *memory_, kernels_);
  const Json& arguments = request.at("arguments");
  if (arguments.size() > candidate::kMaxArguments) return infrastructure_error("too many arguments");
  if (auto placed =
          workspace_->place(arguments, request.at("sets").get<std::size_t>(), bulk_view_, contents_of(request));
      !placed)
    // Others may have the memory now: not the candidate's fault, nor the request's.
    return infrastructure_error("{}", placed.error().message);
  if (auto filled = workspace_->fill_guards(); !filled) return tl::unexpected<Error>(filled.error());
  step("tensors");
  call_ = {};
  call_.argument_count = static_cast<std::uint32_t>(arguments.size());
  const std::string bytes_of_calls = request.at("call").get<std::string>();
  if (bytes_of_calls.size() != arguments.size() * sizeof(candidate::CallArgument) * 2)
    return infrastructure_error("the call's description is damaged");
  auto* to = reinterpret_cast<unsigned char*>(call_.arguments);
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  for (std::size_t i = 0; i < bytes_of_calls.size() / 2; ++i)
    to[i] = static_cast<unsigned char>(digit(bytes_of_calls[2 * i]) << 4 | digit(bytes_of_calls[2 * i + 1]));

  Json reply;
  if (request.contains("baseline")) {
    const bool planned = planned_ && planned_->first == request["baseline"];
    auto baseline = planned ? std::move(planned_->second) : make_baseline(*device_, request["baseline"]);
    if (baseline) {
      baseline_ = std::move(*baseline);
      for (const WorkArgument& argument : workspace_->arguments()) {
        if (!argument.output) continue;
        auto block = memory_->allocate((argument.bytes + 15) / 8 * 8, "", true);
        if (!block) return infrastructure_error("{}", block.error().message);
        baseline_outputs_.push_back(*block);
      }
      reply["baseline"] = {{"name", baseline_->name()}, {"version", baseline_->version()}};
    } else {
      reply["baseline"] = {{"missing", baseline.error().message}};
    }
    step("baseline");
  }
  reply["seconds"] = std::move(seconds);
  return reply;
}

void Executor::present(std::size_t set) {
  const auto tensors = workspace_->ranges(set);
  backend_->show(tensors);
  guarded_->guard(tensors);
}

Json Executor::refused_in_call() const {
  std::uint64_t output_bytes = 0;
  for (const WorkArgument& argument : workspace_->arguments()) output_bytes += argument.output ? argument.bytes : 0;
  const auto seen = guarded_->observed();
  if (!seen.written_by_host.empty()) {
    return {{"rule", "host.writes-tensor"},
            {"message", fmt::format("host code tried to write tensor {}", seen.written_by_host.front())}};
  }
  if (seen.host_bytes > cuda_shim::GuardedBackend::most_host_bytes(output_bytes)) {
    return {{"rule", "host.copies"},
            {"message", fmt::format("host code copied {} bytes to the device, which could carry results computed on "
                                    "the host",
                                    seen.host_bytes)}};
  }
  return nullptr;
}

Result<void> Executor::tell_runner(std::size_t set) {
  for (std::size_t i = 0; i < call_.argument_count; ++i) {
    if (call_.arguments[i].kind == candidate::CallArgument::Kind::tensor)
      call_.arguments[i].address = workspace_->address(set, i);
  }
  // A runner that does not read must not hold us up: its socket takes one call.
  if (::send(runner_.get(), &call_, sizeof call_, MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(sizeof call_))
    return input_error("the candidate's process takes no calls: {}", std::strerror(errno));
  return {};
}

Json Executor::fault_json(const emulator::Fault& fault) {
  return {{"rule", fault.rule}, {"message", fault.message}, {"remedy", fault.remedy}, {"kernel", fault.place.kernel}};
}

Executor::Waited Executor::await_runner(RunnerReport& report) {
  const auto started = Clock::now();
  bool timing_kernel = false;
  while (true) {
    pollfd wait{runner_.get(), POLLIN, 0};
    const int ready = ::poll(&wait, 1, 50);
    if (ready > 0) {
      RunnerReport got;
      const ssize_t bytes = ::recv(runner_.get(), &got, sizeof got, MSG_TRUNC | MSG_DONTWAIT);
      if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (bytes <= 0) return Waited::runner_gone;
      // The candidate shares the process: what is no report counts as none, and stops no clock.
      const bool valid = bytes == sizeof got && got.magic == candidate::kReportMagic &&
                         got.step >= RunnerStep::loading && got.step <= RunnerStep::done &&
                         got.outcome <= RunnerOutcome::internal;
      if (valid) {
        report = got;
        if (got.outcome != RunnerOutcome::pending) return Waited::answered;
      }
    }
    Clock::time_point since;
    // A copy waits for the kernels before it.
    const bool idle = guarded_->idle_since(since) && !backend_->waits();
    const auto now = Clock::now();
    if (now - started > host_limit_ + kernel_limit_) return idle ? Waited::host_timeout : Waited::kernel_timeout;
    if (idle) {
      timing_kernel = false;
      if (now - std::max(since, started) > host_limit_) return Waited::host_timeout;
    } else if (!timing_kernel) {
      timing_kernel = true;
      since_kernel_ = now;
    } else if (now - since_kernel_ > kernel_limit_) {
      return Waited::kernel_timeout;
    }
  }
}

Json Executor::report_json(const RunnerReport& report) {
  return {{"step", static_cast<int>(report.step)},
          {"outcome", static_cast<int>(report.outcome)},
          {"code", report.code},
          {"kind", text_of(report.kind)},
          {"message", text_of(report.message)},
          {"backtrace", text_of(report.backtrace)}};
}

Json Executor::observations(Waited waited, const RunnerReport& report) {
  Json reply = {{"report", report_json(report)},
                {"runner_gone", waited == Waited::runner_gone},
                {"host_timeout", waited == Waited::host_timeout},
                {"kernel_timeout", waited == Waited::kernel_timeout},
                {"shim", to_json(server_->report())},
                {"observed", to_json(guarded_->observed())}};
  const std::lock_guard lock(launches_mutex_);
  reply["launches"] = launches_;
  return reply;
}

Result<Json> Executor::call(const Json& request) {
  const auto set = request.at("set").get<std::size_t>();
  const Contents contents = contents_of(request);
  present(set);
  {
    const std::lock_guard lock(launches_mutex_);
    launches_ = Json::array();
  }
  for (auto step : {workspace_->fill_inputs(set, contents), workspace_->poison_outputs(set),
                    device_->synchronize("preparing a call")}) {
    if (!step) return tl::unexpected<Error>(step.error());
  }
  if (baseline_ != nullptr && !baseline_has_run_) {
    // The first run loads its kernels, which a closed gate would hold up.
    if (auto ran = baseline_->run(workspace_->addresses(set, false), baseline_outputs_); !ran)
      return tl::unexpected<Error>(ran.error());
    if (auto done = device_->synchronize("the baseline"); !done) return tl::unexpected<Error>(done.error());
    auto tuned = baseline_->tune(workspace_->addresses(set, false), baseline_outputs_);
    if (!tuned) return tl::unexpected<Error>(tuned.error());
    tuned_ = std::move(*tuned);
    if (auto cleared = clear_baseline_outputs(); !cleared) return tl::unexpected<Error>(cleared.error());
    if (auto done = device_->synchronize("the baseline"); !done) return tl::unexpected<Error>(done.error());
    baseline_has_run_ = true;
  }
  backend_->set_mode(GpuBackend::Mode::immediate);
  RunnerReport report;
  if (auto told = tell_runner(set); !told) {
    Json reply = observations(Waited::runner_gone, report);
    return reply;
  }
  const auto started = Clock::now();
  const Waited waited = await_runner(report);
  if (waited == Waited::answered) backend_->close();
  Json reply = observations(waited, report);
  if (!tuned_.is_null()) reply["tuned"] = tuned_;
  reply["seconds"] = std::chrono::duration<double>(Clock::now() - started).count();
  if (const auto fault = backend_->fault()) reply["fault"] = fault_json(*fault);
  const bool finished = waited == Waited::answered && report.outcome == RunnerOutcome::finished && !backend_->fault();
  if (!finished) return reply;
  auto changed = workspace_->changed_inputs(set, contents);
  if (!changed) return tl::unexpected<Error>(changed.error());
  reply["changed_inputs"] = *changed;
  auto overrun = workspace_->overrun(set);
  if (!overrun) return tl::unexpected<Error>(overrun.error());
  reply["overrun"] = *overrun;
  return reply;
}

Result<Json> Executor::download(const Json& request) {
  const auto set = request.at("set").get<std::size_t>();
  std::uint64_t to = request.at("to").get<std::uint64_t>();
  for (std::size_t i = 0; i < workspace_->arguments().size(); ++i) {
    const WorkArgument& argument = workspace_->arguments()[i];
    if (!argument.output || argument.bytes == 0) continue;
    if (to > bulk_view_.size() || argument.bytes > bulk_view_.size() - to)
      return infrastructure_error("the outputs do not fit the bulk memory");
    const CUresult copied = device_->driver().cuMemcpyDtoHAsync(bulk_view_.data() + to, workspace_->address(set, i),
                                                                argument.bytes, device_->stream());
    if (auto done = device_->check(copied, "reading outputs"); !done) return tl::unexpected<Error>(done.error());
    to += (argument.bytes + 63) / 64 * 64;
  }
  if (auto done = device_->synchronize("reading outputs"); !done) return tl::unexpected<Error>(done.error());
  return Json::object();
}

Result<Json> Executor::count(const Json& request) {
  const auto set = request.at("set").get<std::size_t>();
  present(set);
  for (auto step : {workspace_->fill_inputs(set, contents_of(request)), workspace_->poison_outputs(set),
                    device_->synchronize("preparing a call")}) {
    if (!step) return tl::unexpected<Error>(step.error());
  }
  auto counter = SassCounts::start(*device_);
  if (!counter) return tl::unexpected<Error>(counter.error());
  backend_->set_mode(GpuBackend::Mode::immediate);
  if (auto told = tell_runner(set); !told) return tl::unexpected<Error>(told.error());
  RunnerReport report;
  const Waited waited = await_runner(report);
  backend_->close();
  if (waited != Waited::answered || report.outcome != RunnerOutcome::finished || backend_->fault())
    return infrastructure_error("the call whose instructions were counted did not end well");
  auto counts = (*counter)->stop();
  if (!counts) return tl::unexpected<Error>(counts.error());
  std::string text;
  for (const auto& [place, count] : *counts)
    text += fmt::format("{} {} {} {}\n", place.first, place.second, count.warps, count.threads);
  const auto to = request.at("to").get<std::uint64_t>();
  if (to > bulk_view_.size() || text.size() > bulk_view_.size() - to)
    return infrastructure_error("the counts do not fit the bulk memory");
  std::memcpy(bulk_view_.data() + to, text.data(), text.size());
  return Json{{"bytes", text.size()}};
}

}  // namespace ptxbench::gpu
