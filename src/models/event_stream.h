#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ptxbench::models {

/// Takes a stream of server-sent events apart, however its bytes are cut. Comments and fields other than `data` are
/// skipped; the lines of one event's data are joined, unless those before are a whole JSON object or list: some servers
/// leave out the blank lines between events.
class EventStream {
 public:
  using Sink = std::function<Result<void>(std::string_view data)>;
  explicit EventStream(Sink sink) : sink_(std::move(sink)) {}

  /// The first error of the sink ends it.
  Result<void> feed(std::string_view bytes);
  /// The stream ended: an event without its blank line still counts.
  Result<void> finish();

 private:
  Result<void> line(std::string_view text);
  Result<void> dispatch();
  void follow(std::string_view text);
  Sink sink_;
  std::string buffer_, data_;
  std::size_t searched_ = 0;  ///< up to here `buffer_` has no line end
  bool has_data_ = false, first_ = true;
  // Where in its JSON text the data so far ends.
  std::size_t depth_ = 0;
  bool in_string_ = false, escaped_ = false, whole_ = false;
};

}  // namespace ptxbench::models
