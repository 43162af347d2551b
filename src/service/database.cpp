#include "service/database.h"

#include <utility>

namespace ptxbench::service {

Result<Database> Database::open(const std::filesystem::path& file) {
  Database database;
  database.file_ = file;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(file.c_str(), &handle,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  database.handle_.reset(handle);
  if (code != SQLITE_OK) return tl::unexpected<Error>(database.error("cannot be opened"));
  sqlite3_busy_timeout(handle, 5000);
  if (auto set = database.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON"); !set) {
    return tl::unexpected<Error>(set.error());
  }
  return database;
}

Result<void> Database::execute(const std::string& sql) {
  if (sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return tl::unexpected<Error>(error("failed"));
  }
  return {};
}

Error Database::error(std::string_view doing) const {
  return Error{ErrorKind::infrastructure, fmt::format("{}: the task database {}: {}", file_.string(), doing,
                                                      handle_ ? sqlite3_errmsg(handle_.get()) : "out of memory")};
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  sqlite3_stmt* handle = nullptr;
  wrong_ =
      sqlite3_prepare_v2(database.handle(), sql.data(), static_cast<int>(sql.size()), &handle, nullptr) != SQLITE_OK;
  handle_.reset(handle);
}

Statement& Statement::bind(std::string_view text) {
  wrong_ = wrong_ || sqlite3_bind_text64(handle_.get(), ++bound_, text.data(), text.size(), SQLITE_TRANSIENT,
                                         SQLITE_UTF8) != SQLITE_OK;
  return *this;
}

Statement& Statement::bind(std::int64_t number) {
  wrong_ = wrong_ || sqlite3_bind_int64(handle_.get(), ++bound_, number) != SQLITE_OK;
  return *this;
}

Statement& Statement::bind(double number) {
  wrong_ = wrong_ || sqlite3_bind_double(handle_.get(), ++bound_, number) != SQLITE_OK;
  return *this;
}

Result<bool> Statement::step() {
  if (wrong_) return tl::unexpected<Error>(database_.error("refused a statement"));
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return tl::unexpected<Error>(database_.error("failed"));
}

Result<void> Statement::run() {
  const auto stepped = step();
  if (!stepped) return tl::unexpected<Error>(stepped.error());
  return {};
}

std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(handle_.get(), column));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column)));
}

Result<Transaction> Transaction::begin(Database& database) {
  if (auto begun = database.execute("BEGIN IMMEDIATE"); !begun) return tl::unexpected<Error>(begun.error());
  return Transaction(database);
}

Transaction::Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}

Transaction::~Transaction() {
  if (database_ != nullptr) sqlite3_exec(database_->handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

Result<void> Transaction::commit() {
  if (auto committed = database_->execute("COMMIT"); !committed) return committed;
  database_ = nullptr;
  return {};
}

}  // namespace ptxbench::service
