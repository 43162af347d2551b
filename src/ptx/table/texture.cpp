#include "ptx/table/table.h"

namespace ptxbench::ptx::table {

// Texture and surface instructions have opcodes but no rows yet: they are reported as not supported, by name.
std::span<const InstructionForm> texture_rows() { return {}; }

}  // namespace ptxbench::ptx::table
