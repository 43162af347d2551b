#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "report/table.h"

namespace ptxbench::report {

/// What a broken trajectory file does: nothing is reported, or the others are, with a note.
enum class Broken : std::uint8_t { error, note };

/// Reads results into a table: folders of experiments, of quickstart, of the public benchmark's runs, of its published
/// results, single trajectories, and folders of such folders.
class Loader {
 public:
  explicit Loader(std::vector<std::filesystem::path> paths, Broken broken = Broken::error);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  /// What the last call of load() did with trajectory files.
  struct Work {
    std::size_t read = 0, reused = 0;
  };
  /// Called again, it reads only files that have changed in between.
  Result<Table> load(Work* work = nullptr);
  /// Changes whenever load() would give something else; cheap.
  std::string state() const;

 private:
  struct File;
  struct Source;
  Result<std::vector<Source>> sources() const;
  Result<std::vector<Source>> sources_in(const std::filesystem::path& path, bool nested) const;
  Result<void> load_records(const Source& source, Table& table, Work& work);
  Result<std::filesystem::path> imported(const std::filesystem::path& run);

  std::vector<std::filesystem::path> paths_;
  Broken broken_;
  std::map<std::filesystem::path, std::unique_ptr<File>> files_;
  /// Runs of the public benchmark, as experiments of ours, by the state they were in.
  struct Import {
    std::string state;
    base::TempDir folder;
  };
  std::map<std::filesystem::path, Import> imports_;
};

}  // namespace ptxbench::report
