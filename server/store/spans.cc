#include <algorithm>
#include <limits>

#include "server/store/series.h"

namespace babelring::store {

std::vector<Span> effective_spans(Reader& reader, std::int64_t run, std::optional<std::int64_t> rank) {
  Statement rows = reader.database.prepare(
      "SELECT rank, attempt, first_update, last_update, host FROM ranks WHERE run = ? AND (?2 < 0 OR rank = ?2) AND "
      "last_update > 0 ORDER BY rank, attempt DESC");
  rows.bind(run, rank.value_or(-1));
  std::vector<Span> spans;
  std::int64_t resumed_at = std::numeric_limits<std::int64_t>::max();
  while (rows.step()) {
    Span span{rows.integer(0), rows.integer(1), rows.integer(2), rows.integer(3), rows.text(4)};
    if (!spans.empty() && spans.back().rank != span.rank) resumed_at = std::numeric_limits<std::int64_t>::max();
    const std::int64_t started = span.first;
    span.last = std::min(span.last, resumed_at - 1);
    resumed_at = std::min(resumed_at, started);
    spans.push_back(std::move(span));
  }
  std::erase_if(spans, [](const Span& span) { return span.last < span.first; });
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.rank, a.attempt) < std::pair(b.rank, b.attempt);
  });
  return spans;
}

}  // namespace babelring::store
