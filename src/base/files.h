#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ptxbench::base {

inline constexpr std::uint64_t kDefaultMaxFileBytes = std::uint64_t{256} << 20;

/// The whole file as bytes. A directory, or more than `max_bytes`, is an error (endless files such as /dev/zero too).
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t max_bytes = kDefaultMaxFileBytes);

/// Writes beside the target, fsyncs, renames over it: readers see the old file or the new one, never a part.
/// Missing parent folders are created.
Result<void> write_file_atomic(const std::filesystem::path& path, std::string_view bytes);
/// Takes away what write_file_atomic() left in this folder when its process was killed. For the folder's only writer.
void remove_unfinished(const std::filesystem::path& folder);

/// Appends in one write and fsyncs; creates the file (not its folder) when missing.
/// After a crash at most the last record is torn; readers must tolerate that.
Result<void> append_durable(const std::filesystem::path& path, std::string_view bytes);
/// The same without fsync: it survives the end of this process, and the loss of power once the system has written it.
Result<void> append_written(const std::filesystem::path& path, std::string_view bytes);

/// A fresh private folder, removed with everything in it at the end of its life.
class TempDir {
 public:
  /// In $TMPDIR or /tmp.
  static Result<TempDir> create(std::string_view prefix = "ptxbench");
  TempDir(TempDir&& other) noexcept;
  TempDir& operator=(TempDir&& other) noexcept;
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  const std::filesystem::path& path() const { return path_; }
  /// Keeps the folder (for debugging) and forgets it.
  std::filesystem::path release();

 private:
  explicit TempDir(std::filesystem::path path) : path_(std::move(path)) {}
  void remove() noexcept;
  std::filesystem::path path_;
};

/// $PTXBENCH_CACHE, else $XDG_CACHE_HOME/ptxbench, else ~/.cache/ptxbench; the folder `name` in it, created.
/// An empty `name` gives the cache folder itself.
Result<std::filesystem::path> cache_dir(std::string_view name = "");

/// The running program's own file.
Result<std::filesystem::path> executable_path();

/// The folder that holds problems/, examples/ and scripts/: $PTXBENCH_HOME, else the nearest folder above the program
/// that has scripts/versions.env (a checkout or an unpacked bundle), else the source tree the program was built from.
Result<std::filesystem::path> home_dir();

/// The folder `name` of shared libraries that belong to this program (stand-ins for CUDA's, say): lib/<name> beside the
/// program in a build folder, ../lib/<name> in a bundle. Each has a folder of its own, so that none shadows another.
Result<std::filesystem::path> runtime_dir(std::string_view name);

}  // namespace ptxbench::base
