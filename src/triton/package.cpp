#include "triton/package.h"

#include <algorithm>
#include <cstring>

#include "candidate/abi.h"
#include "triton/plan.h"

namespace ptxbench::triton {
namespace {

/// DLPack's code of an element type.
candidate::abi::DtypeCode dtype_code(problem::Dtype dtype) {
  using Code = candidate::abi::DtypeCode;
  switch (dtype) {
    case problem::Dtype::float32:
    case problem::Dtype::float16:
      return Code::floating;
    case problem::Dtype::bfloat16:
      return Code::bfloat;
    case problem::Dtype::float8_e4m3fn:
      return Code::float8_e4m3fn;
    case problem::Dtype::float8_e5m2:
      return Code::float8_e5m2;
    case problem::Dtype::float4_e2m1:
      return Code::float4_e2m1fn;
    case problem::Dtype::boolean:
      return Code::boolean;
    default:
      return Code::integer;
  }
}

/// Grows by whole tables, each aligned to 8 bytes.
class Bytes {
 public:
  std::uint64_t reserve(std::size_t bytes) {
    text_.resize((text_.size() + 7) / 8 * 8);
    const std::uint64_t at = text_.size();
    text_.resize(at + bytes);
    return at;
  }
  template <class T>
  std::uint64_t table(const std::vector<T>& rows) {
    const std::uint64_t at = reserve(rows.size() * sizeof(T));
    if (!rows.empty()) std::memcpy(text_.data() + at, rows.data(), rows.size() * sizeof(T));
    return at;
  }
  template <class T>
  void put(std::uint64_t at, const T& value) {
    std::memcpy(text_.data() + at, &value, sizeof(T));
  }
  std::uint64_t text(const std::string& name) {
    const std::uint64_t at = reserve(name.size() + 1);
    std::memcpy(text_.data() + at, name.c_str(), name.size() + 1);
    return at;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

plan::Parameter plan_parameter(const Parameter& from) {
  plan::Parameter out{};
  switch (from.kind) {
    case Parameter::Kind::null:
      out.kind = plan::ParameterKind::null;
      break;
    case Parameter::Kind::pointer:
      out.kind = plan::ParameterKind::pointer;
      break;
    case Parameter::Kind::scalar:
      out.kind = plan::ParameterKind::scalar;
      break;
    case Parameter::Kind::tensor_map:
      out.kind = plan::ParameterKind::tensor_map;
      break;
  }
  out.buffer = from.buffer;
  out.offset = from.offset;
  out.value = from.value;
  out.type = from.type;
  out.swizzle = from.swizzle;
  out.nan_fill = from.nan_fill ? 1 : 0;
  out.rank = static_cast<std::uint32_t>(from.box.size());
  std::reverse_copy(from.shape.begin(), from.shape.end(), out.shape);
  std::reverse_copy(from.strides.begin(), from.strides.end(), out.strides);
  std::reverse_copy(from.box.begin(), from.box.end(), out.box);
  return out;
}

plan::Step plan_step(const Step& from, Bytes& bytes) {
  plan::Step out{};
  switch (from.kind) {
    case Step::Kind::launch: {
      out.kind = plan::StepKind::launch;
      std::vector<plan::Parameter> parameters;
      parameters.reserve(from.parameters.size() + 2);
      for (const Parameter& one : from.parameters) parameters.push_back(plan_parameter(one));
      parameters.push_back(plan_parameter(from.scratch));
      parameters.push_back(plan::Parameter{});  // of profiling, never used
      out.kernel = from.kernel;
      std::copy(from.grid.begin(), from.grid.end(), out.grid);
      out.cooperative = from.cooperative ? 1 : 0;
      out.dependent = from.dependent ? 1 : 0;
      out.parameters = static_cast<std::uint32_t>(parameters.size());
      out.parameter_table = bytes.table(parameters);
      break;
    }
    case Step::Kind::fill:
      out.kind = plan::StepKind::fill;
      break;
    case Step::Kind::copy:
      out.kind = plan::StepKind::copy;
      break;
  }
  out.buffer = from.buffer;
  out.from = from.from;
  out.width = from.width;
  out.offset = from.offset;
  out.from_offset = from.from_offset;
  out.bytes = from.bytes;
  out.value = from.value;
  return out;
}

plan::Argument plan_argument(const CallArgument& from) {
  plan::Argument out{};
  if (from.scalar) {
    out.kind = from.floating ? plan::ArgumentKind::floating : plan::ArgumentKind::integer;
    if (from.floating) {
      std::memcpy(&out.value, &from.number, sizeof out.value);
    } else {
      out.value = static_cast<std::uint64_t>(from.integer);
    }
    return out;
  }
  out.kind = plan::ArgumentKind::tensor;
  out.code = static_cast<std::uint8_t>(dtype_code(from.dtype));
  out.bits = static_cast<std::uint8_t>(problem::bits_of(from.dtype));
  out.dimensions = static_cast<std::uint32_t>(from.shape.size());
  std::copy(from.shape.begin(), from.shape.end(), out.shape);
  return out;
}

plan::Call plan_call(const RecordedCall& from, const CallArguments& call, Bytes& bytes) {
  std::vector<plan::Argument> arguments;
  std::vector<plan::Buffer> buffers;
  for (const CallArgument& one : call) {
    if (!one.scalar) buffers.push_back({from.buffers[buffers.size()], static_cast<std::int32_t>(arguments.size()), 0});
    arguments.push_back(plan_argument(one));
  }
  for (std::size_t i = buffers.size(); i < from.buffers.size(); ++i)
    buffers.push_back({from.buffers[i], plan::kScratch, 0});
  std::vector<plan::Step> steps;
  steps.reserve(from.steps.size());
  for (const Step& one : from.steps) steps.push_back(plan_step(one, bytes));
  plan::Call out{};
  out.arguments = static_cast<std::uint32_t>(arguments.size());
  out.buffers = static_cast<std::uint32_t>(buffers.size());
  out.steps = static_cast<std::uint32_t>(steps.size());
  out.argument_table = bytes.table(arguments);
  out.buffer_table = bytes.table(buffers);
  out.step_table = bytes.table(steps);
  return out;
}

}  // namespace

std::string write_plan(const Record& record, const std::vector<std::string>& kernel_names,
                       const std::vector<CallArguments>& calls, const std::string& launcher_digest) {
  Bytes bytes;
  const std::uint64_t start = bytes.reserve(sizeof(plan::Header));
  std::vector<plan::Kernel> kernels;
  for (std::size_t i = 0; i < record.kernels.size(); ++i) {
    const Kernel& from = record.kernels[i];
    kernels.push_back({bytes.text(kernel_names[i]), from.warps * 32, from.shared, from.cluster, 0});
  }
  std::vector<plan::Call> table;
  table.reserve(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) table.push_back(plan_call(record.calls[i], calls[i], bytes));
  plan::Header header{};
  std::copy(std::begin(plan::kMagic), std::end(plan::kMagic), header.magic);
  header.kernels = static_cast<std::uint32_t>(kernels.size());
  header.calls = static_cast<std::uint32_t>(table.size());
  header.kernel_table = bytes.table(kernels);
  header.call_table = bytes.table(table);
  std::copy_n(launcher_digest.begin(), std::min(launcher_digest.size(), sizeof header.launcher), header.launcher);
  bytes.put(start, header);
  return bytes.take();
}

std::string assembly() {
  return R"(	.section .nv_fatbin,"a",@progbits
	.align 8
fatbinData:
	.incbin "kernel.fatbin"
	.size fatbinData, .-fatbinData
	.type fatbinData, @object
	.section .nvFatBinSegment,"aw",@progbits
	.align 8
	.globl ptxbench_triton_module
	.hidden ptxbench_triton_module
	.type ptxbench_triton_module, @object
ptxbench_triton_module:
	.long 0x466243b1
	.long 1
	.quad fatbinData
	.quad 0
	.size ptxbench_triton_module, .-ptxbench_triton_module
	.section .rodata,"a",@progbits
	.align 16
	.globl ptxbench_triton_plan
	.hidden ptxbench_triton_plan
	.type ptxbench_triton_plan, @object
ptxbench_triton_plan:
	.incbin "plan.bin"
	.size ptxbench_triton_plan, .-ptxbench_triton_plan
	.section .note.GNU-stack,"",@progbits
)";
}

}  // namespace ptxbench::triton
