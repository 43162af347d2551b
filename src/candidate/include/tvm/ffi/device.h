#pragma once
#include <tvm/ffi/error.h>
