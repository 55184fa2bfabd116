#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "server/store/series_reader.h"

namespace babelring::store {

/// The pieces of one rank in the order of their index, read a few at a time.
class RankStream {
 public:
  /// `spans` are the rank's, in order; `chunk` pieces are held at most, about.
  RankStream(SpanReader& values, std::vector<Span> spans, int level, std::size_t chunk);
  /// The piece that it stands at, until the next call; null at the end.
  const Piece* peek();
  void pop() { ++at_; }
  std::size_t held() const { return pieces_.size(); }
  std::int64_t rank() const { return spans_.front().rank; }
  const std::string& host() const { return spans_.front().host; }
  const std::vector<Span>& spans() const { return spans_; }

 private:
  void fill();

  SpanReader& values_;
  std::vector<Span> spans_;
  int level_;
  std::size_t chunk_, span_ = 0, at_ = 0;
  std::int64_t next_;          // first step that was not read
  std::vector<Piece> pieces_;  // the last one may still grow
};

/// Joins the pieces of equal index of all ranks into pieces of the run, without holding more of them than a few
/// thousand, however many ranks and steps there are.
class RankJoin {
 public:
  static constexpr std::size_t max_held = 32'768;  // about, and 16 of each rank where there are many
  using Take = std::function<bool(const Piece&)>;
  /// `rank` is that of a piece before it is joined.
  using Inspect = std::function<void(std::int64_t rank, const Piece&)>;

  /// `spans` are by rank, then in order of steps. `level` is that of the pyramid, -1 for single steps.
  RankJoin(SpanReader& values, const std::vector<Span>& spans, int level, const SeriesQuery& query);
  /// Passes the joined pieces in order to `take` until it returns false, and each single one to `inspect` before.
  void run(const Inspect& inspect, const Take& take);
  /// Pieces in memory.
  std::size_t held() const;
  /// Steps that were read of the rank with most of them.
  std::int64_t longest() const;

 private:
  struct Present {
    RankStream* stream;
    const Piece* piece;
  };
  void count_expected(SpanReader& values, const std::vector<Span>& spans, int level, const SeriesQuery& query);
  bool collect();
  void advance(std::size_t stream);
  bool join(const Take& take) const;
  Piece sum() const;
  Piece sum_of_hosts() const;

  const bool single_;  // one rank is asked for: nothing is joined
  const RankAggregate how_;
  std::vector<RankStream> streams_;
  std::vector<std::int64_t> counts_;                  // steps by stream
  std::map<std::int64_t, std::int64_t> expected_;     // ranks by attempt
  using Next = std::pair<std::int64_t, std::size_t>;  // index, stream
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next_;
  std::vector<Present> present_;
  std::vector<std::size_t> taken_;  // streams of present_
};

}  // namespace babelring::store
