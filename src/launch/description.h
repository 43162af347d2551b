#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "launch/elements.h"

/// A launch description: what it takes to run one kernel of a bare PTX file without host code (docs/schemas.md).
namespace ptxbench::launch {

enum class ArgumentKind : uint8_t {
  memory,      ///< a device allocation; the kernel gets its address
  tensor_map,  ///< a CUtensorMap of another argument's memory
  scalar,
};

/// How a tensor map describes memory. Lists are in the driver's order: the innermost dimension first.
struct TensorMapDescription {
  std::string memory;                    ///< the argument described
  std::vector<uint64_t> size;            ///< globalDim, elements
  std::vector<uint64_t> stride;          ///< globalStrides, bytes, of dimensions 1 .. rank-1; empty: packed
  std::vector<uint32_t> box;             ///< boxDim, elements
  std::vector<uint32_t> element_stride;  ///< elementStrides; empty: 1
  uint32_t swizzle = 0;                  ///< span in bytes: 0, 32, 64, 128
  uint32_t interleave = 0;               ///< bytes: 0, 16, 32
  bool fill_nan = false;                 ///< what loads put outside the tensor: NaN instead of zero
  bool in_memory = false;                ///< the map lies in device memory and the kernel gets its address
};

/// What an output must hold afterwards: contents, or those of another argument as they were before the launch.
struct Expectation {
  Fill fill;
  std::string argument;  ///< empty: `fill`
};

struct Argument {
  std::string name;
  ArgumentKind kind{};
  uint32_t line = 0;  ///< of its [[argument]], for messages
  ElementType type{};
  std::vector<uint64_t> shape;  ///< memory: row-major, outermost first; empty means one element
  Fill fill;
  bool output = false;
  bool freed = false;  ///< the memory is freed before the launch; the kernel gets the stale address
  std::optional<Expectation> expect;
  TensorMapDescription map;
  uint64_t scalar_bits = 0;  ///< scalar: its bytes, little endian

  uint64_t elements() const;
  uint64_t bytes() const { return elements() * bytes_of(type); }
};

struct LaunchDescription {
  std::string name;    ///< of the file, for messages
  std::string kernel;  ///< empty: the module's only entry
  uint32_t kernel_line = 0;
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t cluster[3] = {0, 0, 0};  ///< 0: not given
  uint32_t dynamic_shared_bytes = 0;
  uint32_t repeat = 1;  ///< launches in a row on one stream
  std::vector<Argument> arguments;
};

/// Reads a description. `name` and line open every error message; `first_line` is the line of `text`'s first line when
/// the description stands inside another file.
Result<LaunchDescription> parse(std::string_view text, std::string_view name, uint32_t first_line = 1);

}  // namespace ptxbench::launch
