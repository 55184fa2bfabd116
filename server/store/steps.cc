#include "server/store/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

namespace babelring::store {

template <const_or_not<LifecycleRow> Row, class Column>
void visit_columns(Row& event, Column&& column) {
  column("attempt", event.attempt);
  column("rank", event.rank);
  column("time_ms", event.time_ms);
  column("name", event.name);
  column("detail", event.detail);
}

template <const_or_not<RunLocation> Row, class Column>
void visit_columns(Row& run, Column&& column) {
  column("r.run", run.number);
  column("id", run.id);
  column("coalesce(folder, '')", run.folder);
  column("coalesce((SELECT c.folder FROM checkpoints c WHERE c.run = r.run ORDER BY step DESC LIMIT 1), '')",
         run.checkpoint);
}

template <const_or_not<ReportedEval> Row, class Column>
void visit_columns(Row& eval, Column&& column) {
  column("attempt", eval.attempt);
  column("time_ms", eval.time_ms);
  column("body", eval.body);
}

std::vector<LifecycleRow> list_lifecycle(Reader& reader, std::int64_t run, std::int64_t limit) {
  static const std::string sql = select<LifecycleRow>(
      "FROM lifecycle WHERE run = ? AND (rank = 0 OR name = 'failed') ORDER BY attempt, time_ms, event LIMIT ?");
  return reader.database.prepare(sql).bind(run, limit).all<LifecycleRow>();
}

bool is_or_was_run(Reader& reader, const std::string& id) {
  return reader.database
      .prepare("SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?1) OR EXISTS (SELECT 1 FROM purged_runs WHERE id = ?1)")
      .bind(id)
      .value<bool>();
}

std::vector<RunLocation> places_of_runs(Reader& reader, std::int64_t since_ms) {
  static const std::string sql = select<RunLocation>(
      "FROM runs r LEFT JOIN launches l ON l.run = r.run WHERE deleted_ms IS NULL AND "
      "(state NOT IN ('queued', 'succeeded', 'failed', 'stopped') OR finished_ms >= ?) ORDER BY r.run");
  return reader.database.prepare(sql).bind(since_ms).all<RunLocation>();
}

std::vector<ReportedEval> list_reported_evals(Reader& reader, std::int64_t run, std::int64_t limit) {
  static const std::string sql = select<ReportedEval>("FROM evals WHERE run = ? ORDER BY eval DESC LIMIT ?");
  auto evals = reader.database.prepare(sql).bind(run, limit).all<ReportedEval>();
  std::ranges::reverse(evals);
  return evals;
}

std::string training_data_of(Reader& reader, std::int64_t run) {
  return reader.database.prepare("SELECT data FROM runs WHERE run = ?").bind(run).value<std::string>();
}

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

template <const_or_not<RankRow> Row, class Column>
void visit_columns(Row& rank, Column&& column) {
  column("rank", rank.rank);
  column("attempt", rank.attempt);
  column("host", rank.host);
  column("pid", rank.pid);
  column("device", rank.device);
  column("peak_flops", rank.peak_flops);
  column("peak_bytes_per_second", rank.peak_bytes_per_second);
  column("libraries", rank.libraries);
  column("first_update", rank.first_update);
  column("last_update", rank.last_update);
  column("updated_ms", rank.updated_ms);
}

bool SequenceNumbers::insert(std::int64_t sequence) {
  auto next = ranges_.upper_bound(sequence);
  if (next != ranges_.begin()) {
    auto previous = std::prev(next);
    if (sequence <= previous->second) return false;
    if (sequence == previous->second + 1) {
      previous->second = sequence;
      if (next != ranges_.end() && next->first == sequence + 1) {
        previous->second = next->second;
        ranges_.erase(next);
      }
      return true;
    }
  }
  std::int64_t last = sequence;
  if (next != ranges_.end() && next->first == sequence + 1) {
    last = next->second;
    ranges_.erase(next);
  }
  ranges_.emplace(sequence, last);
  return true;
}

std::int64_t SequenceNumbers::size() const {
  std::int64_t count = 0;
  for (const auto& [first, last] : ranges_) count += last - first + 1;
  return count;
}

std::int64_t SequenceNumbers::missing() const {
  return ranges_.empty() ? 0 : ranges_.rbegin()->second - size();
}

SequenceNumbers::Ranges read_arrivals(Database& database, std::int64_t run, std::int64_t attempt, std::int64_t rank) {
  Statement rows = database.prepare("SELECT first, last FROM arrivals WHERE run = ? AND attempt = ? AND rank = ?");
  rows.bind(run, attempt, rank);
  SequenceNumbers::Ranges ranges;
  std::int64_t first = 0, last = 0;
  while (rows.next(first, last)) ranges.emplace(first, last);
  return ranges;
}

std::vector<RankRow> list_rank_places(Reader& reader, std::int64_t run, std::int64_t attempt, std::int64_t first,
                                      std::int64_t limit) {
  static const std::string sql =
      select<RankRow>("FROM ranks WHERE run = ? AND attempt = ? AND rank >= ? ORDER BY rank LIMIT ?");
  return reader.database.prepare(sql).bind(run, attempt, first, limit).all<RankRow>();
}

std::vector<RankRow> list_ranks(Reader& reader, std::int64_t run, std::int64_t attempt, std::int64_t first,
                                std::int64_t limit) {
  auto ranks = list_rank_places(reader, run, attempt, first, limit);
  for (RankRow& rank : ranks) {
    const SequenceNumbers arrived(read_arrivals(reader.database, run, attempt, rank.rank));
    rank.records = arrived.size();
    rank.missing = arrived.missing();
    rank.last = last_step(reader, run, rank.rank);
  }
  return ranks;
}

}  // namespace babelring::store
