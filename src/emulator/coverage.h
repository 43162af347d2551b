#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "emulator/device.h"
#include "ptx/module.h"

namespace ptxbench::emulator {

enum class Fidelity : uint8_t {
  exact,
  approximate,  ///< results nearly the hardware's
  unsupported,  ///< reaching the instruction stops the kernel
};

struct InstructionFidelity {
  Fidelity fidelity = Fidelity::exact;
  std::string reason;  ///< why it is unsupported, as the fault would say
};

/// What became of each instruction of each function ([function][instruction]) when the module was loaded: the decoded
/// code is asked, with scalars and without (general_code), and the worse answer counts. Conditions that only a run can
/// see, such as a call of a function that the module lacks, are not found. `memory` holds the module's variables
/// meanwhile.
Result<std::vector<std::vector<InstructionFidelity>>> instruction_fidelity(std::shared_ptr<const ptx::Module> module,
                                                                           AddressSpace& memory,
                                                                           const DeviceOptions& options);

/// The page docs/ptx-coverage.md: samples of every form of the instruction table are loaded to see what becomes of
/// them.
Result<std::string> coverage_page(AddressSpace& memory);

}  // namespace ptxbench::emulator
