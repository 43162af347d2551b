// Grouped-query attention through FlashInfer's modules (flashinfer_module.h), called as its own Python wrappers call
// them: BatchDecodeWithPagedKVCacheWrapper, with or without tensor cores, and BatchPrefillWithPagedKVCacheWrapper and
// BatchPrefillWithRaggedKVCacheWrapper, whose choice on Hopper are the kernels for that architecture ("FA3").

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "gpu/baseline.h"
#include "gpu/flashinfer_module.h"

namespace ptxbench::gpu {
namespace {

using Any = candidate::abi::Any;
using Numbers = std::vector<std::int32_t>;

constexpr std::int64_t kDepth = 128;  // of the modules, as scripts/build_flashinfer.sh builds them
// What the wrappers take, and recommend for partial results.
constexpr std::int64_t kIntWorkspaceBytes = std::int64_t{8} << 20;
constexpr std::int64_t kFloatWorkspaceBytes = std::int64_t{128} << 20;
// FlashInfer's codes.
constexpr std::int64_t kNotCausal = 0, kCausal = 1, kTokensBeforeHeads = 0, kNoWindow = -1;
constexpr bool kDependentLaunch = true;  // the wrappers' choice where the GPU has it

/// Its functions are looked up in this order.
enum Function : std::size_t { plan_function, run_function };

/// How the work is done.
enum class Method { decode, decode_tensor_cores, paged_prefill, ragged_prefill };

class GroupedQueryAttention final : public Baseline {
 public:
  static Result<std::unique_ptr<Baseline>> create(const Device& device, const base::Json& description) {
    std::unique_ptr<GroupedQueryAttention> out(new GroupedQueryAttention(device));
    if (auto done = out->read(description); !done) return tl::unexpected<Error>(done.error());
    if (auto done = out->load(); !done) return tl::unexpected<Error>(done.error());
    if (auto done = out->plan(); !done) return tl::unexpected<Error>(done.error());
    return std::unique_ptr<Baseline>(std::move(out));
  }

  ~GroupedQueryAttention() override {
    if (module_) module_->release(planned_);
    for (const CUdeviceptr block : blocks_) device_.driver().cuMemFree(block);
  }

  std::string name() const override { return "FlashInfer"; }
  std::string version() const override { return version_; }

  Result<void> run(const std::vector<std::uint64_t>& inputs, const std::vector<std::uint64_t>& outputs) override {
    using A = FfiArguments;
    const auto input = [&](std::size_t place) { return reinterpret_cast<void*>(inputs.at(place)); };
    A call;
    call.tensor(float_workspace_, gpu(), A::kBytes, {kFloatWorkspaceBytes});
    call.tensor(int_workspace_, gpu(), A::kBytes, {kIntWorkspaceBytes});
    call.object(planned_);
    call.tensor(input(q_), gpu(), A::kBfloat16, {queries_, heads_, kDepth});
    for (const std::size_t place : {k_, v_}) {
      if (paged_) {
        call.tensor(input(place), gpu(), A::kBfloat16, {places_, page_size_, kv_heads_, kDepth});
      } else {
        call.tensor(input(place), gpu(), A::kBfloat16, {places_, kv_heads_, kDepth});
      }
    }
    const std::int64_t requests = count(kv_offsets_) - 1;
    if (method_ != Method::decode)
      call.tensor(q_offsets_at_ ? input(*q_offsets_at_) : own_q_offsets_, gpu(), A::kInt32, {requests + 1});
    call.tensor(input(kv_offsets_at_), gpu(), A::kInt32, {requests + 1});
    if (paged_) {
      call.tensor(input(kv_indices_at_), gpu(), A::kInt32, {kv_offsets_.back()});
      call.tensor(last_pages_at_ ? input(*last_pages_at_) : own_last_pages_, gpu(), A::kInt32, {requests});
    }
    call.tensor(reinterpret_cast<void*>(outputs.at(o_)), gpu(), A::kBfloat16, {queries_, heads_, kDepth});
    call.tensor(reinterpret_cast<void*>(outputs.at(lse_)), gpu(), A::kFloat32, {queries_, heads_});
    if (method_ != Method::decode) call.integer(method_ == Method::decode_tensor_cores ? kNotCausal : kCausal);
    call.integer(kTokensBeforeHeads);
    call.integer(kNoWindow);
    call.boolean(kDependentLaunch);
    add_variant(call);
    auto done = module_->call(run_function, call, device_.facts().ordinal, device_.stream());
    if (!done) return tl::unexpected<Error>(done.error());
    return {};
  }

 private:
  explicit GroupedQueryAttention(const Device& device) : device_(device) {}

  static std::int64_t count(const Numbers& numbers) { return static_cast<std::int64_t>(numbers.size()); }
  FfiArguments::Device gpu() const { return {candidate::abi::DeviceType::cuda, device_.facts().ordinal}; }

  Result<void> read(const base::Json& description) {
    const auto number = [&](const char* key) { return description.at(key).get<std::int64_t>(); };
    const auto place = [&](const char* key) { return description.at(key).get<std::size_t>(); };
    const auto place_if = [&](const char* key) -> std::optional<std::size_t> {
      if (!description.contains(key)) return std::nullopt;
      return description[key].get<std::size_t>();
    };
    paged_ = description.at("paged").get<bool>();
    page_size_ = paged_ ? number("page_size") : 1;
    places_ = number("places");
    queries_ = number("queries");
    heads_ = number("heads");
    kv_heads_ = number("kv_heads");
    scale_ = description.at("scale").get<double>();
    kv_offsets_ = description.at("kv_offsets").get<Numbers>();
    const bool decode = !description.contains("q_offsets");
    if (!decode) q_offsets_ = description["q_offsets"].get<Numbers>();
    if (description.contains("last_pages")) last_pages_ = description["last_pages"].get<Numbers>();
    q_ = place("q");
    k_ = place("k");
    v_ = place("v");
    o_ = place("o");
    lse_ = place("lse");
    kv_offsets_at_ = place("kv_offsets_at");
    if (paged_) kv_indices_at_ = place("kv_indices_at");
    q_offsets_at_ = place_if("q_offsets_at");
    last_pages_at_ = place_if("last_pages_at");

    const std::string dtype = description.at("dtype").get<std::string>();
    const bool causal = description.value("causal", false);
    const std::int64_t depth = number("depth");
    if (dtype != "bfloat16" || depth != kDepth || decode == causal || (decode && !paged_)) {
      return infrastructure_error(
          "FlashInfer's modules are built for bfloat16, depth {}, decode from pages and causal prefill, not for {}, "
          "depth {}, {}{}",
          kDepth, dtype, depth, causal ? "causal " : "", decode ? "decode" : "prefill");
    }
    const std::int64_t requests = count(kv_offsets_) - 1;
    if (requests < 1 || kv_heads_ < 1 || heads_ % kv_heads_ != 0 ||
        (decode ? queries_ != requests : count(q_offsets_) != requests + 1) ||
        (last_pages_at_ && count(last_pages_) != requests) || (paged_ && page_size_ != 1 && !last_pages_at_)) {
      return infrastructure_error("the description of a FlashInfer baseline is damaged");
    }
    if (!decode) {
      method_ = paged_ ? Method::paged_prefill : Method::ragged_prefill;
      return {};
    }
    // The kernels without tensor cores exist for these numbers of query heads to a head of K and V.
    constexpr std::array<std::int64_t, 5> kGroups = {1, 2, 3, 4, 8};
    const bool has_kernel = std::find(kGroups.begin(), kGroups.end(), heads_ / kv_heads_) != kGroups.end();
    method_ = !has_kernel || description.value("tensor_cores", false) ? Method::decode_tensor_cores : Method::decode;
    return {};
  }

  Result<void> load() {
    const auto folder = find_flashinfer();
    if (!folder) return tl::unexpected<Error>(folder.error());
    version_ = folder->version;
    auto module = method_ == Method::decode ? FlashInferModule::load(*folder, "decode", {"plan", "run"})
                  : method_ == Method::decode_tensor_cores
                      ? FlashInferModule::load(*folder, "decode_tensor_cores", {"plan", "paged_run"})
                      : FlashInferModule::load(*folder, "prefill",
                                               {"plan", method_ == Method::paged_prefill ? "paged_run" : "ragged_run"});
    if (!module) return tl::unexpected<Error>(module.error());
    module_ = std::move(*module);
    return {};
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

  /// Keys of each request.
  Numbers lengths() const {
    Numbers out;
    for (std::size_t i = 0; i + 1 < kv_offsets_.size(); ++i) {
      const std::int32_t pages = kv_offsets_[i + 1] - kv_offsets_[i];
      const auto page = static_cast<std::int32_t>(page_size_);
      out.push_back(pages <= 0 ? 0 : (pages - 1) * page + (last_pages_at_ ? last_pages_[i] : page));
    }
    return out;
  }

  Result<void> plan() {
    using A = FfiArguments;
    const std::int64_t requests = count(kv_offsets_) - 1;
    // What the wrappers make for themselves where the problem has no such input.
    Numbers ones(static_cast<std::size_t>(requests), 1);
    if (q_offsets_.empty()) {
      for (std::int32_t i = 0; i <= requests; ++i) q_offsets_.push_back(i);
    }
    for (const auto& [to, bytes] :
         {std::pair{&float_workspace_, kFloatWorkspaceBytes}, {&int_workspace_, kIntWorkspaceBytes}}) {
      if (auto done = allocate(*to, bytes, nullptr); !done) return done;
    }
    for (const auto& [to, numbers] : {std::pair{&own_q_offsets_, &q_offsets_}, {&own_last_pages_, &ones}}) {
      if (auto done = allocate(*to, count(*numbers) * std::int64_t{sizeof(std::int32_t)}, numbers->data()); !done)
        return done;
    }
    Numbers key_lengths = lengths();
    std::vector<std::byte> staging(static_cast<std::size_t>(kIntWorkspaceBytes));
    A call;
    call.tensor(float_workspace_, gpu(), A::kBytes, {kFloatWorkspaceBytes});
    call.tensor(int_workspace_, gpu(), A::kBytes, {kIntWorkspaceBytes});
    call.tensor(staging.data(), A::kHost, A::kBytes, {kIntWorkspaceBytes});
    if (method_ != Method::decode) call.tensor(q_offsets_.data(), A::kHost, A::kInt32, {requests + 1});
    call.tensor(kv_offsets_.data(), A::kHost, A::kInt32, {requests + 1});
    if (method_ != Method::decode) {
      call.tensor(key_lengths.data(), A::kHost, A::kInt32, {requests});
      call.integer(queries_);
    }
    call.integer(requests);
    call.integer(heads_);
    call.integer(kv_heads_);
    call.integer(page_size_);
    call.boolean(false);  // no CUDA graph
    if (method_ == Method::decode) {
      call.integer(kNoWindow);
      call.number(0);  // no soft cap
    }
    call.integer(kDepth);
    call.integer(kDepth);
    if (method_ == Method::decode) {
      // Of the types of q and of the cache.
      call.tensor(nullptr, A::kHost, A::kBfloat16, {0});
      call.tensor(nullptr, A::kHost, A::kBfloat16, {0});
    } else {
      call.boolean(method_ != Method::decode_tensor_cores);  // causal
      call.integer(kNoWindow);
    }
    if (method_ == Method::decode_tensor_cores) {
      call.integer(-1);     // keys are split as it thinks best
      call.boolean(false);  // and they may be
      call.integer(0);      // other blocks on the same multiprocessors
    }
    auto planned = module_->call(plan_function, call, device_.facts().ordinal, device_.stream());
    if (!planned) return tl::unexpected<Error>(planned.error());
    planned_ = *planned;
    // The plan is on its way to the GPU.
    return device_.synchronize("FlashInfer's plan");
  }

  /// What the kind of attention adds to the arguments: none of the tensors is used.
  void add_variant(FfiArguments& call) const {
    constexpr double kNoCap = 0, kRopeScale = 1, kRopeTheta = 1e4;
    switch (method_) {
      case Method::decode:
        call.nothing(1);
        break;
      case Method::decode_tensor_cores:
        call.nothing(8);
        break;
      case Method::paged_prefill:
      case Method::ragged_prefill:
        call.nothing(4);
        break;
    }
    call.number(kNoCap);
    call.number(scale_);
    if (method_ == Method::decode || method_ == Method::decode_tensor_cores) {
      call.number(1 / kRopeScale);
      call.number(1 / kRopeTheta);
    } else {
      call.number(1);  // scale of v
    }
    if (method_ != Method::decode) call.integer(0);  // no items among tokens
  }

  const Device& device_;
  std::optional<FlashInferModule> module_;
  std::string version_;
  Method method_ = Method::decode;
  bool paged_ = false;
  std::int64_t page_size_ = 1, places_ = 0, queries_ = 0, heads_ = 0, kv_heads_ = 0;
  double scale_ = 1;
  Numbers kv_offsets_, q_offsets_, last_pages_;
  std::size_t q_ = 0, k_ = 0, v_ = 0, o_ = 0, lse_ = 0, kv_offsets_at_ = 0, kv_indices_at_ = 0;
  std::optional<std::size_t> q_offsets_at_, last_pages_at_;
  std::vector<CUdeviceptr> blocks_;
  void *float_workspace_ = nullptr, *int_workspace_ = nullptr, *own_q_offsets_ = nullptr, *own_last_pages_ = nullptr;
  Any planned_;
};

}  // namespace

Result<std::unique_ptr<Baseline>> make_gqa_baseline(const Device& device, const base::Json& description) {
  return GroupedQueryAttention::create(device, description);
}

}  // namespace ptxbench::gpu
