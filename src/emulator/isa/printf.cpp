#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "emulator/isa/control.h"
#include "emulator/isa/engine.h"

/// The functions of the device runtime that kernels call: vprintf and __assertfail.
namespace ptxbench::emulator {
namespace {

constexpr size_t kLongestString = 1 << 16;
constexpr int32_t kWidest = 9999;  ///< width or precision of a conversion

/// A lane's argument of the call: `bytes` at its place in local memory.
uint64_t argument(Warp& warp, const CallInfo& call, unsigned lane, size_t index) {
  uint64_t value = 0;
  if (index < call.argument_offsets.size()) {
    std::memcpy(&value, warp.local_pointer(lane, warp.frame->local_base + call.argument_offsets[index]),
                std::min<size_t>(8, call.argument_bytes[index]));
  }
  return value;
}

/// A zero-terminated string at a generic address. False: a fault was recorded.
bool read_string(Warp& warp, const Inst& inst, uint64_t address, unsigned lane, std::string& text) {
  text.clear();
  while (text.size() < kLongestString) {
    const std::byte* byte =
        resolve_address(warp, inst, ptx::StateSpace::generic, address + text.size(), 1, 1, false, lane);
    if (byte == nullptr) return false;
    if (*byte == std::byte{0}) return true;
    text.push_back(static_cast<char>(*byte));
  }
  return true;
}

/// Walks the argument block of CUDA's vprintf: values at their natural alignment, floats widened to double.
class Arguments {
 public:
  Arguments(Warp& warp, const Inst& inst, uint64_t block, unsigned lane)
      : warp_(warp), inst_(inst), block_(block), lane_(lane) {}
  template <class T>
  bool next(T& value) {
    offset_ = (offset_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    const std::byte* bytes =
        resolve_address(warp_, inst_, ptx::StateSpace::generic, block_ + offset_, sizeof(T), 1, false, lane_);
    if (bytes == nullptr) return false;
    std::memcpy(&value, bytes, sizeof(T));
    offset_ += sizeof(T);
    ++count_;
    return true;
  }
  unsigned count() const { return count_; }

 private:
  Warp& warp_;
  const Inst& inst_;
  uint64_t block_;
  unsigned lane_;
  uint64_t offset_ = 0;
  unsigned count_ = 0;
};

/// One conversion specification; the length modifier is kept apart because widths are fixed on the device.
struct Conversion {
  std::string flags;     ///< `%`, flags, width and precision, all stars replaced
  bool is_long = false;  ///< 64-bit integer
  char letter = 0;
};

template <class T>
void append(std::string& out, const std::string& format, T value) {
  char buffer[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const int length = std::snprintf(buffer, sizeof buffer, format.c_str(), value);
  if (length >= static_cast<int>(sizeof buffer)) {
    std::string longer(static_cast<size_t>(length) + 1, '\0');
    std::snprintf(longer.data(), longer.size(), format.c_str(), value);
    longer.pop_back();
    out += longer;
    return;
  }
#pragma GCC diagnostic pop
  if (length > 0) out.append(buffer, static_cast<size_t>(length));
}

/// Formats one conversion. False: a fault was recorded.
bool convert(Warp& warp, const Inst& inst, const Conversion& conversion, Arguments& arguments, unsigned lane,
             std::string& out) {
  const char letter = conversion.letter;
  if (std::strchr("di", letter) != nullptr) {
    int64_t wide = 0;
    int32_t narrow = 0;
    if (!(conversion.is_long ? arguments.next(wide) : arguments.next(narrow))) return false;
    append(out, conversion.flags + "lld", static_cast<long long>(conversion.is_long ? wide : narrow));
  } else if (std::strchr("uxXo", letter) != nullptr) {
    uint64_t wide = 0;
    uint32_t narrow = 0;
    if (!(conversion.is_long ? arguments.next(wide) : arguments.next(narrow))) return false;
    append(out, conversion.flags + "ll" + letter, static_cast<unsigned long long>(conversion.is_long ? wide : narrow));
  } else if (std::strchr("fFeEgGaA", letter) != nullptr) {
    double value = 0;
    if (!arguments.next(value)) return false;
    append(out, conversion.flags + letter, value);
  } else if (letter == 'c') {
    int32_t value = 0;
    if (!arguments.next(value)) return false;
    append(out, conversion.flags + letter, value);
  } else if (letter == 'p') {
    uint64_t value = 0;
    if (!arguments.next(value)) return false;
    append(out, conversion.flags + "s", fmt::format("{:#x}", value).c_str());
  } else {
    uint64_t address = 0;
    std::string text = "(null)";
    if (!arguments.next(address)) return false;
    if (address != 0 && !read_string(warp, inst, address, lane, text)) return false;
    append(out, conversion.flags + "s", text.c_str());
  }
  return true;
}

/// False: a fault was recorded.
bool format_lane(Warp& warp, const Inst& inst, const std::string& format, Arguments& arguments, unsigned lane,
                 std::string& out) {
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      out.push_back(format[at++]);
      continue;
    }
    const size_t start = at++;
    if (at < format.size() && format[at] == '%') {
      out.push_back('%');
      ++at;
      continue;
    }
    Conversion conversion;
    conversion.flags.assign(1, '%');
    unsigned digits = 0, most_digits = 0;
    while (at < format.size() && std::strchr("-+ #0123456789.*", format[at]) != nullptr) {
      if (format[at] == '*') {
        int32_t value = 0;
        if (!arguments.next(value)) return false;
        conversion.flags += fmt::format("{}", std::clamp(value, -kWidest, kWidest));
      } else {
        conversion.flags.push_back(format[at]);
      }
      digits = std::isdigit(static_cast<unsigned char>(format[at])) != 0 ? digits + 1 : 0;
      most_digits = std::max(most_digits, digits);
      ++at;
    }
    if (most_digits > 4) {
      // Padding of megabytes serves nobody and costs the emulator its memory.
      out.append(format, start, at - start);
      continue;
    }
    while (at < format.size() && std::strchr("hljztL", format[at]) != nullptr) {
      conversion.is_long = conversion.is_long || std::strchr("ljzt", format[at]) != nullptr;
      ++at;
    }
    if (at < format.size() && std::strchr("diuxXofFeEgGaAcps", format[at]) != nullptr) {
      conversion.letter = format[at++];
      if (!convert(warp, inst, conversion, arguments, lane, out)) return false;
    } else {
      // The device prints what it does not understand as it stands.
      out.append(format, start, at - start);
    }
  }
  return true;
}

void print(const Launch& launch, std::string_view text) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (launch.print != nullptr && *launch.print) {
    (*launch.print)(text);
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}

void set_result(Warp& warp, const CallInfo& call, unsigned lane, int32_t value) {
  if (call.return_offsets.empty()) return;
  std::memcpy(warp.local_pointer(lane, warp.frame->local_base + call.return_offsets[0]), &value, sizeof value);
}

/// int vprintf(const char* format, void* arguments): the number of arguments read, -1 without a format.
const Inst* vprintf_builtin(Warp& warp, const Inst& inst, const CallInfo& call, uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const unsigned lane = first_lane(lanes);
    const uint64_t format_address = argument(warp, call, lane, 0);
    if (format_address == 0) {
      set_result(warp, call, lane, -1);
      continue;
    }
    std::string format, out;
    if (!read_string(warp, inst, format_address, lane, format)) return nullptr;
    Arguments arguments(warp, inst, argument(warp, call, lane, 1), lane);
    if (!format_lane(warp, inst, format, arguments, lane, out)) return nullptr;
    print(*warp.cluster->launch, out);
    set_result(warp, call, lane, static_cast<int32_t>(arguments.count()));
  }
  warp.side_effect();
  return &inst + 1;
}

/// void __assertfail(const char* message, const char* file, unsigned line, const char* function, size_t char_size)
const Inst* assert_builtin(Warp& warp, const Inst& inst, const CallInfo& call, uint32_t lanes) {
  const unsigned lane = first_lane(lanes);
  std::string message, file, function;
  if (!read_string(warp, inst, argument(warp, call, lane, 0), lane, message) ||
      !read_string(warp, inst, argument(warp, call, lane, 1), lane, file) ||
      !read_string(warp, inst, argument(warp, call, lane, 3), lane, function)) {
    return nullptr;
  }
  const uint32_t* block = warp.cluster->launch->request->block;
  const uint32_t thread = warp.index * kLanes + lane;
  return warp.fault(inst, "launch.assert",
                    fmt::format("{}:{}: {}: block: [{},{},{}], thread: [{},{},{}] Assertion `{}` failed.", file,
                                static_cast<uint32_t>(argument(warp, call, lane, 2)), function, warp.cta->id[0],
                                warp.cta->id[1], warp.cta->id[2], thread % block[0], thread / block[0] % block[1],
                                thread / (block[0] * block[1]), message),
                    "the kernel's own check failed: see the condition", 0, lanes);
}

}  // namespace

Builtin find_builtin(std::string_view name) {
  if (name == "vprintf") return &vprintf_builtin;
  if (name == "__assertfail") return &assert_builtin;
  return nullptr;
}

}  // namespace ptxbench::emulator
