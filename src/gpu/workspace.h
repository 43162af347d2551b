#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cuda_shim/guarded_backend.h"
#include "gpu/device.h"
#include "gpu/device_memory.h"
#include "gpu/kernels.h"
#include "gpu/permutation.h"

namespace ptxbench::gpu {

/// The executor's own kernels (kernels.cu).
class Kernels {
 public:
  static Result<Kernels> load(const Device& device);
  Result<void> fill_random(std::uint64_t out, ElementType type, int distribution, std::uint64_t seed,
                           std::uint32_t tensor, std::uint64_t count) const;
  /// Adds the number of elements that are not those to the word at `counter`.
  Result<void> count_not_random(std::uint64_t in, ElementType type, int distribution, std::uint64_t seed,
                                std::uint32_t tensor, std::uint64_t count, std::uint64_t counter) const;
  /// Words of 8 bytes; addresses are multiples of 16.
  Result<void> fill_words(std::uint64_t out, std::uint64_t word, std::uint64_t count) const;
  Result<void> count_differences(std::uint64_t left, std::uint64_t right, std::uint64_t words,
                                 std::uint64_t counter) const;
  /// Adds the bytes that are not `byte` in `zones` zones of `bytes`, whose addresses are at `table`.
  Result<void> count_guards(std::uint64_t table, std::uint32_t zones, unsigned bytes, unsigned char byte,
                            std::uint64_t counter) const;
  /// Copies `permutation.slices` slices of `bytes`, a multiple of 4, in another order; `flip`: bits of each word of 4
  /// bytes that change.
  Result<void> permute_slices(std::uint64_t out, std::uint64_t in, std::uint64_t bytes,
                              const SlicePermutation& permutation, std::uint32_t flip) const;
  /// Waits until the word at `gate` (host memory the GPU sees) is at least `ticket`, then writes the time.
  Result<void> gate(std::uint64_t gate, std::uint32_t ticket, std::uint64_t stamp) const;
  Result<void> stamp(std::uint64_t stamp) const;

 private:
  Result<void> launch(CUfunction function, unsigned blocks, unsigned threads, void** parameters, const char* what,
                      unsigned rows = 1) const;
  const Device* device_ = nullptr;
  CUfunction fill_random_ = nullptr, count_not_random_ = nullptr, fill_words_ = nullptr, count_differences_ = nullptr,
             count_guards_ = nullptr, permute_slices_ = nullptr, gate_ = nullptr, stamp_ = nullptr;
};

/// One tensor of the call, or a scalar (bytes 0).
struct WorkArgument {
  std::string name;
  bool output = false;
  std::uint64_t bytes = 0, count = 0;
  std::uint64_t poison = 0;  ///< of outputs: the pattern, repeated to 8 bytes
  /// Of inputs: made by the generator, or copied from `base`.
  std::optional<ElementType> random;
  std::uint32_t tensor = 0;
  int timed = 0;  ///< the distribution of one that is made anew for a timed call
  std::uint64_t base = 0;
  /// Of inputs that may be permuted: slices, groups that flip their signs, and the sign bits of 4 bytes. They have a
  /// `base`, generated or not.
  std::uint32_t slices = 0, signs = 0;
  unsigned groups = 0;
  bool renewed = false;  ///< and is made anew for each call before it is permuted
};

/// What the inputs of a call are.
struct Contents {
  enum class Kind {
    given,     ///< generated from seed and distribution, or copied from their bases
    fresh,     ///< generated from the seed with their own distributions
    permuted,  ///< those that were given to place(), permuted by the seed, but for those that are renewed
  };
  Kind kind = Kind::given;
  std::uint64_t seed = 0;
  int distribution = 0;  ///< problem::Distribution
};

/// The problem's tensors in device memory, in several sets at addresses of their own.
class Workspace {
 public:
  Workspace(const Device& device, DeviceMemory& memory, const Kernels& kernels)
      : device_(device), memory_(memory), kernels_(kernels) {}
  ~Workspace();

  /// `upload`: where inputs lie that are not generated. `given`: what those are that are generated and may be permuted.
  Result<void> place(const base::Json& arguments, std::size_t sets, std::span<const std::byte> upload,
                     const Contents& given);
  std::size_t sets() const { return sets_.size(); }
  const std::vector<WorkArgument>& arguments() const { return arguments_; }
  std::uint64_t address(std::size_t set, std::size_t argument) const { return sets_.at(set).at(argument); }
  std::vector<std::uint64_t> addresses(std::size_t set, bool outputs) const;
  std::vector<cuda_shim::TensorRange> ranges(std::size_t set) const;

  // On the device's stream, without waiting.
  Result<void> fill_inputs(std::size_t set, const Contents& contents) const;
  Result<void> poison_outputs(std::size_t set) const;
  Result<void> fill_guards();  ///< of all sets
  /// Adds the number of bytes beside tensors, of all sets, that have changed to the word at `counter`.
  Result<void> count_overrun(std::uint64_t counter) const;
  /// Adds to the word at `counter` in how many words or elements inputs differ from what they were made to be. What is
  /// copied is looked at in whole words of 8 bytes.
  Result<void> count_changed(std::size_t set, const Contents& contents, std::uint64_t counter) const;

  // These wait.
  Result<std::vector<std::string>> changed_inputs(std::size_t set, const Contents& contents);
  /// Tensors beside which bytes have changed.
  Result<std::vector<std::string>> overrun(std::size_t set) const;

 private:
  Result<void> fill_input(const WorkArgument& argument, std::uint64_t address, const Contents& contents) const;
  Result<void> count_input(const WorkArgument& argument, std::uint64_t address, const Contents& contents,
                           std::uint64_t counter) const;
  const Device& device_;
  DeviceMemory& memory_;
  const Kernels& kernels_;
  std::vector<WorkArgument> arguments_;
  std::vector<std::vector<std::uint64_t>> sets_;  ///< address of each argument; 0 for scalars
  std::vector<std::uint64_t> blocks_;
  std::uint64_t scratch_ = 0, counter_ = 0;
  std::uint64_t guards_ = 0;  ///< addresses of all guard zones
  std::uint32_t guard_count_ = 0;
};

}  // namespace ptxbench::gpu
