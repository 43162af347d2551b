#include "triton/record.h"

#include <algorithm>
#include <limits>

#include "base/json.h"
#include "base/printable.h"
#include "base/text.h"
#include "triton/plan.h"

namespace ptxbench::triton {
namespace {

using base::Json;

constexpr std::uint64_t kMostGridX = 2'147'483'647, kMostGridYz = 65'535;
constexpr std::size_t kMostName = 512;
constexpr std::uint32_t kMostMapType = 15, kMostSwizzle = 3, kMostBox = 256;

Error wrong(std::string_view where, std::string_view what) {
  return Error{ErrorKind::input, fmt::format("{}: {}", where, what)};
}

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && text.size() <= kMostName && letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// Reads members of one object and keeps the first error, so that a reader is one list of fields.
class Reader {
 public:
  Reader(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
    if (!object.is_object()) fail("not an object");
  }

  template <class T>
  void number(const char* key, T& out, std::uint64_t most = std::numeric_limits<T>::max(), std::uint64_t least = 0) {
    const auto value = get<T>(key);
    if (!value) return;
    if (static_cast<std::uint64_t>(*value) > most || static_cast<std::uint64_t>(*value) < least) {
      return fail(fmt::format("{} is {}, not between {} and {}", key, *value, least, most));
    }
    out = *value;
  }
  void flag(const char* key, bool& out) {
    if (const auto value = get<bool>(key)) out = *value;
  }
  void text(const char* key, std::string& out, std::size_t most) {
    auto value = get<std::string>(key);
    if (!value) return;
    if (value->size() > most) return fail(fmt::format("{} has {} bytes, more than {}", key, value->size(), most));
    out = std::move(*value);
  }
  /// A list with at most `most` elements; null once something is wrong.
  const Json* list(const char* key, std::size_t most) {
    if (error_) return nullptr;
    const auto found = base::required_member(object_, key, path_);
    if (!found) {
      error_ = found.error();
      return nullptr;
    }
    if (!(*found)->is_array() || (*found)->size() > most) {
      fail(fmt::format("{} is no list of at most {}", key, most));
      return nullptr;
    }
    return *found;
  }
  template <class T>
  void numbers(const char* key, std::vector<T>& out, std::size_t most, std::uint64_t largest) {
    const Json* found = list(key, most);
    if (found == nullptr) return;
    for (const Json& one : *found) {
      const auto value = base::json_as<T>(one, path_ + "." + key);
      if (!value) {
        error_ = value.error();
        return;
      }
      if (*value > largest) return fail(fmt::format("{} holds {}, more than {}", key, *value, largest));
      out.push_back(*value);
    }
  }
  void fail(std::string_view what) {
    if (!error_) error_ = wrong(path_, what);
  }
  void take(const Result<void>& result) {
    if (!error_ && !result) error_ = result.error();
  }
  bool ok() const { return !error_; }
  Result<void> done() const {
    if (error_) return tl::unexpected<Error>(*error_);
    return {};
  }
  const std::string& path() const { return path_; }

 private:
  template <class T>
  std::optional<T> get(const char* key) {
    if (error_) return std::nullopt;
    auto value = base::required<T>(object_, key, path_);
    if (value) return std::move(*value);
    error_ = value.error();
    return std::nullopt;
  }
  const Json& object_;
  std::string path_;
  std::optional<Error> error_;
};

/// `begin` and `bytes` lie within a buffer.
Result<void> check_range(const std::vector<std::uint64_t>& buffers, std::uint32_t buffer, std::uint64_t begin,
                         std::uint64_t bytes, std::string_view where) {
  if (buffer >= buffers.size())
    return tl::unexpected<Error>(wrong(where, fmt::format("there is no buffer {}", buffer)));
  if (begin > buffers[buffer] || bytes > buffers[buffer] - begin) {
    return tl::unexpected<Error>(
        wrong(where, fmt::format("{} bytes at {} of buffer {}, which has {}", bytes, begin, buffer, buffers[buffer])));
  }
  return {};
}

Result<void> read_map(Reader& reader, Parameter& out, const std::vector<std::uint64_t>& buffers) {
  reader.number("buffer", out.buffer);
  reader.number("offset", out.offset);
  reader.number("type", out.type, kMostMapType);
  reader.number("swizzle", out.swizzle, kMostSwizzle);
  reader.flag("nan_fill", out.nan_fill);
  reader.numbers("box", out.box, plan::kMostRank, kMostBox);
  reader.numbers("shape", out.shape, plan::kMostRank, std::uint64_t{1} << 32);
  reader.numbers("strides", out.strides, plan::kMostRank, std::uint64_t{1} << 40);
  if (reader.ok() && (out.box.empty() || out.shape.size() != out.box.size() || out.strides.size() != out.box.size()))
    reader.fail("box, shape and strides have different lengths");
  if (reader.ok()) reader.take(check_range(buffers, out.buffer, out.offset, 0, reader.path()));
  // What the map reaches beyond its tensor is for the device to find, as with any kernel's addresses.
  return reader.done();
}

Result<Parameter> read_parameter(const Json& json, const std::string& path, const std::vector<std::uint64_t>& buffers) {
  Parameter out;
  Reader reader(json, path);
  std::string kind;
  reader.text("kind", kind, 16);
  if (kind == "pointer") {
    out.kind = Parameter::Kind::pointer;
    reader.number("buffer", out.buffer);
    reader.number("offset", out.offset);
    if (reader.ok()) reader.take(check_range(buffers, out.buffer, out.offset, 0, path));
  } else if (kind == "scalar") {
    out.kind = Parameter::Kind::scalar;
    reader.number("bytes", out.bytes, 8, 1);
    reader.number("value", out.value);
  } else if (kind == "tensor_map") {
    out.kind = Parameter::Kind::tensor_map;
    reader.take(read_map(reader, out, buffers));
  } else if (kind != "null") {
    reader.fail("unknown kind of parameter");
  }
  if (auto done = reader.done(); !done) return tl::unexpected<Error>(done.error());
  return out;
}

Result<Step> read_launch(Reader& reader, const Json& json, const Record& record,
                         const std::vector<std::uint64_t>& buffers) {
  Step out;
  std::vector<std::uint32_t> grid;
  reader.number("kernel", out.kernel);
  reader.numbers("grid", grid, 3, kMostGridX);
  reader.flag("cooperative", out.cooperative);
  reader.flag("dependent", out.dependent);
  if (reader.ok()) {
    if (out.kernel >= record.kernels.size()) reader.fail(fmt::format("there is no kernel {}", out.kernel));
    const bool legal = grid.size() == 3 && grid[0] > 0 && grid[1] > 0 && grid[2] > 0 && grid[1] <= kMostGridYz &&
                       grid[2] <= kMostGridYz;
    if (!legal) reader.fail("the grid is not three positive extents, of which the second and third end at 65535");
  }
  if (reader.ok()) {
    std::copy(grid.begin(), grid.end(), out.grid.begin());
    if (std::uint64_t{grid[0]} * record.kernels[out.kernel].cluster > kMostGridX) reader.fail("the grid is too large");
  }
  const Json* list = reader.list("arguments", kMostParameters);
  for (std::size_t i = 0; list != nullptr && i < list->size() && reader.ok(); ++i) {
    auto parameter = read_parameter((*list)[i], fmt::format("{}.arguments[{}]", reader.path(), i), buffers);
    if (!parameter) return tl::unexpected<Error>(parameter.error());
    out.parameters.push_back(std::move(*parameter));
  }
  if (const Json* scratch = base::optional_member(json, "scratch"); scratch != nullptr && reader.ok()) {
    auto parameter = read_parameter(*scratch, reader.path() + ".scratch", buffers);
    if (!parameter) return tl::unexpected<Error>(parameter.error());
    if (parameter->kind != Parameter::Kind::pointer) reader.fail("scratch is no pointer");
    out.scratch = std::move(*parameter);
  }
  if (auto done = reader.done(); !done) return tl::unexpected<Error>(done.error());
  return out;
}

Result<Step> read_step(const Json& json, const std::string& path, const Record& record,
                       const std::vector<std::uint64_t>& buffers) {
  Reader reader(json, path);
  std::string kind;
  reader.text("kind", kind, 16);
  if (kind == "launch") return read_launch(reader, json, record, buffers);
  Step out;
  reader.number("buffer", out.buffer);
  reader.number("offset", out.offset);
  reader.number("bytes", out.bytes);
  if (kind == "fill") {
    out.kind = Step::Kind::fill;
    reader.number("width", out.width, 8, 1);
    reader.number("value", out.value);
    if (reader.ok()) {
      const bool whole =
          (out.width & (out.width - 1)) == 0 && out.bytes % out.width == 0 && out.offset % out.width == 0;
      if (!whole) reader.fail("not a whole number of elements");
    }
  } else if (kind == "copy") {
    out.kind = Step::Kind::copy;
    reader.number("from", out.from);
    reader.number("from_offset", out.from_offset);
    if (reader.ok()) reader.take(check_range(buffers, out.from, out.from_offset, out.bytes, path));
  } else {
    reader.fail("unknown kind of step");
  }
  if (reader.ok()) reader.take(check_range(buffers, out.buffer, out.offset, out.bytes, path));
  if (auto done = reader.done(); !done) return tl::unexpected<Error>(done.error());
  return out;
}

Result<RecordedCall> read_call(const Json& json, const std::string& path, const Record& record,
                               const CallArguments& arguments) {
  RecordedCall out;
  Reader reader(json, path);
  reader.numbers("buffers", out.buffers, kMostBuffers, kMostBufferBytes);
  std::size_t tensors = 0;
  for (const CallArgument& argument : arguments) {
    if (argument.scalar || !reader.ok()) continue;
    if (tensors >= out.buffers.size() || out.buffers[tensors] != argument.bytes()) {
      reader.fail(fmt::format("buffer {} is not {}", tensors, argument.name));
    }
    ++tensors;
  }
  std::uint64_t scratch = 0;
  for (std::size_t i = tensors; i < out.buffers.size(); ++i) scratch += out.buffers[i];
  if (scratch > kMostBufferBytes) reader.fail("too much scratch");
  const Json* steps = reader.list("steps", kMostSteps);
  for (std::size_t i = 0; steps != nullptr && i < steps->size() && reader.ok(); ++i) {
    auto step = read_step((*steps)[i], fmt::format("{}.steps[{}]", path, i), record, out.buffers);
    if (!step) return tl::unexpected<Error>(step.error());
    out.steps.push_back(std::move(*step));
  }
  if (auto done = reader.done(); !done) return tl::unexpected<Error>(done.error());
  return out;
}

Result<Kernel> read_kernel(const Json& json, const std::string& path) {
  Kernel out;
  Reader reader(json, path);
  reader.text("name", out.name, kMostName);
  reader.text("ptx", out.ptx, std::size_t{64} << 20);
  reader.number("warps", out.warps, 32, 1);
  reader.number("shared", out.shared, kMostShared);
  reader.number("cluster", out.cluster, kMostCluster, 1);
  reader.flag("fmad", out.fmad);
  if (reader.ok() && !is_identifier(out.name)) reader.fail("the name is no identifier");
  if (reader.ok() && out.ptx.find('\0') != std::string::npos) reader.fail("the PTX holds a zero byte");
  if (auto done = reader.done(); !done) return tl::unexpected<Error>(done.error());
  return out;
}

Result<Record::Status> parse_status(const std::string& text) {
  if (text == "lowered") return Record::Status::lowered;
  if (text == "failed") return Record::Status::failed;
  if (text == "refused") return Record::Status::refused;
  if (text == "missing") return Record::Status::missing;
  return tl::unexpected<Error>(wrong("record", "unknown status"));
}

/// Text for people, without what would garble a terminal or a page.
std::string clean(const std::string& text) { return base::shorten_middle(base::printable(text), 4000); }

}  // namespace

std::uint64_t CallArgument::bytes() const {
  std::uint64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= static_cast<std::uint64_t>(extent);
  return (elements * problem::bits_of(dtype) + 7) / 8;
}

Result<Record> parse_record(std::string_view text, const std::vector<CallArguments>& calls) {
  const auto json = base::parse_json(text, "record");
  if (!json) return tl::unexpected<Error>(json.error());
  Record out;
  Reader reader(*json, "record");
  std::string status;
  reader.text("status", status, 16);
  if (auto done = reader.done(); !done) return tl::unexpected<Error>(done.error());
  const auto parsed = parse_status(status);
  if (!parsed) return tl::unexpected<Error>(parsed.error());
  out.status = *parsed;
  const auto optional_text = [&](const char* key, std::string& to) {
    if (const Json* found = base::optional_member(*json, key); found != nullptr && found->is_string())
      to = clean(found->get<std::string>());
  };
  optional_text("rule", out.rule);
  if (const Json* found = base::optional_member(*json, "message"); found != nullptr && found->is_string()) {
    out.message = base::shorten_middle(base::printable(found->get<std::string>(), base::Lines::kept), kMostTextBytes);
  }
  optional_text("triton", out.triton_version);
  optional_text("python", out.python_version);
  if (const Json* line = base::optional_member(*json, "line"); line != nullptr && line->is_number_unsigned()) {
    out.line = static_cast<int>(std::min<std::uint64_t>(line->get<std::uint64_t>(), 10'000'000));
  }
  if (const Json* notes = base::optional_member(*json, "notes"); notes != nullptr && notes->is_array()) {
    for (const Json& note : *notes) {
      if (note.is_string() && out.notes.size() < kMostNotes) out.notes.push_back(clean(note.get<std::string>()));
    }
  }
  if (out.status != Record::Status::lowered) return out;
  const Json* kernels = reader.list("kernels", kMostKernels);
  for (std::size_t i = 0; kernels != nullptr && i < kernels->size(); ++i) {
    auto kernel = read_kernel((*kernels)[i], fmt::format("kernels[{}]", i));
    if (!kernel) return tl::unexpected<Error>(kernel.error());
    out.kernels.push_back(std::move(*kernel));
  }
  const Json* list = reader.list("calls", calls.size());
  if (list != nullptr && list->size() != calls.size()) reader.fail("not as many calls as were asked for");
  if (auto done = reader.done(); !done) return tl::unexpected<Error>(done.error());
  bool launches = false;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    auto call = read_call((*list)[i], fmt::format("calls[{}]", i), out, calls[i]);
    if (!call) return tl::unexpected<Error>(call.error());
    for (const Step& step : call->steps) launches = launches || step.kind == Step::Kind::launch;
    out.calls.push_back(std::move(*call));
  }
  if (!launches) return tl::unexpected<Error>(wrong("record", "no kernel is launched"));
  return out;
}

}  // namespace ptxbench::triton
