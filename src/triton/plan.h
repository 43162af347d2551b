#pragma once

#include <cstdint>

/// What a Triton candidate's library does when `run` is called, as data: written by package.cpp after the lowering was
/// checked, read by the launcher that is linked with it. Offsets count bytes from the start of the header.
namespace ptxbench::triton::plan {

inline constexpr char kMagic[8] = {'P', 'T', 'X', 'B', 'T', 'R', 'I', '1'};
inline constexpr std::uint32_t kMostDimensions = 8;
inline constexpr std::uint32_t kMostRank = 5;
inline constexpr std::int32_t kScratch = -1;

struct Header {
  char magic[8];
  std::uint32_t kernels, calls;
  std::uint64_t kernel_table;  ///< Kernel[kernels]
  std::uint64_t call_table;    ///< Call[calls]
  char launcher[64];           ///< digest of the launcher, so that another one is another library
};

struct Kernel {
  std::uint64_t name;  ///< text, ended by a zero byte
  std::uint32_t threads, shared, cluster, parameters;
};

struct Call {
  std::uint32_t arguments, buffers, steps, zero;
  std::uint64_t argument_table;  ///< Argument[arguments], in the order of the call
  std::uint64_t buffer_table;    ///< Buffer[buffers]
  std::uint64_t step_table;      ///< Step[steps]
};

enum class ArgumentKind : std::uint32_t { tensor, integer, floating };

struct Argument {
  ArgumentKind kind;
  std::uint8_t code, bits;  ///< DLPack's dtype of a tensor
  std::uint16_t zero;
  std::uint32_t dimensions, zero2;
  std::int64_t shape[kMostDimensions];
  std::uint64_t value;  ///< of a number: its 64 bits
};

struct Buffer {
  std::uint64_t bytes;
  std::int32_t argument;  ///< which tensor it is, or kScratch
  std::uint32_t zero;
};

enum class StepKind : std::uint32_t { launch, fill, copy };

struct Step {
  StepKind kind;
  std::uint32_t kernel, grid[3];
  std::uint32_t cooperative, dependent;
  std::uint32_t parameters;
  std::uint64_t parameter_table;  ///< Parameter[parameters]
  // Of fills and copies.
  std::uint32_t buffer, from, width, zero;
  std::uint64_t offset, from_offset, bytes, value;
};

enum class ParameterKind : std::uint32_t { null, pointer, scalar, tensor_map };

struct Parameter {
  ParameterKind kind;
  std::uint32_t buffer;
  std::uint64_t offset;
  std::uint64_t value;  ///< of a scalar
  // Of tensor maps, innermost dimension first, numbered as in cuda.h.
  std::uint32_t type, rank, swizzle, nan_fill;
  std::uint64_t shape[kMostRank], strides[kMostRank];
  std::uint32_t box[kMostRank], zero;
};

static_assert(sizeof(Header) == 96 && sizeof(Kernel) == 24 && sizeof(Call) == 40 && sizeof(Argument) == 88);
static_assert(sizeof(Buffer) == 16 && sizeof(Step) == 88 && sizeof(Parameter) == 144);

}  // namespace ptxbench::triton::plan
