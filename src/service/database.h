#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ptxbench::service {

/// An open SQLite file. One connection, for one thread at a time.
class Database {
 public:
  /// Opens or creates the file in write-ahead mode, in which every commit is on the disk when it returns.
  static Result<Database> open(const std::filesystem::path& file);

  /// One or more statements without results.
  Result<void> execute(const std::string& sql);

  sqlite3* handle() const { return handle_.get(); }
  /// What went wrong last, as an infrastructure error that names the file.
  Error error(std::string_view doing) const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
  std::filesystem::path file_;
};

/// One statement with its values: bind in order, then step through the rows.
class Statement {
 public:
  /// A statement that does not fit the schema is a mistake of ours; `step` then returns the error.
  Statement(Database& database, std::string_view sql);

  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t number);
  Statement& bind(double number);

  /// True: there is a row. False: done.
  Result<bool> step();
  /// For statements without rows.
  Result<void> run();

  std::string text(int column) const;
  std::int64_t integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }
  double number(int column) const { return sqlite3_column_double(handle_.get(), column); }

 private:
  struct Finish {
    void operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }
  };
  Database& database_;
  std::unique_ptr<sqlite3_stmt, Finish> handle_;
  int bound_ = 0;
  bool wrong_ = false;
};

/// Undone unless committed.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Result<void> commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;
};

}  // namespace ptxbench::service
