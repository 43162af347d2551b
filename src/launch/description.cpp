#include "launch/description.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "base/toml.h"

namespace ptxbench::launch {
namespace {

/// Descriptions come from files of unknown origin; nothing sensible needs more.
constexpr uint64_t kMaxArgumentBytes = 1ULL << 32;
constexpr uint64_t kMaxTotalBytes = 1ULL << 33;
constexpr size_t kMaxDimensions = 8;
constexpr uint32_t kMaxRepeat = 1000;
constexpr std::string_view kFills = "\"zero\", \"index\", \"identity\", \"poison\", \"random\" or \"value:3.5\"";

using base::TomlValue;
using Table = TomlValue::Table;

/// Reads the members of one table; the first error is kept, and later reads give defaults.
class Reader {
 public:
  Reader(const Table& table, uint32_t line, std::string_view file, std::string where, std::optional<Error>& error)
      : table_(table), line_(line), file_(file), where_(std::move(where)), error_(error) {}

  template <class... Args>
  void fail(uint32_t line, fmt::format_string<Args...> format, Args&&... args) {
    if (error_) return;
    error_ = Error{ErrorKind::input,
                   fmt::format("{}:{}: {}{}", file_, line, where_, fmt::format(format, std::forward<Args>(args)...))};
  }

  const TomlValue* find(std::string_view key) const {
    for (size_t i = 0; i < table_.keys.size(); ++i) {
      if (table_.keys[i] == key) return &table_.values[i];
    }
    return nullptr;
  }
  uint32_t line() const { return line_; }
  uint32_t line_of(std::string_view key) const {
    const TomlValue* value = find(key);
    return value != nullptr ? value->line : line_;
  }

  void check_keys(std::span<const std::string_view> known) {
    for (size_t i = 0; i < table_.keys.size(); ++i) {
      const std::string& name = table_.keys[i];
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        fail(table_.values[i].line, "unknown key '{}'{}; known are {}", name, base::did_you_mean(name, known),
             fmt::join(known, ", "));
      }
    }
  }
  /// Keys that only another kind of argument has.
  void refuse(std::string_view key, std::string_view why) {
    if (const TomlValue* value = find(key)) fail(value->line, "'{}' {}", key, why);
  }

  std::optional<std::string> text(std::string_view key) {
    const TomlValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (const auto* string = value->get_if<std::string>()) return *string;
    fail(value->line, "'{}' is {}; it must be a string", key, value->kind());
    return std::nullopt;
  }
  bool flag(std::string_view key) {
    const TomlValue* value = find(key);
    if (value == nullptr) return false;
    if (const auto* truth = value->get_if<bool>()) return *truth;
    fail(value->line, "'{}' is {}; it must be true or false", key, value->kind());
    return false;
  }
  uint64_t number(const TomlValue& value, std::string_view key, uint64_t least, uint64_t most) {
    const auto* integer = value.get_if<int64_t>();
    if (integer == nullptr) {
      fail(value.line, "'{}' holds {}; it must be an integer", key, value.kind());
    } else if (*integer < 0 || static_cast<uint64_t>(*integer) < least || static_cast<uint64_t>(*integer) > most) {
      fail(value.line, "'{}' is {}; it must be {} to {}", key, *integer, least, most);
    } else {
      return static_cast<uint64_t>(*integer);
    }
    return least;
  }
  uint64_t number(std::string_view key, uint64_t least, uint64_t most, uint64_t otherwise) {
    const TomlValue* value = find(key);
    return value != nullptr ? number(*value, key, least, most) : otherwise;
  }
  /// A list of positive integers; one integer stands for a list of one. Nothing if the key is missing.
  std::optional<std::vector<uint64_t>> numbers(std::string_view key, uint64_t most, size_t most_items) {
    const TomlValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    std::vector<uint64_t> result;
    if (value->get_if<int64_t>() != nullptr) {
      result.push_back(number(*value, key, 1, most));
    } else if (const auto* array = value->get_if<TomlValue::Array>()) {
      if (array->items.size() > most_items) {
        fail(value->line, "'{}' has {} entries; at most {} are possible", key, array->items.size(), most_items);
        return std::nullopt;
      }
      for (const TomlValue& item : array->items) result.push_back(number(item, key, 1, most));
    } else {
      fail(value->line, "'{}' is {}; it must be a list of positive integers", key, value->kind());
    }
    return result;
  }
  void shape3(std::string_view key, uint32_t (&out)[3]) {
    const auto list = numbers(key, std::numeric_limits<uint32_t>::max(), 3);
    if (!list) return;
    if (list->empty()) fail(line_of(key), "'{}' is an empty list; give one to three extents: x, y, z", key);
    std::fill(out, out + 3, 1u);
    for (size_t i = 0; i < list->size(); ++i) out[i] = static_cast<uint32_t>((*list)[i]);
  }

 private:
  const Table& table_;
  uint32_t line_;
  std::string_view file_;
  std::string where_;
  std::optional<Error>& error_;
};

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Fill> parse_fill(Reader& reader, std::string_view key, const std::string& text, ElementType type) {
  constexpr std::pair<std::string_view, Fill::Kind> words[] = {{"zero", Fill::Kind::zero},
                                                               {"index", Fill::Kind::index},
                                                               {"identity", Fill::Kind::identity},
                                                               {"poison", Fill::Kind::poison},
                                                               {"random", Fill::Kind::random}};
  for (const auto& [word, kind] : words) {
    if (text == word) return Fill{kind, 0};
  }
  if (text.starts_with("value:")) {
    const auto value = parse_number(std::string_view(text).substr(6));
    if (!value) {
      reader.fail(reader.line_of(key), "'{}' is \"{}\": after \"value:\" a number is expected", key, text);
    } else if (!representable(type, *value)) {
      reader.fail(reader.line_of(key), "'{}': {} is not a value of type {}; choose one that needs no rounding", key,
                  *value, to_string(type));
    } else {
      return Fill{Fill::Kind::value, *value};
    }
    return std::nullopt;
  }
  reader.fail(reader.line_of(key), "'{}' is \"{}\"; it must be {}{}", key, text, kFills,
              key == "expect" ? ", or \"argument:NAME\"" : "");
  return std::nullopt;
}

ElementType read_type(Reader& reader) {
  const auto name = reader.text("type");
  if (!name) {
    reader.fail(reader.line_of("type"), "no 'type'; give the element type, such as \"f32\"");
    return {};
  }
  const auto type = parse_element_type(*name);
  if (!type) {
    reader.fail(reader.line_of("type"), "unknown type \"{}\"{}; known are {}", *name,
                base::did_you_mean(*name, element_type_names()), fmt::join(element_type_names(), ", "));
  }
  return type.value_or(ElementType{});
}

void read_memory(Reader& reader, Argument& argument) {
  argument.kind = ArgumentKind::memory;
  argument.type = read_type(reader);
  argument.shape = reader.numbers("shape", uint64_t{1} << 40, kMaxDimensions).value_or(std::vector<uint64_t>{});
  uint64_t bytes = bytes_of(argument.type);
  for (const uint64_t extent : argument.shape) {
    if (extent > kMaxArgumentBytes / bytes) {
      reader.fail(reader.line_of("shape"), "'shape' needs more than {}; describe a smaller problem",
                  base::format_bytes(kMaxArgumentBytes));
      return;
    }
    bytes *= extent;
  }
  argument.output = reader.flag("output");
  argument.freed = reader.flag("freed");
  argument.fill.kind = argument.output ? Fill::Kind::poison : Fill::Kind::zero;
  if (const auto text = reader.text("fill")) {
    argument.fill = parse_fill(reader, "fill", *text, argument.type).value_or(Fill{});
  }
  if (const auto text = reader.text("expect")) {
    if (!argument.output) {
      reader.fail(reader.line_of("expect"), "'expect' without 'output = true'; only outputs are compared");
    }
    Expectation expect;
    if (text->starts_with("argument:")) {
      expect.argument = text->substr(9);
    } else {
      expect.fill = parse_fill(reader, "expect", *text, argument.type).value_or(Fill{});
      if (expect.fill.kind == Fill::Kind::poison) {
        reader.fail(reader.line_of("expect"), "'expect' is \"poison\", which stands for elements nobody wrote");
      }
    }
    argument.expect = std::move(expect);
  }
  if (argument.freed && argument.output) {
    reader.fail(reader.line_of("freed"), "'freed' memory cannot be an output: remove one of the two");
  }
}

void read_scalar(Reader& reader, Argument& argument) {
  argument.kind = ArgumentKind::scalar;
  argument.type = read_type(reader);
  const TomlValue& value = *reader.find("value");
  std::byte bytes[8] = {};
  if (const auto* integer = value.get_if<int64_t>()) {
    if (argument.type == ElementType::s64 || (argument.type == ElementType::u64 && *integer >= 0)) {
      argument.scalar_bits = static_cast<uint64_t>(*integer);
      return;
    }
    if (!representable(argument.type, static_cast<double>(*integer))) {
      reader.fail(value.line, "'value' {} is not a value of type {}", *integer, to_string(argument.type));
      return;
    }
    set_element(argument.type, bytes, 0, static_cast<double>(*integer));
  } else if (const auto* number = value.get_if<double>()) {
    if (!is_float(argument.type)) {
      reader.fail(value.line, "'value' {} is no integer, but the type is {}", *number, to_string(argument.type));
      return;
    }
    // A decimal fraction such as 0.1 has no exact binary value: it is rounded once, as a compiler would.
    set_element(argument.type, bytes, 0, *number);
  } else {
    reader.fail(value.line, "'value' is {}; it must be a number", value.kind());
  }
  for (unsigned i = 0; i < 8; ++i) argument.scalar_bits |= uint64_t{std::to_integer<uint8_t>(bytes[i])} << (8 * i);
}

template <class T>
std::vector<T> narrowed(const std::optional<std::vector<uint64_t>>& list) {
  return list ? std::vector<T>(list->begin(), list->end()) : std::vector<T>{};
}

void read_tensor_map(Reader& reader, Argument& argument) {
  argument.kind = ArgumentKind::tensor_map;
  TensorMapDescription& map = argument.map;
  map.memory = reader.text("tensor_map").value_or("");
  constexpr uint64_t most = uint64_t{1} << 40;
  map.size = reader.numbers("size", most, emulator::kMaxTensorRank).value_or(std::vector<uint64_t>{});
  map.stride = reader.numbers("stride", most, emulator::kMaxTensorRank - 1).value_or(std::vector<uint64_t>{});
  map.box = narrowed<uint32_t>(reader.numbers("box", 1u << 16, emulator::kMaxTensorRank));
  map.element_stride = narrowed<uint32_t>(reader.numbers("element_stride", 1u << 16, emulator::kMaxTensorRank));
  if (map.box.empty()) {
    reader.fail(reader.line_of("box"),
                "no 'box'; give the extents of one copy in elements, innermost dimension first (boxDim)");
  }
  const auto one_of = [&](std::string_view key, std::initializer_list<uint64_t> allowed) {
    const uint64_t value = reader.number(key, 0, 1u << 16, 0);
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
      reader.fail(reader.line_of(key), "'{}' is {}; it must be one of {} bytes", key, value, fmt::join(allowed, ", "));
    }
    return static_cast<uint32_t>(value);
  };
  map.swizzle = one_of("swizzle", {0, 32, 64, 128});
  map.interleave = one_of("interleave", {0, 16, 32});
  map.in_memory = reader.flag("in_memory");
  if (const auto text = reader.text("out_of_bounds")) {
    if (*text != "zero" && *text != "nan") {
      reader.fail(reader.line_of("out_of_bounds"), "'out_of_bounds' is \"{}\"; it must be \"zero\" or \"nan\"", *text);
    }
    map.fill_nan = *text == "nan";
  }
}

Argument read_argument(const TomlValue& value, size_t index, std::string_view file, std::optional<Error>& error) {
  Argument argument;
  argument.line = value.line;
  const Table empty;
  const Table* table = value.get_if<Table>();
  const auto name_of = [&] {
    const Reader plain(table != nullptr ? *table : empty, value.line, file, "", error);
    const TomlValue* name = plain.find("name");
    const auto* text = name != nullptr ? name->get_if<std::string>() : nullptr;
    return text != nullptr ? fmt::format("argument '{}': ", *text) : fmt::format("argument {}: ", index);
  };
  Reader reader(table != nullptr ? *table : empty, value.line, file, name_of(), error);
  if (table == nullptr) {
    reader.fail(value.line, "it is {}; write each argument as a table under [[argument]]", value.kind());
    return argument;
  }
  constexpr std::string_view known[] = {
      "name",   "type", "shape",   "fill",       "output",         "freed",         "expect",    "tensor_map", "size",
      "stride", "box",  "swizzle", "interleave", "element_stride", "out_of_bounds", "in_memory", "value"};
  reader.check_keys(known);
  argument.name = reader.text("name").value_or("");
  if (argument.name.empty()) reader.fail(reader.line_of("name"), "no 'name'; give one, messages use it");
  const bool is_map = reader.find("tensor_map") != nullptr;
  const bool is_scalar = reader.find("value") != nullptr;
  if (is_map) {
    for (const std::string_view key : {"type", "shape", "fill", "output", "freed", "expect", "value"})
      reader.refuse(key, "does not belong to a tensor map; it describes the memory argument");
    read_tensor_map(reader, argument);
    return argument;
  }
  for (const std::string_view key :
       {"size", "stride", "box", "swizzle", "interleave", "element_stride", "out_of_bounds", "in_memory"}) {
    reader.refuse(key, "belongs to tensor maps only; say which argument is described with tensor_map = \"NAME\"");
  }
  if (is_scalar) {
    for (const std::string_view key : {"shape", "fill", "output", "freed", "expect"})
      reader.refuse(key, "does not belong to a scalar (an argument with 'value'); memory has a 'shape' instead");
    read_scalar(reader, argument);
    return argument;
  }
  if (reader.find("shape") == nullptr) {
    reader.fail(value.line,
                "neither 'shape' (memory), 'value' (scalar) nor 'tensor_map'; give one to say what the kernel gets");
  }
  read_memory(reader, argument);
  return argument;
}

/// What needs the other arguments: names that refer to them, and a map's extents.
void resolve(LaunchDescription& description, std::optional<Error>& error) {
  const auto fail = [&]<class... Args>(uint32_t line, fmt::format_string<Args...> format, Args&&... args) {
    if (!error) {
      error = Error{ErrorKind::input,
                    fmt::format("{}:{}: {}", description.name, line, fmt::format(format, std::forward<Args>(args)...))};
    }
  };
  std::vector<std::string> memory_names;
  uint64_t total = 0;
  for (const Argument& argument : description.arguments) {
    if (argument.kind != ArgumentKind::memory) continue;
    memory_names.push_back(argument.name);
    total += argument.bytes();
  }
  if (total > kMaxTotalBytes) {
    fail(1, "the arguments need {}; at most {} are allowed", base::format_bytes(total),
         base::format_bytes(kMaxTotalBytes));
  }
  const auto find_memory = [&](const std::string& name) -> const Argument* {
    for (const Argument& argument : description.arguments) {
      if (argument.kind == ArgumentKind::memory && argument.name == name) return &argument;
    }
    return nullptr;
  };
  for (size_t i = 0; i < description.arguments.size(); ++i) {
    Argument& argument = description.arguments[i];
    for (size_t j = 0; j < i; ++j) {
      if (description.arguments[j].name == argument.name)
        fail(argument.line, "two arguments are named '{}'; rename one", argument.name);
    }
    if (argument.expect && !argument.expect->argument.empty()) {
      const Argument* source = find_memory(argument.expect->argument);
      if (source == nullptr) {
        fail(argument.line, "argument '{}': 'expect' names '{}', which is no memory argument{}", argument.name,
             argument.expect->argument, base::did_you_mean(argument.expect->argument, memory_names));
      } else if (source->elements() != argument.elements()) {
        fail(argument.line, "argument '{}': it has {} elements, but 'expect' names '{}' with {}", argument.name,
             argument.elements(), source->name, source->elements());
      }
    }
    if (argument.kind != ArgumentKind::tensor_map) continue;
    TensorMapDescription& map = argument.map;
    const Argument* memory = find_memory(map.memory);
    if (memory == nullptr) {
      fail(argument.line, "tensor map '{}' describes '{}', which is no memory argument{}", argument.name, map.memory,
           base::did_you_mean(map.memory, memory_names));
      return;
    }
    argument.type = memory->type;
    if (map.size.empty()) map.size.assign(memory->shape.rbegin(), memory->shape.rend());
    const size_t rank = map.size.size();
    if (rank == 0 || rank > emulator::kMaxTensorRank) {
      fail(argument.line, "tensor map '{}' has rank {}; it must be 1 to {}", argument.name, rank,
           emulator::kMaxTensorRank);
    } else if (map.box.size() != rank) {
      fail(argument.line, "tensor map '{}': 'box' has {} extents, the tensor has {} dimensions (innermost first: {})",
           argument.name, map.box.size(), rank, fmt::join(map.size, ", "));
    } else if (!map.element_stride.empty() && map.element_stride.size() != rank) {
      fail(argument.line, "tensor map '{}': 'element_stride' has {} entries, the tensor has {} dimensions",
           argument.name, map.element_stride.size(), rank);
    } else if (!map.stride.empty() && map.stride.size() != rank - 1) {
      fail(argument.line,
           "tensor map '{}': 'stride' has {} entries; {} are needed, in bytes, for all dimensions but the innermost",
           argument.name, map.stride.size(), rank - 1);
    }
    if (map.element_stride.empty()) map.element_stride.assign(rank, 1);
  }
}

}  // namespace

uint64_t Argument::elements() const {
  uint64_t count = 1;
  for (const uint64_t extent : shape) count *= extent;
  return count;
}

Result<LaunchDescription> parse(std::string_view text, std::string_view name, uint32_t first_line) {
  auto toml = base::read_toml(text, name, "a launch description", first_line);
  if (!toml) return tl::unexpected(toml.error());
  LaunchDescription description;
  description.name = name;
  std::optional<Error> error;
  Reader reader(*toml->get_if<Table>(), first_line, name, "", error);
  constexpr std::string_view known[] = {"kernel", "grid", "block", "cluster", "dynamic_shared", "repeat", "argument"};
  reader.check_keys(known);
  description.kernel = reader.text("kernel").value_or("");
  description.kernel_line = reader.line_of("kernel");
  reader.shape3("grid", description.grid);
  reader.shape3("block", description.block);
  reader.shape3("cluster", description.cluster);
  description.dynamic_shared_bytes =
      static_cast<uint32_t>(reader.number("dynamic_shared", 0, std::numeric_limits<uint32_t>::max(), 0));
  description.repeat = static_cast<uint32_t>(reader.number("repeat", 1, kMaxRepeat, 1));
  if (const TomlValue* list = reader.find("argument")) {
    const auto* array = list->get_if<TomlValue::Array>();
    if (array == nullptr) {
      reader.fail(list->line, "'argument' is {}; write each argument under a heading [[argument]]", list->kind());
    } else {
      for (const TomlValue& item : array->items) {
        if (error) break;
        description.arguments.push_back(read_argument(item, description.arguments.size(), name, error));
      }
    }
  }
  if (!error) resolve(description, error);
  if (error) return tl::unexpected(*error);
  return description;
}

}  // namespace ptxbench::launch
