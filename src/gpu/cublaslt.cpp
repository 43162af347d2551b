// C = A B^T through cuBLASLt. The few calls that are needed are declared here, as the NVIDIA cuBLAS documentation,
// "Using the cuBLASLt API", gives them: the library is found at run time, and building needs none of it.

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "gpu/baseline.h"

namespace ptxbench::gpu {
namespace {

constexpr int kCompute32F = 68, kReal32F = 0, kReal16F = 2, kReal16BF = 14, kTranspose = 1;
constexpr int kDescriptorTransA = 3, kPreferenceWorkspace = 1;
constexpr std::size_t kMostPlans = 32;
constexpr int kTries = 4;
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what cuBLAS itself takes on Hopper

struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

struct Library {
  std::size_t (*version)() = nullptr;
  int (*create)(void**) = nullptr;
  int (*descriptor_create)(void**, int, int) = nullptr;
  int (*descriptor_set)(void*, int, const void*, std::size_t) = nullptr;
  int (*layout_create)(void**, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  int (*preference_create)(void**) = nullptr;
  int (*preference_set)(void*, int, const void*, std::size_t) = nullptr;
  int (*heuristic)(void*, void*, void*, void*, void*, void*, void*, int, Heuristic*, int*) = nullptr;
  int (*matmul)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*,
                void*, void*, const Algorithm*, void*, std::size_t, CUstream) = nullptr;

  static Result<Library> load() {
    void* file = ::dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) return infrastructure_error("cuBLASLt not installed: {}", ::dlerror());
    Library out;
    const char* missing = nullptr;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(file, name));
      if (function == nullptr) missing = name;
    };
    find(out.version, "cublasLtGetVersion");
    find(out.create, "cublasLtCreate");
    find(out.descriptor_create, "cublasLtMatmulDescCreate");
    find(out.descriptor_set, "cublasLtMatmulDescSetAttribute");
    find(out.layout_create, "cublasLtMatrixLayoutCreate");
    find(out.preference_create, "cublasLtMatmulPreferenceCreate");
    find(out.preference_set, "cublasLtMatmulPreferenceSetAttribute");
    find(out.heuristic, "cublasLtMatmulAlgoGetHeuristic");
    find(out.matmul, "cublasLtMatmul");
    if (missing != nullptr) return infrastructure_error("cuBLASLt has no {}", missing);
    return out;
  }
};

class Gemm final : public Baseline {
 public:
  static Result<std::unique_ptr<Baseline>> create(const Device& device, const base::Json& description) {
    auto library = Library::load();
    if (!library) return tl::unexpected<Error>(library.error());
    auto out = std::unique_ptr<Gemm>(new Gemm(device, *library));
    const auto number = [&](const char* key) { return description.at(key).get<std::int64_t>(); };
    const std::int64_t m = number("m"), n = number("n"), k = number("k");
    out->a_ = static_cast<std::size_t>(number("a"));
    out->b_ = static_cast<std::size_t>(number("b"));
    out->c_ = static_cast<std::size_t>(number("c"));
    const std::string dtype = description.at("dtype").get<std::string>();
    const int type = dtype == "bfloat16"  ? kReal16BF
                     : dtype == "float16" ? kReal16F
                     : dtype == "float32" ? kReal32F
                                          : -1;
    if (type < 0) return infrastructure_error("no cuBLASLt baseline for {}", dtype);
    out->tuned_ = description.value("tuned", false);
    if (auto done = out->plan(type, static_cast<std::uint64_t>(m), static_cast<std::uint64_t>(n),
                              static_cast<std::uint64_t>(k));
        !done) {
      return tl::unexpected<Error>(done.error());
    }
    if (description.contains("algorithm")) {
      const auto words = description["algorithm"].get<std::array<std::uint64_t, 8>>();
      std::copy(words.begin(), words.end(), out->chosen_.algorithm.data);
    }
    return std::unique_ptr<Baseline>(std::move(out));
  }

  ~Gemm() override {
    if (workspace_ != 0) device_.driver().cuMemFree(workspace_);
  }

  std::string name() const override { return tuned_ ? "cuBLASLt, autotuned" : "cuBLASLt"; }
  std::string version() const override {
    const std::size_t number = library_.version();
    return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  }

  Result<base::Json> tune(const std::vector<std::uint64_t>& inputs,
                          const std::vector<std::uint64_t>& outputs) override {
    if (!tuned_) return base::Json();
    const Driver& cuda = device_.driver();
    CUevent start = nullptr, end = nullptr;
    CUresult result = cuda.cuEventCreate(&start, CU_EVENT_DEFAULT);
    if (result == CUDA_SUCCESS) result = cuda.cuEventCreate(&end, CU_EVENT_DEFAULT);
    float best = 0;
    std::optional<Heuristic> fastest;
    for (const Heuristic& plan : plans_) {
      chosen_ = plan;
      float quickest = 0;
      for (int i = 0; i < kTries && result == CUDA_SUCCESS; ++i) {
        result = cuda.cuEventRecord(start, device_.stream());
        if (result != CUDA_SUCCESS) break;
        // One that fails here is none to choose.
        if (auto ran = run(inputs, outputs); !ran) break;
        result = cuda.cuEventRecord(end, device_.stream());
        if (result == CUDA_SUCCESS) result = cuda.cuStreamSynchronize(device_.stream());
        float milliseconds = 0;
        if (result == CUDA_SUCCESS) result = cuda.cuEventElapsedTime(&milliseconds, start, end);
        // The first run loads the kernel.
        if (i > 0 && milliseconds > 0 && (quickest == 0 || milliseconds < quickest)) quickest = milliseconds;
      }
      if (quickest == 0 || (fastest && quickest >= best)) continue;
      best = quickest;
      fastest = plan;
    }
    if (start != nullptr) cuda.cuEventDestroy(start);
    if (end != nullptr) cuda.cuEventDestroy(end);
    if (auto done = device_.check(result, "trying the plans of cuBLASLt"); !done)
      return tl::unexpected<Error>(done.error());
    if (!fastest) return infrastructure_error("none of cuBLASLt's {} plans runs", plans_.size());
    chosen_ = *fastest;
    return base::Json{{"algorithm", chosen_.algorithm.data}};
  }

  Result<void> run(const std::vector<std::uint64_t>& inputs, const std::vector<std::uint64_t>& outputs) override {
    const float one = 1, zero = 0;
    const auto pointer = [](std::uint64_t address) { return reinterpret_cast<void*>(address); };
    void* c = pointer(outputs.at(c_));
    // Column-major: C^T [N, M] = (B as K x N)^T (A as K x M).
    const int status = library_.matmul(handle_, operation_, &one, pointer(inputs.at(b_)), left_, pointer(inputs.at(a_)),
                                       right_, &zero, c, result_, c, result_, &chosen_.algorithm, pointer(workspace_),
                                       kWorkspaceBytes, device_.stream());
    if (status != 0) return infrastructure_error("cublasLtMatmul: status {}", status);
    return {};
  }

 private:
  Gemm(const Device& device, const Library& library) : device_(device), library_(library) {}

  Result<void> plan(int type, std::uint64_t m, std::uint64_t n, std::uint64_t k) {
    const auto ld = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
    void* preference = nullptr;
    int status = library_.create(&handle_);
    if (status == 0) status = library_.descriptor_create(&operation_, kCompute32F, kReal32F);
    if (status == 0) status = library_.descriptor_set(operation_, kDescriptorTransA, &kTranspose, sizeof kTranspose);
    if (status == 0) status = library_.layout_create(&left_, type, k, n, ld(k));
    if (status == 0) status = library_.layout_create(&right_, type, k, m, ld(k));
    if (status == 0) status = library_.layout_create(&result_, type, n, m, ld(n));
    if (status == 0) status = library_.preference_create(&preference);
    if (status == 0)
      status = library_.preference_set(preference, kPreferenceWorkspace, &kWorkspaceBytes, sizeof kWorkspaceBytes);
    int found = 0;
    plans_.resize(tuned_ ? kMostPlans : 1);
    if (status == 0) {
      status = library_.heuristic(handle_, operation_, left_, right_, result_, result_, preference,
                                  static_cast<int>(plans_.size()), plans_.data(), &found);
    }
    plans_.resize(static_cast<std::size_t>(std::max(0, found)));
    if (!plans_.empty()) chosen_ = plans_.front();
    if (status != 0 || found == 0) return infrastructure_error("cuBLASLt has no plan for this product: {}", status);
    const CUresult result = device_.driver().cuMemAlloc(&workspace_, kWorkspaceBytes);
    return device_.check(result, "memory for cuBLASLt");
  }

  const Device& device_;
  Library library_;
  void *handle_ = nullptr, *operation_ = nullptr, *left_ = nullptr, *right_ = nullptr, *result_ = nullptr;
  bool tuned_ = false;
  std::vector<Heuristic> plans_;  ///< best guess first
  Heuristic chosen_{};
  CUdeviceptr workspace_ = 0;
  std::size_t a_ = 0, b_ = 0, c_ = 0;
};

}  // namespace

Result<std::unique_ptr<Baseline>> make_gemm_baseline(const Device& device, const base::Json& description) {
  return Gemm::create(device, description);
}

}  // namespace ptxbench::gpu
