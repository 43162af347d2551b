// Lean, source- and binary-compatible stand-in for the part of TVM-FFI that CUDA candidates use.
#pragma once

#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
