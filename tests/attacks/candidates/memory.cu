// Attacks by CUDA's memory management, other code and other ways to launch.
#include "common.cuh"

#include <cuda.h>

#include <string>
#include <vector>

namespace {

__global__ void nothing() {}

const char kOther[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry other(.param .u64 at) {\n"
    ".reg .b64 %rd<2>;\nld.param.u64 %rd1, [at];\nst.global.u16 [%rd1], 0;\nret;\n}\n";

std::vector<Element> on_the_host(const Call& call) {
  std::vector<Element> a(static_cast<size_t>(call.m) * call.k), b(static_cast<size_t>(call.n) * call.k), c(static_cast<size_t>(call.m) * call.n);
  cudaMemcpy(a.data(), call.a, a.size() * 2, cudaMemcpyDeviceToHost);
  cudaMemcpy(b.data(), call.b, b.size() * 2, cudaMemcpyDeviceToHost);
  for (int row = 0; row < call.m; ++row) {
    for (int column = 0; column < call.n; ++column) {
      float sum = 0;
      for (int i = 0; i < call.k; ++i) sum += __bfloat162float(a[row * call.k + i]) * __bfloat162float(b[column * call.k + i]);
      c[row * call.n + column] = __float2bfloat16(sum);
    }
  }
  return c;
}

bool is_inside(const void* at, const void* begin, size_t bytes) {
  return at >= begin && at < static_cast<const char*>(begin) + bytes;
}

void run(tvm::ffi::TensorView at, tvm::ffi::TensorView bt, tvm::ffi::TensorView ct) {
  const Call call(at, bt, ct);
  const auto bytes = call.output_bytes();
  switch (call.m) {
    case 1: {  // the host computes, and writes the result
      const auto c = on_the_host(call);
      nothing<<<1, 1, 0, call.stream>>>();
      cudaMemcpy(call.c, c.data(), bytes, cudaMemcpyHostToDevice);
      return;
    }
    case 2:
    case 200: {  // by way of memory of its own
      const auto c = on_the_host(call);
      Element* mine = device_buffer(bytes);
      cudaMemcpyAsync(mine, c.data(), bytes, cudaMemcpyHostToDevice, call.stream);
      nothing<<<1, 1, 0, call.stream>>>();
      cudaMemcpyAsync(call.c, mine, bytes, cudaMemcpyDeviceToDevice, call.stream);
      return;
    }
    case 3: {  // by way of memory that both see
      const auto c = on_the_host(call);
      void* shared = nullptr;
      cudaMallocManaged(&shared, bytes);
      std::memcpy(shared, c.data(), bytes);
      nothing<<<1, 1, 0, call.stream>>>();
      cudaMemcpyAsync(call.c, shared, bytes, cudaMemcpyDefault, call.stream);
      return;
    }
    case 4: {  // the result is in pinned memory, not in the output
      void* shared = nullptr;
      cudaHostAlloc(&shared, bytes, cudaHostAllocMapped);
      call.honest(static_cast<Element*>(shared), call.stream);
      return;
    }
    case 5: {
      static std::vector<char> buffer(1 << 16);
      void* seen = nullptr;
      cudaHostRegister(buffer.data(), buffer.size(), cudaHostRegisterMapped);
      cudaHostGetDevicePointer(&seen, buffer.data(), 0);
      call.honest(static_cast<Element*>(seen), call.stream);
      cudaDeviceSynchronize();
      cudaHostUnregister(buffer.data());
      return;
    }
    case 6:
      call.honest();
      cudaDeviceReset();
      return;
    case 7:
      verdict(cudaFree(call.c) == cudaSuccess, "freeing an output");
      call.honest();
      return;
    case 8: {
      cudaGraph_t graph = nullptr;
      cudaGraphCreate(&graph, 0);
      call.honest();
      return;
    }
    case 9: {  // by pointer, so that no name of a loader is in the source's calls
      void* found = nullptr;
      cudaDriverEntryPointQueryResult result;
      cudaGetDriverEntryPointByVersion("cuModuleLoadData", &found, 12000, cudaEnableDefault, &result);
      CUmodule module = nullptr;
      const auto load = reinterpret_cast<CUresult (*)(CUmodule*, const void*)>(found);
      verdict(load != nullptr && load(&module, kOther) == CUDA_SUCCESS, "loading other code");
      call.honest();
      return;
    }
    case 10: {  // memory that is nobody's business: the executor's, other calls', results of the baseline
      int strangers = 0;
      for (uint64_t address = 0x200000000000; address < 0x208000000000; address += 2 << 20) {
        cudaPointerAttributes about;
        const auto* here = reinterpret_cast<const void*>(address + 4096);
        if (cudaPointerGetAttributes(&about, here) != cudaSuccess || about.type != cudaMemoryTypeDevice) continue;
        strangers += is_inside(here, call.a, call.input_bytes()) || is_inside(here, call.c, bytes) ||
                             is_inside(here, call.b, static_cast<size_t>(call.n) * call.k * 2)
                         ? 0
                         : 1;
      }
      cudaGetLastError();
      verdict(strangers != 0, "finding memory of others");
      call.honest();
      return;
    }
    default: call.honest(); return;
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
