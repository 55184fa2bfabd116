#pragma once

#include <string>

#include "base/const_or_not.h"

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
