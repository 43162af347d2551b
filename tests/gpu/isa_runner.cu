// Runs the cases of tests/isa on a real GPU and says where the expected values differ from it.
//
//   nvcc -std=c++17 -O1 -I tests/isa tests/gpu/isa_runner.cu -lcuda -o isa_runner
//   isa_runner OUT.json CASES.txt...
//
// OUT.json: device, driver, and for every case its outputs (one list of hexadecimal lane values per output register) with
// the lanes that the file's expected values do not cover. Exit code: 0 all as expected, 1 differences, 2 nothing ran.

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "case_file.h"

namespace {

using isa_cases::Case;
using isa_cases::Variant;

[[noreturn]] void die(const std::string& message) {
  std::fprintf(stderr, "isa_runner: %s\n", message.c_str());
  std::exit(2);
}

std::string error_text(CUresult status) {
  const char* text = nullptr;
  cuGetErrorString(status, &text);
  return text != nullptr ? text : std::to_string(static_cast<int>(status));
}

void check(CUresult status, const char* what) {
  if (status != CUDA_SUCCESS) die(std::string(what) + ": " + error_text(status));
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      result += c;
    }
  }
  return result + '"';
}

uint64_t low_bits(uint64_t value, unsigned width) { return width >= 64 ? value : value & ((uint64_t{1} << width) - 1); }

constexpr size_t kCells = 5 * 32;

/// Outputs of the whole-warp variant, or a message.
std::string run(const Case& test, CUdeviceptr in, CUdeviceptr out, std::vector<uint64_t>& result) {
  const std::string ptx = isa_cases::build_module(test, Variant::whole);
  std::vector<char> log(8192, '\0');
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  CUmodule module = nullptr;
  CUresult status = cuModuleLoadDataEx(&module, ptx.c_str(), 2, options, values);
  if (status != CUDA_SUCCESS) return error_text(status) + ": " + log.data();
  CUfunction kernel = nullptr;
  check(cuModuleGetFunction(&kernel, module, "test"), "cuModuleGetFunction");
  std::vector<uint64_t> cells = isa_cases::input_cells(test);
  check(cuMemcpyHtoD(in, cells.data(), cells.size() * 8), "copy in");
  result.assign(kCells, isa_cases::kSentinel);
  check(cuMemcpyHtoD(out, result.data(), kCells * 8), "copy sentinel");
  void* arguments[] = {&in, &out};
  status = cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
  if (status == CUDA_SUCCESS) status = cuCtxSynchronize();
  if (status != CUDA_SUCCESS) die(test.name + ": " + error_text(status));
  check(cuMemcpyDtoH(result.data(), out, kCells * 8), "copy out");
  cuModuleUnload(module);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) die("usage: isa_runner OUT.json CASES.txt...");
  check(cuInit(0), "cuInit");
  CUdevice device = 0;
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  CUcontext context = nullptr;
  check(cuDevicePrimaryCtxRetain(&context, device), "context");
  check(cuCtxSetCurrent(context), "context");
  char name[256] = {};
  cuDeviceGetName(name, sizeof name, device);
  int driver = 0;
  cuDriverGetVersion(&driver);
  CUdeviceptr in = 0, out = 0;
  check(cuMemAlloc(&in, kCells * 8), "cuMemAlloc");
  check(cuMemAlloc(&out, kCells * 8), "cuMemAlloc");

  FILE* json = std::fopen(argv[1], "w");
  if (json == nullptr) die(std::string("cannot write ") + argv[1]);
  std::fprintf(json, "{\"schema\": \"ptxbench.isa/1\", \"device\": %s, \"driver\": %d, \"files\": [", quoted(name).c_str(), driver);
  size_t total = 0, different = 0;
  for (int f = 2; f < argc; ++f) {
    std::fprintf(json, "%s\n{\"file\": %s, \"cases\": [", f == 2 ? "" : ",", quoted(argv[f]).c_str());
    const std::vector<Case> cases = isa_cases::read_cases(argv[f]);
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& test = cases[i];
      ++total;
      std::fprintf(json, "%s\n  {\"name\": %s", i == 0 ? "" : ",", quoted(test.name).c_str());
      std::vector<uint64_t> result;
      const std::string problem = run(test, in, out, result);
      if (!problem.empty()) {
        ++different;
        std::printf("%s %s: %s\n", argv[f], test.name.c_str(), problem.c_str());
        std::fprintf(json, ", \"error\": %s}", quoted(problem).c_str());
        continue;
      }
      bool wrong = false;
      std::fprintf(json, ", \"outputs\": [");
      std::string mismatches;
      for (size_t j = 0; j < test.outputs.size(); ++j) {
        const auto& output = test.outputs[j];
        const unsigned width = isa_cases::cell_width(output.type);
        std::fprintf(json, "%s[", j == 0 ? "" : ", ");
        for (size_t lane = 0; lane < output.values.size(); ++lane) {
          const uint64_t bits = low_bits(result[j * 32 + lane], width);
          std::fprintf(json, "%s\"%llx\"", lane == 0 ? "" : ",", static_cast<unsigned long long>(bits));
          if (isa_cases::accepts(test, j, lane, bits)) continue;
          wrong = true;
          mismatches += (mismatches.empty() ? "" : ",") + ("[" + std::to_string(j) + "," + std::to_string(lane) + "]");
          std::printf("%s lane %zu output %zu:", test.name.c_str(), lane, j);
          for (size_t k = 0; k < test.inputs.size(); ++k) {
            const auto& values = test.inputs[k].values;
            std::printf(" %s=%llx", isa_cases::input_register(k), static_cast<unsigned long long>(values[lane % values.size()]));
          }
          std::printf(" gives %llx, expected %s\n", static_cast<unsigned long long>(bits),
                      output.special[lane].empty() ? isa_cases::detail::hex(output.values[lane], static_cast<int>(width / 4)).c_str()
                                                   : output.special[lane].c_str());
        }
        std::fprintf(json, "]");
      }
      std::fprintf(json, "]%s}", wrong ? (", \"unexpected\": [" + mismatches + "]").c_str() : "");
      different += wrong ? 1 : 0;
    }
    std::fprintf(json, "\n]}");
  }
  std::fprintf(json, "\n]}\n");
  std::fclose(json);
  std::printf("%s, driver %d: %zu cases, %zu differ\n", name, driver, total, different);
  return different == 0 ? 0 : 1;
}
