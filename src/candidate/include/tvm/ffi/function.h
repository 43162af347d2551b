// Lean stand-in: exporting a typed C++ function through TVM-FFI's calling convention.
#pragma once

#include <tvm/ffi/container/tensor.h>

namespace tvm {
namespace ffi {

/// A value that may be absent (None).
template <class T>
class Optional {
 public:
  Optional() = default;
  Optional(std::nullptr_t) {}
  Optional(T value) : has_(true) { new (&storage_) T(static_cast<T&&>(value)); }
  Optional(const Optional& other) : has_(other.has_) {
    if (has_) new (&storage_) T(*other);
  }
  Optional& operator=(const Optional& other) {
    if (this == &other) return *this;
    if (has_) (**this).~T();
    has_ = other.has_;
    if (has_) new (&storage_) T(*other);
    return *this;
  }
  ~Optional() {
    if (has_) (**this).~T();
  }
  bool has_value() const { return has_; }
  explicit operator bool() const { return has_; }
  bool defined() const { return has_; }
  T& operator*() { return *reinterpret_cast<T*>(&storage_); }
  const T& operator*() const { return *reinterpret_cast<const T*>(&storage_); }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }
  const T& value() const {
    if (!has_) TVM_FFI_THROW(RuntimeError) << "value() of an empty Optional";
    return **this;
  }
  T value_or(T fallback) const { return has_ ? **this : fallback; }

 private:
  alignas(T) unsigned char storage_[sizeof(T)];
  bool has_ = false;
};

namespace detail {

inline const char* type_name(int32_t index) {
  switch (index) {
    case kTVMFFINone:
      return "None";
    case kTVMFFIInt:
      return "int";
    case kTVMFFIBool:
      return "bool";
    case kTVMFFIFloat:
      return "float";
    case kTVMFFIOpaquePtr:
      return "void*";
    case kTVMFFIDataType:
      return "DataType";
    case kTVMFFIDevice:
      return "Device";
    case kTVMFFIDLTensorPtr:
      return "DLTensor*";
    case kTVMFFITensor:
      return "ffi.Tensor";
    case kTVMFFIRawStr:
      return "const char*";
    default:
      return "another object";
  }
}

/// Reads one argument: `accepts` says whether the value can become a T, `get` makes it. Types without a specialisation
/// do not compile here, and the candidate is compiled with the upstream headers.
template <class T, class = void>
struct Reader;

template <class T>
struct Reader<T, std::enable_if_t<std::is_integral_v<T> || std::is_enum_v<T>>> {
  static constexpr const char* kName = std::is_same_v<T, bool> ? "bool" : "int";
  static bool accepts(const TVMFFIAny& v) { return v.type_index == kTVMFFIInt || v.type_index == kTVMFFIBool; }
  static T get(const TVMFFIAny& v) { return static_cast<T>(v.v_int64); }
};
template <class T>
struct Reader<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static constexpr const char* kName = "float";
  static bool accepts(const TVMFFIAny& v) {
    return v.type_index == kTVMFFIFloat || v.type_index == kTVMFFIInt || v.type_index == kTVMFFIBool;
  }
  static T get(const TVMFFIAny& v) {
    return v.type_index == kTVMFFIFloat ? static_cast<T>(v.v_float64) : static_cast<T>(v.v_int64);
  }
};
template <>
struct Reader<DLTensor*> {
  static constexpr const char* kName = "DLTensor*";
  static bool accepts(const TVMFFIAny& v) {
    return v.type_index == kTVMFFIDLTensorPtr || v.type_index == kTVMFFITensor;
  }
  static DLTensor* get(const TVMFFIAny& v) {
    // An owned tensor is the object header followed by the DLTensor.
    return v.type_index == kTVMFFITensor
               ? reinterpret_cast<DLTensor*>(reinterpret_cast<char*>(v.v_obj) + sizeof(TVMFFIObject))
               : static_cast<DLTensor*>(v.v_ptr);
  }
};
template <>
struct Reader<const DLTensor*> : Reader<DLTensor*> {};
template <>
struct Reader<TensorView> {
  static constexpr const char* kName = "Tensor";
  static bool accepts(const TVMFFIAny& v) { return Reader<DLTensor*>::accepts(v); }
  static TensorView get(const TVMFFIAny& v) { return TensorView(Reader<DLTensor*>::get(v)); }
};
template <>
struct Reader<void*> {
  static constexpr const char* kName = "void*";
  static bool accepts(const TVMFFIAny& v) { return v.type_index == kTVMFFIOpaquePtr || v.type_index == kTVMFFINone; }
  static void* get(const TVMFFIAny& v) { return v.type_index == kTVMFFINone ? nullptr : v.v_ptr; }
};
template <>
struct Reader<DLDevice> {
  static constexpr const char* kName = "Device";
  static bool accepts(const TVMFFIAny& v) { return v.type_index == kTVMFFIDevice; }
  static DLDevice get(const TVMFFIAny& v) { return v.v_device; }
};
template <>
struct Reader<DLDataType> {
  static constexpr const char* kName = "DataType";
  static bool accepts(const TVMFFIAny& v) { return v.type_index == kTVMFFIDataType; }
  static DLDataType get(const TVMFFIAny& v) { return v.v_dtype; }
};
template <class T>
struct Reader<Optional<T>> {
  static constexpr const char* kName = Reader<T>::kName;
  static bool accepts(const TVMFFIAny& v) { return v.type_index == kTVMFFINone || Reader<T>::accepts(v); }
  static Optional<T> get(const TVMFFIAny& v) {
    return v.type_index == kTVMFFINone ? Optional<T>() : Optional<T>(Reader<T>::get(v));
  }
};
#ifdef PTXBENCH_STD_OPTIONAL
template <class T>
struct Reader<std::optional<T>> {
  static constexpr const char* kName = Reader<T>::kName;
  static bool accepts(const TVMFFIAny& v) { return v.type_index == kTVMFFINone || Reader<T>::accepts(v); }
  static std::optional<T> get(const TVMFFIAny& v) {
    return v.type_index == kTVMFFINone ? std::optional<T>() : std::optional<T>(Reader<T>::get(v));
  }
};
#endif

template <class T>
T read_argument(const char* function, const TVMFFIAny* args, size_t index) {
  if (!Reader<T>::accepts(args[index])) {
    TVM_FFI_THROW(TypeError) << "argument " << index << " of " << function << " must be " << Reader<T>::kName
                             << ", but the call passes " << type_name(args[index].type_index);
  }
  return Reader<T>::get(args[index]);
}

template <class R>
void write_result(TVMFFIAny* result, R value) {
  result->zero_padding = 0;
  if constexpr (std::is_same_v<R, bool>) {
    result->type_index = kTVMFFIBool;
    result->v_int64 = value;
  } else if constexpr (std::is_integral_v<R> || std::is_enum_v<R>) {
    result->type_index = kTVMFFIInt;
    result->v_int64 = static_cast<int64_t>(value);
  } else {
    static_assert(std::is_floating_point_v<R>, "a result must be void or a number");
    result->type_index = kTVMFFIFloat;
    result->v_float64 = static_cast<double>(value);
  }
}

template <class R, class... Args>
struct Signature {
  template <class F, size_t... I>
  static void call(const char* name, const F& function, const TVMFFIAny* args, int32_t count, TVMFFIAny* result,
                   std::index_sequence<I...>) {
    if (count != static_cast<int32_t>(sizeof...(Args))) {
      TVM_FFI_THROW(TypeError) << name << " takes " << sizeof...(Args) << " arguments, but the call passes " << count;
    }
    if constexpr (std::is_void_v<R>) {
      function(read_argument<std::remove_cv_t<std::remove_reference_t<Args>>>(name, args, I)...);
    } else {
      write_result<R>(result,
                      function(read_argument<std::remove_cv_t<std::remove_reference_t<Args>>>(name, args, I)...));
    }
  }
  template <class F>
  static void call(const char* name, const F& function, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
    call(name, function, args, count, result, std::index_sequence_for<Args...>());
  }
};

template <class F>
struct SignatureOf : SignatureOf<decltype(&F::operator())> {};
template <class R, class... Args>
struct SignatureOf<R (*)(Args...)> : Signature<R, Args...> {};
template <class C, class R, class... Args>
struct SignatureOf<R (C::*)(Args...) const> : Signature<R, Args...> {};
template <class C, class R, class... Args>
struct SignatureOf<R (C::*)(Args...)> : Signature<R, Args...> {};

}  // namespace detail
}  // namespace ffi
}  // namespace tvm

/// Exports `Function` (a function or a captureless lambda) as the symbol __tvm_ffi_<ExportName>.
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(ExportName, Function)                                                          \
  extern "C" {                                                                                                       \
  TVM_FFI_DLL_EXPORT int __tvm_ffi_##ExportName(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) { \
    TVM_FFI_SAFE_CALL_BEGIN();                                                                                       \
    ::tvm::ffi::detail::SignatureOf<std::decay_t<decltype(Function)>>::call(#ExportName, Function, args, num_args,   \
                                                                            result);                                 \
    TVM_FFI_SAFE_CALL_END();                                                                                         \
  }                                                                                                                  \
  }
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(ExportName, DocString)
