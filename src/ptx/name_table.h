#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ptx/text_hash.h"

namespace ptxbench::ptx {

enum class NameKind : uint8_t {
  none,
  reg,               ///< index = Function::registers
  pending_register,  ///< declared, not used yet: index = RegisterRange
  register_range,    ///< `%r<n>`: the key is the prefix; index = RegisterRange
  vector_register,   ///< index into the list of vector registers
  variable,          ///< index = Function::variables (or Module::variables at module scope)
  function,          ///< index = Module::functions
  label,             ///< index = Function::labels
};

struct NameEntry {
  std::string_view name;
  uint64_t hash = 0;
  NameKind kind = NameKind::none;
  uint32_t index = 0;
};

/// Names of one scope: open addressing, keys point into the source text. References from find() are valid until the
/// next insert().
class NameTable {
 public:
  NameEntry* find(std::string_view name, uint64_t hash) {
    if (size_ == 0) return nullptr;
    for (size_t at = hash & mask();; at = (at + 1) & mask()) {
      NameEntry& entry = slots_[at];
      if (entry.kind == NameKind::none) return nullptr;
      if (entry.hash == hash && entry.name == name) return &entry;
    }
  }

  /// The name must not be there yet.
  void insert(std::string_view name, uint64_t hash, NameKind kind, uint32_t index) {
    if ((size_ + 1) * 4 > slots_.size() * 3) grow();
    place({name, hash, kind, index});
    ++size_;
  }

  void clear() {
    if (size_ == 0) return;
    if (slots_.size() > 64)
      slots_ = {};
    else
      slots_.assign(slots_.size(), {});
    size_ = 0;
  }

  size_t size() const { return size_; }
  const std::vector<NameEntry>& slots() const { return slots_; }

 private:
  size_t mask() const { return slots_.size() - 1; }
  void place(const NameEntry& entry) {
    size_t at = entry.hash & mask();
    while (slots_[at].kind != NameKind::none) at = (at + 1) & mask();
    slots_[at] = entry;
  }
  void grow() {
    std::vector<NameEntry> old = std::move(slots_);
    slots_.assign(old.empty() ? 16 : old.size() * 2, {});
    for (const NameEntry& entry : old)
      if (entry.kind != NameKind::none) place(entry);
  }

  std::vector<NameEntry> slots_;
  size_t size_ = 0;
};

}  // namespace ptxbench::ptx
