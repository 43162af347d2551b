#pragma once
#include <tvm/ffi/function.h>
