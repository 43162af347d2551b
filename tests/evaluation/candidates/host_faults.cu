// Host code that misbehaves in a way that the number of rows chooses.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

enum Mode {
  kCrash = 1,
  kExit = 2,
  kEndlessLoop = 3,
  kTouchDevice = 4,
  kNoLaunch = 5,
  kHugeAllocation = 6,
  kCopyIntoOutput = 7,
  kThrow = 8,
  kUnmodelled = 9,
  kFlood = 10,
  kGarbageReports = 11,
  kForgedReport = 12,
  kRefusedLaunch = 13,
  kSleep = 14,
  kLaunchForEver = 15,
  kChangeFiles = 16,
  kLeaveGroup = 17,
};

__global__ void gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int n, int k) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += __bfloat162float(a[row * k + i]) * __bfloat162float(b[column * k + i]);
  c[row * n + column] = __float2bfloat16(sum);
}

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int m = static_cast<int>(a.size(0)), k = static_cast<int>(a.size(1)), n = static_cast<int>(b.size(0));
  unsigned threads = 64;
  switch (m) {
    case kCrash: *reinterpret_cast<volatile int*>(8) = 1; break;
    case kExit: std::exit(0);
    case kEndlessLoop:
      for (volatile int spin = 0;; spin = spin + 1) {
      }
    case kTouchDevice: *static_cast<volatile uint16_t*>(c.data_ptr()) = 1; break;
    case kNoLaunch: return;
    case kHugeAllocation: {
      void* memory = nullptr;
      const cudaError_t status = cudaMalloc(&memory, size_t{100} << 30);
      if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << "cudaMalloc: " << cudaGetErrorString(status);
      break;
    }
    case kCopyIntoOutput: {
      const std::vector<uint16_t> zeros(static_cast<size_t>(m) * static_cast<size_t>(n));
      cudaMemcpy(c.data_ptr(), zeros.data(), zeros.size() * 2, cudaMemcpyHostToDevice);
      break;
    }
    case kThrow: TVM_FFI_THROW(ValueError) << "eight rows are not supported"; break;  // [throw]
    case kUnmodelled: {
      cudaGraph_t graph = nullptr;
      cudaGraphCreate(&graph, 0);
      break;
    }
    case kFlood:
      for (int line = 0; line < 200000; ++line) std::puts("a line that nobody asked for and nobody will read to its end");
      break;
    case kGarbageReports: {
      std::signal(SIGXFSZ, SIG_IGN);
      char garbage[7000];
      std::memset(garbage, 0x5a, sizeof garbage);
      for (int fd = 3; fd < 64; ++fd) {
        if (write(fd, garbage, sizeof garbage) < 0) continue;
      }
      _exit(0);
    }
    case kForgedReport: {
      std::signal(SIGXFSZ, SIG_IGN);
      // What the runner would say after success, written by the candidate itself, without any kernel.
      struct {
        uint32_t magic = 0x54505252, step = 4, outcome = 1;
        int32_t code = 0;
        char text[64 + 4096 + 3072] = {};
      } report;
      for (int fd = 3; fd < 64; ++fd) {
        if (write(fd, &report, sizeof report) < 0) continue;
      }
      _exit(0);
    }
    case kRefusedLaunch: threads = 2048; break;
    case kLaunchForEver:
      while (true) {
        gemm<<<1, 32, 0, nullptr>>>(static_cast<const __nv_bfloat16*>(a.data_ptr()), static_cast<const __nv_bfloat16*>(b.data_ptr()),
                                    static_cast<__nv_bfloat16*>(c.data_ptr()), n, 1);
        const cudaError_t launched = cudaDeviceSynchronize();
        if (launched != cudaSuccess) TVM_FFI_THROW(RuntimeError) << cudaGetErrorString(launched);
      }
    case kChangeFiles: {
      const std::string folder = std::getenv("HOME");
      std::ofstream(folder + "/new") << "written by a candidate";
      std::ofstream(folder + "/old", std::ios::app) << "written by a candidate";
      std::remove((folder + "/old").c_str());
      break;
    }
    case kLeaveGroup: {
      // A child that would outlive the call, holding its standard output.
      int ends[2];
      if (pipe(ends) != 0) break;
      const pid_t child = fork();
      if (child < 0) {
        std::printf("no child\n");
        std::fflush(stdout);
        break;
      }
      if (child == 0) {
        const bool left = setsid() >= 0 || setpgid(0, 0) == 0;
        if (write(ends[1], left ? "1" : "0", 1) != 1) _exit(1);
        while (true) pause();
      }
      char left = '?';
      if (read(ends[0], &left, 1) == 1) std::printf(left == '1' ? "child left\n" : "child stays\n");
      std::fflush(stdout);
      break;
    }
    case kSleep:
      while (true) pause();
    default: break;
  }
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  gemm<<<dim3(static_cast<unsigned>(n / 64), static_cast<unsigned>(m)), threads, 0, stream>>>(
      static_cast<const __nv_bfloat16*>(a.data_ptr()), static_cast<const __nv_bfloat16*>(b.data_ptr()),
      static_cast<__nv_bfloat16*>(c.data_ptr()), n, k);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
