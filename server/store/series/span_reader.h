#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "server/store/readers.h"
#include "server/store/series/downsampling.h"

namespace babelring::store {

/// One metric key of a run over a range of steps.
struct SeriesQuery {
  std::int64_t run = 0;
  std::int64_t world_size = 0;  // number of ranks needed for a complete sum in the current attempt
  std::int64_t current_attempt = 1;
  std::string key;
  std::optional<std::int64_t> rank;  // absent: all ranks, combined by rank_aggregate(key)
  bool by_time = false;              // `from` and `to` are ms since 1970, otherwise steps
  std::int64_t from = 0, to = INT64_MAX;
  std::size_t points = 1200;  // max number of points to return; at least 1
  bool every_point = false;   // return all stored points without sampling
};

/// The effective steps of one rank in one attempt, up to the point where a later attempt resumed. Bounds are inclusive.
struct Span {
  std::int64_t rank = 0, attempt = 0, first = 0, last = 0;
  std::string host;
};
/// Spans ordered by rank, then by step. `rank` absent: all ranks.
std::vector<Span> effective_spans(Reader& reader, std::int64_t run, std::optional<std::int64_t> rank);

/// Reads the values of one key in step order, span by span.
class SpanReader {
 public:
  using Visit = std::function<bool(std::int64_t step, std::int64_t time_ms, double value)>;

  SpanReader(Reader& reader, std::int64_t run, const std::string& key) : reader_(reader), run_(run), key_(key) {}

  /// Visits the steps from `first` to `last` until `visit` returns false. Returns true if all steps were visited.
  bool visit(const Span& span, std::int64_t first, std::int64_t last, const Visit& visit);
  /// Appends the buckets of a pyramid level (-1: single steps), starting at step `first` of the span. Uses stored
  /// summaries. Where there is none, and at the span's edges, a bucket is computed from lower levels and single steps.
  /// Extends the last element of `buckets` if that bucket is unfinished, and appends at most `max_new` buckets. Returns
  /// the step to continue from; past the end of the span when done.
  std::int64_t read(const Span& span, std::int64_t first, int level, std::size_t max_new,
                    std::vector<SeriesBucket>& buckets);
  /// The first step of a span at or after `time_ms`, or last + 1 if there is none. Assumes times increase with steps.
  std::int64_t step_at(const Span& span, std::int64_t time_ms);

 private:
  using Take = std::function<bool(const SeriesBucket&)>;
  /// Passes the range to `take` until it returns false, in as few buckets as the levels up to `level` allow. Returns
  /// true if the whole range was passed.
  bool descend(const Span& span, std::int64_t first, std::int64_t last, int level, const Take& take);
  /// The first summaries_at_once_ stored summaries of the range.
  std::vector<SeriesBucket> summaries(const Span& span, std::int64_t first, std::int64_t last, int level);

  Reader& reader_;
  std::int64_t run_;
  const std::string& key_;
  std::int64_t summaries_at_once_ = 0;
};

/// A stream of one rank's buckets, ordered by index and read in chunks.
class RankStream {
 public:
  /// `spans`: of this rank, ordered by step. `chunk`: approximate max number of buckets in memory.
  RankStream(SpanReader& values, std::vector<Span> spans, int level, std::size_t chunk);
  /// The current bucket; null at the end. Valid until the next call.
  const SeriesBucket* peek();
  void pop() { ++at_; }
  std::size_t held() const { return buckets_.size(); }
  std::int64_t rank() const { return spans_.front().rank; }
  const std::string& host() const { return spans_.front().host; }
  const std::vector<Span>& spans() const { return spans_; }

 private:
  void fill();

  SpanReader& values_;
  std::vector<Span> spans_;
  int level_;
  std::size_t chunk_, span_ = 0, at_ = 0;
  std::int64_t next_;                  // first unread step
  std::vector<SeriesBucket> buckets_;  // the last one may still grow
};

/// Combines the buckets of all ranks with equal index into buckets of the run. Memory use is bounded by max_held,
/// independent of the number of steps.
class RankJoin {
 public:
  static constexpr std::size_t max_held = 32'768;  // approximate; at least 16 buckets per rank
  using Take = std::function<bool(const SeriesBucket&)>;
  /// Receives each bucket before it is combined, with its rank.
  using Inspect = std::function<void(std::int64_t rank, const SeriesBucket&)>;

  /// `spans` must be ordered by rank, then by step. `level`: pyramid level; -1: single steps.
  RankJoin(SpanReader& values, const std::vector<Span>& spans, int level, const SeriesQuery& query);
  /// Passes each combined bucket in order to `take` until it returns false. Passes the ranks' buckets to `inspect`
  /// first.
  void run(const Inspect& inspect, const Take& take);
  /// Number of buckets in memory.
  std::size_t held() const;
  /// Max number of steps read from one rank.
  std::int64_t longest() const;

 private:
  struct Present {
    RankStream* stream;
    const SeriesBucket* bucket;
  };
  void count_expected(SpanReader& values, const std::vector<Span>& spans, int level, const SeriesQuery& query);
  bool collect();
  void advance(std::size_t stream);
  bool join(const Take& take) const;
  SeriesBucket sum() const;
  SeriesBucket sum_of_hosts() const;

  const bool single_;  // the query is for one rank: nothing to combine
  const RankAggregate how_;
  std::vector<RankStream> streams_;
  std::vector<std::int64_t> counts_;                  // number of steps, by stream
  std::map<std::int64_t, std::int64_t> expected_;     // number of ranks, by attempt
  using Next = std::pair<std::int64_t, std::size_t>;  // index, stream
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next_;
  std::vector<Present> present_;
  std::vector<std::size_t> taken_;  // streams of present_
};

}  // namespace babelring::store
