#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/failure.h"

struct sqlite3;
struct sqlite3_stmt;

namespace babelring::store {

/// An SQLite error. full() is true if the disk is full; the caller may retry later.
class SqlFailure : public Failure {
 public:
  SqlFailure(const std::string& message, int code);
  int code() const { return code_; }
  bool full() const;

 private:
  int code_;
};

/// Too many reads or writes are queued. The caller may retry later.
class Busy : public Failure {
 public:
  using Failure::Failure;
};

/// Bytes to bind as BLOB instead of TEXT. Not owned.
struct Blob {
  std::string_view bytes;
};

/// A prepared statement from Database::prepare(). The destructor resets it; the compiled form stays cached in the
/// Database, which must outlive the statement. Columns are numbered from 0.
class Statement {
 public:
  Statement(Statement&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  /// Binds all parameters in order. Strings and blobs are not copied and must outlive the last step().
  template <class... Values>
  Statement& bind(const Values&... values) {
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }
  /// Advances to the next row. Returns false at the end. Throws SqlFailure.
  bool step();
  /// Executes to the end and resets, so the statement can be bound again.
  void run();
  void reset();

  std::int64_t integer(int column) const;
  double real(int column) const;  // NaN for NULL
  std::string text(int column) const;
  /// Valid until the next step().
  std::string_view blob(int column) const;
  bool is_null(int column) const;

 private:
  friend class Database;
  explicit Statement(sqlite3_stmt* handle) : handle_(handle) {}
  void bind_one(int index, std::int64_t value);
  void bind_one(int index, int value) { bind_one(index, std::int64_t{value}); }
  void bind_one(int index, bool value) { bind_one(index, std::int64_t{value}); }
  void bind_one(int index, double value);  // NaN becomes NULL
  void bind_one(int index, const std::string& text) { bind_one(index, std::string_view(text)); }
  void bind_one(int index, const char* text) { bind_one(index, std::string_view(text)); }
  void bind_one(int index, std::string_view text);
  void bind_one(int index, const Blob& blob);
  void check(int code) const;

  sqlite3_stmt* handle_;
};

/// A database connection. Not thread-safe.
class Database {
 public:
  enum class Mode { writer, reader, plain };

  /// Opens the file. Modes other than `reader` create it if it does not exist. Only the writer checkpoints the WAL,
  /// because SQLite before 3.51.3 can corrupt a WAL checkpointed by two connections. `plain`: for a file that no other
  /// connection uses. Throws SqlFailure.
  Database(const std::filesystem::path& file, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Compiles `sql` or takes it from the cache. The cache never shrinks, so use constant strings. Throws SqlFailure.
  Statement prepare(std::string_view sql);
  /// Executes statements without parameters, separated by semicolons. Throws SqlFailure.
  void execute(const std::string& sql);
  /// The first column of the first row, as text; empty if there is no row.
  std::string scalar(const std::string& sql);
  /// Makes statements fail soon after `condition` becomes true. It is polled about once per millisecond of work. An
  /// empty function removes the condition.
  void interrupt_when(std::function<bool()> condition);
  /// The raw handle, for the backup API. Valid as long as this object.
  sqlite3* handle() { return handle_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const;
  };
  std::unique_ptr<sqlite3, Close> handle_;
  std::function<bool()> interrupt_;
  std::unordered_map<std::string, std::unique_ptr<sqlite3_stmt, Finalize>> statements_;
};

/// A write transaction (BEGIN IMMEDIATE), rolled back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  /// Changes are durable when it returns. Throws SqlFailure; everything is rolled back then.
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace babelring::store
