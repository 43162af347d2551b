// Lean stand-in for TVM-FFI's errors. Message streams are not std::ostream: that header alone costs a third of a small
// candidate's compile time. Where a candidate needs a real one (manipulators, std::string results), it does not compile
// against this file and is compiled with the upstream headers instead.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <type_traits>
#include <utility>

// The compiler driver defines these for candidates that use names of std:: which upstream's headers happen to bring in.
#ifdef PTXBENCH_STD_ALGORITHM
#include <algorithm>
#endif
#ifdef PTXBENCH_STD_ARRAY
#include <array>
#endif
#ifdef PTXBENCH_STD_FUNCTIONAL
#include <functional>
#endif
#ifdef PTXBENCH_STD_IOSTREAM
#include <iostream>
#endif
#ifdef PTXBENCH_STD_LIMITS
#include <limits>
#endif
#ifdef PTXBENCH_STD_MEMORY
#include <memory>
#endif
#ifdef PTXBENCH_STD_OPTIONAL
#include <optional>
#endif
#ifdef PTXBENCH_STD_SSTREAM
#include <iomanip>
#include <sstream>
#endif
#ifdef PTXBENCH_STD_STDEXCEPT
#include <stdexcept>
#endif
#ifdef PTXBENCH_STD_STRING
#include <string>
#endif
#ifdef PTXBENCH_STD_STRING_VIEW
#include <string_view>
#endif
#ifdef PTXBENCH_STD_TUPLE
#include <tuple>
#endif
#ifdef PTXBENCH_STD_UNORDERED_MAP
#include <unordered_map>
#endif
#ifdef PTXBENCH_STD_VECTOR
#include <vector>
#endif

#define TVM_FFI_INLINE [[gnu::always_inline]] inline
#define TVM_FFI_NO_INLINE [[gnu::noinline]]
#define TVM_FFI_COLD_CODE [[gnu::cold]]
#define TVM_FFI_UNREACHABLE() __builtin_unreachable()
#define TVM_FFI_PREDICT_FALSE(cond) (__builtin_expect(static_cast<bool>(cond), 0))
#define TVM_FFI_PREDICT_TRUE(cond) (__builtin_expect(static_cast<bool>(cond), 1))
#define TVM_FFI_FUNC_SIG __PRETTY_FUNCTION__

namespace tvm {
namespace ffi {
namespace detail {

/// A growing, always terminated byte string; converts to any string class built from (pointer, length).
class Text {
 public:
  Text() = default;
  Text(const char* data, size_t size) { append(data, size); }
  Text(const Text& other) { append(other.data_, other.size_); }
  Text(Text&& other) noexcept : data_(other.data_), size_(other.size_), capacity_(other.capacity_) {
    other.data_ = nullptr;
    other.size_ = other.capacity_ = 0;
  }
  Text& operator=(Text other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~Text() { std::free(data_); }

  void append(const char* data, size_t size) {
    if (size == 0) return;
    if (size_ + size + 1 > capacity_) {
      const size_t capacity = 2 * (size_ + size) + 64;
      char* grown = static_cast<char*>(std::realloc(data_, capacity));
      if (grown == nullptr) return;  // out of memory while reporting an error: a shorter message is the best there is
      data_ = grown;
      capacity_ = capacity;
    }
    std::memcpy(data_ + size_, data, size);
    size_ += size;
    data_[size_] = '\0';
  }

  const char* c_str() const { return data_ == nullptr ? "" : data_; }
  const char* data() const { return c_str(); }
  size_t size() const { return size_; }
  size_t length() const { return size_; }
  bool empty() const { return size_ == 0; }
  TVMFFIByteArray bytes() const { return {c_str(), size_}; }

  template <class String,
            class = std::enable_if_t<std::is_class_v<String> && std::is_constructible_v<String, const char*, size_t>>>
  operator String() const {
    return String(c_str(), size_);
  }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

inline Text to_text(const char* text) { return text == nullptr ? Text() : Text(text, std::strlen(text)); }
inline Text to_text(const TVMFFIByteArray* bytes) { return bytes == nullptr ? Text() : Text(bytes->data, bytes->size); }
template <class String, class = decltype(std::declval<const String&>().data() + std::declval<const String&>().size())>
Text to_text(const String& text) {
  return Text(text.data(), text.size());
}

/// What TVM_FFI_THROW(...) << ... writes to.
class MessageStream {
 public:
  MessageStream& operator<<(const char* text) {
    text_.append(text == nullptr ? "(null)" : text, text == nullptr ? 6 : std::strlen(text));
    return *this;
  }
  MessageStream& operator<<(char value) {
    text_.append(&value, 1);
    return *this;
  }
  MessageStream& operator<<(signed char value) { return *this << static_cast<char>(value); }
  MessageStream& operator<<(unsigned char value) { return *this << static_cast<char>(value); }
  MessageStream& operator<<(const void* value) { return format("%p", value); }
  MessageStream& operator<<(DLDataType type) {
    static const char* const kNames[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
    if (type.code < sizeof(kNames) / sizeof(kNames[0])) {
      *this << kNames[type.code];
    } else {
      *this << "dtype code " << int{type.code} << " bits ";
    }
    *this << int{type.bits};
    return type.lanes == 1 ? *this : *this << 'x' << int{type.lanes};
  }
  template <class T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>, int> = 0>
  MessageStream& operator<<(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return format("%g", static_cast<double>(value));
    } else if constexpr (std::is_enum_v<T>) {
      static_assert(std::is_convertible_v<T, long long>, "a scoped enumeration has no text");
      return format("%lld", static_cast<long long>(value));
    } else if constexpr (std::is_unsigned_v<T>) {
      return format("%llu", static_cast<unsigned long long>(value));
    } else {
      return format("%lld", static_cast<long long>(value));
    }
  }
  template <
      class String,
      class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<const String&>().data()), const char*>>,
      class = decltype(std::declval<const String&>().size())>
  MessageStream& operator<<(const String& text) {
    text_.append(text.data(), text.size());
    return *this;
  }
  Text str() const { return text_; }

 private:
  template <class T>
  MessageStream& format(const char* pattern, T value) {
    char buffer[64];
    const int length = std::snprintf(buffer, sizeof(buffer), pattern, value);
    text_.append(buffer, length < 0 ? 0 : static_cast<size_t>(length));
    return *this;
  }
  Text text_;
};

}  // namespace detail

/// An error with a kind ("ValueError"), a message and where it was thrown.
class Error : public std::exception {
 public:
  template <class Kind, class Message, class Backtrace>
  Error(const Kind& kind, const Message& message, const Backtrace& backtrace)
      : kind_(detail::to_text(kind)), message_(detail::to_text(message)), backtrace_(detail::to_text(backtrace)) {}
  detail::Text kind() const { return kind_; }
  detail::Text message() const { return message_; }
  detail::Text backtrace() const { return backtrace_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  detail::Text kind_, message_, backtrace_;
};

namespace detail {

/// Layout of the error object behind a TVMFFIObjectHandle, as far as it is read here.
struct ErrorCell {
  TVMFFIObject header;
  TVMFFIByteArray kind, message, backtrace;
};

inline void SetSafeCallRaised(const Error& error) {
  const Text kind = error.kind(), message = error.message(), backtrace = error.backtrace();
  const TVMFFIByteArray kind_bytes = kind.bytes(), message_bytes = message.bytes(), trace_bytes = backtrace.bytes();
  TVMFFIObjectHandle object = nullptr;
  if (TVMFFIErrorCreate(&kind_bytes, &message_bytes, &trace_bytes, &object) == 0) {
    TVMFFIErrorSetRaised(object);
    TVMFFIObjectDecRef(object);
  } else {
    TVMFFIErrorSetRaisedFromCStr(kind.c_str(), message.c_str());
  }
}

inline Error MoveFromSafeCallRaised() {
  TVMFFIObjectHandle object = nullptr;
  TVMFFIErrorMoveFromRaised(&object);
  if (object == nullptr) return Error("InternalError", "a call failed without saying why", "");
  const ErrorCell* cell = static_cast<const ErrorCell*>(object);
  Error error(&cell->kind, &cell->message, &cell->backtrace);
  TVMFFIObjectDecRef(object);
  return error;
}

class ErrorBuilder {
 public:
  ErrorBuilder(const char* kind, const char* file, int line, const char* function, bool log = false)
      : kind_(kind), file_(file), function_(function), line_(line), log_(log) {}
  [[noreturn]] TVM_FFI_COLD_CODE ~ErrorBuilder() noexcept(false) {
    MessageStream where;
    where << "  File \"" << file_ << "\", line " << line_ << ", in " << function_ << "\n";
    const Text message = stream_.str();
    if (log_) std::fprintf(stderr, "%s%s: %s\n", where.str().c_str(), kind_, message.c_str());
    throw Error(kind_, message, where.str());
  }
  MessageStream& stream() { return stream_; }

 private:
  MessageStream stream_;
  const char* kind_;
  const char* file_;
  const char* function_;
  int line_;
  bool log_;
};

}  // namespace detail
}  // namespace ffi
}  // namespace tvm

#define TVM_FFI_THROW(ErrorKind) \
  ::tvm::ffi::detail::ErrorBuilder(#ErrorKind, __FILE__, __LINE__, TVM_FFI_FUNC_SIG).stream()
#define TVM_FFI_LOG_AND_THROW(ErrorKind) \
  ::tvm::ffi::detail::ErrorBuilder(#ErrorKind, __FILE__, __LINE__, TVM_FFI_FUNC_SIG, true).stream()

#define TVM_FFI_CHECK(cond, ErrorKind) \
  if (TVM_FFI_PREDICT_FALSE(!(cond))) TVM_FFI_THROW(ErrorKind) << "Check failed: (" #cond << ") is false: "

namespace tvm {
namespace ffi {
namespace detail {
template <class Left, class Right>
struct Operands {
  Left left;
  Right right;
};
template <class Left, class Right>
constexpr Operands<std::decay_t<Left>, std::decay_t<Right>> make_operands(Left&& left, Right&& right) {
  return {static_cast<Left&&>(left), static_cast<Right&&>(right)};
}
}  // namespace detail
}  // namespace ffi
}  // namespace tvm

// The operands are evaluated once and live in the if's scope, so that the message can show both.
#define PTXBENCH_FFI_CHECK_OP(op, x, y, ErrorKind)                                                         \
  if (const auto ptxbench_operands = ::tvm::ffi::detail::make_operands((x), (y));                          \
      TVM_FFI_PREDICT_FALSE(!(ptxbench_operands.left op ptxbench_operands.right)))                         \
  TVM_FFI_THROW(ErrorKind) << "Check failed: " #x " " #op " " #y " (" << ptxbench_operands.left << " vs. " \
                           << ptxbench_operands.right << "): "

#define TVM_FFI_CHECK_LT(x, y, ErrorKind) PTXBENCH_FFI_CHECK_OP(<, x, y, ErrorKind)
#define TVM_FFI_CHECK_GT(x, y, ErrorKind) PTXBENCH_FFI_CHECK_OP(>, x, y, ErrorKind)
#define TVM_FFI_CHECK_LE(x, y, ErrorKind) PTXBENCH_FFI_CHECK_OP(<=, x, y, ErrorKind)
#define TVM_FFI_CHECK_GE(x, y, ErrorKind) PTXBENCH_FFI_CHECK_OP(>=, x, y, ErrorKind)
#define TVM_FFI_CHECK_EQ(x, y, ErrorKind) PTXBENCH_FFI_CHECK_OP(==, x, y, ErrorKind)
#define TVM_FFI_CHECK_NE(x, y, ErrorKind) PTXBENCH_FFI_CHECK_OP(!=, x, y, ErrorKind)
#define TVM_FFI_CHECK_NOTNULL(x, ErrorKind) \
  ((x) == nullptr ? TVM_FFI_THROW(ErrorKind) << "Check not null: " #x << ' ', (x) : (x))

#define TVM_FFI_ICHECK(x) TVM_FFI_CHECK(x, InternalError)
#define TVM_FFI_ICHECK_LT(x, y) TVM_FFI_CHECK_LT(x, y, InternalError)
#define TVM_FFI_ICHECK_GT(x, y) TVM_FFI_CHECK_GT(x, y, InternalError)
#define TVM_FFI_ICHECK_LE(x, y) TVM_FFI_CHECK_LE(x, y, InternalError)
#define TVM_FFI_ICHECK_GE(x, y) TVM_FFI_CHECK_GE(x, y, InternalError)
#define TVM_FFI_ICHECK_EQ(x, y) TVM_FFI_CHECK_EQ(x, y, InternalError)
#define TVM_FFI_ICHECK_NE(x, y) TVM_FFI_CHECK_NE(x, y, InternalError)
#define TVM_FFI_ICHECK_NOTNULL(x) TVM_FFI_CHECK_NOTNULL(x, InternalError)

// As upstream: a debug check costs nothing in a build with NDEBUG.
#ifndef NDEBUG
#define TVM_FFI_DCHECK(x) TVM_FFI_ICHECK(x)
#define TVM_FFI_DCHECK_LT(x, y) TVM_FFI_ICHECK_LT(x, y)
#define TVM_FFI_DCHECK_GT(x, y) TVM_FFI_ICHECK_GT(x, y)
#define TVM_FFI_DCHECK_LE(x, y) TVM_FFI_ICHECK_LE(x, y)
#define TVM_FFI_DCHECK_GE(x, y) TVM_FFI_ICHECK_GE(x, y)
#define TVM_FFI_DCHECK_EQ(x, y) TVM_FFI_ICHECK_EQ(x, y)
#define TVM_FFI_DCHECK_NE(x, y) TVM_FFI_ICHECK_NE(x, y)
#else
#define TVM_FFI_DCHECK(x) \
  while (false) TVM_FFI_ICHECK(x)
#define TVM_FFI_DCHECK_LT(x, y) \
  while (false) TVM_FFI_ICHECK_LT(x, y)
#define TVM_FFI_DCHECK_GT(x, y) \
  while (false) TVM_FFI_ICHECK_GT(x, y)
#define TVM_FFI_DCHECK_LE(x, y) \
  while (false) TVM_FFI_ICHECK_LE(x, y)
#define TVM_FFI_DCHECK_GE(x, y) \
  while (false) TVM_FFI_ICHECK_GE(x, y)
#define TVM_FFI_DCHECK_EQ(x, y) \
  while (false) TVM_FFI_ICHECK_EQ(x, y)
#define TVM_FFI_DCHECK_NE(x, y) \
  while (false) TVM_FFI_ICHECK_NE(x, y)
#endif

#define TVM_FFI_SAFE_CALL_BEGIN() \
  try {                           \
  (void)0
#define TVM_FFI_SAFE_CALL_END()                                                                           \
  return 0;                                                                                               \
  }                                                                                                       \
  catch (const ::tvm::ffi::Error& ptxbench_error) {                                                       \
    ::tvm::ffi::detail::SetSafeCallRaised(ptxbench_error);                                                \
    return -1;                                                                                            \
  }                                                                                                       \
  catch (const std::exception& ptxbench_error) {                                                          \
    ::tvm::ffi::detail::SetSafeCallRaised(::tvm::ffi::Error("InternalError", ptxbench_error.what(), "")); \
    return -1;                                                                                            \
  }                                                                                                       \
  TVM_FFI_UNREACHABLE()
#define TVM_FFI_CHECK_SAFE_CALL(call)                                                           \
  {                                                                                             \
    if (TVM_FFI_PREDICT_FALSE((call) != 0)) throw ::tvm::ffi::detail::MoveFromSafeCallRaised(); \
  }

inline bool operator==(const DLDataType& a, const DLDataType& b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}
inline bool operator!=(const DLDataType& a, const DLDataType& b) { return !(a == b); }
