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

/// An SQLite error. `full()`: the disk is full, so that the caller may retry later.
class SqlFailure : public Failure {
 public:
  SqlFailure(const std::string& message, int code);
  int code() const { return code_; }
  bool full() const;

 private:
  int code_;
};

/// Too many writes are waiting, or too many reads: try again later.
class Busy : public Failure {
 public:
  using Failure::Failure;
};

/// Bytes to be bound as BLOB instead of TEXT.
struct Blob {
  std::string_view bytes;
};

/// A prepared statement in use, from Database::prepare(). It is reset on destruction; its compiled form stays cached in
/// the Database. Columns are numbered from 0.
class Statement {
 public:
  Statement(Statement&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  /// Binds all parameters in order. Texts and blobs are not copied: they must outlive the last step().
  template <class... Values>
  Statement& bind(const Values&... values) {
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }
  /// Advances to the next row; false at the end. Throws SqlFailure.
  bool step();
  /// Steps to the end and resets, so that the statement can be bound again.
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

/// One connection. Used by one thread at a time.
class Database {
 public:
  enum class Mode { writer, reader, plain };

  /// Opens the file, and unless as a reader creates it if absent. Readers never checkpoint the WAL; only the writer
  /// does (SQLite before 3.51.3 can corrupt a WAL that two connections checkpoint). `plain`: a file that only this
  /// connection uses. Throws SqlFailure.
  Database(const std::filesystem::path& file, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Compiles `sql` or takes it from the cache, which never shrinks: use constant texts. Throws SqlFailure.
  Statement prepare(std::string_view sql);
  /// Runs statements without parameters, separated by semicolons.
  void execute(const std::string& sql);
  /// The first value of a query's first row, as text; empty without a row.
  std::string scalar(const std::string& sql);
  /// From now on statements fail soon after `condition` has become true; it is asked about every millisecond of work.
  /// Empty: none fails.
  void interrupt_when(std::function<bool()> condition);
  /// For the few calls that SQL has no words for. Lives as long as this object.
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
  /// The changes are durable when it returns. Throws SqlFailure, and then everything is rolled back.
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace babelring::store
