#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ptx/instruction_table.h"

namespace ptxbench::ptx {

/// What an emulator does with the instructions of a form: all of them like the hardware, some or all of them nearly,
/// some not at all, none of them.
enum class Execution : uint8_t { exact, approximate, partly, unsupported };

struct ExecutionNote {
  Execution execution = Execution::exact;
  std::string detail;  ///< which instructions, why
};

/// The page docs/ptx-coverage.md, made from the instruction table and what is known about its forms. Forms without a
/// note are those for other targets.
std::string coverage_page(const std::map<const CompiledForm*, ExecutionNote>& notes);

}  // namespace ptxbench::ptx
