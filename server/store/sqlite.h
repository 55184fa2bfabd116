#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/const_or_not.h"
#include "base/failure.h"

namespace babelring::store {

// A row type has one table of columns, a function template beside the SQL that uses it:
//
//   template <const_or_not<TokenRow> Row, class Column>
//   void visit_columns(Row& token, Column&& column) {
//     column.key("token", token.number);  // set by the database: read but never inserted
//     column("id", token.id);             // an SQL expression and the member that holds its value
//   }
//
// It gives the column list of SELECT and INSERT, and reads and binds the members (server/store/sqlite.h).

struct AnyColumn {
  template <class Member>
  void operator()(const char*, Member&) {}
  template <class Member>
  void key(const char*, Member&) {}
};

template <class T>
concept HasColumns = requires(T& row) { visit_columns(row, AnyColumn{}); };

struct ColumnNames {
  bool with_key;
  std::string names = {}, places = {};  // "id, name" and "?, ?"
  template <class Member>
  void operator()(const char* name, const Member&) {
    const char* separator = names.empty() ? "" : ", ";
    names.append(separator).append(name);
    places.append(separator).append("?");
  }
  template <class Member>
  void key(const char* name, const Member& member) {
    if (with_key) (*this)(name, member);
  }
};

/// The column list of a row type: "token, id, name".
template <HasColumns Row>
std::string columns_of() {
  const Row row{};
  ColumnNames columns{.with_key = true};
  visit_columns(row, columns);
  return columns.names;
}

/// "SELECT token, id, name FROM …".
template <HasColumns Row>
std::string select(const std::string& rest) {
  return "SELECT " + columns_of<Row>() + ' ' + rest;
}

/// "INSERT INTO tokens(id, name) VALUES (?, ?) …", without the key.
template <HasColumns Row>
std::string insert_into(const std::string& table, const std::string& rest = "") {
  const Row row{};
  ColumnNames columns{.with_key = false};
  visit_columns(row, columns);
  return "INSERT INTO " + table + '(' + columns.names + ") VALUES (" + columns.places + ") " + rest;
}

}  // namespace babelring::store

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

/// The current row of a statement. `>>` reads its columns from left to right: `row >> id >> name`.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}

  Row& operator>>(std::int64_t& value);
  Row& operator>>(int& value);
  Row& operator>>(bool& value);
  /// NULL reads as NaN.
  Row& operator>>(double& value);
  /// NULL reads as an empty string.
  Row& operator>>(std::string& value);
  /// Text or a blob, valid until the next step().
  Row& operator>>(std::string_view& value);
  /// NULL reads as nothing.
  template <class Value>
  Row& operator>>(std::optional<Value>& value) {
    if (!skip_null()) return *this >> value.emplace();
    value.reset();
    return *this;
  }
  /// An enum is stored by its name.
  template <class Enum>
    requires std::is_enum_v<Enum>
  Row& operator>>(Enum& value) {
    std::string_view name;
    *this >> name;
    from_name(name, value);
    return *this;
  }
  template <HasColumns Struct>
  Row& operator>>(Struct& value) {
    visit_columns(value, ColumnReader{*this});
    return *this;
  }
  /// Throws Failure if a column was not read.
  void require_end() const;

 private:
  struct ColumnReader {
    Row& row;
    template <class Member>
    void operator()(const char*, Member& member) {
      row >> member;
    }
    template <class Member>
    void key(const char*, Member& member) {
      row >> member;
    }
  };
  bool skip_null();

  sqlite3_stmt* statement_;
  int column_ = 0;
};

/// A prepared statement from Database::prepare(). The destructor resets it; the compiled form stays cached in the
/// Database, which must outlive the statement.
class Statement {
 public:
  Statement(Statement&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  /// Binds all parameters in order. A struct with a column table binds all its columns except its key; an empty
  /// optional binds NULL. Strings and blobs are not copied and must outlive the last step().
  template <class... Values>
  Statement& bind(const Values&... values) {
    int index = 0;
    (bind_next(index, values), ...);
    return *this;
  }
  /// Advances to the next row. Returns false at the end. Throws SqlFailure.
  bool step();
  /// The current row; step() must have returned true.
  Row row() const { return Row(handle_); }
  /// Advances to the next row and reads all its columns. Returns false at the end. Throws SqlFailure, or Failure if the
  /// row has more columns.
  template <class... Values>
  bool next(Values&... values) {
    if (!step()) return false;
    Row current = row();
    (current >> ... >> values);
    current.require_end();
    return true;
  }
  /// Reads the next row into a `Value`; nothing if there is none. See next().
  template <class Value>
  std::optional<Value> first() {
    std::optional<Value> read(std::in_place);
    if (!next(*read)) read.reset();
    return read;
  }
  /// Like first(), but a default value if there is no row.
  template <class Value>
  Value value() {
    Value read{};
    next(read);
    return read;
  }
  /// Reads all remaining rows. See next().
  template <class Value>
  std::vector<Value> all() {
    std::vector<Value> values;
    while (next(values.emplace_back())) {
    }
    values.pop_back();
    return values;
  }
  /// Executes to the end and resets, so the statement can be bound again.
  void run();
  void reset();

 private:
  friend class Database;
  struct ColumnBinder {
    Statement& statement;
    int& index;
    template <class Member>
    void operator()(const char*, const Member& member) {
      statement.bind_next(index, member);
    }
    template <class Member>
    void key(const char*, const Member&) {}
  };
  explicit Statement(sqlite3_stmt* handle) : handle_(handle) {}
  template <class Value>
  void bind_next(int& index, const Value& value) {
    if constexpr (HasColumns<const Value>) {
      visit_columns(value, ColumnBinder{*this, index});
    } else {
      bind_one(++index, value);
    }
  }
  void bind_one(int index, std::int64_t value);
  void bind_one(int index, int value) { bind_one(index, std::int64_t{value}); }
  void bind_one(int index, bool value) { bind_one(index, std::int64_t{value}); }
  void bind_one(int index, double value);  // NaN becomes NULL
  void bind_one(int index, const std::string& text) { bind_one(index, std::string_view(text)); }
  void bind_one(int index, const char* text) { bind_one(index, std::string_view(text)); }
  void bind_one(int index, std::string_view text);
  void bind_one(int index, const Blob& blob);
  void bind_one(int index, std::nullopt_t);
  template <class Value>
  void bind_one(int index, const std::optional<Value>& value) {
    value ? bind_one(index, *value) : bind_one(index, std::nullopt);
  }
  template <class Enum>
    requires std::is_enum_v<Enum>
  void bind_one(int index, Enum value) {
    bind_one(index, name_of(value));
  }
  void check(int code) const;

  sqlite3_stmt* handle_;
};

/// A database connection. Not thread-safe.
class Database {
 public:
  enum class Mode { writer, reader, plain };
  static constexpr int busy_timeout_ms = 5000;  // how long a statement waits for another connection

  /// Opens the file. Modes other than `reader` create it if it does not exist. Only the writer checkpoints the WAL,
  /// because SQLite before 3.51.3 can corrupt a WAL checkpointed by two connections. `plain`: for a file that no other
  /// connection uses. Throws SqlFailure.
  Database(const std::filesystem::path& file, Mode mode);
  ~Database();
  void set_busy_timeout(int ms);
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
