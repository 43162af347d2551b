// The program that calls a candidate's function, in a sandboxed process of its own. It knows device addresses and
// shapes; tensors, device and verdict live in the process that started it.
//
//   ptxbench-runner KERNEL.so LIBTVM_FFI.so CALL_FD REPORT_FD
//   ptxbench-runner KERNEL.so LIBTVM_FFI.so --serve FD
//
// The second form takes calls from a socket, one a packet, and answers each with a report, until the other end closes.

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "candidate/call_protocol.h"

namespace ptxbench::candidate {
namespace {

class Reporter {
 public:
  explicit Reporter(int fd) : fd_(fd) {}

  void begin(RunnerStep step) {
    step_ = step;
    send(RunnerOutcome::pending, 0, "", "", "");
  }

  /// A call of several is done.
  void finish_call() {
    step_ = RunnerStep::done;
    // Before the report: the process may be ended once that has arrived.
    std::fflush(nullptr);
    send(RunnerOutcome::finished, 0, "", "", "");
  }

  [[noreturn]] void end(RunnerOutcome outcome, int code = 0, std::string_view message = {}, std::string_view kind = {},
                        std::string_view backtrace = {}) {
    send(outcome, code, kind, message, backtrace);
    // Not exit(): destructors of the candidate's library would run after its verdict is in.
    std::fflush(nullptr);
    ::_exit(outcome == RunnerOutcome::finished ? 0 : 1);
  }

 private:
  template <std::size_t N>
  static void put(char (&field)[N], std::string_view text) {
    std::memcpy(field, text.data(), std::min(text.size(), N - 1));
  }

  void send(RunnerOutcome outcome, int code, std::string_view kind, std::string_view message,
            std::string_view backtrace) const {
    RunnerReport report;
    report.step = step_;
    report.outcome = outcome;
    report.code = code;
    put(report.kind, kind);
    put(report.message, message);
    put(report.backtrace, backtrace);
    const char* data = reinterpret_cast<const char*>(&report);
    for (std::size_t sent = 0; sent < sizeof report;) {
      const ssize_t wrote = ::write(fd_, data + sent, sizeof report - sent);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return;
      sent += static_cast<std::size_t>(wrote);
    }
  }

  int fd_;
  RunnerStep step_ = RunnerStep::loading;
};

bool read_call(int fd, Call& call) {
  for (std::size_t got = 0; got < sizeof call;) {
    const ssize_t read = ::pread(fd, reinterpret_cast<char*>(&call) + got, sizeof call - got, static_cast<off_t>(got));
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return false;
    got += static_cast<std::size_t>(read);
  }
  return call.magic == kCallMagic && call.argument_count <= kMaxArguments;
}

std::string_view view(const abi::Bytes& bytes) {
  return bytes.data == nullptr ? std::string_view() : std::string_view(bytes.data, bytes.size);
}

/// The arguments in the form the candidate expects; must not move while it runs.
struct Arguments {
  std::vector<abi::Any> values;
  std::vector<abi::Tensor> tensors;
  std::vector<std::vector<std::int64_t>> shapes, strides;

  explicit Arguments(const Call& call) {
    values.resize(call.argument_count);
    tensors.resize(call.argument_count);
    shapes.resize(call.argument_count);
    strides.resize(call.argument_count);
    for (std::size_t i = 0; i < call.argument_count; ++i) {
      const CallArgument& from = call.arguments[i];
      abi::Any& to = values[i];
      switch (from.kind) {
        case CallArgument::Kind::integer:
        case CallArgument::Kind::boolean:
          to.type = from.kind == CallArgument::Kind::integer ? abi::TypeIndex::integer : abi::TypeIndex::boolean;
          to.integer = from.integer;
          break;
        case CallArgument::Kind::floating:
          to.type = abi::TypeIndex::floating;
          to.floating = from.floating;
          break;
        case CallArgument::Kind::tensor: {
          const auto dimensions = static_cast<std::size_t>(from.dimensions);
          shapes[i].assign(from.shape, from.shape + dimensions);
          strides[i].assign(dimensions, 1);
          for (std::size_t d = dimensions; d-- > 1;) strides[i][d - 1] = strides[i][d] * shapes[i][d];
          abi::Tensor& tensor = tensors[i];
          tensor.data = reinterpret_cast<void*>(from.address);
          tensor.device = {abi::DeviceType::cuda, 0};
          tensor.ndim = from.dimensions;
          tensor.dtype = from.dtype;
          tensor.shape = shapes[i].data();
          tensor.strides = strides[i].data();
          to.type = abi::TypeIndex::tensor_pointer;
          to.tensor = &tensor;
          break;
        }
      }
    }
  }
};

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

std::string loader_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "unknown error of the dynamic loader" : text;
}

/// The candidate's library and what a call of it needs.
struct Candidate {
  abi::SetStreamFunction set_stream = nullptr;
  abi::MoveErrorFunction move_error = nullptr;
  int (*synchronize)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  abi::EntryFunction entry = nullptr;
};

Candidate load(const char* kernel_path, const char* ffi_path, Reporter& reporter) {
  void* ffi = ::dlopen(ffi_path, RTLD_NOW | RTLD_GLOBAL);
  if (ffi == nullptr) reporter.end(RunnerOutcome::internal, 0, loader_error());
  void* cuda = ::dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
  if (cuda == nullptr) reporter.end(RunnerOutcome::internal, 0, loader_error());
  Candidate out;
  out.set_stream = symbol<abi::SetStreamFunction>(ffi, abi::kSetStreamSymbol);
  out.move_error = symbol<abi::MoveErrorFunction>(ffi, abi::kMoveErrorSymbol);
  out.synchronize = symbol<int (*)()>(cuda, "cudaDeviceSynchronize");
  out.error_text = symbol<const char* (*)(int)>(cuda, "cudaGetErrorString");
  if (out.set_stream == nullptr || out.move_error == nullptr || out.synchronize == nullptr ||
      out.error_text == nullptr) {
    reporter.end(RunnerOutcome::internal, 0, loader_error());
  }
  void* kernel = ::dlopen(kernel_path, RTLD_NOW | RTLD_LOCAL);
  if (kernel == nullptr) reporter.end(RunnerOutcome::load_failed, 0, loader_error());
  out.entry = symbol<abi::EntryFunction>(kernel, abi::kEntrySymbol);
  if (out.entry == nullptr) reporter.end(RunnerOutcome::no_entry, 0, loader_error());
  // A caller that owns device tensors has initialised CUDA already.
  if (const int code = out.synchronize(); code != 0)
    reporter.end(RunnerOutcome::internal, code, "cannot reach the device");
  return out;
}

/// Returns when the call and all work on the device are done; ends the process where that fails.
void make_call(const Candidate& candidate, const Call& call, Reporter& reporter) {
  const Arguments arguments(call);
  candidate.set_stream(static_cast<std::int32_t>(abi::DeviceType::cuda), 0, nullptr, nullptr);
  reporter.begin(RunnerStep::calling);
  abi::Any result;
  const int status =
      candidate.entry(nullptr, arguments.values.data(), static_cast<std::int32_t>(arguments.values.size()), &result);
  if (status != 0) {
    void* raised = nullptr;
    candidate.move_error(&raised);
    if (raised == nullptr) {
      reporter.end(RunnerOutcome::threw, status, "the function returned an error without saying which", "Error");
    }
    const auto* error = static_cast<const abi::ErrorObject*>(raised);
    reporter.end(RunnerOutcome::threw, status, view(error->message), view(error->kind), view(error->backtrace));
  }
  reporter.begin(RunnerStep::synchronizing);
  if (const int code = candidate.synchronize(); code != 0) {
    const char* text = candidate.error_text(code);
    reporter.end(RunnerOutcome::cuda_error, code, text == nullptr ? "" : text);
  }
}

/// Calls come one a packet.
[[noreturn]] void serve(const Candidate& candidate, int fd, Reporter& reporter) {
  static Call call;
  while (true) {
    const ssize_t got = ::read(fd, &call, sizeof call);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) ::_exit(0);
    if (got != sizeof call || call.magic != kCallMagic || call.argument_count > kMaxArguments)
      reporter.end(RunnerOutcome::internal, 0, "the call's description is damaged");
    make_call(candidate, call, reporter);
    reporter.finish_call();
  }
}

}  // namespace
}  // namespace ptxbench::candidate

int main(int argc, char** argv) {
  namespace candidate = ptxbench::candidate;
  if (argc != 5) {
    std::fputs("ptxbench-runner: started by ptxbench, not by hand: KERNEL.so LIBTVM_FFI.so CALL_FD REPORT_FD\n",
               stderr);
    return 2;
  }
  candidate::Reporter reporter(std::atoi(argv[4]));
  const bool serves = std::string_view(argv[3]) == "--serve";
  static candidate::Call call;
  if (!serves && !candidate::read_call(std::atoi(argv[3]), call)) {
    reporter.begin(candidate::RunnerStep::loading);
    reporter.end(candidate::RunnerOutcome::internal, 0, "the call's description is damaged");
  }
  reporter.begin(candidate::RunnerStep::loading);
  const candidate::Candidate loaded = candidate::load(argv[1], argv[2], reporter);
  if (serves) candidate::serve(loaded, std::atoi(argv[4]), reporter);
  candidate::make_call(loaded, call, reporter);
  reporter.begin(candidate::RunnerStep::done);
  reporter.end(candidate::RunnerOutcome::finished);
}
