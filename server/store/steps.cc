#include "server/store/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

namespace babelring::store {
namespace {

constexpr std::size_t max_chunk_bytes = std::size_t{1} << 20;  // max size of an export chunk

void append_value(std::string& csv, double value) {
  if (std::isnan(value)) {
    csv += "nan";
  } else if (std::isinf(value)) {
    csv += value > 0 ? "inf" : "-inf";
  } else {
    fmt::format_to(std::back_inserter(csv), "{}", value);
  }
}

}  // namespace

LastStep last_step(Reader& reader, std::int64_t run, std::int64_t rank) {
  Statement row = reader.database.prepare(
      "SELECT step, time_ms, layout, vals FROM steps WHERE run = ? AND rank = ? ORDER BY attempt DESC, step DESC LIMIT "
      "1");
  row.bind(run, rank);
  LastStep last;
  std::int64_t layout = 0;
  std::string_view blob;
  if (!row.next(last.step, last.time_ms, layout, blob)) return last;
  const auto& keys = reader.layouts.keys(layout);
  const PackedDoubles values(blob);
  for (std::size_t i = 0; i < std::min(keys.size(), values.size()); ++i) last.values[keys[i]] = values[i];
  return last;
}

std::vector<StepValues> read_steps(Reader& reader, std::int64_t run, std::int64_t rank, std::int64_t attempt,
                                   std::int64_t first, std::int64_t last, std::span<const std::string_view> keys) {
  Statement rows = reader.database.prepare(
      "SELECT step, time_ms, layout, vals FROM steps WHERE run = ? AND rank = ? AND attempt = ? AND step >= ? AND "
      "step <= ? ORDER BY step");
  rows.bind(run, rank, attempt, first, last);
  std::vector<StepValues> steps;
  std::vector<std::optional<std::size_t>> places(keys.size());
  std::int64_t number = 0, time_ms = 0, layout = 0, known_layout = -1;
  std::string_view blob;
  while (rows.next(number, time_ms, layout, blob)) {
    if (layout != known_layout) {
      known_layout = layout;
      for (std::size_t i = 0; i < keys.size(); ++i) places[i] = reader.layouts.place(layout, keys[i]);
    }
    StepValues& step = steps.emplace_back();
    step.step = number;
    step.time_ms = time_ms;
    const PackedDoubles values(blob);
    for (const auto& place : places) step.values.push_back(place && *place < values.size() ? values[*place] : absent);
  }
  return steps;
}

std::vector<std::string> all_keys(Reader& reader, std::int64_t run) {
  const auto layouts = reader.database.prepare("SELECT layout FROM run_layouts WHERE run = ? ORDER BY layout")
                           .bind(run)
                           .all<std::int64_t>();
  std::vector<std::string> keys;
  for (const std::int64_t layout : layouts) {
    for (const std::string& key : reader.layouts.keys(layout)) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

bool export_rows(Reader& reader, std::int64_t run, const std::vector<std::string>& keys, std::size_t rows,
                 ExportCursor& cursor, std::string& csv) {
  Statement steps = reader.database.prepare(
      "SELECT rank, attempt, step, time_ms, layout, vals FROM steps WHERE run = ?1 AND (rank, attempt, step) > "
      "(?2, ?3, ?4) ORDER BY rank, attempt, step LIMIT ?5");
  steps.bind(run, cursor.rank, cursor.attempt, cursor.step, static_cast<std::int64_t>(rows));
  bool any = false;
  std::int64_t time_ms = 0, layout = 0, known_layout = -1;
  std::string_view blob;
  std::vector<std::optional<std::size_t>> places(keys.size());
  while (csv.size() < max_chunk_bytes && steps.next(cursor.rank, cursor.attempt, cursor.step, time_ms, layout, blob)) {
    any = true;
    if (layout != known_layout) {
      known_layout = layout;
      for (std::size_t i = 0; i < keys.size(); ++i) places[i] = reader.layouts.place(layout, keys[i]);
    }
    fmt::format_to(std::back_inserter(csv), "{},{},{},{}", cursor.rank, cursor.attempt, cursor.step, time_ms);
    const PackedDoubles values(blob);
    for (const auto& place : places) {
      csv += ',';
      if (place && *place < values.size()) append_value(csv, values[*place]);
    }
    csv += '\n';
  }
  return any;
}

}  // namespace babelring::store
