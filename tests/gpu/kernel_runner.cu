// Runs GEMM candidates (shared libraries that export `run` through TVM-FFI) on a real Hopper GPU: checks them against
// an fp64 reference under the project's recommended rule, looks for run-to-run differences, and times them beside
// cuBLAS.
//
// Usage: kernel_runner [--n N] [--k K] [--check M,M,...] [--time M,M,...] [--rounds R] [--json FILE] [--dump FILE]
//                      NAME=LIBRARY.so ...
// Exit code: 0 all correct, 1 a candidate was wrong or failed, 2 usage or infrastructure error.

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

[[noreturn]] void die(const std::string& message) {
  std::fprintf(stderr, "kernel_runner: %s\n", message.c_str());
  std::exit(2);
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) die(std::string(what) + ": " + cudaGetErrorString(status));
}

// ---- Inputs ---------------------------------------------------------------------------------------------------------

// One Philox4x32-10 block: the counter-based generator of Salmon et al. 2011.
__host__ __device__ inline uint4 philox(uint4 counter, uint2 key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * counter.x;
    const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * counter.z;
    counter = make_uint4(static_cast<uint32_t>(p1 >> 32) ^ counter.y ^ key.x, static_cast<uint32_t>(p1),
                         static_cast<uint32_t>(p0 >> 32) ^ counter.w ^ key.y, static_cast<uint32_t>(p0));
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return counter;
}

// A near-normal value of mean 0 and variance 1: the sum of eight 16-bit uniforms of one Philox block, centred and
// scaled by one fp32 multiplication. No transcendental function is involved, so every machine gives the same bits.
__host__ __device__ inline float input_value(uint32_t seed, uint32_t tensor, uint64_t element) {
  const uint4 counter = make_uint4(static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32), 0u, 0u);
  const uint4 r = philox(counter, make_uint2(seed, tensor));
  const uint32_t words[4] = {r.x, r.y, r.z, r.w};
  int sum = -262140;  // eight times the mean 32767.5
  for (uint32_t word : words) sum += static_cast<int>(word & 0xffffu) + static_cast<int>(word >> 16);
  return static_cast<float>(sum) * (1.0f / 53510.0f);
}

__global__ void fill_input(__nv_bfloat16* out, uint64_t count, uint32_t seed, uint32_t tensor, float scale) {
  for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    out[i] = __float2bfloat16_rn(input_value(seed, tensor, i) * scale);
  }
}

// ---- Reference ------------------------------------------------------------------------------------------------------

__device__ inline double element_or_zero(const __nv_bfloat16* matrix, int row, int rows, int k, int depth) {
  if (row >= rows || k >= depth) return 0.0;
  return static_cast<double>(__bfloat162float(matrix[static_cast<size_t>(row) * depth + k]));
}

// C = A * B^T in fp64, rounded to fp32 once at the end. 64x64 tile, 256 threads, 4x4 elements each.
__global__ void __launch_bounds__(256)
    reference_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m, int n, int k) {
  __shared__ double a_tile[16][65];
  __shared__ double b_tile[16][65];
  const int tx = static_cast<int>(threadIdx.x) % 16;
  const int ty = static_cast<int>(threadIdx.x) / 16;
  const int m0 = static_cast<int>(blockIdx.y) * 64;
  const int n0 = static_cast<int>(blockIdx.x) * 64;
  double acc[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += 16) {
    for (int i = static_cast<int>(threadIdx.x); i < 64 * 16; i += 256) {
      const int row = i / 16;
      const int kk = i % 16;
      a_tile[kk][row] = element_or_zero(a, m0 + row, m, k0 + kk, k);
      b_tile[kk][row] = element_or_zero(b, n0 + row, n, k0 + kk, k);
    }
    __syncthreads();
    for (int kk = 0; kk < 16; ++kk) {
      double av[4];
      double bv[4];
      for (int i = 0; i < 4; ++i) av[i] = a_tile[kk][ty + 16 * i];
      for (int j = 0; j < 4; ++j) bv[j] = b_tile[kk][tx + 16 * j];
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) acc[i][j] = fma(av[i], bv[j], acc[i][j]);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int row = m0 + ty + 16 * i;
      const int col = n0 + tx + 16 * j;
      if (row < m && col < n) c[static_cast<size_t>(row) * n + col] = static_cast<float>(acc[i][j]);
    }
  }
}

// ---- Comparison -----------------------------------------------------------------------------------------------------

struct RowSums {
  double error2;     // sum of squared errors
  double truth2;     // sum of squared truths
  double product;    // sum of output * truth
  double excess;     // largest abs error - abs(truth) / 256
  double nonfinite;  // count
  double loose_bad;  // count of elements that fail the looser rule: abs error > 1e-2 and relative error > 1e-2
};

__global__ void __launch_bounds__(256) row_sums(const __nv_bfloat16* y, const float* t, RowSums* out, int n) {
  __shared__ RowSums part[256];
  RowSums s = {0.0, 0.0, 0.0, -1e30, 0.0, 0.0};
  const size_t base = static_cast<size_t>(blockIdx.x) * n;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += 256) {
    const float value = __bfloat162float(y[base + i]);
    const float truth = t[base + i];
    if (!isfinite(value)) {
      s.nonfinite += 1.0;
      continue;
    }
    const double error = fabs(static_cast<double>(value) - truth);
    s.error2 += error * error;
    s.truth2 += static_cast<double>(truth) * truth;
    s.product += static_cast<double>(value) * truth;
    s.excess = fmax(s.excess, error - fabs(static_cast<double>(truth)) / 256.0);
    s.loose_bad += error > 1e-2 && error / (fabs(static_cast<double>(truth)) + 1e-8) > 1e-2;
  }
  part[threadIdx.x] = s;
  __syncthreads();
  for (unsigned stride = 128; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) {
      RowSums& p = part[threadIdx.x];
      const RowSums& q = part[threadIdx.x + stride];
      p.error2 += q.error2;
      p.truth2 += q.truth2;
      p.product += q.product;
      p.excess = fmax(p.excess, q.excess);
      p.nonfinite += q.nonfinite;
      p.loose_bad += q.loose_bad;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

__global__ void count_differences(const uint16_t* x, const uint16_t* y, uint64_t count, unsigned long long* out) {
  unsigned long long different = 0;
  for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    different += x[i] != y[i];
  }
  if (different != 0) atomicAdd(out, different);
}

struct Comparison {
  double tensor = 0.0;   // relative L2 error of the whole tensor, limit 0.003
  double block = 0.0;    // the same of the worst block of 64 rows, limit 0.003
  double row = 0.0;      // the same of the worst row, limit 0.004
  double element = 0.0;  // largest (abs error - abs(truth)/256) / row rms, limit 0.01
  double gain = 0.0;     // <y,t>/<t,t> - 1, limit 0.0005
  double nonfinite = 0.0;
  double loose_bad = 0.0;

  bool passes() const {
    return nonfinite == 0.0 && tensor <= 0.003 && block <= 0.003 && row <= 0.004 && element <= 0.01 &&
           std::fabs(gain) <= 0.0005;
  }
};

Comparison compare(const std::vector<RowSums>& rows, int n) {
  Comparison result;
  double error2 = 0.0;
  double truth2 = 0.0;
  double product = 0.0;
  for (const RowSums& r : rows) {
    error2 += r.error2;
    truth2 += r.truth2;
    product += r.product;
    result.nonfinite += r.nonfinite;
    result.loose_bad += r.loose_bad;
  }
  result.tensor = std::sqrt(error2 / truth2);
  result.gain = product / truth2 - 1.0;
  // Norms of rows and blocks are floored at a tenth of the tensor's rms.
  const double floor2 = 0.01 * truth2 / static_cast<double>(rows.size());
  double block_error2 = 0.0;
  double block_truth2 = 0.0;
  size_t in_block = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double row_truth2 = std::max(rows[i].truth2, floor2);
    result.row = std::max(result.row, std::sqrt(rows[i].error2 / row_truth2));
    result.element = std::max(result.element, rows[i].excess / std::sqrt(row_truth2 / n));
    block_error2 += rows[i].error2;
    block_truth2 += rows[i].truth2;
    ++in_block;
    if (in_block == 64 || i + 1 == rows.size()) {
      result.block = std::max(result.block,
                              std::sqrt(block_error2 / std::max(block_truth2, floor2 * static_cast<double>(in_block))));
      block_error2 = 0.0;
      block_truth2 = 0.0;
      in_block = 0;
    }
  }
  return result;
}

// ---- Candidates -----------------------------------------------------------------------------------------------------

using RunFunction = int (*)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

struct Candidate {
  std::string name;
  RunFunction run = nullptr;  // null for cuBLAS
};

struct Problem {
  int m = 0;
  int n = 0;
  int k = 0;
  __nv_bfloat16* a = nullptr;
  __nv_bfloat16* b = nullptr;
  __nv_bfloat16* c = nullptr;
};

cublasHandle_t blas = nullptr;
cudaStream_t stream = nullptr;

DLTensor tensor_of(void* data, int64_t* shape, int64_t* strides) {
  DLTensor t = {};
  t.data = data;
  t.device = {kDLCUDA, 0};
  t.ndim = 2;
  t.dtype = {kDLBfloat, 16, 1};
  t.shape = shape;
  t.strides = strides;
  return t;
}

// Returns an empty string, or what went wrong.
std::string launch(const Candidate& candidate, const Problem& p) {
  if (candidate.run == nullptr) {
    const float one = 1.0f;
    const float zero = 0.0f;
    // Column-major cuBLAS sees C^T = B * A^T.
    const cublasStatus_t status =
        cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, p.n, p.m, p.k, &one, p.b, CUDA_R_16BF, p.k, p.a, CUDA_R_16BF, p.k,
                     &zero, p.c, CUDA_R_16BF, p.n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    return status == CUBLAS_STATUS_SUCCESS ? "" : "cublasGemmEx: " + std::to_string(static_cast<int>(status));
  }
  int64_t shapes[3][2] = {{p.m, p.k}, {p.n, p.k}, {p.m, p.n}};
  int64_t strides[3][2] = {{p.k, 1}, {p.k, 1}, {p.n, 1}};
  DLTensor tensors[3] = {tensor_of(p.a, shapes[0], strides[0]), tensor_of(p.b, shapes[1], strides[1]),
                         tensor_of(p.c, shapes[2], strides[2])};
  TVMFFIAny arguments[3] = {};
  for (int i = 0; i < 3; ++i) {
    arguments[i].type_index = kTVMFFIDLTensorPtr;
    arguments[i].v_ptr = &tensors[i];
  }
  TVMFFIAny result = {};
  if (candidate.run(nullptr, arguments, 3, &result) == 0) return "";
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (error == nullptr) return "failed without a message";
  const TVMFFIByteArray message = TVMFFIErrorGetCellPtr(error)->message;
  std::string text(message.data, message.size);
  TVMFFIObjectDecRef(error);
  return text.empty() ? "failed with an empty message" : text;
}

// ---- Checking -------------------------------------------------------------------------------------------------------

constexpr size_t kGuardBytes = 1 << 20;

struct Buffers {
  __nv_bfloat16* a = nullptr;
  __nv_bfloat16* b = nullptr;
  unsigned char* c = nullptr;  // with guard zones before and after
  __nv_bfloat16* first = nullptr;
  float* truth = nullptr;
  RowSums* rows = nullptr;
  unsigned long long* counter = nullptr;
  unsigned char* flush = nullptr;
};

constexpr size_t kFlushBytes = size_t{256} << 20;  // several times the L2 cache

uint64_t differences(const Buffers& buffers, const void* x, const void* y, uint64_t count) {
  unsigned long long host = 0;
  check(cudaMemset(buffers.counter, 0, sizeof(host)), "memset");
  count_differences<<<1024, 256>>>(static_cast<const uint16_t*>(x), static_cast<const uint16_t*>(y), count,
                                   buffers.counter);
  check(cudaGetLastError(), "count_differences");
  check(cudaMemcpy(&host, buffers.counter, sizeof(host), cudaMemcpyDeviceToHost), "count_differences");
  return host;
}

bool guards_intact(const unsigned char* c, size_t bytes) {
  std::vector<unsigned char> zone(kGuardBytes);
  for (const unsigned char* start : {c, c + kGuardBytes + bytes}) {
    check(cudaMemcpy(zone.data(), start, kGuardBytes, cudaMemcpyDeviceToHost), "guard zone");
    for (unsigned char byte : zone) {
      if (byte != 0xff) return false;
    }
  }
  return true;
}

struct CheckResult {
  std::string error;
  Comparison comparison;
  bool guards = false;
  uint64_t unstable = 0;      // elements that differed between three runs
  uint64_t unlike_first = 0;  // elements that differ from the first candidate's
  bool passed() const { return error.empty() && guards && unstable == 0 && comparison.passes(); }
};

CheckResult check_candidate(const Candidate& candidate, Problem p, const Buffers& buffers, const __nv_bfloat16* like) {
  CheckResult result;
  const uint64_t count = static_cast<uint64_t>(p.m) * p.n;
  const size_t bytes = count * sizeof(__nv_bfloat16);
  p.c = reinterpret_cast<__nv_bfloat16*>(buffers.c + kGuardBytes);
  for (int repeat = 0; repeat < 3; ++repeat) {
    // 0xffff is a NaN: an element that is not written shows.
    check(cudaMemset(buffers.c, 0xff, bytes + 2 * kGuardBytes), "poison");
    check(cudaDeviceSynchronize(), "poison");
    result.error = launch(candidate, p);
    if (!result.error.empty()) return result;
    check(cudaStreamSynchronize(stream), candidate.name.c_str());
    if (repeat == 0) {
      check(cudaMemcpy(buffers.first, p.c, bytes, cudaMemcpyDeviceToDevice), "keep first");
      row_sums<<<p.m, 256>>>(p.c, buffers.truth, buffers.rows, p.n);
      check(cudaGetLastError(), "row_sums");
      std::vector<RowSums> rows(p.m);
      check(cudaMemcpy(rows.data(), buffers.rows, rows.size() * sizeof(RowSums), cudaMemcpyDeviceToHost), "row_sums");
      result.comparison = compare(rows, p.n);
      result.guards = guards_intact(buffers.c, bytes);
    } else {
      result.unstable += differences(buffers, p.c, buffers.first, count);
    }
  }
  if (like != nullptr) result.unlike_first = differences(buffers, buffers.first, like, count);
  return result;
}

// ---- Timing ---------------------------------------------------------------------------------------------------------

double median(std::vector<float> values) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (static_cast<double>(values[half - 1]) + values[half]);
}

struct Timing {
  std::vector<float> cold;    // one launch each, L2 flushed before
  std::vector<float> steady;  // per launch, ten launches back to back
};

// Interleaves the candidates and rotates their order, so that drift of clocks and temperature falls on all alike.
std::vector<Timing> time_candidates(const std::vector<Candidate>& candidates, const Problem& p, const Buffers& buffers,
                                    int rounds) {
  constexpr int kWarmUp = 5;
  constexpr int kSteadyLaunches = 10;
  std::vector<Timing> timings(candidates.size());
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  auto timed = [&](const Candidate& candidate, int launches) {
    check(cudaMemsetAsync(buffers.flush, 0, kFlushBytes, stream), "flush");
    check(cudaEventRecord(begin, stream), "event");
    for (int i = 0; i < launches; ++i) {
      const std::string error = launch(candidate, p);
      if (!error.empty()) die(candidate.name + ": " + error);
    }
    check(cudaEventRecord(end, stream), "event");
    check(cudaEventSynchronize(end), candidate.name.c_str());
    float ms = 0.0f;
    check(cudaEventElapsedTime(&ms, begin, end), "event");
    return ms / static_cast<float>(launches);
  };
  for (int round = -kWarmUp; round < rounds; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      const size_t which = (i + static_cast<size_t>(round + kWarmUp)) % candidates.size();
      const float ms = timed(candidates[which], 1);
      if (round >= 0) timings[which].cold.push_back(ms);
    }
  }
  for (int round = 0; round < std::max(static_cast<int>(candidates.size()), rounds / 5); ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      const size_t which = (i + static_cast<size_t>(round)) % candidates.size();
      if (median(timings[which].cold) > 3.0) continue;  // steady state matters for the fast ones only
      timings[which].steady.push_back(timed(candidates[which], kSteadyLaunches));
    }
  }
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
  return timings;
}

// ---- Command line ---------------------------------------------------------------------------------------------------

std::vector<int> parse_list(const char* text) {
  std::vector<int> values;
  for (const char* at = text; *at != '\0';) {
    char* next = nullptr;
    const long value = std::strtol(at, &next, 10);
    if (next == at || value <= 0 || value > 65536) die(std::string("bad list of sizes: ") + text);
    values.push_back(static_cast<int>(value));
    at = *next == ',' ? next + 1 : next;
  }
  return values;
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[64];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  int n = 7168;
  int k = 5120;
  int rounds = 30;
  std::vector<int> check_sizes;
  std::vector<int> time_sizes;
  std::string json_path;
  std::string dump_path;
  std::vector<Candidate> candidates = {{"cublas", nullptr}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--", 0) == 0) {
      if (i + 1 == argc) die(argument + " needs a value");
      const char* value = argv[++i];
      if (argument == "--n")
        n = std::atoi(value);
      else if (argument == "--k")
        k = std::atoi(value);
      else if (argument == "--rounds")
        rounds = std::atoi(value);
      else if (argument == "--check")
        check_sizes = parse_list(value);
      else if (argument == "--time")
        time_sizes = parse_list(value);
      else if (argument == "--json")
        json_path = value;
      else if (argument == "--dump")
        dump_path = value;
      else
        die("unknown option " + argument);
      continue;
    }
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) die("expected NAME=LIBRARY.so, got " + argument);
    const std::string path = argument.substr(equals + 1);
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) die(dlerror());
    const auto run = reinterpret_cast<RunFunction>(dlsym(library, "__tvm_ffi_run"));
    if (run == nullptr) die(path + " does not export __tvm_ffi_run");
    candidates.push_back({argument.substr(0, equals), run});
  }

  cudaDeviceProp device = {};
  check(cudaGetDeviceProperties(&device, 0), "device");
  int driver = 0;
  int runtime = 0;
  int blas_version = 0;
  check(cudaDriverGetVersion(&driver), "driver version");
  check(cudaRuntimeGetVersion(&runtime), "runtime version");
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  if (cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS) die("cublasCreate failed");
  cublasGetVersion(blas, &blas_version);
  void* workspace = nullptr;
  check(cudaMalloc(&workspace, 32 << 20), "workspace");
  if (cublasSetStream(blas, stream) != CUBLAS_STATUS_SUCCESS ||
      cublasSetWorkspace(blas, workspace, 32 << 20) != CUBLAS_STATUS_SUCCESS) {
    die("cuBLAS set-up failed");
  }
  if (TVMFFIEnvSetStream(kDLCUDA, 0, stream, nullptr) != 0) die("TVMFFIEnvSetStream failed");

  int largest = 1;
  for (int m : check_sizes) largest = std::max(largest, m);
  for (int m : time_sizes) largest = std::max(largest, m);
  const size_t a_count = static_cast<size_t>(largest) * k;
  const size_t b_count = static_cast<size_t>(n) * k;
  const size_t c_count = static_cast<size_t>(largest) * n;
  Buffers buffers;
  __nv_bfloat16* like = nullptr;
  check(cudaMalloc(&buffers.a, a_count * 2), "A");
  check(cudaMalloc(&buffers.b, b_count * 2), "B");
  check(cudaMalloc(&buffers.c, c_count * 2 + 2 * kGuardBytes), "C");
  check(cudaMalloc(&buffers.first, c_count * 2), "first");
  check(cudaMalloc(&like, c_count * 2), "like");
  check(cudaMalloc(&buffers.truth, c_count * 4), "truth");
  check(cudaMalloc(&buffers.rows, static_cast<size_t>(largest) * sizeof(RowSums)), "rows");
  check(cudaMalloc(&buffers.counter, sizeof(unsigned long long)), "counter");
  check(cudaMalloc(&buffers.flush, kFlushBytes), "flush");

  std::string json = "{\n  \"schema\": \"ptxbench.gpu-kernels/1\",\n  \"device\": \"" + std::string(device.name) +
                     "\",\n  \"multiprocessors\": " + std::to_string(device.multiProcessorCount) +
                     ",\n  \"cuda_driver\": " + std::to_string(driver) +
                     ",\n  \"cuda_runtime\": " + std::to_string(runtime) +
                     ",\n  \"cublas\": " + std::to_string(blas_version) + ",\n  \"n\": " + std::to_string(n) +
                     ",\n  \"k\": " + std::to_string(k) + ",\n  \"checks\": [";
  std::printf("%s, %d SMs, driver %d, runtime %d, cuBLAS %d\n", device.name, device.multiProcessorCount, driver,
              runtime, blas_version);

  constexpr uint32_t kSeed = 20261129;
  bool all_passed = true;
  bool first_entry = true;
  std::FILE* dump = dump_path.empty() ? nullptr : std::fopen(dump_path.c_str(), "wb");
  if (!dump_path.empty() && dump == nullptr) die("cannot write " + dump_path);
  fill_input<<<1024, 256>>>(buffers.b, b_count, kSeed, 1, 1.0f);
  fill_input<<<1024, 256>>>(buffers.a, a_count, kSeed, 0, 1.0f);
  check(cudaGetLastError(), "inputs");

  for (int m : check_sizes) {
    Problem p;
    p.m = m;
    p.n = n;
    p.k = k;
    p.a = buffers.a;
    p.b = buffers.b;
    reference_gemm<<<dim3((n + 63) / 64, (m + 63) / 64), 256>>>(p.a, p.b, buffers.truth, m, n, k);
    check(cudaGetLastError(), "reference");
    check(cudaDeviceSynchronize(), "reference");
    std::printf("\nM=%-6d %-28s %9s %9s %9s %9s %9s %6s %8s %8s\n", m, "check", "tensor", "block", "row", "element",
                "gain-1", "loose", "unstable", "unlike1");
    bool have_like = false;
    for (const Candidate& candidate : candidates) {
      // Outputs are compared bit by bit with the first candidate's, not with cuBLAS's.
      const CheckResult r = check_candidate(candidate, p, buffers, have_like ? like : nullptr);
      if (candidate.run != nullptr && !have_like && r.error.empty()) {
        check(cudaMemcpy(like, buffers.first, static_cast<size_t>(m) * n * 2, cudaMemcpyDeviceToDevice), "like");
        have_like = true;
      }
      if (candidate.run != nullptr) all_passed = all_passed && r.passed();
      const Comparison& c = r.comparison;
      std::printf("%-8s %-28s %9.2e %9.2e %9.2e %9.2e %9.1e %6.0f %8llu %8llu %s%s%s\n", r.passed() ? "ok" : "WRONG",
                  candidate.name.c_str(), c.tensor, c.block, c.row, c.element, c.gain, c.loose_bad,
                  static_cast<unsigned long long>(r.unstable), static_cast<unsigned long long>(r.unlike_first),
                  c.nonfinite > 0 ? "non-finite or unwritten " : "", r.guards ? "" : "guard zone overwritten ",
                  r.error.c_str());
      std::fflush(stdout);
      json += std::string(first_entry ? "\n" : ",\n") + "    {\"m\": " + std::to_string(m) + ", \"kernel\": \"" +
              candidate.name + "\", \"passed\": " + (r.passed() ? "true" : "false") +
              ", \"tensor\": " + json_number(c.tensor) + ", \"block\": " + json_number(c.block) +
              ", \"row\": " + json_number(c.row) + ", \"element\": " + json_number(c.element) +
              ", \"gain_minus_1\": " + json_number(c.gain) + ", \"loose_bad\": " + json_number(c.loose_bad) +
              ", \"nonfinite\": " + json_number(c.nonfinite) + ", \"unstable\": " + std::to_string(r.unstable) +
              ", \"unlike_first\": " + std::to_string(r.unlike_first) + "}";
      first_entry = false;
      if (dump != nullptr && m <= 70 && r.error.empty()) {
        std::vector<uint16_t> host(static_cast<size_t>(m) * n);
        check(cudaMemcpy(host.data(), buffers.first, host.size() * 2, cudaMemcpyDeviceToHost), "dump");
        char header[64] = {};
        std::snprintf(header, sizeof(header), "%.40s m=%d n=%d", candidate.name.c_str(), m, n);
        std::fwrite(header, 1, sizeof(header), dump);
        std::fwrite(host.data(), 2, host.size(), dump);
      }
    }
  }
  if (dump != nullptr) std::fclose(dump);
  json += "\n  ],\n  \"timings\": [";

  first_entry = true;
  for (int m : time_sizes) {
    Problem p;
    p.m = m;
    p.n = n;
    p.k = k;
    p.a = buffers.a;
    p.b = buffers.b;
    p.c = buffers.first;
    const std::vector<Timing> timings = time_candidates(candidates, p, buffers, rounds);
    const double flop = 2.0 * m * n * k;
    const double cold_base = median(timings[0].cold);
    const double steady_base = median(timings[0].steady);
    std::printf("\nM=%-6d %-28s %10s %9s %8s %10s %9s %8s\n", m, "time", "cold ms", "TFLOP/s", "/cublas", "steady ms",
                "TFLOP/s", "/cublas");
    for (size_t i = 0; i < candidates.size(); ++i) {
      const double cold = median(timings[i].cold);
      const double steady = median(timings[i].steady);
      const double fastest = *std::min_element(timings[i].cold.begin(), timings[i].cold.end());
      std::printf("%-8s %-28s %10.4f %9.1f %8.3f %10.4f %9.1f %8.3f\n", "", candidates[i].name.c_str(), cold,
                  flop / cold * 1e-9, cold_base / cold, steady, flop / steady * 1e-9, steady_base / steady);
      json += std::string(first_entry ? "\n" : ",\n") + "    {\"m\": " + std::to_string(m) + ", \"kernel\": \"" +
              candidates[i].name + "\", \"rounds\": " + std::to_string(timings[i].cold.size()) +
              ", \"cold_ms\": " + json_number(cold) + ", \"cold_min_ms\": " + json_number(fastest) +
              ", \"cold_tflops\": " + json_number(flop / cold * 1e-9) +
              ", \"cold_vs_cublas\": " + json_number(cold_base / cold) + ", \"steady_ms\": " + json_number(steady) +
              ", \"steady_tflops\": " + json_number(flop / steady * 1e-9) +
              ", \"steady_vs_cublas\": " + json_number(steady_base / steady) + "}";
      first_entry = false;
    }
    std::fflush(stdout);
  }
  json += "\n  ],\n  \"all_passed\": " + std::string(all_passed ? "true" : "false") + "\n}\n";
  if (!json_path.empty()) {
    std::FILE* file = std::fopen(json_path.c_str(), "w");
    if (file == nullptr || std::fwrite(json.data(), 1, json.size(), file) != json.size() || std::fclose(file) != 0) {
      die("cannot write " + json_path);
    }
  }
  std::printf("\n%s\n", all_passed ? "all candidates correct" : "SOME CANDIDATES WRONG");
  return all_passed ? 0 : 1;
}
