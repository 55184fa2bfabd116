#include "server/store/series.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "server/store/pyramid.h"
#include "server/store/series_reader.h"

namespace babelring::store {
namespace {

constexpr std::size_t most_non_finite = 1000;
constexpr std::int64_t most_steps_looked_up = 16'384;

struct RankPieces {
  std::int64_t rank = 0;
  std::string host;
  std::vector<Piece> pieces;
};

double average(const Piece& piece) {
  return piece.sum / static_cast<double>(piece.finite);
}

/// The parts of the spans within the requested range.
std::vector<Span> clip(SpanReader& values, std::vector<Span> spans, const SeriesQuery& query) {
  for (Span& span : spans) {
    const Span whole = span;
    if (query.by_time) {
      if (query.from > 0) span.first = values.step_at(whole, query.from);
      if (query.to < INT64_MAX) span.last = values.step_at(whole, query.to + 1) - 1;
    } else {
      span.first = std::max(span.first, query.from);
      span.last = std::min(span.last, query.to);
    }
  }
  std::erase_if(spans, [](const Span& span) { return span.last < span.first; });
  return spans;
}

/// The highest level of the pyramid that still has `points` summaries in that many steps; -1: the steps themselves.
int level_for(std::int64_t steps, std::size_t points) {
  int level = top_level;
  while (level >= 0 && steps / steps_of_level(level) < static_cast<std::int64_t>(points)) --level;
  return level;
}

std::vector<RankPieces> read_ranks(SpanReader& values, const std::vector<Span>& spans, int level) {
  std::vector<RankPieces> ranks;
  for (const Span& span : spans) {
    if (ranks.empty() || ranks.back().rank != span.rank) ranks.push_back({span.rank, span.host, {}});
    auto& pieces = ranks.back().pieces;
    level < 0 ? values.read_fine(span, pieces) : values.read_coarse(span, level, pieces);
  }
  return ranks;
}

/// Joins the ranks' pieces of equal index into pieces of the run.
class RankJoin {
 public:
  RankJoin(RankAggregate how, std::vector<RankPieces>& ranks, const SeriesQuery& query) : how_(how), ranks_(ranks) {
    for (const RankPieces& rank : ranks) {
      for (std::int64_t previous = -1; const Piece& piece : rank.pieces) {
        if (piece.attempt != previous) ++expected_[previous = piece.attempt];
      }
    }
    expected_[query.current_attempt] = std::max(expected_[query.current_attempt], query.world_size);
  }

  std::vector<Piece> run() {
    if (ranks_.empty()) return {};
    std::vector<std::size_t> at(ranks_.size(), 0);
    std::vector<Piece> joined;
    joined.reserve(ranks_.front().pieces.size());
    for (;;) {
      std::int64_t index = INT64_MAX;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        if (at[r] < ranks_[r].pieces.size()) index = std::min(index, ranks_[r].pieces[at[r]].index);
      }
      if (index == INT64_MAX) return joined;
      present_.clear();
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        auto& pieces = ranks_[r].pieces;
        if (at[r] < pieces.size() && pieces[at[r]].index == index) present_.push_back({&ranks_[r], &pieces[at[r]++]});
      }
      join(joined);
    }
  }

 private:
  struct Present {
    const RankPieces* rank;
    const Piece* piece;
  };

  void join(std::vector<Piece>& joined) const {
    Piece result = *present_.front().piece;
    if (how_ == RankAggregate::mean) {
      for (std::size_t i = 1; i < present_.size(); ++i) absorb(result, *present_[i].piece);
      joined.push_back(result);
      return;
    }
    // A sum over only some of the ranks would look like a drop.
    const auto expected = static_cast<std::size_t>(expected_.at(result.attempt));
    if (present_.size() < expected) return;
    joined.push_back(how_ == RankAggregate::sum ? sum() : sum_of_hosts());
  }

  static void absorb(Piece& into, const Piece& other) {
    if (other.finite == 0) return;
    into.min = into.finite == 0 ? other.min : std::min(into.min, other.min);
    into.max = into.finite == 0 ? other.max : std::max(into.max, other.max);
    into.sum += other.sum;
    into.finite += other.finite;
  }

  static void extend(Piece& into, const Piece& other) {
    into.count = std::min(into.count, other.count);
    const bool finite = into.finite > 0 && other.finite > 0;
    into.min += other.min;
    into.max += other.max;
    into.sum = finite ? average(into) + average(other) : 0;
    into.finite = finite ? 1 : 0;
  }

  Piece sum() const {
    Piece result = *present_.front().piece;
    for (std::size_t i = 1; i < present_.size(); ++i) extend(result, *present_[i].piece);
    return result;
  }

  Piece sum_of_hosts() const {
    std::map<std::string_view, Piece> hosts;
    for (const Present& present : present_) {
      const auto [host, first] = hosts.try_emplace(present.rank->host, *present.piece);
      if (!first && average(*present.piece) > average(host->second)) host->second = *present.piece;
    }
    auto host = hosts.begin();
    Piece result = host->second;
    while (++host != hosts.end()) extend(result, host->second);
    return result;
  }

  RankAggregate how_;
  std::vector<RankPieces>& ranks_;
  std::map<std::int64_t, std::int64_t> expected_;  // ranks by attempt
  std::vector<Present> present_;
};

std::vector<std::pair<std::int64_t, double>> find_non_finite(SpanReader& values, const std::vector<Span>& spans,
                                                             const std::vector<RankPieces>& ranks) {
  std::vector<std::pair<std::int64_t, double>> found;
  std::int64_t steps = 0;
  for (const RankPieces& rank : ranks) {
    for (const Piece& piece : rank.pieces) {
      if (piece.finite == piece.count) continue;
      if (found.size() >= most_non_finite || (steps > 0 && steps + piece.count > most_steps_looked_up)) return found;
      steps += piece.count;
      for (const Span& span : spans) {
        if (span.rank != rank.rank || span.attempt != piece.attempt) continue;
        values.visit(span, piece.first_step, piece.step, [&](std::int64_t step, std::int64_t, double value) {
          if (!std::isfinite(value) && found.size() < most_non_finite) found.emplace_back(step, value);
        });
      }
    }
  }
  return found;
}

SeriesPoint point_of(const Piece* first, const Piece* end) {
  SeriesPoint point;
  double weight = 0, sum = 0;
  for (const Piece* piece = first; piece != end; ++piece) {
    point.step = piece->step;
    point.time_ms = piece->time_ms;
    point.count += piece->count;
    if (piece->finite == 0) continue;
    point.min = point.finite == 0 ? piece->min : std::min(point.min, piece->min);
    point.max = point.finite == 0 ? piece->max : std::max(point.max, piece->max);
    sum += average(*piece) * static_cast<double>(piece->count);
    weight += static_cast<double>(piece->count);
    point.finite += piece->finite;
  }
  point.average = sum / weight;
  if (point.finite == 1 && end - first == 1) point.average = first->sum;  // bit for bit what was stored
  if (point.finite == 0) point.min = point.max = point.average = std::nan("");
  return point;
}

}  // namespace

Series read_series(Reader& reader, const SeriesQuery& query) {
  SpanReader values(reader, query.run, query.key);
  const auto spans = clip(values, effective_spans(reader, query.run, query.rank), query);
  std::map<std::int64_t, std::int64_t> lengths;
  for (const Span& span : spans) lengths[span.rank] += span.last - span.first + 1;
  std::int64_t longest = 0;
  for (const auto& [rank, length] : lengths) longest = std::max(longest, length);
  const int level = level_for(longest, query.points);

  auto ranks = read_ranks(values, spans, level);
  Series series;
  series.non_finite = find_non_finite(values, spans, ranks);
  std::vector<Piece> pieces;
  if (ranks.size() == 1 && query.rank) {
    pieces = std::move(ranks.front().pieces);
  } else {
    pieces = RankJoin(rank_aggregate(query.key), ranks, query).run();
  }
  for (const Piece& piece : pieces) series.total += piece.count;
  series.sampled = level >= 0 || pieces.size() > query.points;
  const std::size_t group = (pieces.size() + query.points - 1) / std::max<std::size_t>(query.points, 1);
  for (std::size_t i = 0; i < pieces.size(); i += group) {
    series.points.push_back(point_of(&pieces[i], pieces.data() + std::min(i + group, pieces.size())));
  }
  return series;
}

}  // namespace babelring::store
