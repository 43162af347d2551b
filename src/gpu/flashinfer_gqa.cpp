#include "gpu/flashinfer_gqa.h"

#include <algorithm>
#include <array>

namespace ptxbench::gpu {
namespace {

using A = FfiArguments;

constexpr std::int64_t kDepth = 128;  // of the modules, as scripts/build_flashinfer.sh builds them
// FlashInfer's codes.
constexpr std::int64_t kNotCausal = 0, kCausal = 1, kTokensBeforeHeads = 0, kNoWindow = -1;
constexpr double kNoCap = 0;
constexpr bool kDependentLaunch = true;  // the wrappers' choice where the GPU has it

template <class T>
std::int64_t count(const std::vector<T>& list) {
  return static_cast<std::int64_t>(list.size());
}

}  // namespace

Result<FlashInferGqa> FlashInferGqa::read(const base::Json& description) {
  FlashInferGqa out;
  const auto number = [&](const char* key) { return description.at(key).get<std::int64_t>(); };
  const auto place = [&](const char* key) { return description.at(key).get<std::size_t>(); };
  const auto place_if = [&](const char* key) {
    return description.contains(key) ? std::optional(description[key].get<std::size_t>()) : std::nullopt;
  };
  out.paged_ = description.at("paged").get<bool>();
  out.page_size_ = out.paged_ ? number("page_size") : 1;
  out.places_ = number("places");
  out.queries_ = number("queries");
  out.heads_ = number("heads");
  out.kv_heads_ = number("kv_heads");
  out.scale_ = description.at("scale").get<double>();
  out.kv_offsets_ = description.at("kv_offsets").get<Numbers>();
  const bool decode = !description.contains("q_offsets");
  if (!decode) out.q_offsets_ = description["q_offsets"].get<Numbers>();
  if (description.contains("last_pages")) out.last_pages_ = description["last_pages"].get<Numbers>();
  out.q_ = place("q");
  out.k_ = place("k");
  out.v_ = place("v");
  out.o_ = place("o");
  out.lse_ = place("lse");
  out.kv_offsets_at_ = place("kv_offsets_at");
  if (out.paged_) out.kv_indices_at_ = place("kv_indices_at");
  out.q_offsets_at_ = place_if("q_offsets_at");
  out.last_pages_at_ = place_if("last_pages_at");
  if (auto done = out.check(description.at("dtype").get<std::string>(), number("depth"),
                            description.value("causal", false), decode);
      !done) {
    return tl::unexpected<Error>(done.error());
  }
  out.key_counts_ = out.key_counts();
  if (!decode) {
    out.method_ = out.paged_ ? Method::paged_prefill : Method::ragged_prefill;
    return out;
  }
  out.q_offsets_ = out.own_q_offsets();
  // The kernels without tensor cores exist for these numbers of query heads to a head of K and V.
  constexpr std::array<std::int64_t, 5> kGroups = {1, 2, 3, 4, 8};
  const bool has_kernel = std::find(kGroups.begin(), kGroups.end(), out.heads_ / out.kv_heads_) != kGroups.end();
  out.method_ = !has_kernel || description.value("tensor_cores", false) ? Method::decode_tensor_cores : Method::decode;
  return out;
}

Result<void> FlashInferGqa::check(const std::string& dtype, std::int64_t depth, bool causal, bool decode) const {
  if (dtype != "bfloat16" || depth != kDepth || decode == causal || (decode && !paged_)) {
    return infrastructure_error(
        "FlashInfer's modules are built for bfloat16, depth {}, decode from pages and causal prefill, not for {}, "
        "depth {}, {}{}",
        kDepth, dtype, depth, causal ? "causal " : "", decode ? "decode" : "prefill");
  }
  const bool fits = requests() >= 1 && kv_heads_ >= 1 && heads_ % kv_heads_ == 0 && page_size_ >= 1 &&
                    (decode ? queries_ == requests() : q_offsets_at_ && count(q_offsets_) == requests() + 1) &&
                    (last_pages_at_ ? count(last_pages_) >= requests() : page_size_ == 1);
  if (!fits) return infrastructure_error("the description of a FlashInfer baseline is damaged");
  return {};
}

Result<FlashInferModule> FlashInferGqa::load(const FlashInferFolder& folder) const {
  switch (method_) {
    case Method::decode:
      return FlashInferModule::load(folder, "decode", {"plan", "run"});
    case Method::decode_tensor_cores:
      return FlashInferModule::load(folder, "decode_tensor_cores", {"plan", "paged_run"});
    case Method::paged_prefill:
      return FlashInferModule::load(folder, "prefill", {"plan", "paged_run"});
    case Method::ragged_prefill:
      break;
  }
  return FlashInferModule::load(folder, "prefill", {"plan", "ragged_run"});
}

FlashInferGqa::Numbers FlashInferGqa::own_q_offsets() const {
  Numbers out;
  for (std::int32_t i = 0; i <= requests(); ++i) out.push_back(i);
  return out;
}

FlashInferGqa::Numbers FlashInferGqa::own_last_pages() const { return Numbers(kv_offsets_.size() - 1, 1); }

FlashInferGqa::Numbers FlashInferGqa::key_counts() const {
  Numbers out;
  const auto page = static_cast<std::int32_t>(page_size_);
  for (std::size_t i = 0; i + 1 < kv_offsets_.size(); ++i) {
    const std::int32_t pages = kv_offsets_[i + 1] - kv_offsets_[i];
    out.push_back(pages <= 0 ? 0 : (pages - 1) * page + (last_pages_at_ ? last_pages_[i] : page));
  }
  return out;
}

FfiArguments FlashInferGqa::plan_arguments(const Memory& memory, void* staging) {
  A call;
  call.tensor(memory.floats, memory.device, A::kBytes, {kFloatWorkspaceBytes});
  call.tensor(memory.integers, memory.device, A::kBytes, {kIntWorkspaceBytes});
  call.tensor(staging, A::kHost, A::kBytes, {kIntWorkspaceBytes});
  if (method_ != Method::decode) call.tensor(q_offsets_.data(), A::kHost, A::kInt32, {requests() + 1});
  call.tensor(kv_offsets_.data(), A::kHost, A::kInt32, {requests() + 1});
  if (method_ != Method::decode) {
    call.tensor(key_counts_.data(), A::kHost, A::kInt32, {requests()});
    call.integer(queries_);
  }
  call.integer(requests());
  call.integer(heads_);
  call.integer(kv_heads_);
  call.integer(page_size_);
  call.boolean(false);  // no CUDA graph
  if (method_ == Method::decode) {
    call.integer(kNoWindow);
    call.number(kNoCap);
  }
  call.integer(kDepth);
  call.integer(kDepth);
  if (method_ == Method::decode) {
    // Of the types of q and of the cache.
    call.tensor(nullptr, A::kHost, A::kBfloat16, {0});
    call.tensor(nullptr, A::kHost, A::kBfloat16, {0});
  } else {
    call.boolean(!decodes());  // causal
    call.integer(kNoWindow);
  }
  if (method_ == Method::decode_tensor_cores) {
    call.integer(-1);     // keys are split as it thinks best
    call.boolean(false);  // and may be
    call.integer(0);      // other blocks on the same multiprocessors
  }
  return call;
}

FfiArguments FlashInferGqa::run_arguments(const Memory& memory, const candidate::abi::Any& planned,
                                          const std::vector<std::uint64_t>& inputs,
                                          const std::vector<std::uint64_t>& outputs) const {
  const auto input = [&](std::size_t place) { return reinterpret_cast<void*>(inputs.at(place)); };
  const auto output = [&](std::size_t place) { return reinterpret_cast<void*>(outputs.at(place)); };
  A call;
  const auto on_device = [&](void* data, A::Dtype dtype, std::initializer_list<std::int64_t> shape) {
    call.tensor(data, memory.device, dtype, shape);
  };
  on_device(memory.floats, A::kBytes, {kFloatWorkspaceBytes});
  on_device(memory.integers, A::kBytes, {kIntWorkspaceBytes});
  call.object(planned);
  on_device(input(q_), A::kBfloat16, {queries_, heads_, kDepth});
  for (const std::size_t place : {k_, v_}) {
    if (paged_) {
      on_device(input(place), A::kBfloat16, {places_, page_size_, kv_heads_, kDepth});
    } else {
      on_device(input(place), A::kBfloat16, {places_, kv_heads_, kDepth});
    }
  }
  if (method_ != Method::decode)
    on_device(q_offsets_at_ ? input(*q_offsets_at_) : memory.q_offsets, A::kInt32, {requests() + 1});
  on_device(input(kv_offsets_at_), A::kInt32, {requests() + 1});
  if (paged_) {
    on_device(input(kv_indices_at_), A::kInt32, {kv_offsets_.back()});
    on_device(last_pages_at_ ? input(*last_pages_at_) : memory.last_pages, A::kInt32, {requests()});
  }
  on_device(output(o_), A::kBfloat16, {queries_, heads_, kDepth});
  on_device(output(lse_), A::kFloat32, {queries_, heads_});
  if (method_ != Method::decode) call.integer(decodes() ? kNotCausal : kCausal);
  call.integer(kTokensBeforeHeads);
  call.integer(kNoWindow);
  call.boolean(kDependentLaunch);
  add_variant(call);
  return call;
}

/// What the kind of attention adds: tensors, none of which is used here, and numbers (scripts/flashinfer_modules.py).
void FlashInferGqa::add_variant(FfiArguments& call) const {
  call.nothing(method_ == Method::decode ? 1 : method_ == Method::decode_tensor_cores ? 8 : 4);
  call.number(kNoCap);
  call.number(scale_);
  if (decodes()) {
    call.number(1);     // of rotary positions, which there are none of: 1 over their scale
    call.number(1e-4);  // and 1 over theta
  } else {
    call.number(1);  // scale of v
  }
  if (method_ != Method::decode) call.integer(0);  // no items among the tokens
}

}  // namespace ptxbench::gpu
