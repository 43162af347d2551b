#pragma once

#include <functional>
#include <string>

#include "ptx/instruction_table.h"

namespace ptxbench::ptx {

/// What the emulator says about a form: "exact", "approximate", "unsupported", ...
using ExecutionNote = std::function<std::string(const InstructionForm&)>;

/// The page docs/ptx-coverage.md, made from the instruction table. With `executed` the tables get a column of its
/// notes.
std::string coverage_page(const ExecutionNote& executed = {});

}  // namespace ptxbench::ptx
