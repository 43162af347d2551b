#include "gpu/sass_counts.h"

#include <cupti_profiler_target.h>
#include <cupti_sass_metrics.h>
#include <cupti_target.h>
#include <dlfcn.h>

#include <array>

namespace ptxbench::gpu {
namespace {

/// Names in the order of Count's fields.
constexpr std::array kMetrics = {"smsp__sass_inst_executed", "smsp__sass_thread_inst_executed_pred_on"};

struct Library {
  decltype(&::cuptiGetErrorMessage) message = nullptr;
  decltype(&::cuptiProfilerInitialize) initialize = nullptr;
  decltype(&::cuptiDeviceGetChipName) chip_name = nullptr;
  decltype(&::cuptiSassMetricsGetProperties) properties = nullptr;
  decltype(&::cuptiSassMetricsSetConfig) set = nullptr;
  decltype(&::cuptiSassMetricsUnsetConfig) unset = nullptr;
  decltype(&::cuptiSassMetricsEnable) enable = nullptr;
  decltype(&::cuptiSassMetricsDisable) disable = nullptr;
  decltype(&::cuptiSassMetricsGetDataProperties) data_properties = nullptr;
  decltype(&::cuptiSassMetricsFlushData) flush = nullptr;

  static Result<Library> load() {
    void* file = ::dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
    for (const char* place :
         {"/usr/local/cuda/lib64/libcupti.so.13", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"}) {
      if (file == nullptr) file = ::dlopen(place, RTLD_NOW | RTLD_LOCAL);
    }
    if (file == nullptr) return infrastructure_error("CUPTI not installed: {}", ::dlerror());
    Library out;
    const char* missing = nullptr;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(file, name));
      if (function == nullptr) missing = name;
    };
    find(out.message, "cuptiGetErrorMessage");
    find(out.initialize, "cuptiProfilerInitialize");
    find(out.chip_name, "cuptiDeviceGetChipName");
    find(out.properties, "cuptiSassMetricsGetProperties");
    find(out.set, "cuptiSassMetricsSetConfig");
    find(out.unset, "cuptiSassMetricsUnsetConfig");
    find(out.enable, "cuptiSassMetricsEnable");
    find(out.disable, "cuptiSassMetricsDisable");
    find(out.data_properties, "cuptiSassMetricsGetDataProperties");
    find(out.flush, "cuptiSassMetricsFlushData");
    if (missing != nullptr) return infrastructure_error("CUPTI has no {}", missing);
    return out;
  }

  Result<void> check(CUptiResult result, const char* what) const {
    if (result == CUPTI_SUCCESS) return {};
    const char* text = nullptr;
    message(result, &text);
    return infrastructure_error("CUPTI, {}: {}", what, text == nullptr ? "unknown error" : text);
  }
};

}  // namespace

class SassCounts::State {
 public:
  State(const Library& library, const Device& device) : library_(library), device_(device) {}

  ~State() {
    if (enabled_) disable();
  }

  Result<void> start() {
    CUpti_Profiler_Initialize_Params initialize{};
    initialize.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE;
    if (auto done = library_.check(library_.initialize(&initialize), "starting"); !done) return done;
    CUpti_Device_GetChipName_Params chip{};
    chip.structSize = CUpti_Device_GetChipName_Params_STRUCT_SIZE;
    chip.deviceIndex = index();
    if (auto done = library_.check(library_.chip_name(&chip), "asking for the chip"); !done) return done;
    std::array<CUpti_SassMetrics_Config, kMetrics.size()> configs{};
    for (std::size_t i = 0; i < kMetrics.size(); ++i) {
      CUpti_SassMetrics_GetProperties_Params properties{};
      properties.structSize = CUpti_SassMetrics_GetProperties_Params_STRUCT_SIZE;
      properties.pChipName = chip.pChipName;
      properties.pMetricName = kMetrics[i];
      if (auto done = library_.check(library_.properties(&properties), kMetrics[i]); !done) return done;
      ids_[i] = configs[i].metricId = properties.metric.metricId;
      configs[i].outputGranularity = CUPTI_SASS_METRICS_OUTPUT_GRANULARITY_GPU;
    }
    CUpti_SassMetricsSetConfig_Params set{};
    set.structSize = CUpti_SassMetricsSetConfig_Params_STRUCT_SIZE;
    set.numOfMetricConfig = configs.size();
    set.pConfigs = configs.data();
    set.deviceIndex = index();
    if (auto done = library_.check(library_.set(&set), "configuring"); !done) return done;
    CUpti_SassMetricsEnable_Params enable{};
    enable.structSize = CUpti_SassMetricsEnable_Params_STRUCT_SIZE;
    enable.enableLazyPatching = 1;
    if (auto done = library_.check(library_.enable(&enable), "patching"); !done) return done;
    enabled_ = true;
    return {};
  }

  Result<std::vector<Count>> stop() {
    CUpti_SassMetricsGetDataProperties_Params properties{};
    properties.structSize = CUpti_SassMetricsGetDataProperties_Params_STRUCT_SIZE;
    if (auto done = library_.check(library_.data_properties(&properties), "counting"); !done)
      return tl::unexpected<Error>(done.error());
    const std::size_t records = properties.numOfPatchedInstructionRecords, instances = properties.numOfInstances;
    std::vector<CUpti_SassMetrics_InstanceValue> values(records * instances);
    std::vector<CUpti_SassMetrics_Data> data(records);
    for (std::size_t i = 0; i < records; ++i) {
      data[i].structSize = sizeof(CUpti_SassMetrics_Data);
      data[i].pInstanceValues = values.data() + i * instances;
    }
    CUpti_SassMetricsFlushData_Params flush{};
    flush.structSize = CUpti_SassMetricsFlushData_Params_STRUCT_SIZE;
    flush.numOfPatchedInstructionRecords = records;
    flush.numOfInstances = instances;
    flush.pMetricsData = data.data();
    if (auto done = library_.check(library_.flush(&flush), "reading counts"); !done)
      return tl::unexpected<Error>(done.error());
    std::vector<Count> out;
    for (const CUpti_SassMetrics_Data& one : data) {
      Count count;
      count.offset = one.pcOffset;
      for (std::size_t i = 0; i < instances; ++i) {
        const CUpti_SassMetrics_InstanceValue& value = one.pInstanceValues[i];
        if (value.metricId == ids_[0]) count.warps += value.value;
        if (value.metricId == ids_[1]) count.threads += value.value;
      }
      if (count.warps == 0) continue;
      if (one.functionName != nullptr) count.function = one.functionName;
      out.push_back(std::move(count));
    }
    disable();
    return out;
  }

 private:
  std::uint32_t index() const { return static_cast<std::uint32_t>(device_.facts().ordinal); }
  void disable() {
    enabled_ = false;
    CUpti_SassMetricsDisable_Params disable{};
    disable.structSize = CUpti_SassMetricsDisable_Params_STRUCT_SIZE;
    library_.disable(&disable);
    CUpti_SassMetricsUnsetConfig_Params unset{};
    unset.structSize = CUpti_SassMetricsUnsetConfig_Params_STRUCT_SIZE;
    unset.deviceIndex = index();
    library_.unset(&unset);
  }

  Library library_;
  const Device& device_;
  std::array<std::uint64_t, kMetrics.size()> ids_{};
  bool enabled_ = false;
};

SassCounts::SassCounts(std::unique_ptr<State> state) : state_(std::move(state)) {}
SassCounts::~SassCounts() = default;

Result<std::unique_ptr<SassCounts>> SassCounts::start(const Device& device) {
  const auto library = Library::load();
  if (!library) return tl::unexpected<Error>(library.error());
  auto state = std::make_unique<State>(*library, device);
  if (auto done = state->start(); !done) return tl::unexpected<Error>(done.error());
  return std::unique_ptr<SassCounts>(new SassCounts(std::move(state)));
}

Result<std::vector<SassCounts::Count>> SassCounts::stop() { return state_->stop(); }

}  // namespace ptxbench::gpu
