#include "server/store/steps.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "server/store/metrics.h"
#include "server/store/rows.h"

namespace babelring::store {

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

std::vector<PauseRow> recent_pauses(Reader& reader, std::int64_t run, std::int64_t first, std::int64_t last,
                                    std::int64_t limit) {
  Statement rows = reader.database.prepare(
      "SELECT * FROM (SELECT 0, step, json_extract(body, '$.seconds') FROM evals WHERE run = ?1 AND step >= ?2 AND "
      "step <= ?3 AND json_extract(body, '$.seconds') > 0 ORDER BY eval DESC LIMIT ?4) UNION ALL "
      "SELECT * FROM (SELECT 1, step, write_seconds FROM checkpoints WHERE run = ?1 AND step >= ?2 AND step <= ?3 "
      "ORDER BY step DESC, checkpoint DESC LIMIT ?4)");
  rows.bind(run, first, last, limit);
  std::vector<PauseRow> pauses;
  PauseRow pause;
  while (rows.next(pause.checkpoint, pause.step, pause.seconds)) {
    if (!(pause.seconds > 0)) pause.seconds = 0;
    pauses.push_back(pause);
  }
  std::stable_sort(pauses.begin(), pauses.end(), [](const PauseRow& a, const PauseRow& b) { return a.step < b.step; });
  return pauses;
}

std::vector<ValidationRow> recent_validations(Reader& reader, std::int64_t run, std::string_view valid_set,
                                              std::size_t limit) {
  constexpr int rows_read = 100;  // includes evaluations on other sets
  Statement rows = reader.database.prepare(
      "SELECT step, json_extract(body, '$.set'), json_extract(body, '$.loss'), sacrebleu FROM evals WHERE run = ? "
      "ORDER BY eval DESC LIMIT ?");
  rows.bind(run, rows_read);
  std::map<std::string, std::vector<ValidationRow>, std::less<>> by_set;  // newest first
  std::string newest_set;
  ValidationRow validation;
  std::string set;
  while (rows.next(validation.step, set, validation.loss, validation.sacrebleu)) {
    if (by_set.empty()) newest_set = set;
    auto& of_set = by_set[set];
    const bool outdated = !of_set.empty() && validation.step >= of_set.back().step;
    if (of_set.size() < limit && !outdated) of_set.push_back(validation);
  }
  const auto chosen = by_set.find(valid_set);
  std::vector<ValidationRow> found = chosen != by_set.end() ? chosen->second : by_set[newest_set];
  std::reverse(found.begin(), found.end());
  return found;
}

std::string last_error(Reader& reader, std::int64_t run) {
  return reader.database
      .prepare("SELECT text FROM log_lines WHERE run = ? AND level = 'error' ORDER BY line DESC LIMIT 1")
      .bind(run)
      .value<std::string>();
}

}  // namespace babelring::store
