#include "problem/safetensors.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>
#include <optional>
#include <system_error>

#include "base/json.h"
#include "base/text.h"

namespace ptxbench::problem {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxHeader = std::uint64_t{16} << 20;
constexpr std::size_t kMostExtents = 256;
constexpr std::size_t kListedKeys = 32;  ///< in an error

constexpr std::pair<std::string_view, Dtype> kCodes[] = {{"F32", Dtype::float32},
                                                         {"F16", Dtype::float16},
                                                         {"BF16", Dtype::bfloat16},
                                                         {"F8_E4M3", Dtype::float8_e4m3fn},
                                                         {"F8_E5M2", Dtype::float8_e5m2},
                                                         {"I64", Dtype::int64},
                                                         {"I32", Dtype::int32},
                                                         {"I16", Dtype::int16},
                                                         {"I8", Dtype::int8},
                                                         {"BOOL", Dtype::boolean}};

std::optional<Dtype> dtype_of(std::string_view code) {
  for (const auto& [name, dtype] : kCodes) {
    if (name == code) return dtype;
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<SafetensorsEntry>> SafetensorsFile::parse_header(std::string_view header, std::uint64_t file_bytes,
                                                                    std::string_view where) {
  const auto json = base::parse_json_unique(header, where);
  if (!json) return tl::unexpected(json.error());
  if (!json->is_object()) return input_error("{}: the header is not an object", where);
  const std::uint64_t data_start = 8 + header.size();
  const std::uint64_t data_bytes = file_bytes - std::min(file_bytes, data_start);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [key, value] : json->items()) {
    if (key == "__metadata__") continue;
    const std::string here = fmt::format("{}: tensor '{}'", where, key);
    if (!value.is_object()) return input_error("{}: not an object", here);
    SafetensorsEntry entry;
    entry.key = key;
    const auto code = base::required<std::string>(value, "dtype", here);
    if (!code) return tl::unexpected(code.error());
    const auto dtype = dtype_of(*code);
    if (!dtype) return input_error("{}: element type {} is not supported", here, *code);
    entry.dtype = *dtype;
    const auto shape = base::required_member(value, "shape", here);
    if (!shape) return tl::unexpected(shape.error());
    if (!(*shape)->is_array()) return input_error("{}.shape: a list is needed", here);
    if ((*shape)->size() > kMostExtents) return input_error("{}.shape: more than {} extents", here, kMostExtents);
    for (const auto& extent : **shape) {
      const auto number = base::json_as<std::int64_t>(extent, here);
      if (!number) return tl::unexpected(number.error());
      entry.shape.push_back(*number);
    }
    const auto count = element_count(entry.shape);
    if (!count) return input_error("{}: {}", here, count.error().message);
    const auto offsets = base::required_member(value, "data_offsets", here);
    if (!offsets) return tl::unexpected(offsets.error());
    if (!(*offsets)->is_array() || (*offsets)->size() != 2)
      return input_error("{}.data_offsets: two numbers are needed", here);
    const auto begin = base::json_as<std::uint64_t>((**offsets)[0], here);
    const auto end = base::json_as<std::uint64_t>((**offsets)[1], here);
    if (!begin) return tl::unexpected(begin.error());
    if (!end) return tl::unexpected(end.error());
    if (*begin > *end || *end > data_bytes) {
      return input_error("{}: bytes {} to {} are not within the file's {} bytes of data (truncated?)", here, *begin,
                         *end, data_bytes);
    }
    if (*end - *begin != bytes_of(entry.dtype, *count)) {
      return input_error("{}: {} bytes do not fit {} of shape {}", here, *end - *begin, to_string(entry.dtype),
                         to_string(entry.shape));
    }
    entry.begin = data_start + *begin;
    entry.end = data_start + *end;
    entries.push_back(std::move(entry));
  }
  std::vector<const SafetensorsEntry*> order;
  order.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->begin < b->begin; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i]->begin < order[i - 1]->end) {
      return input_error("{}: tensors '{}' and '{}' overlap", where, order[i - 1]->key, order[i]->key);
    }
  }
  return entries;
}

Result<SafetensorsFile> SafetensorsFile::open(const fs::path& path) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  if (error) return input_error("{}: {}", path.string(), error.message());
  std::ifstream stream(path, std::ios::binary);
  unsigned char length_bytes[8] = {};
  if (!stream || size < 8 || !stream.read(reinterpret_cast<char*>(length_bytes), 8)) {
    return input_error("{}: too short for a safetensors file", path.string());
  }
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | length_bytes[i];
  if (length > kMaxHeader || length > size - 8) {
    return input_error("{}: a header of {} bytes is not possible here; not a safetensors file, or truncated",
                       path.string(), length);
  }
  std::string header(length, '\0');
  if (!stream.read(header.data(), static_cast<std::streamsize>(length))) {
    return input_error("{}: cannot read the header", path.string());
  }
  auto entries = parse_header(header, size, path.string());
  if (!entries) return tl::unexpected(entries.error());
  SafetensorsFile file;
  file.path_ = path;
  file.entries_ = std::move(*entries);
  file.by_key_.resize(file.entries_.size());
  std::iota(file.by_key_.begin(), file.by_key_.end(), std::size_t{0});
  std::sort(file.by_key_.begin(), file.by_key_.end(),
            [&](std::size_t a, std::size_t b) { return file.entries_[a].key < file.entries_[b].key; });
  return file;
}

Result<const SafetensorsEntry*> SafetensorsFile::find(std::string_view key) const {
  const auto found = std::lower_bound(
      by_key_.begin(), by_key_.end(), key,
      [&](std::size_t candidate, std::string_view wanted) { return entries_[candidate].key < wanted; });
  if (found != by_key_.end() && entries_[*found].key == key) return &entries_[*found];
  std::string keys;
  for (std::size_t i = 0; i < std::min(entries_.size(), kListedKeys); ++i) {
    keys += (keys.empty() ? "" : ", ") + entries_[i].key;
  }
  if (entries_.size() > kListedKeys) keys += fmt::format(" and {} more", entries_.size() - kListedKeys);
  return input_error("{}: no tensor '{}'; there are: {}", path_.string(), key, keys.empty() ? "none" : keys);
}

Result<void> SafetensorsFile::check(std::string_view key, Dtype dtype, const Shape& shape) const {
  const auto entry = find(key);
  if (!entry) return tl::unexpected(entry.error());
  if ((*entry)->dtype != dtype || (*entry)->shape != shape) {
    return input_error("{}: tensor '{}' is {} {}, but {} {} is needed", path_.string(), key, to_string((*entry)->dtype),
                       to_string((*entry)->shape), to_string(dtype), to_string(shape));
  }
  return {};
}

Result<Tensor> SafetensorsFile::read(std::string_view key, std::string name) const {
  const auto found = find(key);
  if (!found) return tl::unexpected(found.error());
  const SafetensorsEntry& entry = **found;
  auto tensor = Tensor::create(std::move(name), entry.dtype, entry.shape);
  if (!tensor) return tl::unexpected(tensor.error());
  std::ifstream stream(path_, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(entry.begin));
  if (!stream.read(static_cast<char*>(tensor->data()), static_cast<std::streamsize>(entry.end - entry.begin))) {
    return input_error("{}: cannot read tensor '{}'", path_.string(), key);
  }
  return tensor;
}

Result<void> write_safetensors(const fs::path& path, const std::vector<const Tensor*>& tensors,
                               const std::vector<std::pair<std::string, std::string>>& metadata) {
  base::Json header = base::Json::object();
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  std::uint64_t offset = 0;
  for (const Tensor* tensor : tensors) {
    const auto code = std::find_if(std::begin(kCodes), std::end(kCodes),
                                   [&](const auto& known) { return known.second == tensor->dtype; });
    if (code == std::end(kCodes)) {
      return input_error("{}: safetensors files have no elements of type {}, which {} has", path.string(),
                         to_string(tensor->dtype), tensor->name);
    }
    if (header.contains(tensor->name)) return input_error("{}: two tensors are called {}", path.string(), tensor->name);
    header[tensor->name] = {{"dtype", code->first},
                            {"shape", base::Json(tensor->shape)},
                            {"data_offsets", {offset, offset + tensor->bytes()}}};
    offset += tensor->bytes();
  }
  std::string text = header.dump(-1, ' ', false, base::Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data are aligned
  const fs::path partial = path.string() + ".partial";
  std::ofstream stream(partial, std::ios::binary | std::ios::trunc);
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> 8 * i);
  stream << length << text;
  for (const Tensor* tensor : tensors) {
    stream.write(static_cast<const char*>(tensor->data()), static_cast<std::streamsize>(tensor->bytes()));
  }
  stream.close();
  std::error_code error;
  if (stream) fs::rename(partial, path, error);
  if (!stream || error) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    return input_error("cannot write {}: {}", path.string(),
                       error ? error.message() : std::string("no such folder, no permission or no space"));
  }
  return {};
}

}  // namespace ptxbench::problem
