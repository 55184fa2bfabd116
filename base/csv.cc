#include "base/csv.h"

#include <algorithm>
#include <cmath>

#include "base/failure.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"

namespace babelring {
namespace {

/// Splits one line at commas outside of quotes. None if a quote does not end.
std::optional<std::vector<std::string>> split_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      const bool doubled = quoted && i + 1 < line.size() && line[i + 1] == '"';
      if (doubled) {
        fields.back() += '"';
        ++i;
      } else {
        quoted = !quoted;
      }
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  if (quoted) return std::nullopt;
  return fields;
}

}  // namespace

CsvTable::CsvTable(std::string name, std::string_view text) : name_(std::move(name)) {
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    auto fields = split_fields(line);
    if (!fields) throw UsageFailure(fmt::format("{}:{}: found a quote that does not end", name_, number));
    if (columns_.empty()) {
      columns_ = std::move(*fields);
    } else if (fields->size() != columns_.size()) {
      throw UsageFailure(
          fmt::format("{}:{}: found {} fields, expected {}", name_, number, fields->size(), columns_.size()));
    } else {
      rows_.push_back({number, std::move(*fields)});
    }
  }
  if (columns_.empty()) throw UsageFailure(fmt::format("{}: found no line, expected one with column names", name_));
}

CsvTable CsvTable::read(const std::string& file) {
  return CsvTable(file, read_file(file));
}

bool CsvTable::has(std::string_view column) const {
  return std::ranges::find(columns_, column) != columns_.end();
}

std::size_t CsvTable::column_index(std::string_view column) const {
  const auto found = std::ranges::find(columns_, column);
  if (found == columns_.end()) {
    throw UsageFailure(fmt::format("{}: found no column {}, expected one among {}", name_, column,
                                   printable(fmt::format("{}", fmt::join(columns_, ", ")))));
  }
  return static_cast<std::size_t>(found - columns_.begin());
}

const std::string& CsvTable::text(std::size_t row, std::string_view column) const {
  return rows_.at(row).fields[column_index(column)];
}

std::optional<double> CsvTable::optional_number(std::size_t row, std::string_view column, bool any_sign) const {
  const std::string& field = text(row, column);
  if (field.empty() || field == "N/A") return std::nullopt;
  const auto number = parse_number<double>(field);
  if (!number || !std::isfinite(*number) || (*number < 0 && !any_sign)) {
    throw UsageFailure(fmt::format("{}: {}: found '{}', expected a number{}", place(row), column, printable(field),
                                   any_sign ? "" : " of at least 0"));
  }
  return number;
}

double CsvTable::number(std::size_t row, std::string_view column, bool any_sign) const {
  const auto found = optional_number(row, column, any_sign);
  if (!found) {
    throw UsageFailure(fmt::format("{}: {}: found '{}', expected a number", place(row), column, text(row, column)));
  }
  return *found;
}

std::string CsvTable::place(std::size_t row) const {
  return fmt::format("{}:{}", name_, rows_.at(row).line);
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char letter : text) out += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return out + '"';
}

}  // namespace babelring
