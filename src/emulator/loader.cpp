#include "emulator/loader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <set>
#include <stdexcept>

#include "emulator/decoder.h"
#include "emulator/device.h"

namespace ptxbench::emulator {

using ptx::StateSpace;

namespace {

/// A thread's local memory on the modelled part.
constexpr uint32_t kMaxLocalBytes = 512u << 10;

/// Sizes of hostile modules need not fit: what is too large stays too large.
uint32_t saturated(uint64_t value) { return static_cast<uint32_t>(std::min<uint64_t>(value, 0xffff'0000u)); }

uint64_t align_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

uint32_t alignment_of(const ptx::Variable& variable) {
  if (variable.alignment != 0) return variable.alignment;
  return std::max(1u, type_bits(variable.type) / 8 * variable.vector);
}

/// Kernels and functions reachable from `kernel` by direct calls; everything if one calls through a pointer.
std::vector<uint32_t> reachable(const Program& program, uint32_t kernel) {
  std::vector<uint32_t> order{kernel};
  std::set<uint32_t> seen{kernel};
  for (size_t i = 0; i < order.size(); ++i) {
    const FunctionCode* code = program.functions[order[i]].get();
    if (code == nullptr) continue;
    if (code->calls_indirectly) {
      for (uint32_t f = 0; f < program.functions.size(); ++f) {
        if (program.functions[f] != nullptr && !program.functions[f]->source->is_entry && seen.insert(f).second)
          order.push_back(f);
      }
    }
    for (uint32_t callee : code->callees) {
      if (seen.insert(callee).second) order.push_back(callee);
    }
  }
  return order;
}

Result<void> place_module_variables(Program& program, AddressSpace& memory) {
  const ptx::Module& module = *program.module;
  for (const ptx::Variable& variable : module.variables) {
    if (variable.space == StateSpace::shared) {
      program.variable_address.push_back(program.shared_variables.size());
      program.shared_variables.push_back(
          {variable.name, variable.size, alignment_of(variable), variable.is_extern && variable.size == 0});
      continue;
    }
    if (variable.is_extern && variable.size == 0) {
      return input_error(
          "{}: external variable {} has no definition in this module; separate compilation (-rdc) is not "
          "modelled: link the device code into one module",
          program.name, variable.name);
    }
    auto address = memory.allocate(std::max<uint64_t>(variable.size, 1), AllocationKind::module, variable.name,
                                   std::max(512u, alignment_of(variable)));
    if (!address) return tl::unexpected(address.error());
    program.variable_address.push_back(*address);
    program.allocations.push_back(*address);
    if (variable.space == StateSpace::const_) memory.protect(*address);
    if (!variable.data.empty()) std::memcpy(host_pointer(*address), variable.data.data(), variable.data.size());
  }
  for (size_t v = 0; v < module.variables.size(); ++v) {
    for (const auto& relocation : module.variables[v].relocations) {
      uint64_t value = 0;
      bool found = false;
      for (size_t w = 0; w < module.variables.size() && !found; ++w) {
        if (module.variables[w].name == relocation.symbol && module.variables[w].space != StateSpace::shared) {
          value = program.variable_address[w] + static_cast<uint64_t>(relocation.addend);
          found = true;
        }
      }
      for (size_t f = 0; f < module.functions.size() && !found; ++f) {
        if (module.functions[f].name == relocation.symbol) {
          value = kFunctionPointerTag | f;
          found = true;
        }
      }
      if (!found) {
        return input_error("{}: the initialiser of {} names {}, which has no address in this module", program.name,
                           module.variables[v].name, relocation.symbol);
      }
      // `0xff00(symbol)` stores the bytes of the address that the mask names.
      const uint64_t width = std::min<uint64_t>(type_bits(module.variables[v].type) / 8, 8);
      if (relocation.mask != 0) value = (value & relocation.mask) >> std::countr_zero(relocation.mask);
      std::memcpy(host_pointer(program.variable_address[v] + relocation.offset), &value, width);
    }
  }
  return {};
}

void place_function_variables(Program& program, FunctionCode& code) {
  const ptx::Function& function = *code.source;
  code.local_offset.assign(function.variables.size(), kNone64);
  auto& shared = program.function_shared[code.index];
  shared.assign(function.variables.size(), ptx::kNone);
  if (function.is_entry) {
    for (uint32_t p : function.parameters) {
      const ptx::Variable& parameter = function.variables[p];
      code.parameter_bytes = saturated(align_up(code.parameter_bytes, alignment_of(parameter)));
      code.parameter_offset.push_back(code.parameter_bytes);
      code.parameter_bytes = saturated(code.parameter_bytes + parameter.size);
    }
  }
  uint64_t local = 0;
  for (size_t v = 0; v < function.variables.size(); ++v) {
    const ptx::Variable& variable = function.variables[v];
    const bool entry_parameter = function.is_entry && std::find(function.parameters.begin(), function.parameters.end(),
                                                                static_cast<uint32_t>(v)) != function.parameters.end();
    if (variable.space == StateSpace::shared) {
      shared[v] = static_cast<uint32_t>(program.shared_variables.size());
      program.shared_variables.push_back(
          {variable.name, variable.size, alignment_of(variable), variable.is_extern && variable.size == 0});
    } else if (!entry_parameter) {
      local = align_up(local, alignment_of(variable));
      code.local_offset[v] = local;
      local += variable.size;
    }
  }
  code.local_bytes = saturated(align_up(local, 16));
}

}  // namespace

Result<std::shared_ptr<Program>> load_program(std::shared_ptr<const ptx::Module> module, std::string name, uint32_t id,
                                              AddressSpace& memory, const DeviceOptions& options) {
  auto program = std::make_shared<Program>();
  program->id = id;
  program->observed = options.observer != nullptr;
  program->definedness = options.definedness;
  program->exact_tensor_cores = options.exact_tensor_cores;
  program->name = std::move(name);
  program->module = std::move(module);
  if (auto placed = place_module_variables(*program, memory); !placed) {
    for (uint64_t address : program->allocations) (void)memory.free(address);
    return tl::unexpected(placed.error());
  }
  const auto& functions = program->module->functions;
  program->function_shared.resize(functions.size());
  uint32_t site = 0;
  for (uint32_t f = 0; f < functions.size(); ++f) {
    program->functions.push_back(nullptr);
    if (!functions[f].has_body) continue;
    auto code = std::make_unique<FunctionCode>();
    code->index = f;
    code->source = &functions[f];
    code->site_base = site;
    site += static_cast<uint32_t>(functions[f].instructions.size()) + 1;
    program->functions.back() = std::move(code);
    place_function_variables(*program, *program->functions.back());
  }
  auto refuse = [&](std::string reason) -> Result<std::shared_ptr<Program>> {
    for (uint64_t address : program->allocations) (void)memory.free(address);
    return input_error("{}: {}", program->name, reason);
  };
  for (auto& code : program->functions) {
    if (code == nullptr) continue;
    if (code->local_bytes > kMaxLocalBytes || code->parameter_bytes > kMaxLocalBytes) {
      return refuse(fmt::format("{} has more than {} KiB of local variables or parameters per thread",
                                code->source->name, kMaxLocalBytes >> 10));
    }
    try {
      Decoder(*program, *code).run();
    } catch (const std::exception& reason) {
      return refuse(reason.what());
    }
  }
  return program;
}

namespace {

/// The same module decoded in another way; `kind` says how, before anything is decoded.
std::unique_ptr<Program> twin_of(const Program& program, const std::function<void(Program&)>& kind) {
  auto twin = std::make_unique<Program>();
  twin->id = program.id;
  twin->exact_tensor_cores = program.exact_tensor_cores;
  twin->name = program.name;
  twin->module = program.module;
  twin->variable_address = program.variable_address;
  twin->shared_variables = program.shared_variables;
  twin->function_shared = program.function_shared;
  kind(*twin);
  for (const auto& code : program.functions) {
    twin->functions.push_back(nullptr);
    if (code == nullptr) continue;
    auto copy = std::make_unique<FunctionCode>();
    copy->index = code->index;
    copy->source = code->source;
    copy->site_base = code->site_base;
    copy->local_offset = code->local_offset;
    copy->local_bytes = code->local_bytes;
    copy->parameter_offset = code->parameter_offset;
    copy->parameter_bytes = code->parameter_bytes;
    twin->functions.back() = std::move(copy);
  }
  for (auto& code : twin->functions) {
    if (code != nullptr) Decoder(*twin, *code).run();
  }
  return twin;
}

}  // namespace

const Program& touching_program(Program& program) {
  std::call_once(program.touching_once, [&] {
    program.touching_twin = twin_of(program, [&](Program& twin) {
      twin.touching = true;
      twin.definedness = program.definedness;
    });
  });
  return *program.touching_twin;
}

const Program& retracing_program(Program& program) {
  std::call_once(program.retracing_once, [&] {
    program.retracing_twin = twin_of(program, [&](Program& twin) { twin.observed = program.observed; });
  });
  return *program.retracing_twin;
}

SharedLayout layout_shared(const Program& program, uint32_t kernel) {
  SharedLayout layout;
  layout.offset.assign(program.shared_variables.size(), 0);
  std::set<uint32_t> used;
  for (uint32_t f : reachable(program, kernel)) {
    if (program.functions[f] == nullptr) continue;
    used.insert(program.functions[f]->shared_variables.begin(), program.functions[f]->shared_variables.end());
  }
  uint64_t next = kReservedSharedBytes;
  uint32_t dynamic_alignment = 16;
  for (uint32_t v : used) {
    const auto& variable = program.shared_variables[v];
    if (variable.dynamic) {
      dynamic_alignment = std::max(dynamic_alignment, variable.alignment);
      continue;
    }
    next = align_up(next, variable.alignment);
    layout.offset[v] = saturated(next);
    next += variable.bytes;
  }
  layout.static_bytes = saturated(next - kReservedSharedBytes);
  const uint32_t dynamic = saturated(align_up(next, dynamic_alignment));
  for (uint32_t v : used) {
    if (program.shared_variables[v].dynamic) {
      layout.offset[v] = dynamic;
      layout.static_bytes = dynamic - kReservedSharedBytes;
    }
  }
  return layout;
}

uint32_t local_bytes_of(const Program& program, uint32_t kernel, uint32_t stack_bytes) {
  const auto order = reachable(program, kernel);
  uint64_t bytes = program.functions[kernel]->local_bytes;
  bool calls = false;
  for (uint32_t f : order) {
    if (f != kernel && program.functions[f] != nullptr) {
      bytes += program.functions[f]->local_bytes;
      calls = true;
    }
  }
  if (calls) bytes += stack_bytes;
  return saturated(align_up(bytes, 16));
}

}  // namespace ptxbench::emulator
