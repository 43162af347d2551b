#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "report/loader.h"
#include "report/page.h"

namespace ptxbench::report {

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 8010;  ///< 0: any free one
  PageOptions page;
  /// Applied to what was read, each time: pools and choices.
  std::function<Result<void>(Table&)> select;
};

/// The page over HTTP, following files that change.
class PageServer {
 public:
  /// Has the address; `loader` should take broken files with a note.
  static Result<std::unique_ptr<PageServer>> bind(ServeOptions options, std::unique_ptr<Loader> loader);
  virtual ~PageServer() = default;
  virtual int port() const = 0;
  /// Serves until stop() is called.
  virtual void run() = 0;
  virtual void stop() = 0;
  /// Trajectory files read since the start, for tests of how little is read again.
  virtual std::size_t files_read() const = 0;
};

}  // namespace ptxbench::report
