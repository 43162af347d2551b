#include "emulator/decoder.h"

namespace ptxbench::emulator {

BinderTable::BinderTable() {
  register_control(*this);
  register_memory(*this);
  register_atomic(*this);
  register_integer(*this);
  register_float(*this);
  register_half(*this);
  register_convert(*this);
  register_logic(*this);
  register_compare(*this);
  register_move(*this);
  register_video(*this);
  register_warp(*this);
  register_barrier(*this);
  register_mbarrier(*this);
  register_cluster(*this);
  register_cp_async(*this);
  register_bulk(*this);
  register_tensor_map(*this);
  register_matrix(*this);
  register_wgmma(*this);
  register_system(*this);
}

}  // namespace ptxbench::emulator
