// Attention through cuDNN's graph interface (cudnn-frontend, headers only; the library is found at run time).

#include <dlfcn.h>
#include <fmt/format.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <cudnn_frontend.h>
#pragma GCC diagnostic pop

#include <cmath>
#include <unordered_map>

#include "gpu/baseline.h"

namespace cudnn_frontend {
// Where the frontend looks up the library's functions.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace ptxbench::gpu {
namespace {

namespace fe = cudnn_frontend;

class Attention final : public Baseline {
 public:
  static Result<std::unique_ptr<Baseline>> create(const Device& device, const base::Json& description) {
    if (fe::cudnn_dlhandle == nullptr) fe::cudnn_dlhandle = ::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_GLOBAL);
    if (fe::cudnn_dlhandle == nullptr) return infrastructure_error("cuDNN not installed: {}", ::dlerror());
    std::unique_ptr<Attention> out(new Attention(device));
    if (auto done = out->plan(description); !done) return tl::unexpected<Error>(done.error());
    return std::unique_ptr<Baseline>(std::move(out));
  }

  ~Attention() override {
    if (workspace_ != 0) device_.driver().cuMemFree(workspace_);
  }

  std::string name() const override { return "cuDNN"; }
  std::string version() const override {
    const std::size_t number = fe::detail::get_backend_version();
    return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  }

  Result<void> run(const std::vector<std::uint64_t>& inputs, const std::vector<std::uint64_t>& outputs) override {
    std::unordered_map<std::int64_t, void*> pack;
    for (const Binding& one : bindings_)
      pack[one.uid] = reinterpret_cast<void*>((one.output ? outputs : inputs).at(one.place));
    fe::error_t error = graph_.execute(handle_, pack, reinterpret_cast<void*>(workspace_));
    if (error.is_bad()) return infrastructure_error("cuDNN: {}", error.get_message());
    return {};
  }

 private:
  struct Binding {
    std::int64_t uid = 0;
    std::size_t place = 0;
    bool output = false;
  };
  using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

  explicit Attention(const Device& device) : device_(device) {}

  Result<void> plan(const base::Json& description) {
    const auto number = [&](const char* key) { return description.at(key).get<std::int64_t>(); };
    const std::int64_t batch = number("batch"), heads = number("heads"), sequence = number("sequence"),
                       depth = number("depth");
    const bool causal = description.value("causal", false), backward = description.value("backward", false);
    const std::string dtype = description.at("dtype").get<std::string>();
    if (dtype != "bfloat16" && dtype != "float16") return infrastructure_error("no cuDNN baseline for {}", dtype);
    const fe::DataType_t type = dtype == "bfloat16" ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
    if (fe::detail::create_handle(&handle_) != CUDNN_STATUS_SUCCESS ||
        fe::detail::set_stream(handle_, reinterpret_cast<cudaStream_t>(device_.stream())) != CUDNN_STATUS_SUCCESS) {
      return infrastructure_error("cuDNN does not start");
    }
    graph_.set_io_data_type(type)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const std::vector<std::int64_t> shape = {batch, heads, sequence, depth};
    const std::vector<std::int64_t> strides = {heads * sequence * depth, sequence * depth, depth, 1};
    const std::vector<std::int64_t> row_shape = {batch, heads, sequence, 1};
    const std::vector<std::int64_t> row_strides = {heads * sequence, sequence, 1, 1};
    const auto bind = [&](const char* key, bool output) {
      bindings_.push_back(
          {static_cast<std::int64_t>(bindings_.size()) + 1, static_cast<std::size_t>(number(key)), output});
      return bindings_.back().uid;
    };
    const auto matrix = [&](const char* key) {
      return graph_.tensor(
          fe::graph::Tensor_attributes().set_name(key).set_uid(bind(key, false)).set_dim(shape).set_stride(strides));
    };
    const auto result = [&](const Tensor& tensor, const char* key) {
      tensor->set_output(true).set_uid(bind(key, true)).set_dim(shape).set_stride(strides);
    };
    const float scale = 1.0f / std::sqrt(static_cast<float>(depth));
    const Tensor q = matrix("q"), k = matrix("k"), v = matrix("v");
    if (!backward) {
      auto options = fe::graph::SDPA_attributes().set_name("sdpa").set_generate_stats(true).set_attn_scale(scale);
      if (causal) options.set_causal_mask(true);
      const auto [o, stats] = graph_.sdpa(q, k, v, options);
      result(o, "o");
      stats->set_output(true)
          .set_uid(bind("lse", true))
          .set_data_type(fe::DataType_t::FLOAT)
          .set_dim(row_shape)
          .set_stride(row_strides);
    } else {
      const Tensor o = matrix("o"), d_o = matrix("do");
      const Tensor stats = graph_.tensor(fe::graph::Tensor_attributes()
                                             .set_name("lse")
                                             .set_uid(bind("lse", false))
                                             .set_data_type(fe::DataType_t::FLOAT)
                                             .set_dim(row_shape)
                                             .set_stride(row_strides));
      auto options = fe::graph::SDPA_backward_attributes().set_name("sdpa_backward").set_attn_scale(scale);
      if (causal) options.set_causal_mask(true);
      const auto [dq, dk, dv] = graph_.sdpa_backward(q, k, v, o, d_o, stats, options);
      result(dq, "dq");
      result(dk, "dk");
      result(dv, "dv");
    }
    fe::error_t error = graph_.build(handle_, {fe::HeurMode_t::A});
    std::int64_t bytes = 0;
    if (error.is_good()) error = graph_.get_workspace_size(bytes);
    if (error.is_bad()) return infrastructure_error("cuDNN has no plan for this attention: {}", error.get_message());
    if (bytes == 0) return {};
    return device_.check(device_.driver().cuMemAlloc(&workspace_, static_cast<std::size_t>(bytes)), "memory for cuDNN");
  }

  const Device& device_;
  cudnnHandle_t handle_ = nullptr;
  fe::graph::Graph graph_;
  std::vector<Binding> bindings_;
  CUdeviceptr workspace_ = 0;
};

}  // namespace

Result<std::unique_ptr<Baseline>> make_attention_baseline(const Device& device, const base::Json& description) {
  return Attention::create(device, description);
}

}  // namespace ptxbench::gpu
