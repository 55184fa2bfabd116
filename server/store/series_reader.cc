#include "server/store/series_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace babelring::store {

void add(Piece& piece, std::int64_t step, std::int64_t time_ms, double value) {
  if (piece.count++ == 0) piece.first_step = step;
  piece.step = step;
  piece.time_ms = time_ms;
  if (!std::isfinite(value)) return;
  piece.min = piece.finite == 0 ? value : std::min(piece.min, value);
  piece.max = piece.finite == 0 ? value : std::max(piece.max, value);
  piece.sum += value;
  ++piece.finite;
}

void SpanReader::visit(const Span& span, std::int64_t first, std::int64_t last, const Visit& visit) {
  Statement rows = reader_.database.prepare(
      "SELECT step, time_ms, layout, vals FROM steps WHERE run = ? AND rank = ? AND attempt = ? AND step >= ? AND "
      "step <= ? ORDER BY step");
  rows.bind(run_, span.rank, span.attempt, first, last);
  std::int64_t layout = -1;
  std::optional<std::size_t> place;
  while (rows.step()) {
    if (rows.integer(2) != layout) {
      layout = rows.integer(2);
      place = reader_.layouts.place(layout, key_);
    }
    if (!place) continue;
    const PackedDoubles values(rows.blob(3));
    if (*place < values.size()) visit(rows.integer(0), rows.integer(1), values[*place]);
  }
}

void SpanReader::read_fine(const Span& span, std::vector<Piece>& pieces) {
  visit(span, span.first, span.last, [&](std::int64_t step, std::int64_t time_ms, double value) {
    Piece& piece = pieces.emplace_back();
    piece.index = step;
    piece.attempt = span.attempt;
    add(piece, step, time_ms, value);
  });
}

void SpanReader::fold(const Span& span, std::int64_t first, std::int64_t last, std::vector<Piece>& pieces) {
  visit(span, first, last, [&](std::int64_t step, std::int64_t time_ms, double value) {
    const std::int64_t bucket = bucket_of(step);
    if (pieces.empty() || pieces.back().index != bucket) pieces.emplace_back().index = bucket;
    pieces.back().attempt = span.attempt;
    add(pieces.back(), step, time_ms, value);
  });
}

void SpanReader::read_coarse(const Span& span, std::vector<Piece>& pieces) {
  std::int64_t next = span.first;  // nothing before it is missing
  {
    Statement rows = reader_.database.prepare(
        "SELECT bucket, first_step, last_step, count, time_ms, layout, vals FROM buckets WHERE run = ? AND rank = ? "
        "AND "
        "attempt = ? AND bucket >= ? AND bucket < ? ORDER BY bucket");
    const std::int64_t first_whole = (span.first + bucket_steps - 1) / bucket_steps;
    rows.bind(run_, span.rank, span.attempt, first_whole, bucket_of(span.last + 1));
    while (rows.step()) {
      const std::int64_t bucket = rows.integer(0);
      if (bucket * bucket_steps > next) fold(span, next, bucket * bucket_steps - 1, pieces);
      next = (bucket + 1) * bucket_steps;
      const auto place = reader_.layouts.place(rows.integer(5), key_);
      if (!place) continue;
      BucketEntry entry;
      const std::string_view blob = rows.blob(6);
      if ((*place + 1) * sizeof entry > blob.size()) continue;
      std::memcpy(&entry, blob.data() + *place * sizeof entry, sizeof entry);
      pieces.push_back({bucket, span.attempt, rows.integer(1), rows.integer(2), rows.integer(4), rows.integer(3),
                        entry.finite, entry.min, entry.max, entry.sum});
    }
  }
  if (next <= span.last) fold(span, next, span.last, pieces);
}

std::int64_t SpanReader::step_at(const Span& span, std::int64_t time_ms) {
  std::int64_t low = span.first, high = span.last + 1;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    Statement row = reader_.database.prepare(
        "SELECT step, time_ms FROM steps WHERE run = ? AND rank = ? AND attempt = ? AND step >= ? AND step <= ? "
        "ORDER BY step LIMIT 1");
    row.bind(run_, span.rank, span.attempt, middle, span.last);
    if (!row.step() || row.integer(1) >= time_ms) {
      high = middle;
    } else {
      low = row.integer(0) + 1;
    }
  }
  return low;
}

}  // namespace babelring::store
