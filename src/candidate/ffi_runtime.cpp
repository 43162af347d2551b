// libtvm_ffi.so of our own: the part of TVM-FFI's runtime that a candidate's library imports, whether it was compiled
// with the lean headers or with upstream's. Anything else is missing from the symbol table, so that loading a candidate
// which needs it fails at once and names the symbol.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "candidate/abi.h"

namespace {

using ptxbench::candidate::abi::Bytes;
using ptxbench::candidate::abi::ErrorObject;
using ptxbench::candidate::abi::ObjectHeader;

constexpr std::uint64_t kOneStrong = 1;
constexpr std::uint64_t kOneWeak = std::uint64_t{1} << 32;
constexpr int kDestroy = 1;
constexpr int kFree = 2;

std::string text(const Bytes* bytes) {
  return bytes == nullptr || bytes->data == nullptr ? std::string() : std::string(bytes->data, bytes->size);
}

void retain(void* object) {
  if (object == nullptr) return;
  std::atomic_ref(static_cast<ObjectHeader*>(object)->combined_ref_count).fetch_add(kOneStrong);
}

void release(void* object) {
  if (object == nullptr) return;
  auto* header = static_cast<ObjectHeader*>(object);
  std::atomic_ref count(header->combined_ref_count);
  const std::uint64_t before = count.fetch_sub(kOneStrong);
  if (before == kOneStrong + kOneWeak) {
    if (header->deleter != nullptr) header->deleter(object, kDestroy | kFree);
  } else if ((before & 0xffffffffu) == kOneStrong) {
    if (header->deleter != nullptr) header->deleter(object, kDestroy);
    if (count.fetch_sub(kOneWeak) == kOneWeak && header->deleter != nullptr) header->deleter(object, kFree);
  }
}

/// An error made here rather than inside a candidate's library.
struct OwnError : ErrorObject {
  std::string kind_text, message_text, backtrace_text;

  OwnError(std::string kind_value, std::string message_value, std::string backtrace_value)
      : kind_text(std::move(kind_value)),
        message_text(std::move(message_value)),
        backtrace_text(std::move(backtrace_value)) {
    header.combined_ref_count = kOneStrong + kOneWeak;
    header.type_index = 67;
    header.deleter = [](void* self, int flags) {
      auto* error = static_cast<OwnError*>(static_cast<ErrorObject*>(self));
      if ((flags & kDestroy) != 0) {
        release(error->cause_chain);
        release(error->extra_context);
        error->~OwnError();
      }
      if ((flags & kFree) != 0) ::operator delete(self);
    };
    update_backtrace = [](void* self, const Bytes* added, std::int32_t append) {
      auto* error = static_cast<OwnError*>(static_cast<ErrorObject*>(self));
      error->backtrace_text = append != 0 ? error->backtrace_text + text(added) : text(added);
      error->backtrace = {error->backtrace_text.data(), error->backtrace_text.size()};
    };
    kind = {kind_text.data(), kind_text.size()};
    message = {message_text.data(), message_text.size()};
    backtrace = {backtrace_text.data(), backtrace_text.size()};
  }
};

void* new_error(std::string kind, std::string message, std::string backtrace) {
  void* memory = ::operator new(sizeof(OwnError));
  return static_cast<ErrorObject*>(new (memory) OwnError(std::move(kind), std::move(message), std::move(backtrace)));
}

thread_local void* pending_error = nullptr;
thread_local std::map<std::pair<std::int32_t, std::int32_t>, void*> streams;

/// Layout of upstream's TVMFFITypeInfo; the reflection fields stay empty.
struct TypeInfo {
  std::int32_t type_index = 0;
  std::int32_t type_depth = 0;
  Bytes type_key;
  const TypeInfo** type_ancestors = nullptr;
  std::uint64_t type_key_hash = 0;
  std::int32_t num_fields = 0;
  std::int32_t num_methods = 0;
  const void* fields = nullptr;
  const void* methods = nullptr;
  const void* metadata = nullptr;
};

class TypeTable {
 public:
  static TypeTable& instance() {
    static TypeTable table;
    return table;
  }

  const TypeInfo* find(std::int32_t index) {
    const std::lock_guard lock(mutex_);
    const auto found = by_index_.find(index);
    return found == by_index_.end() ? nullptr : &found->second->info;
  }

  std::int32_t find_or_add(const std::string& key, std::int32_t wanted_index, std::int32_t parent) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found != by_key_.end()) return found->second;
    if (parent == -2) return -2;  // the caller only asks
    return add(key, wanted_index >= 0 ? wanted_index : next_dynamic_++, parent);
  }

 private:
  struct Entry {
    std::string key;
    std::vector<const TypeInfo*> ancestors;
    TypeInfo info;
  };

  TypeTable() {
    static constexpr std::pair<std::int32_t, const char*> kPlain[] = {{0, "None"},
                                                                      {1, "int"},
                                                                      {2, "bool"},
                                                                      {3, "float"},
                                                                      {4, "void*"},
                                                                      {5, "DataType"},
                                                                      {6, "Device"},
                                                                      {7, "DLTensor*"},
                                                                      {8, "const char*"},
                                                                      {9, "TVMFFIByteArray*"},
                                                                      {10, "ObjectRValueRef"},
                                                                      {11, "ffi.SmallStr"},
                                                                      {12, "ffi.SmallBytes"},
                                                                      {64, "ffi.Object"}};
    for (const auto& [index, key] : kPlain) add(key, index, -1);
    static constexpr std::pair<std::int32_t, const char*> kObjects[] = {
        {65, "ffi.String"}, {66, "ffi.Bytes"}, {67, "ffi.Error"}, {68, "ffi.Function"}, {69, "ffi.Shape"},
        {70, "ffi.Tensor"}, {71, "ffi.Array"}, {72, "ffi.Map"},   {73, "ffi.Module"}};
    for (const auto& [index, key] : kObjects) add(key, index, 64);
  }

  std::int32_t add(const std::string& key, std::int32_t index, std::int32_t parent) {
    Entry& entry = entries_.emplace_back();
    entry.key = key;
    if (const auto found = by_index_.find(parent); found != by_index_.end()) {
      entry.ancestors = found->second->ancestors;
      entry.ancestors.push_back(&found->second->info);
    }
    entry.info.type_index = index;
    entry.info.type_depth = static_cast<std::int32_t>(entry.ancestors.size());
    entry.info.type_key = {entry.key.data(), entry.key.size()};
    entry.info.type_key_hash = std::hash<std::string>()(key);
    entry.info.type_ancestors = entry.ancestors.data();
    by_index_[index] = &entry;
    by_key_[key] = index;
    return index;
  }

  std::mutex mutex_;
  std::deque<Entry> entries_;  // addresses stay
  std::map<std::int32_t, Entry*> by_index_;
  std::map<std::string, std::int32_t> by_key_;
  std::int32_t next_dynamic_ = 128;
};

}  // namespace

#define PTXBENCH_FFI_EXPORT extern "C" __attribute__((visibility("default")))

// The names are TVM-FFI's.
// NOLINTBEGIN(readability-identifier-naming)
PTXBENCH_FFI_EXPORT void TVMFFIGetVersion(std::uint32_t* major_minor_patch) {
  major_minor_patch[0] = 0;
  major_minor_patch[1] = 1;
  major_minor_patch[2] = 0;
}

PTXBENCH_FFI_EXPORT int TVMFFIObjectIncRef(void* object) {
  retain(object);
  return 0;
}

PTXBENCH_FFI_EXPORT int TVMFFIObjectDecRef(void* object) {
  release(object);
  return 0;
}

PTXBENCH_FFI_EXPORT int TVMFFIErrorCreate(const Bytes* kind, const Bytes* message, const Bytes* backtrace, void** out) {
  *out = new_error(text(kind), text(message), text(backtrace));
  return 0;
}

PTXBENCH_FFI_EXPORT int TVMFFIErrorCreateWithCauseAndExtraContext(const Bytes* kind, const Bytes* message,
                                                                  const Bytes* backtrace, void* cause, void* context,
                                                                  void** out) {
  *out = new_error(text(kind), text(message), text(backtrace));
  auto* error = static_cast<ErrorObject*>(*out);
  retain(cause);
  retain(context);
  error->cause_chain = cause;
  error->extra_context = context;
  return 0;
}

PTXBENCH_FFI_EXPORT void TVMFFIErrorSetRaised(void* error) {
  retain(error);
  release(pending_error);
  pending_error = error;
}

PTXBENCH_FFI_EXPORT void TVMFFIErrorMoveFromRaised(void** result) {
  *result = pending_error;
  pending_error = nullptr;
}

PTXBENCH_FFI_EXPORT void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  void* error = new_error(kind, message, "");
  TVMFFIErrorSetRaised(error);
  release(error);
}

PTXBENCH_FFI_EXPORT void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, std::int32_t count) {
  std::string message;
  for (std::int32_t i = 0; i < count; ++i) {
    if (parts[i] != nullptr) message += parts[i];
  }
  TVMFFIErrorSetRaisedFromCStr(kind, message.c_str());
}

/// Only the place that the caller names: walking the stack of a stripped, optimised candidate tells nobody anything.
PTXBENCH_FFI_EXPORT const Bytes* TVMFFIBacktrace(const char* file, int line, const char* function, int) {
  thread_local std::string trace;
  thread_local Bytes bytes;
  trace.clear();
  if (file != nullptr) {
    trace = "  File \"" + std::string(file) + "\", line " + std::to_string(line) + ", in " +
            (function == nullptr ? "?" : function) + "\n";
  }
  bytes = {trace.data(), trace.size()};
  return &bytes;
}

PTXBENCH_FFI_EXPORT std::int32_t TVMFFITypeGetOrAllocIndex(const Bytes* key, std::int32_t static_index, std::int32_t,
                                                           std::int32_t, std::int32_t, std::int32_t parent) {
  return TypeTable::instance().find_or_add(text(key), static_index, parent);
}

PTXBENCH_FFI_EXPORT const TypeInfo* TVMFFIGetTypeInfo(std::int32_t index) {
  const TypeInfo* info = TypeTable::instance().find(index);
  if (info == nullptr) {
    // Upstream treats this as a broken program as well; callers dereference the answer.
    std::fprintf(stderr, "tvm_ffi: no type with index %d\n", index);
    std::abort();
  }
  return info;
}

PTXBENCH_FFI_EXPORT int TVMFFITypeKeyToIndex(const Bytes* key, std::int32_t* out) {
  *out = TypeTable::instance().find_or_add(text(key), -1, -2);
  if (*out >= 0) return 0;
  TVMFFIErrorSetRaisedFromCStr("TypeError", ("no type is called " + text(key)).c_str());
  return -1;
}

PTXBENCH_FFI_EXPORT int TVMFFIEnvSetStream(std::int32_t device_type, std::int32_t device_id, void* stream,
                                           void** old_stream) {
  void*& slot = streams[{device_type, device_id}];
  if (old_stream != nullptr) *old_stream = slot;
  slot = stream;
  return 0;
}

PTXBENCH_FFI_EXPORT void* TVMFFIEnvGetStream(std::int32_t device_type, std::int32_t device_id) {
  const auto found = streams.find({device_type, device_id});
  return found == streams.end() ? nullptr : found->second;
}

PTXBENCH_FFI_EXPORT int TVMFFIEnvTensorAlloc(void*, void**) {
  TVMFFIErrorSetRaisedFromCStr("NotImplementedError",
                               "candidates cannot allocate tensors through TVM-FFI here; use cudaMallocAsync");
  return -1;
}

PTXBENCH_FFI_EXPORT int TVMFFIEnvCheckSignals() { return 0; }
// NOLINTEND(readability-identifier-naming)
