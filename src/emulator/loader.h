#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "emulator/address_space.h"
#include "emulator/program.h"

namespace ptxbench::emulator {

struct DeviceOptions;

/// Places a module's variables in device memory, initialises them, and decodes all functions.
Result<std::shared_ptr<Program>> load_program(std::shared_ptr<const ptx::Module> module, std::string name, uint32_t id,
                                              AddressSpace& memory, const DeviceOptions& options);

/// `program` decoded for launches without an observer whose accesses are recorded in Warp::touches: on first use
/// (thread safe), and good as long as `program` is. It has the same sites and counters.
const Program& touching_program(Program& program);
/// The same for launches whose events are compared with those of an earlier run (launch_trace.h): nothing looks for
/// undefined values.
const Program& retracing_program(Program& program);

/// Shared memory of one kernel: offsets (from the CTA's base, reserved KiB included) of every shared variable the
/// kernel can reach, and the bytes of the static ones.
struct SharedLayout {
  std::vector<uint32_t> offset;
  uint32_t static_bytes = 0;
};
SharedLayout layout_shared(const Program& program, uint32_t kernel);

/// Local bytes per thread of a kernel: its own plus those of the deepest call chain; `stack_bytes` for recursion.
uint32_t local_bytes_of(const Program& program, uint32_t kernel, uint32_t stack_bytes);

}  // namespace ptxbench::emulator
