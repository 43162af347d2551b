#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/files.h"
#include "knowledge/hub.h"

namespace ptxbench::knowledge {

/// A folder of packs made for one test: two headers, a pattern, a program, two documents, and a hub that is sound.
class Folder {
 public:
  Folder();
  const std::filesystem::path& path() const { return work_.path(); }
  void write(std::string_view file, std::string_view text) const;
  void remove(std::string_view file) const;
  /// Replaces text of a file, which must be there.
  void change(std::string_view file, std::string_view from, std::string_view to) const;
  Result<Hub> load() const { return Hub::load(path()); }
  /// The message that loading ends with; "" if it succeeds.
  std::string error() const;

 private:
  base::TempDir work_;
};

}  // namespace ptxbench::knowledge
