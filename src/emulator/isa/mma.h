#pragma once

#include "emulator/decoder.h"

namespace ptxbench::emulator {

void register_mma(BinderTable& table);

}  // namespace ptxbench::emulator
