#include "evaluation/gpu_run.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <random>
#include <sstream>

#include "base/text.h"
#include "candidate/machine_code.h"
#include "gpu/reports.h"
#include "problem/attention.h"
#include "problem/comparison.h"
#include "problem/gemm.h"
#include "problem/gqa.h"
#include "problem/reference.h"

namespace ptxbench::evaluation {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kMaxSetBytes = std::uint64_t{24} << 30;
constexpr std::uint64_t kLeastDownload = std::uint64_t{8} << 20;  ///< instruction counts go there too
constexpr std::size_t kMostSets = 4;
constexpr double kSampled = 1.0 / 3;            ///< of timed calls are verified
constexpr std::size_t kBatch = 12;              ///< timed calls between two looks at the statistics
constexpr std::size_t kLongBatch = 50;          ///< where there is nothing to look at: their number is given
constexpr std::chrono::seconds kBatchTime{10};  ///< that others may have to wait for them

// Generating normal values takes longer than moving them. In fp32 a kernel could tell the few values that `bell` has
// from a number's bits, and do the sum in whole numbers.
problem::Distribution timed_distribution(problem::Dtype dtype) {
  return dtype == problem::Dtype::float32 ? problem::Distribution::normal : problem::Distribution::bell;
}

std::uint64_t round_up(std::uint64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

/// The poison of an output, repeated to 8 bytes.
std::uint64_t poison_word(problem::Dtype dtype) {
  auto tensor = problem::Tensor::create("", dtype, {16});
  if (!tensor) return 0;
  problem::fill_poison(*tensor);
  std::uint64_t word = 0;
  std::memcpy(&word, tensor->data(), std::min<std::uint64_t>(sizeof word, tensor->bytes()));
  return word;
}

std::string hex(const void* data, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out += fmt::format("{:02x}", static_cast<const unsigned char*>(data)[i]);
  return out;
}

Json gemm_baseline(const problem::Problem& problem, const problem::GemmRoles& roles) {
  const problem::TensorSpec &a = problem.definition.inputs[roles.a], &b = problem.definition.inputs[roles.b];
  const problem::TensorSpec& c = problem.definition.outputs[roles.c];
  if (a.dtype != b.dtype || a.dtype != c.dtype) return nullptr;
  return Json{{"kind", "gemm"},
              {"m", problem.axes.at(roles.m)},
              {"n", problem.axes.at(roles.n)},
              {"k", problem.axes.at(roles.k)},
              {"dtype", problem::to_string(a.dtype)},
              {"a", roles.a},
              {"b", roles.b},
              {"c", roles.c}};
}

Json attention_baseline(const problem::Problem& problem, const problem::AttentionRoles& roles) {
  if (roles.descales) return nullptr;
  return Json{{"kind", "attention"},
              {"batch", problem.axes.at(roles.batch)},
              {"heads", problem.axes.at(roles.heads)},
              {"sequence", problem.axes.at(roles.sequence)},
              {"depth", problem.axes.at(roles.depth)},
              {"causal", roles.causal},
              {"backward", roles.backward},
              {"dtype", problem::to_string(problem.definition.inputs[roles.q].dtype)},
              {"q", roles.q},
              {"k", roles.k},
              {"v", roles.v},
              {"o", roles.o},
              {"lse", roles.lse},
              {"do", roles.d_o},
              {"dq", roles.dq},
              {"dk", roles.dk},
              {"dv", roles.dv}};
}

Json gqa_baseline(const problem::Problem& problem, const problem::RequestRoles& roles,
                  const std::vector<problem::Tensor>& inputs) {
  const problem::TensorSpec &q = problem.definition.inputs[roles.q], &k = problem.definition.inputs[roles.k],
                            &v = problem.definition.inputs[roles.v], &o = problem.definition.outputs[roles.output];
  if (inputs.empty() || q.dtype != k.dtype || q.dtype != v.dtype || q.dtype != o.dtype) return nullptr;
  const problem::Shape &queries = problem.input_shapes[roles.q], &keys = problem.input_shapes[roles.k];
  float scale = 0;
  const problem::Tensor& given = inputs[roles.sm_scale];
  problem::to_float(given.dtype, given.data(), 0, 1, &scale);
  Json out = {{"kind", "gqa"},
              {"paged", roles.paged()},
              {"page_size", roles.paged() ? keys[1] : 1},
              {"places", keys[0]},
              {"queries", queries[0]},
              {"heads", queries[1]},
              {"kv_heads", keys[keys.size() - 2]},
              {"depth", queries[2]},
              {"causal", roles.causal},
              {"scale", scale},
              {"dtype", problem::to_string(q.dtype)},
              {"q", roles.q},
              {"k", roles.k},
              {"v", roles.v},
              {"o", roles.output},
              {"lse", roles.lse}};
  // The same in every call: they follow from the sizes and the workload's seed, or lie in a file.
  const auto add = [&](const std::string& key, std::size_t place) {
    const auto numbers = inputs[place].as<std::int32_t>().first(inputs[place].count);
    out[key] = std::vector<std::int32_t>(numbers.begin(), numbers.end());
    out[key + "_at"] = place;
  };
  add("kv_offsets", roles.kv_indptr);
  if (roles.qo_indptr) add("q_offsets", *roles.qo_indptr);
  if (roles.kv_last_page_len) add("last_pages", *roles.kv_last_page_len);
  if (roles.kv_indices) out["kv_indices_at"] = *roles.kv_indices;
  return out;
}

/// Highest rate of dense multiply-adds of an H100's or H200's tensor cores: 2048 a clock and multiprocessor with 16-bit
/// operands, twice that with 8-bit ones. Wider operands are slower: for them the 16-bit rate is a floor, if no tight
/// one.
gpu::Floor floor_of(const problem::Problem& problem, const std::vector<problem::Tensor>& inputs, const Json& device) {
  gpu::Floor floor;
  double input_bytes = 0, output_bytes = 0, narrowest = 16;
  for (const problem::Tensor& tensor : inputs) {
    input_bytes += static_cast<double>(tensor.bytes());
    narrowest = std::min(narrowest, static_cast<double>(problem::bits_of(tensor.dtype)));
  }
  for (std::size_t i = 0; i < problem.output_shapes.size(); ++i) {
    const auto count = problem::element_count(problem.output_shapes[i]);
    if (count) output_bytes += static_cast<double>(problem::bytes_of(problem.definition.outputs[i].dtype, *count));
  }
  // Products and plain attention need every input; a cache in pages may hold some that no request refers to. What is
  // written last may still lie in the L2 cache when the call ends.
  const bool reads_all = problem::gemm_roles(problem.definition) || problem::attention_roles(problem.definition);
  floor.bytes = (reads_all ? input_bytes : 0) + std::max(0.0, output_bytes - device.value("l2_bytes", 0.0));
  floor.multiply_adds = problem::required_multiply_adds(problem, inputs).value_or(0);
  floor.memory_bytes_per_second = device.value("memory_bytes_per_second", 0.0);
  const double rate = narrowest < 16 ? 4096 : 2048;
  floor.multiply_adds_per_second = rate * device.value("multiprocessors", 0) * device.value("sm_clock_hz", 0.0);
  return floor;
}

std::uint64_t secret() {
  static std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

/// Ranges widen, names of slow-downs join.
void add_clocks(Json& clocks, const Json& more) {
  for (const auto& [name, value] : more.items()) {
    if (!clocks.contains(name)) {
      clocks[name] = value;
    } else if (name == "slowdowns") {
      for (const Json& one : value) {
        if (std::find(clocks[name].begin(), clocks[name].end(), one) == clocks[name].end()) clocks[name].push_back(one);
      }
    } else {
      clocks[name][0] = std::min(clocks[name][0].get<double>(), value[0].get<double>());
      clocks[name][1] = std::max(clocks[name][1].get<double>(), value[1].get<double>());
    }
  }
}

Finding timed_finding(std::string rule, std::string message, std::string remedy) {
  Finding finding;
  finding.rule = std::move(rule);
  finding.stage = StageName::performance;
  finding.message = std::move(message);
  finding.remedy = std::move(remedy);
  return finding;
}

}  // namespace

Json baseline_for(const problem::Problem& problem, const std::vector<problem::Tensor>& inputs) {
  if (const auto roles = problem::gemm_roles(problem.definition)) return gemm_baseline(problem, *roles);
  if (const auto roles = problem::attention_roles(problem.definition)) return attention_baseline(problem, *roles);
  if (const auto roles = problem::gqa_roles(problem.definition)) return gqa_baseline(problem, *roles, inputs);
  return nullptr;
}

Json tuned_baseline(Json description) {
  if (!description.is_null() && description.value("kind", "") == "gemm") description["tuned"] = true;
  return description;
}

Result<std::unique_ptr<GpuRun>> GpuRun::start(const Candidate& candidate, const problem::Problem& problem,
                                              const WorkloadState& state, const problem::InputOptions& inputs,
                                              const std::vector<DeviceArgument>& arguments,
                                              std::unique_ptr<gpu::ExecutorProcess> executor, GpuRunOptions options) {
  std::unique_ptr<GpuRun> out(new GpuRun(problem, state, inputs, std::move(options)));
  if (executor == nullptr) {
    auto started = gpu::ExecutorProcess::start({out->options_.device, nullptr, {}});
    if (!started) return tl::unexpected<Error>(started.error());
    executor = std::move(*started);
  }
  out->executor_ = std::move(executor);
  if (auto done = out->prepare(candidate, arguments); !done) return tl::unexpected<Error>(done.error());
  return out;
}

GpuRun::~GpuRun() {
  stop_runner_.request_stop();
  if (runner_.joinable()) runner_.join();
  if (options_.lane == nullptr) return;
  // An executor that owes an answer may still write there.
  if (orderly_ && bulk_ != nullptr) options_.lane->return_memory(std::move(bulk_));
  options_.lane->retire(std::move(executor_));
}

std::chrono::milliseconds GpuRun::patience() const {
  return options_.limits.idle + options_.kernel_limit + std::chrono::seconds(30);
}

void GpuRun::spent(const char* step, Clock::time_point since) {
  seconds_[step] = seconds_.value(step, 0.0) + std::chrono::duration<double>(Clock::now() - since).count();
}

Result<Json> GpuRun::in_turn(const Json& request) {
  std::unique_lock<gpu::Turn> turn;
  const auto asked = Clock::now();
  if (options_.lane != nullptr) {
    turn = std::unique_lock(options_.lane->turn(), std::try_to_lock);
    if (!turn.owns_lock()) {
      if (options_.on_wait) options_.on_wait(true);
      turn.lock();
      if (options_.on_wait) options_.on_wait(false);
    }
  }
  spent("waiting for a turn", asked);
  const auto started = Clock::now();
  // A row of calls ends by itself soon after kBatchTime; its last one may take as long as any.
  auto reply = executor_->request(request, patience() + kBatchTime);
  orderly_ = orderly_ && reply.has_value();
  spent(request.at("op").get_ref<const std::string&>().c_str(), started);
  return reply;
}

Result<void> GpuRun::prepare(const Candidate& candidate, const std::vector<DeviceArgument>& arguments) {
  Json list = Json::array();
  std::uint64_t upload_bytes = 0, output_bytes = 0, set_bytes = 0;
  std::vector<std::pair<const problem::Tensor*, std::uint64_t>> uploads;
  std::vector<CallArgument> call;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const DeviceArgument& argument = arguments[i];
    auto described = describe_argument(argument);
    if (!described) return tl::unexpected<Error>(described.error());
    call.push_back(*described);
    Json one = {{"name", argument.name}};
    if (!argument.output) random_.push_back(false);
    if (argument.scalar) {
      list.push_back(std::move(one));
      continue;
    }
    const auto count = problem::element_count(argument.shape);
    if (!count) return tl::unexpected<Error>(count.error());
    const std::uint64_t bytes = problem::bytes_of(argument.dtype, *count);
    one["bytes"] = bytes;
    one["count"] = *count;
    one["dtype"] = problem::to_string(argument.dtype);
    set_bytes += bytes;
    if (argument.output) {
      one["output"] = true;
      one["poison"] = poison_word(argument.dtype);
      output_bytes += round_up(bytes);
    } else {
      const auto random = problem::random_input(problem_, i, inputs_);
      if (random && problem::is_float(argument.dtype) && argument.dtype != problem::Dtype::float4_e2m1) {
        random_.back() = true;
        one["random"] = random->tensor;
        one["timed"] = static_cast<int>(timed_distribution(argument.dtype));
      } else {
        one["upload"] = upload_bytes;
        uploads.emplace_back(argument.input, upload_bytes);
        upload_bytes += round_up(bytes);
        // What follows from other inputs would no longer fit them. Offsets and pages follow from the sizes alone, and
        // some floats too. Contents from files are what they are.
        const bool fits = std::holds_alternative<problem::DerivedInput>(problem::source_of(problem_, i)) &&
                          !problem::derives_from_contents(problem_.definition);
        if (problem::is_float(argument.dtype) && timed_inputs_ != TimedInputs::repeated)
          timed_inputs_ = fits ? TimedInputs::partly : TimedInputs::repeated;
      }
    }
    list.push_back(std::move(one));
  }
  if (std::find(random_.begin(), random_.end(), true) == random_.end()) timed_inputs_ = TimedInputs::repeated;
  if (timed_inputs_ == TimedInputs::repeated && options_.timing) {
    auto permuted = permuted_inputs(problem_);
    bool renewed = false;
    for (std::size_t i = 0; permuted && i < random_.size(); ++i) renewed = renewed || (permuted->free[i] && random_[i]);
    // Were no input made anew, results could be kept head by head.
    if (renewed) {
      timed_inputs_ = TimedInputs::permuted;
      permuted_ = std::move(*permuted);
      std::size_t input = 0;
      for (Json& one : list) {
        if (one.contains("output") || input >= permuted_.inputs.size()) break;
        one["slices"] = permuted_.slices;
        one["groups"] = permuted_.inputs[input];
        one["renewed"] = static_cast<bool>(permuted_.free[input]);
        ++input;
      }
    }
  }
  download_ = upload_bytes;
  sets_ = std::clamp<std::size_t>(kMaxSetBytes / std::max<std::uint64_t>(1, set_bytes), 2, kMostSets);

  const std::uint64_t bulk_bytes = upload_bytes + std::max(kLeastDownload, output_bytes);
  if (options_.lane != nullptr) {
    auto bulk = options_.lane->take_memory(bulk_bytes);
    if (!bulk) return tl::unexpected<Error>(bulk.error());
    bulk_ = std::move(*bulk);
  } else {
    auto bulk = cuda_shim::SharedMemory::create(bulk_bytes);
    if (!bulk) return tl::unexpected<Error>(bulk.error());
    if (auto mapped = bulk->map(); !mapped) return mapped;
    bulk_ = std::make_unique<cuda_shim::SharedMemory>(std::move(*bulk));
  }
  for (const auto& [tensor, offset] : uploads) {
    if (tensor->bytes() > 0) std::memcpy(bulk_->view().data() + offset, tensor->data(), tensor->bytes());
  }

  const auto asked = Clock::now();
  if (auto ready = executor_->await_ready(); !ready) return ready;
  spent("waiting for an executor", asked);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return infrastructure_error("cannot make a socket pair: {}", std::strerror(errno));
  const cuda_shim::OwnedFd ours(ends[0]);
  const auto runner = start_runner(candidate, ends[1]);
  if (!runner) return tl::unexpected<Error>(runner.error());

  Json request = {{"op", "prepare"},
                  {"runner", *runner},
                  {"arguments", std::move(list)},
                  {"call", hex(call.data(), call.size() * sizeof(CallArgument))},
                  {"sets", sets_},
                  {"seed", inputs_.seed},
                  {"distribution", static_cast<int>(inputs_.distribution)},
                  {"cubins", candidate.cubins},
                  {"host_ms", options_.limits.idle.count()},
                  {"kernel_ms", options_.kernel_limit.count()}};
  if (options_.timing) description_ = baseline_for(problem_, state_.inputs);
  if (options_.tuned) description_ = tuned_baseline(std::move(description_));
  if (!description_.is_null())
    request["baseline"] = options_.lane != nullptr ? options_.lane->with_plan(description_) : description_;
  const auto started = Clock::now();
  auto reply = executor_->request(request, std::chrono::seconds(120), {ours.get(), bulk_->fd()});
  spent("prepare", started);
  orderly_ = reply.has_value();
  if (!reply) return tl::unexpected<Error>(reply.error());
  const Json steps = reply->value("seconds", Json::object());
  for (const auto& [step, took] : steps.items()) seconds_["prepare: " + step] = took;
  if (reply->contains("baseline")) {
    const Json& baseline = (*reply)["baseline"];
    baseline_ = baseline.value("name", "");
    baseline_version_ = baseline.value("version", "");
    no_baseline_ = baseline.value("missing", "");
  } else {
    no_baseline_ = fmt::format("none is built in for {}", problem_.definition.op_type);
  }
  return {};
}

Result<pid_t> GpuRun::start_runner(const Candidate& candidate, int fd) {
  HostCall call;
  call.library = candidate.library;
  call.ffi_runtime = candidate.ffi_runtime;
  call.socket = executor_->socket();
  call.limits = options_.limits;
  call.serve_fd = fd;
  call.cancel = stop_runner_.get_token();
  std::promise<pid_t> started;
  auto process = started.get_future();
  runner_ = std::thread([this, call = std::move(call), fd, started = std::move(started)]() mutable {
    bool running = false;
    call.on_started = [&](pid_t pid) {
      ::close(fd);
      running = true;
      started.set_value(pid);
    };
    runner_outcome_ = run_candidate(call);
    if (running) return;
    ::close(fd);
    started.set_value(0);
  });
  const pid_t pid = process.get();
  if (pid > 0) return pid;
  runner_.join();
  if (!runner_outcome_) return tl::unexpected<Error>(runner_outcome_.error());
  return infrastructure_error("the candidate's process did not start");
}

void GpuRun::finish(std::chrono::milliseconds time) {
  end_runner();
  executor_->finish(time);
}

std::string GpuRun::host_output() {
  const CallOutcome ended = end_runner();
  return base::shorten_middle(ended.process.stdout_text + ended.process.stderr_text, 8192);
}

CallOutcome GpuRun::end_runner() {
  stop_runner_.request_stop();
  if (runner_.joinable()) runner_.join();
  return runner_outcome_ ? *runner_outcome_ : CallOutcome{};
}

void GpuRun::take_report(const Json& reply, DeviceObservation& observation) {
  observation.shim = gpu::shim_report_from(reply.at("shim"));
  observation.backend = gpu::observed_from(reply.at("observed"));
  for (const Json& launch : reply.at("launches")) {
    observation.launches.push_back({launch.value("kernel", ""), launch.value("blocks", std::uint64_t{0}),
                                    launch.value("blocks", std::uint64_t{0}), 0, launch.value("seconds", 0.0)});
    observation.kernel_seconds += observation.launches.back().seconds;
  }
  const Json& report = reply.at("report");
  RunnerReport& last = observation.host.last.emplace();
  last.step = static_cast<RunnerStep>(report.value("step", 1));
  last.outcome = static_cast<RunnerOutcome>(report.value("outcome", 0));
  last.code = report.value("code", 0);
  const auto put = [&](auto& field, const char* key) {
    const std::string text = report.value(key, "");
    std::memcpy(field, text.data(), std::min(text.size(), sizeof field - 1));
  };
  put(last.kind, "kind");
  put(last.message, "message");
  put(last.backtrace, "backtrace");
}

Result<DeviceObservation> GpuRun::call() {
  auto reply = in_turn(
      {{"op", "call"}, {"set", 0}, {"seed", inputs_.seed}, {"distribution", static_cast<int>(inputs_.distribution)}});
  if (!reply) return tl::unexpected<Error>(reply.error());
  if (options_.lane != nullptr && reply->contains("tuned")) options_.lane->keep_plan(description_, (*reply)["tuned"]);
  DeviceObservation observation;
  take_report(*reply, observation);
  observation.seconds = reply->value("seconds", 0.0);
  if (!observation.shim.fault && reply->contains("fault")) {
    const Json& late = (*reply)["fault"];
    emulator::Fault& fault = observation.shim.fault.emplace();
    fault.rule = late.value("rule", "launch.failed");
    fault.message = late.value("message", "");
    fault.remedy = late.value("remedy", "");
    fault.place.kernel = late.value("kernel", "");
  }
  const bool host_timeout = reply->value("host_timeout", false), kernel_timeout = reply->value("kernel_timeout", false);
  if (kernel_timeout) {
    emulator::Fault& fault = observation.shim.fault.emplace();
    fault.rule = "sync.timeout";
    fault.message = fmt::format("a kernel did not end within {} on the GPU",
                                base::format_seconds(1e-3 * static_cast<double>(options_.kernel_limit.count())));
    fault.remedy = "the emulator says who waits for what: run `ptxbench check` on a small workload";
  }
  if (host_timeout || kernel_timeout || reply->value("runner_gone", false) || !observation.host.finished()) {
    const std::optional<RunnerReport> last = observation.host.last;
    // A kernel that never ends would make its host wait for ever.
    if (kernel_timeout) {
      orderly_ = false;
      executor_->kill();
    }
    observation.host = end_runner();
    observation.host.last = last;
    observation.host.idle_timeout = host_timeout;
    return observation;
  }
  for (const auto* key : {"changed_inputs", "overrun"}) {
    if (!reply->contains(key)) continue;
    auto& into = std::strcmp(key, "overrun") == 0 ? observation.overrun_tensors : observation.changed_inputs;
    into = (*reply)[key].get<std::vector<std::string>>();
  }
  if (observation.shim.fault) return observation;
  // Beside other evaluations' kernels: it takes a hundredth of the memory's bandwidth.
  const auto started = Clock::now();
  auto downloaded = executor_->request({{"op", "download"}, {"set", 0}, {"to", download_}}, patience());
  orderly_ = orderly_ && downloaded.has_value();
  if (!downloaded) return tl::unexpected<Error>(downloaded.error());
  std::uint64_t at = download_;
  for (std::size_t i = 0; i < problem_.output_shapes.size(); ++i) {
    const problem::TensorSpec& spec = problem_.definition.outputs[i];
    auto tensor = problem::Tensor::borrow(spec.name, spec.dtype, problem_.output_shapes[i], bulk_->view().subspan(at));
    if (!tensor) return tl::unexpected<Error>(tensor.error());
    at += round_up(tensor->bytes());
    observation.outputs.push_back(std::move(*tensor));
  }
  spent("download", started);
  return observation;
}

gpu::SlicePermutation GpuRun::permutation(std::uint64_t seed) const {
  if (timed_inputs_ != TimedInputs::permuted) return {};
  return gpu::SlicePermutation::from_seed(seed, permuted_.slices);
}

bool GpuRun::is_renewed(std::size_t input) const {
  return timed_inputs_ == TimedInputs::fresh || timed_inputs_ == TimedInputs::partly ||
         (timed_inputs_ == TimedInputs::permuted && permuted_.free[input]);
}

GpuRun::Sample GpuRun::choose_sample(std::size_t call, std::uint64_t seed) const {
  constexpr std::int64_t kPlaces = 2, kColumns = 64;
  // What a request and the executor's memory for parts hold is enough for many calls of a few outputs.
  const auto outputs = static_cast<std::int64_t>(problem_.output_shapes.size());
  const std::int64_t most_rows = std::clamp<std::int64_t>(48 / std::max<std::int64_t>(1, outputs), 1, 16);
  std::mt19937_64 random(secret());
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  // A row of LSE is a head, and the truth of each head costs its keys.
  const auto attention = problem::attention_roles(problem_.definition);
  const auto rows_of = [&](std::size_t output) {
    return attention && !attention->backward && output == attention->lse ? 1 : most_rows;
  };
  Sample sample;
  sample.call = call;
  sample.parts = Json::array();
  for (std::size_t i = 0; i < problem_.output_shapes.size(); ++i) {
    std::vector<problem::Tile>& tiles = sample.tiles.emplace_back();
    const auto count = problem::element_count(problem_.output_shapes[i]);
    const std::uint64_t element = problem::bits_of(problem_.definition.outputs[i].dtype) / 8;
    if (!reference_ || !count || *count == 0 || element == 0) continue;
    const auto columns = problem_.output_shapes[i].empty() ? 1 : problem_.output_shapes[i].back();
    const std::int64_t rows = static_cast<std::int64_t>(*count) / columns;
    // Tiles are places of the truth, whose slices lie elsewhere in the call.
    const gpu::SlicePermutation order = permutation(seed);
    const std::int64_t slice_rows = rows / order.slices;
    // Disjoint by cutting the rows into as many parts.
    const std::int64_t parts = std::min(kPlaces, rows);
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t begin = rows * part / parts, end = rows * (part + 1) / parts;
      const std::int64_t height = std::min(rows_of(i), end - begin), width = std::min(kColumns, columns);
      problem::Tile tile;
      tile.row_begin = between(begin, end - height);
      tile.row_end = tile.row_begin + height;
      tile.column_begin = between(0, columns - width);
      tile.column_end = tile.column_begin + width;
      for (std::int64_t row = tile.row_begin; row < tile.row_end; ++row) {
        const auto bytes = static_cast<std::uint64_t>(width) * element;
        const std::int64_t slice = order.place(static_cast<std::uint32_t>(row / slice_rows));
        const std::int64_t there = slice * slice_rows + row % slice_rows;
        sample.parts.push_back({problem_.definition.inputs.size() + i,
                                static_cast<std::uint64_t>(there * columns + tile.column_begin) * element, bytes});
        sample.bytes += bytes;
      }
      tiles.push_back(tile);
    }
  }
  return sample;
}

Result<bool> GpuRun::verify(const Sample& sample, std::uint64_t from, std::uint64_t seed, Performance& performance) {
  if (!reference_) return true;  // the performance then says that nothing was verified
  problem::TruthRequest request{problem_, {}, sample.tiles, inputs_.threads};
  problem::InputOptions options = inputs_;
  options.seed = seed;
  for (std::size_t i = 0; i < state_.inputs.size(); ++i) {
    problem::ReferenceInput input;
    if (random_[i] && is_renewed(i)) {
      options.distribution = timed_distribution(state_.inputs[i].dtype);
      input.random = problem::random_input(problem_, i, options);
    } else {
      input.tensor = &state_.inputs[i];
    }
    request.inputs.push_back(input);
  }
  std::vector<problem::Tensor> outputs;
  for (std::size_t i = 0; i < problem_.output_shapes.size(); ++i) {
    const problem::TensorSpec& spec = problem_.definition.outputs[i];
    auto tensor = problem::Tensor::create(spec.name, spec.dtype, problem_.output_shapes[i]);
    if (!tensor) return tl::unexpected<Error>(tensor.error());
    outputs.push_back(std::move(*tensor));
  }
  // Only what was kept is looked at: the rest of the tensors is never touched.
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::uint64_t element = problem::bits_of(outputs[i].dtype) / 8;
    const std::int64_t columns = outputs[i].shape.empty() ? 1 : outputs[i].shape.back();
    const bool flipped = timed_inputs_ == TimedInputs::permuted && permutation(seed).flipped(permuted_.outputs.at(i));
    for (const problem::Tile& tile : sample.tiles[i]) {
      const auto bytes = static_cast<std::uint64_t>(tile.column_end - tile.column_begin) * element;
      for (std::int64_t row = tile.row_begin; row < tile.row_end; ++row) {
        auto* const to = static_cast<std::byte*>(outputs[i].data()) +
                         static_cast<std::uint64_t>(row * columns + tile.column_begin) * element;
        std::memcpy(to, bulk_->view().data() + from, bytes);
        from += bytes;
        // The sign is the highest bit of each element's last byte.
        for (std::uint64_t at = element - 1; flipped && at < bytes; at += element) to[at] ^= std::byte{0x80};
      }
    }
  }
  auto truth = (*reference_)(request);
  if (!truth) return tl::unexpected<Error>(truth.error());
  ++performance.verified_calls;
  bool good = true;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (request.tiles[i].empty()) continue;
    problem::CompareOptions compare;
    compare.known = request.tiles[i];
    compare.threads = inputs_.threads;
    compare.term_norms = truth->term_norms[i];
    compare.diagnose = false;
    const auto result = problem::compare(outputs[i], truth->outputs[i].as<float>(),
                                         problem::limits_for(problem_.definition, i), compare);
    good = good && result.verdict != problem::Verdict::failed;
    // What the rule cannot judge is not verified.
    if (result.verdict == problem::Verdict::passed) performance.verified_elements += result.known;
  }
  return good;
}

Result<GpuRun::Timed> GpuRun::time() {
  Timed out;
  Performance& performance = out.performance;
  performance.workload = problem_.workload.ad_hoc ? "" : problem_.workload.uuid;
  for (const problem::Axis& axis : problem_.definition.axes)
    performance.axes.emplace_back(axis.name, problem_.axes.at(axis.name));
  performance.device = executor_->device();
  performance.baseline = baseline_;
  performance.baseline_version = baseline_version_;
  performance.no_baseline = no_baseline_;
  performance.inputs = timed_inputs_;
  performance.floor = floor_of(problem_, state_.inputs, performance.device).milliseconds();
  performance.clocks = Json::object();

  std::mt19937_64 random(secret());
  std::vector<gpu::TimedCall> calls;
  bool warm = false;
  while (!options_.stop.enough(calls, performance.gpu_seconds)) {
    if (options_.cancel.stop_requested()) return infrastructure_error("cancelled");
    std::vector<std::uint64_t> seeds;
    const bool given = options_.stop.least >= options_.stop.most;
    const std::size_t batch =
        warm ? std::clamp<std::size_t>(options_.stop.most - calls.size(), 1, given ? kLongBatch : kBatch)
             : std::max<std::size_t>(1, options_.stop.warm_up);
    for (std::size_t i = 0; i < batch; ++i)
      seeds.push_back(timed_inputs_ == TimedInputs::repeated ? inputs_.seed : random());
    std::vector<Sample> samples_kept;
    Json keep = Json::array();
    // Each call for itself, and one at least: a candidate that sees which calls were sampled learns nothing of the
    // next.
    const std::size_t certain = std::uniform_int_distribution<std::size_t>(0, batch - 1)(random);
    for (std::size_t call = 0; call < batch; ++call) {
      if (call != certain && !std::bernoulli_distribution(kSampled)(random)) continue;
      samples_kept.push_back(choose_sample(call, seeds[call]));
      keep.push_back({{"call", call}, {"parts", samples_kept.back().parts}});
    }
    auto reply = in_turn({{"op", "time"},
                          {"seeds", seeds},
                          {"inputs", to_string(timed_inputs_)},
                          {"distribution", static_cast<int>(inputs_.distribution)},
                          {"order", random()},
                          {"keep", std::move(keep)},
                          {"most_ms", std::chrono::milliseconds(kBatchTime).count()},
                          {"to", download_}});
    if (!reply) return tl::unexpected<Error>(reply.error());
    const double seconds = reply->value("seconds", 0.0);
    const Json& samples = reply->at("samples");
    const bool cut = reply->value("cut", false) && !samples.empty();
    if ((samples.size() != seeds.size() && !cut) || reply->contains("fault") || reply->value("kernel_timeout", false)) {
      const Json fault = reply->value("fault", Json::object());
      std::string rule = fault.value("rule", "");
      if (rule.empty()) {
        rule = reply->value("host_timeout", false)     ? "host.timeout"
               : reply->value("kernel_timeout", false) ? "sync.timeout"
               : reply->value("runner_gone", false)    ? "host.exit"
                                                       : "host.error";
      }
      std::string why = reply->at("report").value("message", "");
      if (why.empty()) why = "it did not end, or its process did";
      out.failure.push_back(timed_finding(
          rule,
          fmt::format("timed call {} of a candidate that was right before failed: {}",
                      (warm ? std::max<std::size_t>(1, options_.stop.warm_up) : 0) + calls.size() + samples.size() + 1,
                      fault.value("message", why)),
          "every call must work like the first: look for state that outlives a call, and for races"));
      orderly_ = false;
      executor_->kill();
      return out;
    }
    performance.gpu_seconds += seconds;
    for (const Json& one : samples) {
      performance.kernel_seconds += 1e-3 * one.at(0).get<double>();
      if (!one.at(2).is_null()) performance.kernel_seconds += 1e-3 * one.at(2).get<double>();
    }
    // The first calls warm up clocks, caches and the libraries: they are like all others, and do not count.
    if (warm) {
      for (const Json& one : samples) {
        gpu::TimedCall call;
        call.candidate = one.at(0).get<double>();
        call.candidate_stamps = one.at(1).get<double>();
        if (!one.at(2).is_null()) call.baseline = one.at(2).get<double>();
        if (!one.at(3).is_null()) call.baseline_stamps = one.at(3).get<double>();
        call.interrupted = one.at(4).get<bool>();
        calls.push_back(call);
      }
      add_clocks(performance.clocks, reply->value("clocks", Json::object()));
    }
    warm = true;
    if (reply->value("inputs_changed", false)) {
      out.failure.push_back(timed_finding("memory.input-modified", "a call under the clock changed its inputs",
                                          "write to outputs and to memory of your own only"));
    }
    if (const Json overrun = reply->value("overrun", Json::array()); !overrun.empty()) {
      out.failure.push_back(timed_finding(
          "memory.overrun",
          fmt::format("a call under the clock changed bytes beside tensor {}", overrun[0].get<std::string>()),
          "check the bounds of the last tile"));
    }
    if (!out.failure.empty()) break;
    const auto verifying = Clock::now();
    bool right = true;
    std::uint64_t from = download_;
    for (const Sample& sample : samples_kept) {
      if (sample.call >= samples.size()) break;  // not made any more
      auto verified = verify(sample, from, seeds[sample.call], performance);
      if (!verified) return tl::unexpected<Error>(verified.error());
      right = right && *verified;
      from += sample.bytes;
    }
    spent("verify", verifying);
    if (!right) {
      performance.verified = false;
      out.failure.push_back(
          timed_finding("timing.wrong-output",
                        "a call under the clock gave wrong results, though calls that were compared in full were right",
                        "compute every output in every call: results must not be kept from one call for another"));
      break;
    }
  }
  performance.times = gpu::summarise(calls);
  performance.seconds = seconds_;
  if (performance.times.candidate.count > 0 && performance.times.candidate.value < 0.95 * performance.floor) {
    out.failure.push_back(
        timed_finding("timing.below-floor",
                      fmt::format("{:.4f} ms is less than the {:.4f} ms that memory and tensor cores need at the least",
                                  performance.times.candidate.value, performance.floor),
                      "no kernel that does the work in the call is that fast"));
  }
  return out;
}

Result<void> GpuRun::count(const std::filesystem::path& cubin, Census& census) {
  const auto code = candidate::disassemble(cubin);
  if (!code) return tl::unexpected<Error>(code.error());
  auto reply = in_turn({{"op", "count"},
                        {"set", 0},
                        {"seed", timed_inputs_ == TimedInputs::fresh ? secret() : inputs_.seed},
                        {"distribution", static_cast<int>(inputs_.distribution)},
                        {"to", download_}});
  if (!reply) return tl::unexpected<Error>(reply.error());
  const auto bytes = reply->value("bytes", std::size_t{0});
  if (bytes > bulk_->view().size() - download_) return infrastructure_error("the executor's counts are damaged");
  const std::string text(reinterpret_cast<const char*>(bulk_->view().data() + download_), bytes);
  for (const std::string_view line : base::split_lines(text)) {
    std::istringstream words{std::string(line)};
    std::string function;
    std::uint32_t offset = 0;
    std::uint64_t warps = 0, threads = 0;
    if (!(words >> function >> offset >> warps >> threads)) continue;
    const auto found = code->find(function);
    const candidate::MachineInstruction* instruction = nullptr;
    if (found != code->end()) {
      const auto at = std::lower_bound(found->second.begin(), found->second.end(), offset,
                                       [](const auto& one, std::uint32_t wanted) { return one.offset < wanted; });
      if (at != found->second.end() && at->offset == offset) instruction = &*at;
    }
    if (instruction == nullptr) {
      return infrastructure_error("{}+{:#x} was executed, and is not in the artifact's machine code", function, offset);
    }
    census.add_machine(instruction->opcode, warps, threads);
  }
  return {};
}

}  // namespace ptxbench::evaluation
