#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "server/store/series/span_reader.h"

namespace babelring::store {

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
