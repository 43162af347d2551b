#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "knowledge/numbers.h"

namespace ptxbench::knowledge {

/// A document with all it includes put in.
struct Rendered {
  std::string text;               ///< Markdown as a model sees it
  std::string prose;              ///< the document's own lines, code and tables left out; line numbers are kept
  std::string code;               ///< all code that was put in
  std::set<std::string> sources;  ///< files that code and tables came from, relative to the folder
};

/// Puts into a document what it names. A line of its own holds one of
///
///     {{code FILE#REGION FILE#REGION ...}}   a fenced block of those pieces (FILE alone: the whole file)
///     {{table FILE}}                         a file as it is
///     {{numbers GROUP}}                      the table of a group of numbers.toml
///
/// and `{{number GROUP.KEY}}` may stand anywhere. Files are relative to `folder` and must lie in it. Code that a
/// document writes itself (``` blocks) is an error: it would not be tested.
Result<Rendered> render_document(const std::filesystem::path& folder, std::string_view document, const Numbers& numbers,
                                 std::string_view target);

/// A file below `folder` by its relative path, read; absolute paths, "..", and links that lead out are errors.
Result<std::string> read_inside(const std::filesystem::path& folder, std::string_view relative);

/// A source file with its `#include "NAME"` put in (headers once), found beside it, in common/include, in
/// TARGET/include, or as a path from the folder: one file that stands alone, as a candidate must.
Result<std::string> flatten(const std::filesystem::path& folder, std::string_view file, std::string_view target);

}  // namespace ptxbench::knowledge
