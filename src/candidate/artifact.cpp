#include "candidate/artifact.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"

namespace ptxbench::candidate {
namespace {

namespace fs = std::filesystem;
using base::Json;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kSchema = "ptxbench.artifact/1";

/// The entry in `directory` if every file is as its manifest says.
std::optional<ArtifactCache::Entry> load(const std::string& id, const fs::path& directory) {
  const auto text = base::read_file(directory / kManifest);
  if (!text) return std::nullopt;
  const auto manifest = base::parse_json(*text, kManifest);
  if (!manifest) return std::nullopt;
  if (!manifest->is_object()) return std::nullopt;
  if (manifest->value("schema", std::string()) != kSchema || manifest->value("id", std::string()) != id ||
      !manifest->contains("files") || !manifest->contains("report")) {
    return std::nullopt;
  }
  for (const auto& [name, digest] : (*manifest)["files"].items()) {
    const auto found = base::sha256_file(directory / fs::path(name).filename());
    if (!found || !digest.is_string() || *found != digest.get<std::string>()) return std::nullopt;
  }
  auto report = compile_report_from_json((*manifest)["report"], kManifest);
  if (!report) return std::nullopt;
  report->cached = true;
  return ArtifactCache::Entry{{id, directory}, std::move(*report)};
}

}  // namespace

Result<ArtifactCache> ArtifactCache::open(const fs::path& root) {
  std::error_code error;
  for (const char* part : {"work", "locks"}) {
    fs::create_directories(root / part, error);
    if (error) {
      return infrastructure_error("{}: {} (choose another folder with PTXBENCH_CACHE)", (root / part).string(),
                                  error.message());
    }
  }
  return ArtifactCache(root);
}

fs::path ArtifactCache::folder(const std::string& id) const { return root_ / id.substr(0, 2) / id; }

std::optional<ArtifactCache::Entry> ArtifactCache::find(const std::string& id) const {
  const fs::path place = folder(id);
  std::error_code error;
  if (!fs::is_directory(place, error)) return std::nullopt;
  if (auto entry = load(id, place)) return entry;
  // Damaged: moved away in one step, so that no reader sees half of it, then deleted.
  if (const auto trash = new_work_folder()) {
    fs::rename(place, *trash / "damaged", error);
    fs::remove_all(*trash, error);
  }
  return std::nullopt;
}

Result<fs::path> ArtifactCache::new_work_folder() const {
  std::string pattern = (root_ / "work" / "XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    return infrastructure_error("{}: {}", pattern, std::strerror(errno));
  }
  return fs::path(pattern);
}

Result<ArtifactCache::Entry> ArtifactCache::publish(const std::string& id, const fs::path& work,
                                                    const std::vector<std::string>& files,
                                                    const CompileReport& report) const {
  Json digests = Json::object();
  for (const std::string& name : files) {
    const auto digest = base::sha256_file(work / name);
    if (!digest) return tl::unexpected(digest.error());
    digests[name] = *digest;
  }
  const Json manifest = {{"schema", kSchema}, {"id", id}, {"files", digests}, {"report", to_json(report)}};
  // The log may hold any bytes.
  const std::string text = manifest.dump(1, ' ', false, Json::error_handler_t::replace);
  if (const auto written = base::write_file_atomic(work / kManifest, text); !written) {
    return tl::unexpected(written.error());
  }
  const fs::path place = folder(id);
  std::error_code error;
  fs::create_directories(place.parent_path(), error);
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (::rename(work.c_str(), place.c_str()) == 0) return Entry{{id, place}, report};
    if (errno != ENOTEMPTY && errno != EEXIST) break;
    if (auto theirs = find(id)) {  // removes a damaged one, and then the next attempt succeeds
      fs::remove_all(work, error);
      return std::move(*theirs);
    }
  }
  return infrastructure_error("cannot move {} to {}: {}", work.string(), place.string(), std::strerror(errno));
}

Result<ArtifactCache::Lock> ArtifactCache::lock(const std::string& id) const {
  // A fixed number of lock files: they can never be removed without a race.
  const fs::path path = root_ / "locks" / id.substr(0, 2);
  const int descriptor = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (descriptor < 0) return infrastructure_error("{}: {}", path.string(), std::strerror(errno));
  while (::flock(descriptor, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int reason = errno;
    ::close(descriptor);
    return infrastructure_error("locking {}: {}", path.string(), std::strerror(reason));
  }
  return Lock(descriptor);
}

ArtifactCache::Lock::~Lock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace ptxbench::candidate
