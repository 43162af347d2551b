#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace ptxbench::base {
namespace {

namespace fs = std::filesystem;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// Closing can report a delayed write error, so writers close by hand.
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

int open_retry(const fs::path& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// A rename is durable only after the folder itself is synced.
void sync_folder(const fs::path& folder) {
  const FileDescriptor fd(open_retry(folder.empty() ? fs::path(".") : folder, O_RDONLY | O_DIRECTORY));
  if (fd) ::fsync(fd.get());
}

const char* non_empty_env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

Result<std::string> read_file(const fs::path& path, std::uint64_t max_bytes) {
  const FileDescriptor fd(open_retry(path, O_RDONLY));
  if (!fd) return input_error("cannot open {}: {}", path.string(), std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return input_error("cannot read {}: {}", path.string(), std::strerror(errno));
  if (S_ISDIR(status.st_mode)) return input_error("{} is a folder, a file is needed", path.string());
  std::string bytes;
  if (S_ISREG(status.st_mode)) {
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (size > max_bytes) {
      return input_error("{} is {} bytes, more than the {} allowed here", path.string(), size, max_bytes);
    }
    bytes.reserve(size);
  }
  std::vector<char> buffer(1 << 16);
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return input_error("cannot read {}: {}", path.string(), std::strerror(errno));
    }
    if (count == 0) return bytes;
    if (bytes.size() + static_cast<std::size_t>(count) > max_bytes) {
      return input_error("{} has more than the {} bytes allowed here", path.string(), max_bytes);
    }
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

namespace {

constexpr std::string_view kUnfinished = ".tmp.";

/// NAME.tmp.PID.COUNT
bool is_unfinished(std::string_view name) {
  const std::size_t at = name.rfind(kUnfinished);
  if (at == std::string_view::npos) return false;
  const std::string_view rest = name.substr(at + kUnfinished.size());
  return !rest.empty() && rest.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

void remove_unfinished(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (is_unfinished(entry->path().filename().string())) found.push_back(entry->path());
  }
  for (const fs::path& file : found) fs::remove(file, error);
}

Result<void> write_file_atomic(const fs::path& path, std::string_view bytes) {
  const fs::path folder = path.parent_path();
  if (!folder.empty()) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return infrastructure_error("cannot create folder {}: {}", folder.string(), error.message());
  }
  static std::atomic<unsigned> counter{0};
  fs::path temporary = path;
  temporary += fmt::format("{}{}.{}", kUnfinished, ::getpid(), counter.fetch_add(1));
  const auto failure = [&](std::string_view what) {
    const int code = errno;
    ::unlink(temporary.c_str());
    return infrastructure_error("cannot {} {}: {}", what, path.string(), std::strerror(code));
  };
  FileDescriptor fd(open_retry(temporary, O_WRONLY | O_CREAT | O_EXCL, 0644));
  if (!fd) return failure("create a file beside");
  if (!write_all(fd.get(), bytes) || ::fsync(fd.get()) != 0 || fd.close() != 0) return failure("write");
  if (::rename(temporary.c_str(), path.c_str()) != 0) return failure("replace");
  sync_folder(folder);
  return {};
}

namespace {

Result<void> append(const fs::path& path, std::string_view bytes, bool sync) {
  FileDescriptor fd(open_retry(path, O_WRONLY | O_CREAT | O_APPEND, 0644));
  if (!fd) return infrastructure_error("cannot open {} for appending: {}", path.string(), std::strerror(errno));
  if (!write_all(fd.get(), bytes) || (sync && ::fsync(fd.get()) != 0) || fd.close() != 0) {
    return infrastructure_error("cannot append to {}: {}", path.string(), std::strerror(errno));
  }
  return {};
}

}  // namespace

Result<void> append_durable(const fs::path& path, std::string_view bytes) { return append(path, bytes, true); }
Result<void> append_written(const fs::path& path, std::string_view bytes) { return append(path, bytes, false); }

Result<TempDir> TempDir::create(std::string_view prefix) {
  const char* parent = non_empty_env("TMPDIR");
  std::string name = (fs::path(parent != nullptr ? parent : "/tmp") / fmt::format("{}-XXXXXX", prefix)).string();
  if (::mkdtemp(name.data()) == nullptr) {
    return infrastructure_error("cannot create a temporary folder {}: {} (is TMPDIR writable?)", name,
                                std::strerror(errno));
  }
  return TempDir(fs::path(name));
}

TempDir::TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
  }
  return *this;
}

TempDir::~TempDir() { remove(); }

fs::path TempDir::release() { return std::exchange(path_, {}); }

void TempDir::remove() noexcept {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  path_.clear();
}

Result<fs::path> cache_dir(std::string_view name) {
  fs::path folder;
  if (const char* own = non_empty_env("PTXBENCH_CACHE")) {
    folder = own;
  } else if (const char* xdg = non_empty_env("XDG_CACHE_HOME")) {
    folder = fs::path(xdg) / "ptxbench";
  } else if (const char* home = non_empty_env("HOME")) {
    folder = fs::path(home) / ".cache" / "ptxbench";
  } else {
    return infrastructure_error("no cache folder: none of PTXBENCH_CACHE, XDG_CACHE_HOME and HOME is set; set one");
  }
  if (!name.empty()) folder /= name;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return infrastructure_error("cannot create the cache folder {}: {}; set PTXBENCH_CACHE to a writable place",
                                folder.string(), error.message());
  }
  return folder;
}

Result<fs::path> executable_path() {
  std::error_code error;
  fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) return infrastructure_error("cannot find the running program: /proc/self/exe: {}", error.message());
  return path;
}

Result<fs::path> home_dir() {
  const fs::path marker = fs::path("scripts") / "versions.env";
  std::error_code ignored;
  if (const char* own = non_empty_env("PTXBENCH_HOME")) {
    if (!fs::is_directory(own, ignored)) return input_error("PTXBENCH_HOME is {}, which is not a folder", own);
    return fs::path(own);
  }
  if (const auto program = executable_path()) {
    for (fs::path folder = program->parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
      if (fs::exists(folder / marker, ignored)) return folder;
    }
  }
  if (fs::exists(fs::path(PTXBENCH_SOURCE_DIR), ignored)) return fs::path(PTXBENCH_SOURCE_DIR);
  return infrastructure_error("cannot find the PTXBench folder above the program; set PTXBENCH_HOME to it");
}

Result<fs::path> runtime_dir(std::string_view name) {
  const auto program = executable_path();
  if (!program) return tl::unexpected<Error>(program.error());
  const fs::path beside = program->parent_path() / "lib" / name;
  std::error_code ignored;
  for (const fs::path& folder : {beside, program->parent_path().parent_path() / "lib" / name}) {
    if (fs::is_directory(folder, ignored)) return folder;
  }
  return infrastructure_error("{} is missing: the program was moved away from its own libraries", beside.string());
}

}  // namespace ptxbench::base
