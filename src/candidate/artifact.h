#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "candidate/compile_report.h"

namespace ptxbench::candidate {

/// What compiling a candidate gave, in a folder named by the hash of everything that went in. Never changed afterwards.
struct Artifact {
  std::string id;  ///< 64 hexadecimal digits
  std::filesystem::path directory;
  std::filesystem::path source() const { return directory / "kernel.cu"; }
  std::filesystem::path library() const { return directory / "kernel.so"; }
  /// What the library was linked from. Its addresses are relocations still, so that equal host code has equal bytes.
  std::filesystem::path object() const { return directory / "kernel.o"; }
  std::filesystem::path ptx() const { return directory / "kernel.ptx"; }
  std::filesystem::path cubin() const { return directory / "kernel.cubin"; }
};

/// A folder of compilations, shared by processes. An entry is written beside its place and renamed into it; its
/// manifest holds a digest of each file, and an entry that does not match is removed and made again.
class ArtifactCache {
 public:
  /// `root` is created when missing.
  static Result<ArtifactCache> open(const std::filesystem::path& root);

  struct Entry {
    Artifact artifact;
    CompileReport report;  ///< of a failed compilation too; then the library, PTX and cubin may be missing
  };
  /// Nothing when absent or damaged (a damaged entry is removed).
  std::optional<Entry> find(const std::string& id) const;

  /// A fresh folder on the same file system, to fill and pass to `publish`.
  Result<std::filesystem::path> new_work_folder() const;
  /// Writes the manifest over the files of `work` named in `files` and moves the folder into place. If another process
  /// was faster, its entry stays and is returned. `work` is gone afterwards.
  Result<Entry> publish(const std::string& id, const std::filesystem::path& work, const std::vector<std::string>& files,
                        const CompileReport& report) const;

  /// Held while one id is being made, so that concurrent processes do not make it twice.
  class Lock {
   public:
    Lock(Lock&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
    Lock& operator=(Lock&&) = delete;
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock();

   private:
    friend class ArtifactCache;
    explicit Lock(int descriptor) : descriptor_(descriptor) {}
    int descriptor_;
  };
  /// Blocks until the id is free.
  Result<Lock> lock(const std::string& id) const;

  const std::filesystem::path& root() const { return root_; }

 private:
  explicit ArtifactCache(std::filesystem::path root) : root_(std::move(root)) {}
  std::filesystem::path folder(const std::string& id) const;
  std::filesystem::path root_;
};

}  // namespace ptxbench::candidate
