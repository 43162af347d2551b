#include "models/event_stream.h"

namespace ptxbench::models {

Result<void> EventStream::dispatch() {
  if (!has_data_) return {};
  has_data_ = false;
  depth_ = 0;
  in_string_ = escaped_ = whole_ = false;
  std::string data;
  data.swap(data_);
  return sink_(data);
}

Result<void> EventStream::line(std::string_view text) {
  if (first_) {
    first_ = false;
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  }
  if (text.empty()) return dispatch();
  if (!text.starts_with("data:") && text != "data") return {};
  text.remove_prefix(text == "data" ? 4 : 5);
  if (text.starts_with(' ')) text.remove_prefix(1);
  if (whole_) {
    if (auto dispatched = dispatch(); !dispatched) return dispatched;
  }
  if (has_data_) data_ += '\n';
  data_ += text;
  has_data_ = true;
  follow(text);
  return {};
}

/// Each byte is looked at once, however many lines the data has.
void EventStream::follow(std::string_view text) {
  for (const char c : text) {
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
      whole_ = false;
    } else if ((c == '}' || c == ']') && depth_ != 0 && --depth_ == 0) {
      whole_ = true;
    }
  }
}

Result<void> EventStream::feed(std::string_view bytes) {
  buffer_ += bytes;
  std::size_t start = 0;
  for (std::size_t end = buffer_.find('\n', searched_); end != std::string::npos; end = buffer_.find('\n', start)) {
    std::string_view text(buffer_.data() + start, end - start);
    if (text.ends_with('\r')) text.remove_suffix(1);
    start = end + 1;
    if (auto fed = line(text); !fed) return fed;
  }
  buffer_.erase(0, start);
  searched_ = buffer_.size();
  return {};
}

Result<void> EventStream::finish() {
  if (!buffer_.empty()) {
    if (auto fed = feed("\n"); !fed) return fed;
  }
  return dispatch();
}

}  // namespace ptxbench::models
