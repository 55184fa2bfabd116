#include "server/store/span_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "server/store/downsampling.h"

namespace babelring::store {
namespace {

constexpr std::size_t min_summaries = 16, max_summaries = 1024;  // per read

}  // namespace

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

void absorb(Piece& into, const Piece& later) {
  into.attempt = later.attempt;
  into.step = later.step;
  into.time_ms = later.time_ms;
  into.count += later.count;
  if (later.finite == 0) return;
  into.min = into.finite == 0 ? later.min : std::min(into.min, later.min);
  into.max = into.finite == 0 ? later.max : std::max(into.max, later.max);
  into.sum += later.sum;
  into.finite += later.finite;
}

bool SpanReader::visit(const Span& span, std::int64_t first, std::int64_t last, const Visit& visit) {
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
    if (*place < values.size() && !visit(rows.integer(0), rows.integer(1), values[*place])) return false;
  }
  return true;
}

std::vector<Piece> SpanReader::summaries(const Span& span, std::int64_t first, std::int64_t last, int level) {
  Statement rows = reader_.database.prepare(
      level == 0 ? "SELECT bucket, first_step, last_step, count, time_ms, layout, vals FROM buckets WHERE run = ? AND "
                   "rank = ? AND attempt = ? AND bucket >= ? AND bucket < ? ORDER BY bucket LIMIT ?"
                 : "SELECT bucket, first_step, last_step, count, time_ms, layout, vals FROM pyramid WHERE run = ? AND "
                   "rank = ? AND attempt = ? AND bucket >= ? AND bucket < ? AND level = ? ORDER BY bucket LIMIT ?");
  const std::int64_t steps = steps_of_level(level);
  const std::int64_t begin = (first + steps - 1) / steps, end = (last + 1) / steps;
  if (level == 0) {
    rows.bind(run_, span.rank, span.attempt, begin, end, summaries_at_once_);
  } else {
    rows.bind(run_, span.rank, span.attempt, begin, end, level, summaries_at_once_);
  }
  std::vector<Piece> found;
  while (rows.step()) {
    Piece piece{rows.integer(0), span.attempt, rows.integer(1), rows.integer(2), rows.integer(4), 0, 0, 0, 0, 0};
    const auto place = reader_.layouts.place(rows.integer(5), key_);
    const std::string_view blob = rows.blob(6);
    if (place && (*place + 1) * sizeof(BucketEntry) <= blob.size()) {
      BucketEntry entry;
      std::memcpy(&entry, blob.data() + *place * sizeof entry, sizeof entry);
      piece.count = rows.integer(3);
      piece.finite = entry.finite;
      piece.min = entry.min;
      piece.max = entry.max;
      piece.sum = entry.sum;
    }
    found.push_back(piece);
  }
  return found;
}

bool SpanReader::descend(const Span& span, std::int64_t first, std::int64_t last, int level, const Take& take) {
  if (level < 0) {
    return visit(span, first, last, [&](std::int64_t step, std::int64_t time_ms, double value) {
      Piece piece;
      piece.attempt = span.attempt;
      add(piece, step, time_ms, value);
      return take(piece);
    });
  }
  const std::int64_t steps = steps_of_level(level);
  std::int64_t next = first;  // everything before it has been read
  for (bool all = false; !all;) {
    const auto found = summaries(span, next, last, level);
    all = std::ssize(found) < summaries_at_once_;
    for (const Piece& piece : found) {
      const std::int64_t begin = piece.index * steps;
      if (begin > next && !descend(span, next, begin - 1, level - 1, take)) return false;
      if (piece.count > 0 && !take(piece)) return false;
      next = begin + steps;
    }
  }
  return next > last || descend(span, next, last, level - 1, take);
}

std::int64_t SpanReader::read(const Span& span, std::int64_t first, int level, std::size_t most,
                              std::vector<Piece>& pieces) {
  const std::int64_t steps = level < 0 ? 1 : steps_of_level(level);
  summaries_at_once_ = static_cast<std::int64_t>(std::clamp(most, min_summaries, max_summaries));
  std::int64_t next = first;
  std::size_t begun = 0;
  const bool all = descend(span, first, span.last, level, [&](const Piece& part) {
    const std::int64_t index = part.step / steps;
    if (pieces.empty() || pieces.back().index != index) {
      if (begun++ == most) return false;
      pieces.push_back(part);
      pieces.back().index = index;
    } else {
      absorb(pieces.back(), part);
    }
    next = part.step + 1;
    return true;
  });
  return all ? span.last + 1 : next;
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
