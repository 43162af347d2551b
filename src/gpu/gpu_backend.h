#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "cuda_shim/device_backend.h"
#include "cuda_shim/guarded_backend.h"
#include "gpu/device.h"
#include "gpu/device_memory.h"

namespace ptxbench::gpu {

/// A real GPU behind the client libraries. Everything runs on the device's one stream, in the order in which the
/// session's streams hand it over, which is one that CUDA allows.
///
/// In mode `immediate` each piece of work is waited for, so that a fault has a kernel. In mode `recorded` launches,
/// copies and fills are only noted: whoever measures takes them and runs them when the GPU is ready, without the
/// candidate's host code in between. A host that must see a result (a copy to the host; any wait, once it shares memory
/// with the device) makes the notes run first; `on_interruption` is told before that. Between calls it is `closed`:
/// work that arrives then would run outside of every measured time, so it is a fault.
///
/// Of the device's memory the candidate's host code sees its own and the tensors of the present call.
class GpuBackend final : public cuda_shim::DeviceBackend {
 public:
  enum class Mode { immediate, recorded, closed };

  struct Launch {
    CUfunction function = nullptr;
    std::string kernel;
    CUlaunchConfig config{};
    std::vector<CUlaunchAttribute> attributes;
    std::vector<std::byte> parameters;
  };
  struct Copy {
    std::uint64_t destination = 0, source = 0, bytes = 0;
  };
  struct Write {
    std::uint64_t destination = 0;
    std::vector<std::byte> bytes;
  };
  struct Fill {
    std::uint64_t address = 0;
    std::uint32_t value = 0;
    unsigned value_bytes = 1;
    std::uint64_t count = 0;
  };
  using Work = std::variant<Launch, Copy, Write, Fill>;
  /// What a call noted: its work, and memory that it freed, which that work may still use.
  struct Noted {
    std::vector<Work> work;
    std::vector<std::uint64_t> freed;
  };

  GpuBackend(const Device& device, DeviceMemory& memory) : device_(device), memory_(memory) {}
  ~GpuBackend() override;

  /// SHA-256 digests (hexadecimal) of the machine code that may be loaded; others are refused.
  void allow(std::set<std::string> cubins);
  void set_mode(Mode mode);
  void on_interruption(std::function<void()> told);
  /// The tensors of the present call.
  void show(const std::vector<cuda_shim::TensorRange>& tensors);
  /// The call is over: what it noted, for run() and free_now().
  Noted close();
  /// Puts it on the stream; does not wait.
  Result<void> run(const Work& work);
  void free_now(const std::vector<std::uint64_t>& addresses);
  /// Whether some thread of the candidate's waits for the GPU now.
  bool waits() const { return waiting_ != 0; }
  /// Whether host code can see memory that kernels write.
  bool shares_memory() const;
  /// The first error of the GPU, as of a fault: the context is lost.
  std::optional<emulator::Fault> fault() const;
  /// Asks the GPU whether all went well; sets fault().
  bool drain(const std::string& kernel);

  Result<uint64_t> allocate(uint64_t bytes, std::string label) override;
  Result<void> free(uint64_t address) override;
  Result<void> adopt(uint64_t address, uint64_t bytes, std::string label) override;
  Result<void> release(uint64_t address) override;
  bool contains(uint64_t address, uint64_t bytes) const override;
  std::shared_ptr<const emulator::Allocation> find(uint64_t address) const override;
  uint64_t used_bytes() const override { return memory_.used(); }
  uint64_t total_bytes() const override;
  Result<emulator::ModuleId> load_ptx(std::string_view text, std::string name) override;
  bool wants_machine_code() const override { return true; }
  Result<emulator::ModuleId> load_machine_code(std::string_view cubin, std::string name) override;
  Result<void> unload(emulator::ModuleId module) override;
  Result<emulator::FunctionId> find_kernel(emulator::ModuleId module, std::string_view name) const override;
  Result<emulator::FunctionAttributes> attributes(emulator::FunctionId function) const override;
  Result<emulator::Device::Symbol> find_symbol(emulator::ModuleId module, std::string_view name) const override;
  Result<uint32_t> occupancy(emulator::FunctionId function, uint32_t block_threads,
                             uint32_t dynamic_shared_bytes) const override;
  tl::expected<emulator::LaunchReport, emulator::LaunchError> launch(const emulator::LaunchRequest& request) override;
  Result<void> write(uint64_t address, std::span<const std::byte> bytes) override;
  Result<void> read(uint64_t address, std::span<std::byte> bytes) const override;
  Result<void> copy(uint64_t destination, uint64_t source, uint64_t bytes) override;
  Result<void> fill(uint64_t address, uint32_t value, unsigned value_bytes, uint64_t count) override;
  bool is_host_shared(uint64_t address) const override;
  bool shares_symbols() const override { return false; }
  void synchronize() override;

 private:
  struct Function {
    CUfunction handle = nullptr;
    std::string name;
    emulator::FunctionAttributes attributes;
  };
  struct Module {
    CUmodule handle = nullptr;
    std::map<std::string, std::uint32_t, std::less<>> names;  ///< kernel -> index in functions_
  };
  /// A variable of a module: an allocation of its own for whoever copies to or from it.
  std::shared_ptr<const emulator::Allocation> find_variable(uint64_t address) const;
  /// Refuses work outside of a call. Needs the lock.
  bool refuse_late();
  std::vector<Work> take();
  Result<void> submit(Work work);
  void flush();
  /// Tells whoever measures that the host waits for the device now.
  void interrupt();
  /// An error, and the fault host.late-work, when the device is closed.
  Result<void> check_open();
  int function_attribute(CUfunction function, CUfunction_attribute which) const;

  const Device& device_;
  DeviceMemory& memory_;
  std::function<void()> interrupted_;
  mutable std::atomic<int> waiting_ = 0;
  std::mutex flushing_;  ///< held while notes run on behalf of the host; taken before mutex_
  mutable std::mutex mutex_;
  std::set<std::string> allowed_;
  Mode mode_ = Mode::immediate;
  std::vector<Work> noted_;
  std::vector<std::uint64_t> freed_;
  mutable std::map<emulator::ModuleId, Module> modules_;
  mutable std::vector<Function> functions_;
  mutable std::map<std::uint64_t, std::shared_ptr<emulator::Allocation>> variables_;
  std::map<std::uint64_t, std::shared_ptr<emulator::Allocation>> tensors_;
  std::map<std::uint64_t, std::shared_ptr<emulator::Allocation>> shared_;  ///< host memory that the GPU sees
  emulator::ModuleId next_module_ = 1;
  std::optional<emulator::Fault> fault_;
};

/// Rewrites the client's own form of tensor maps (emulator::TensorMap) in `bytes` into the hardware's.
/// The client encodes maps without asking anybody; they reach the device in parameters and copies. An error is the
/// driver's refusal of a map that the client's rules accept.
Result<void> translate_tensor_maps(const Driver& driver, std::span<std::byte> bytes);

}  // namespace ptxbench::gpu
