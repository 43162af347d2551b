#pragma once

#include <cctype>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

/// ISA cases: one instruction (or a few) with per-lane inputs and expected outputs, run by one warp. The same files run
/// on the emulator (isa_test.cpp) and on a GPU (tests/gpu/isa_runner.cu), so this header needs nothing but the standard
/// library.
///
/// A file is a sequence of
///   case NAME
///   note TEXT                            (optional)
///   ptx TEXT                             (one or more lines of the snippet)
///   tolerance abs|rel|ulp NUMBER         (optional, floating-point outputs)
///   warp                                 (optional: lanes work together, only the whole-warp variant runs)
///   in TYPE lanes|uniform|immediate HEX...   (%a, %b, %c, %e in this order)
///   out TYPE HEX|nan|any ...             (%d, %q, %r in this order; as many lanes run as the first output has values)
///   end
/// Lines that begin with # are comments. Snippets may use %lane and declare registers of their own.
namespace isa_cases {

enum class InputKind { lanes, uniform, immediate };

struct Column {
  std::string type;
  InputKind kind = InputKind::lanes;
  std::vector<uint64_t> values;
  std::vector<std::string> special;  ///< outputs: "nan", "any" or empty, per lane
};

struct Case {
  std::string name, tolerance_kind;
  double tolerance = 0;
  bool warp = false;
  std::vector<std::string> ptx;
  std::vector<Column> inputs, outputs;
};

inline unsigned type_width(const std::string& type) {
  if (type == "pred") return 1;
  if (type == "f16x2" || type == "bf16x2") return 32;
  return static_cast<unsigned>(std::stoul(type.substr(type.find_first_of("0123456789"))));
}

inline std::vector<Case> read_cases(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Case> cases;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key.empty() || key[0] == '#' || key == "note") continue;
    if (key == "case") {
      cases.emplace_back();
      words >> cases.back().name;
      continue;
    }
    if (cases.empty()) throw std::runtime_error(path + ": text before the first case");
    Case& current = cases.back();
    if (key == "ptx") {
      current.ptx.push_back(line.substr(4));
    } else if (key == "warp") {
      current.warp = true;
    } else if (key == "tolerance") {
      words >> current.tolerance_kind >> current.tolerance;
    } else if (key == "in" || key == "out") {
      Column column;
      words >> column.type;
      if (key == "in") {
        std::string kind;
        words >> kind;
        column.kind = kind == "uniform"     ? InputKind::uniform
                      : kind == "immediate" ? InputKind::immediate
                                            : InputKind::lanes;
      }
      for (std::string value; words >> value;) {
        const bool special = value == "nan" || value == "any";
        column.values.push_back(special ? 0 : std::stoull(value, nullptr, 16));
        column.special.push_back(special ? value : "");
      }
      (key == "in" ? current.inputs : current.outputs).push_back(std::move(column));
    } else if (key != "end") {
      throw std::runtime_error(path + ": unknown line: " + line);
    }
  }
  return cases;
}

/// How a case runs. All read 8-byte cells: input k of lane l at cell k * 32 + l; output j at the same place of the
/// result.
enum class Variant {
  whole,   ///< all lanes run together
  masked,  ///< odd lanes only, even lanes' registers must keep their contents
  scalar,  ///< lane by lane, every input at an address all lanes share
};
constexpr uint64_t kSentinel = 0xa5a5a5a5a5a5a5a5ull;
constexpr unsigned kScalarLanes = 6;  ///< values that the scalar variant tries

namespace detail {

inline std::string register_type(const std::string& type) {
  if (type == "f16" || type == "bf16") return ".b16";
  if (type == "f16x2" || type == "bf16x2") return ".b32";
  return "." + type;
}
inline std::string memory_type(const std::string& type) {
  const unsigned width = type_width(type);
  if (width == 8) return ".b8";
  return width == 16 ? ".b16" : width == 64 ? ".b64" : ".b32";
}
inline std::string hex(uint64_t value, int digits) {
  static const char* const kDigits = "0123456789ABCDEF";
  std::string text(static_cast<size_t>(digits), '0');
  for (int i = digits - 1; i >= 0; --i, value >>= 4) text[static_cast<size_t>(i)] = kDigits[value & 15];
  return text;
}
inline std::string literal(const std::string& type, uint64_t value) {
  if (type == "f32") return "0f" + hex(value, 8);
  if (type == "f64") return "0d" + hex(value, 16);
  if (type[0] == 's') {
    const unsigned width = type_width(type);
    const auto extended = static_cast<int64_t>(value << (64 - width)) >> (64 - width);
    if (extended == INT64_MIN) return "0x8000000000000000";
    return std::to_string(extended);
  }
  return "0x" + hex(value, static_cast<int>((type_width(type) + 3) / 4));
}

inline std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
    const size_t after = at + from.size();
    if (after < text.size() && (std::isalnum(static_cast<unsigned char>(text[after])) || text[after] == '_')) {
      at = after;
      continue;
    }
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

}  // namespace detail

inline const char* input_register(size_t k) {
  static const char* const kNames[] = {"%a", "%b", "%c", "%e"};
  return kNames[k];
}
inline const char* output_register(size_t j) {
  static const char* const kNames[] = {"%d", "%q", "%r"};
  return kNames[j];
}

/// PTX of a module with one kernel `test(in, out)` for one block of 32 threads.
inline std::string build_module(const Case& c, Variant variant) {
  using namespace detail;
  std::ostringstream s;
  s << ".version 9.0\n.target sm_90a\n.address_size 64\n\n.visible .entry test(.param .u64 in, .param .u64 out)\n{\n"
       "  .reg .b64 %in, %out, %from, %to, %offset;\n  .reg .b32 %lane, %word, %odd;\n  .reg .pred %skip;\n";
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    s << "  .reg " << register_type(c.inputs[k].type) << ' ' << input_register(k) << ";\n";
  }
  for (size_t j = 0; j < c.outputs.size(); ++j) {
    s << "  .reg " << register_type(c.outputs[j].type) << ' ' << output_register(j) << ";\n";
  }
  s << "  ld.param.u64 %in, [in];\n  ld.param.u64 %out, [out];\n  mov.u32 %lane, %tid.x;\n  mul.wide.u32 %offset, "
       "%lane, 8;\n"
       "  add.s64 %from, %in, %offset;\n  add.s64 %to, %out, %offset;\n";
  std::vector<std::string> snippet;
  for (std::string line : c.ptx) {
    for (size_t k = 0; k < c.inputs.size(); ++k) {
      if (c.inputs[k].kind == InputKind::immediate) {
        line = replace_all(line, input_register(k), literal(c.inputs[k].type, c.inputs[k].values.at(0)));
      }
    }
    snippet.push_back(line);
  }
  const auto load = [&](size_t k, const std::string& base, size_t cell) {
    const Column& input = c.inputs[k];
    if (input.kind == InputKind::immediate) return;
    const std::string address = "[" + base + "+" + std::to_string(cell * 8) + "]";
    if (input.type == "pred") {
      s << "  ld.global.b32 %word, " << address << ";\n  setp.ne.u32 " << input_register(k) << ", %word, 0;\n";
    } else {
      s << "  ld.global" << memory_type(input.type) << ' ' << input_register(k) << ", " << address << ";\n";
    }
  };
  const auto store = [&](size_t j, const std::string& base, size_t cell) {
    const Column& output = c.outputs[j];
    const std::string address = "[" + base + "+" + std::to_string(cell * 8) + "]";
    if (output.type == "pred") {
      s << "  selp.b32 %word, 1, 0, " << output_register(j) << ";\n  st.global.b32 " << address << ", %word;\n";
    } else {
      s << "  st.global" << memory_type(output.type) << ' ' << address << ", " << output_register(j) << ";\n";
    }
  };
  const auto run = [&] {
    s << "  {\n";
    for (const std::string& line : snippet) s << "    " << line << '\n';
    s << "  }\n";
  };
  if (variant == Variant::scalar) {
    for (size_t lane = 0; lane < c.outputs.at(0).values.size() && lane < kScalarLanes; ++lane) {
      for (size_t k = 0; k < c.inputs.size(); ++k)
        load(k, "%in", k * 32 + (c.inputs[k].kind == InputKind::lanes ? lane : 0));
      run();
      for (size_t j = 0; j < c.outputs.size(); ++j) store(j, "%out", j * 32 + lane);
    }
    s << "  ret;\n}\n";
    return s.str();
  }
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    c.inputs[k].kind == InputKind::uniform ? load(k, "%in", k * 32) : load(k, "%from", k * 32);
  }
  if (variant == Variant::masked) {
    for (size_t j = 0; j < c.outputs.size(); ++j) {
      if (c.outputs[j].type == "pred") {
        s << "  setp.eq.u32 " << output_register(j) << ", %lane, %lane;\n";
      } else {
        s << "  ld.global" << memory_type(c.outputs[j].type) << ' ' << output_register(j) << ", [%to+" << j * 256
          << "];\n";
      }
    }
    s << "  and.b32 %odd, %lane, 1;\n  setp.eq.u32 %skip, %odd, 0;\n  @%skip bra SKIP;\n";
  }
  run();
  if (variant == Variant::masked) s << "SKIP:\n";
  for (size_t j = 0; j < c.outputs.size(); ++j) store(j, "%to", j * 32);
  s << "  ret;\n}\n";
  return s.str();
}

/// Input cells for a case.
inline std::vector<uint64_t> input_cells(const Case& c) {
  std::vector<uint64_t> cells(c.inputs.size() * 32 + 1, 0);
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    for (size_t lane = 0; lane < 32; ++lane)
      cells[k * 32 + lane] = c.inputs[k].values.at(lane % c.inputs[k].values.size());
  }
  return cells;
}

/// Bits of an output cell that the kernel writes.
inline unsigned cell_width(const std::string& type) { return type == "pred" ? 32 : type_width(type); }

inline bool is_nan_of(const std::string& type, uint64_t bits) {
  if (type == "f32") return (bits & 0x7fffffff) > 0x7f800000;
  if (type == "f64") return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
  if (type == "f16") return (bits & 0x7fff) > 0x7c00;
  return (bits & 0x7fff) > 0x7f80;
}

inline double value_of(const std::string& type, uint64_t bits) {
  const auto decode = [](uint64_t word, int exponent_bits, int fraction_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const auto exponent = static_cast<int>((word >> fraction_bits) & ((1u << exponent_bits) - 1));
    const auto fraction = static_cast<double>(word & ((1ull << fraction_bits) - 1));
    const bool negative = ((word >> (exponent_bits + fraction_bits)) & 1) != 0;
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                      : std::ldexp(fraction + std::ldexp(1.0, fraction_bits), exponent - bias - fraction_bits);
    return negative ? -magnitude : magnitude;
  };
  if (type == "f32") return decode(bits, 8, 23);
  if (type == "f64") return decode(bits, 11, 52);
  if (type == "f16") return decode(bits, 5, 10);
  return decode(bits, 8, 7);
}

/// Whether `bits` is an acceptable output of column j in `lane`.
inline bool accepts(const Case& c, size_t j, size_t lane, uint64_t bits) {
  const Column& output = c.outputs[j];
  const std::string& special = output.special.at(lane);
  if (special == "any") return true;
  if (special == "nan") return is_nan_of(output.type, bits);
  const uint64_t expected = output.values.at(lane);
  if (bits == expected) return true;
  if (c.tolerance_kind.empty() || is_nan_of(output.type, expected) || is_nan_of(output.type, bits)) return false;
  const double want = value_of(output.type, expected), got = value_of(output.type, bits);
  const double difference = std::fabs(got - want);
  if (c.tolerance_kind == "abs") return difference <= c.tolerance;
  if (c.tolerance_kind == "rel") return difference <= c.tolerance * std::fabs(want);
  if (c.tolerance_kind == "ulp") {
    const int64_t steps = static_cast<int64_t>(bits) - static_cast<int64_t>(expected);
    return std::fabs(static_cast<double>(steps)) <= c.tolerance;
  }
  return false;
}

}  // namespace isa_cases
