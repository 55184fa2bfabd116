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
  Span span;
  std::int64_t resumed_at = std::numeric_limits<std::int64_t>::max();
  while (rows.next(span.rank, span.attempt, span.first, span.last, span.host)) {
    if (!spans.empty() && spans.back().rank != span.rank) resumed_at = std::numeric_limits<std::int64_t>::max();
    const std::int64_t started = span.first;
    span.last = std::min(span.last, resumed_at - 1);
    resumed_at = std::min(resumed_at, started);
    spans.push_back(span);
  }
  std::erase_if(spans, [](const Span& each) { return each.last < each.first; });
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.rank, a.attempt) < std::pair(b.rank, b.attempt);
  });
  return spans;
}

}  // namespace babelring::store
