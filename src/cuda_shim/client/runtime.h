#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "cuda_shim/client/core.h"

/// Private to libcudart.so.13.
namespace ptxbench::cuda_shim::client::runtime {

/// Remembers an error for cudaGetLastError and turns it into the API's type.
cudaError_t finish(int error);
int peek_error();
int take_error();

/// The kernel behind a host function's address or a handle of ours; null (error 98) if there is none.
Kernel* find_kernel(const void* function);

/// A __device__, __constant__ or __managed__ variable by its shadow in the program.
struct Variable {
  Module* module = nullptr;
  std::string name;
  bool managed = false;
  void** managed_pointer = nullptr;  ///< the program's pointer to a managed variable
};
/// On success `address` is the device address.
int resolve_variable(const void* symbol, uint64_t& address, uint64_t& bytes);

int launch_kernel(Kernel* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t stream,
                  LaunchCall call = LaunchCall::runtime, uint32_t flags = 0, dim3 cluster = {0, 0, 0});
/// The program asks for the last error: tells the server, if that is news about its launches.
void tell_launches_are_checked();

}  // namespace ptxbench::cuda_shim::client::runtime
