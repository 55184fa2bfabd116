#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace babelring {

/// A table of comma-separated values (RFC 4180) with one line of column names.
class CsvTable {
 public:
  /// Parses a text. `name` begins the messages of all errors, FILE:LINE: …. Empty lines are skipped. Throws
  /// UsageFailure if there is no line of names, if a line has another number of fields, or if a quote does not end.
  CsvTable(std::string name, std::string_view text);
  /// Reads a file. Throws UsageFailure, Failure.
  static CsvTable read(const std::string& file);

  std::size_t rows() const { return rows_.size(); }
  const std::vector<std::string>& columns() const { return columns_; }
  /// The fields of a row, counted from 0, in the order of the columns.
  const std::vector<std::string>& fields(std::size_t row) const { return rows_.at(row).fields; }
  bool has(std::string_view column) const;
  /// The field of a row, counted from 0. Throws UsageFailure if the column does not exist.
  const std::string& text(std::size_t row, std::string_view column) const;
  /// The field as a number; none if it is empty or `N/A`. Throws UsageFailure for other texts, and for numbers that are
  /// negative or not finite unless `any_sign`.
  std::optional<double> optional_number(std::size_t row, std::string_view column, bool any_sign = false) const;
  /// The same; throws UsageFailure if there is none.
  double number(std::size_t row, std::string_view column, bool any_sign = false) const;
  /// FILE:LINE of a row.
  std::string place(std::size_t row) const;

 private:
  struct Row {
    std::size_t line = 0;
    std::vector<std::string> fields;
  };
  std::size_t column_index(std::string_view column) const;

  std::string name_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

/// A field for a CSV file, in quotes if it needs them.
std::string csv_field(std::string_view text);

}  // namespace babelring
