#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_shim/device_backend.h"
#include "cuda_shim/protocol.h"
#include "cuda_shim/shared_memory.h"
#include "cuda_shim/stream_executor.h"

namespace ptxbench::cuda_shim {

/// Text that kernels printed, until the client fetches it to put it into its own standard output at the right place.
class DeviceOutput {
 public:
  /// Beyond this, text is dropped and a line says so.
  static constexpr std::size_t kMaxBytes = 64u << 20;
  void append(std::string_view text);
  bool waits() const;
  /// Takes at most `limit` bytes.
  std::string take(std::size_t limit);

 private:
  mutable std::mutex mutex_;
  std::string text_;
  bool overflowed_ = false;
};

/// Something worth telling besides kernel faults: a call that is not modelled, a program without PTX, a refused launch.
struct HostDiagnostic {
  std::string rule;
  std::string message;
  std::string remedy;
  std::string kernel;  ///< the kernel whose launch it is about
  std::string call;    ///< the host call: "cudaLaunchKernel (<<<>>>)"
  bool note = false;   ///< never decides a verdict
};

/// What was seen of the client processes so far.
struct ShimReport {
  uint64_t clients = 0;  ///< processes that connected
  uint64_t launches = 0;
  uint64_t launches_cancelled = 0;  ///< of these, ended early because the client was gone
  uint64_t warp_instructions = 0;
  double kernel_seconds = 0;
  uint64_t bytes_to_device = 0, bytes_from_device = 0;
  std::optional<emulator::Fault> fault;  ///< the first
  std::string fault_kernel;
  std::vector<HostDiagnostic> diagnostics;  ///< at most kMaxDiagnostics
  uint64_t diagnostics_dropped = 0;
  std::set<std::string> approximate;  ///< executed instructions that only approximate the hardware
  std::set<std::string> unsupported;  ///< host calls and instructions that stopped the program
  static constexpr std::size_t kMaxDiagnostics = 50;
};

struct ShimOptions {
  unsigned max_connections = 256;  ///< client threads
  /// Nobody is served before ShimServer::expect() has named the process that may be a client, and nobody else then.
  bool expects_client = false;
  uint64_t max_shared_bytes = 16ull << 30;  ///< pinned and managed memory of one client
  uint64_t max_image_bytes = 1ull << 30;    ///< module images that wait to be loaded, of all threads
  std::size_t max_modules = 4096, max_functions = 1u << 16;
  /// Called in the executing thread after every launch.
  std::function<void(const emulator::LaunchReport&)> on_launch;
  /// May refuse a host-to-device copy or a fill (evaluation forbids some). Default: all allowed.
  std::function<bool(uint64_t address, uint64_t bytes)> may_write;
};

/// The CUDA error number a client sees after a kernel fault (docs/cuda-shim.md has the table).
int fault_error(std::string_view rule);

/// Everything one client process has: its modules, memory and streams. Requests arrive from one thread per client
/// thread.
class Session {
 public:
  Session(DeviceBackend& backend, std::shared_ptr<DeviceOutput> output, const ShimOptions& options, int lost_error);
  ~Session();

  /// One per client thread.
  struct Connection {
    SharedMemory staging;
    std::vector<std::byte> image;  ///< collected by append_image
  };
  /// Answers a request. A descriptor to send along is stored in `descriptor` (not owned).
  Reply handle(const Request& request, Connection& connection, int& descriptor);
  /// The connection has ended.
  void release(Connection& connection);
  /// The client is gone; `finish`: let its queued work run first. Frees what it had.
  void close(bool finish);
  /// Its process has ended: nobody runs host functions any more.
  void client_gone() { executor_.client_gone(); }
  /// Makes requests that wait return: what is queued is dropped. close() must still follow.
  void abandon() {
    executor_.abandon();
    stop_launches_.request_stop();
  }

  ShimReport report() const;
  int lost() const { return executor_.lost(); }

 private:
  struct Module {
    emulator::ModuleId id = 0;
    std::map<std::string, uint32_t, std::less<>> functions;
  };
  struct Function {
    emulator::FunctionId id;
    emulator::FunctionAttributes attributes;
    std::string name;
    uint32_t module = 0;
    uint32_t max_dynamic_shared_bytes = 0;
    bool opted_in = false;  ///< the host set the limit of dynamic shared memory
    bool non_portable_cluster = false;
  };
  /// Launches whose result only cudaGetLastError and cudaPeekAtLastError tell.
  struct UncheckedLaunches {
    uint64_t launches = 0;
    bool checked = false;  ///< at least one was
    std::string first, failed;
    int error = 0;  ///< of `failed`, which was refused and not asked about since
  };
  struct SharedBlock {
    SharedMemory memory;
    uint64_t bytes = 0;
    PointerKind kind{};
  };

  /// The streams' work has been handed to the device: now it has to be done.
  int synchronized(int error);
  int dispatch(Op op, const Request& request, Connection& connection, Reply& reply, int& descriptor);
  // session_memory.cpp
  int allocate(const BytesBody& body, Reply& reply);
  int free(const AddressBody& body);
  int allocate_shared(const BytesBody& body, Reply& reply, int& descriptor);
  int share_symbol(const ModuleBody& body, const Connection& connection, Reply& reply, int& descriptor);
  int free_shared(const AddressBody& body);
  int reset_device();
  int pointer_info(const AddressBody& body, Reply& reply);
  int copy_to_device(const CopyBody& body, const Connection& connection);
  int copy_from_device(const CopyBody& body, const Connection& connection);
  int copy_on_device(const CopyBody& body);
  int fill(const FillBody& body);
  template <class Row>
  void for_rows(uint64_t rows, Row row);
  bool may_write(uint64_t address, uint64_t bytes);
  /// Memory that the host does not see.
  bool is_device_only(uint64_t address);
  uint64_t reserve_shared_range(uint64_t bytes);
  void check(const Result<void>& result, const char* what);
  /// From within a piece of work.
  void observe(std::string_view what, const std::vector<emulator::StreamCopyEvent::Range>& reads,
               const std::vector<emulator::StreamCopyEvent::Range>& writes, bool parts_only);
  // session_modules.cpp
  int append_image(const BytesBody& body, Connection& connection);
  int load_image(const BytesBody& body, Connection& connection, Reply& reply);
  int unload_module(const ModuleBody& body);
  int find_function(const ModuleBody& body, const Connection& connection, Reply& reply);
  int find_symbol(const ModuleBody& body, const Connection& connection, Reply& reply);
  int set_function_limits(const FunctionLimitsBody& body);
  int occupancy(const OccupancyBody& body, Reply& reply);
  int launch(const LaunchBody& body, const Connection& connection);
  int check_launch(const LaunchBody& body, const Function& function);
  void run_launch(emulator::LaunchRequest request, const std::string& name, LaunchCall call);
  void tell_unchecked_launches();

  void diagnose(std::string rule, std::string message, std::string remedy);
  void diagnose(HostDiagnostic diagnostic);
  std::optional<std::string> staged_text(const Connection& connection, uint64_t bytes) const;

  DeviceBackend& backend_;
  std::shared_ptr<DeviceOutput> output_;
  const ShimOptions& options_;
  std::stop_source stop_launches_;
  StreamExecutor executor_;

  mutable std::mutex mutex_;  // guards what follows; never held while the backend executes
  std::map<uint32_t, Module> modules_;
  std::map<uint32_t, Function> functions_;
  std::map<uint64_t, uint64_t> allocations_;         // address -> bytes
  std::map<uint64_t, SharedBlock> shared_;           // by address
  std::map<uint64_t, SharedMemory> shared_symbols_;  // by first page
  std::map<uint64_t, uint64_t> shared_gaps_;         // freed ranges of the shared half of the window
  uint64_t next_shared_ = emulator::kHostSharedBase + (1ull << 21);
  uint64_t shared_bytes_ = 0;
  uint64_t image_bytes_ = 0;  // held by all connections
  uint32_t next_id_ = 1;
  ShimReport report_;
  UncheckedLaunches unchecked_;
  bool closed_ = false;
};

}  // namespace ptxbench::cuda_shim
