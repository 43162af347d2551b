// Grouped-query attention through FlashInfer (flashinfer_gqa.h).

#include <optional>
#include <utility>

#include "gpu/baseline.h"
#include "gpu/flashinfer_gqa.h"

namespace ptxbench::gpu {
namespace {

class GroupedQueryAttention final : public Baseline {
 public:
  static Result<std::unique_ptr<Baseline>> create(const Device& device, const base::Json& description) {
    auto attention = FlashInferGqa::read(description);
    if (!attention) return tl::unexpected<Error>(attention.error());
    const auto folder = find_flashinfer();
    if (!folder) return tl::unexpected<Error>(folder.error());
    auto module = attention->load(*folder);
    if (!module) return tl::unexpected<Error>(module.error());
    std::unique_ptr<GroupedQueryAttention> out(
        new GroupedQueryAttention(device, std::move(*attention), std::move(*module), folder->version));
    if (auto done = out->plan(); !done) return tl::unexpected<Error>(done.error());
    return std::unique_ptr<Baseline>(std::move(out));
  }

  ~GroupedQueryAttention() override {
    module_.release(planned_);
    for (const CUdeviceptr block : blocks_) device_.driver().cuMemFree(block);
  }

  std::string name() const override { return "FlashInfer"; }
  std::string version() const override { return version_; }

  Result<void> run(const std::vector<std::uint64_t>& inputs, const std::vector<std::uint64_t>& outputs) override {
    const auto done = call(kRun, attention_.run_arguments(memory_, planned_, inputs, outputs));
    if (!done) return tl::unexpected<Error>(done.error());
    return {};
  }

 private:
  static constexpr std::size_t kPlan = 0, kRun = 1;
  using Numbers = FlashInferGqa::Numbers;

  GroupedQueryAttention(const Device& device, FlashInferGqa attention, FlashInferModule module, std::string version)
      : device_(device),
        attention_(std::move(attention)),
        module_(std::move(module)),
        version_(std::move(version)),
        memory_{.device = {candidate::abi::DeviceType::cuda, device.facts().ordinal}} {}

  Result<candidate::abi::Any> call(std::size_t function, const FfiArguments& arguments) {
    auto done = module_.call(function, arguments, device_.facts().ordinal, device_.stream());
    // It sets CUDA's current device, and sets it back to what the runtime, not we, had current before.
    device_.activate();
    return done;
  }

  /// With a copy of `content`, else zeros.
  Result<void> allocate(void*& to, std::int64_t bytes, const void* content) {
    const Driver& cuda = device_.driver();
    const auto size = static_cast<std::size_t>(bytes);
    CUdeviceptr block = 0;
    CUresult result = cuda.cuMemAlloc(&block, size);
    if (result == CUDA_SUCCESS) {
      blocks_.push_back(block);
      to = reinterpret_cast<void*>(block);
      result = content == nullptr ? cuda.cuMemsetD8Async(block, 0, size, device_.stream())
                                  : cuda.cuMemcpyHtoDAsync(block, content, size, device_.stream());
    }
    return device_.check(result, "memory for FlashInfer");
  }

  Result<void> plan() {
    if (auto done = allocate(memory_.floats, FlashInferGqa::kFloatWorkspaceBytes, nullptr); !done) return done;
    if (auto done = allocate(memory_.integers, FlashInferGqa::kIntWorkspaceBytes, nullptr); !done) return done;
    const Numbers q_offsets = attention_.own_q_offsets(), last_pages = attention_.own_last_pages();
    for (const auto& [to, numbers] : {std::pair{&memory_.q_offsets, &q_offsets}, {&memory_.last_pages, &last_pages}}) {
      const auto bytes = static_cast<std::int64_t>(numbers->size() * sizeof(std::int32_t));
      if (auto done = allocate(*to, bytes, numbers->data()); !done) return done;
    }
    std::vector<std::byte> staging(static_cast<std::size_t>(FlashInferGqa::kIntWorkspaceBytes));
    const auto planned = call(kPlan, attention_.plan_arguments(memory_, staging.data()));
    // Until then the plan may be on its way out of `staging`.
    auto arrived = device_.synchronize("FlashInfer's plan");
    if (!planned) return tl::unexpected<Error>(planned.error());
    planned_ = *planned;
    return arrived;
  }

  const Device& device_;
  FlashInferGqa attention_;
  FlashInferModule module_;
  std::string version_;
  FlashInferGqa::Memory memory_;
  std::vector<CUdeviceptr> blocks_;
  candidate::abi::Any planned_;
};

}  // namespace

Result<std::unique_ptr<Baseline>> make_gqa_baseline(const Device& device, const base::Json& description) {
  return GroupedQueryAttention::create(device, description);
}

}  // namespace ptxbench::gpu
