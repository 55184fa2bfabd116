#pragma once

#include <functional>
#include <vector>

#include "server/store/series.h"

namespace babelring::store {

/// One step of a rank and key, or a summary of consecutive steps.
struct SeriesBucket {
  std::int64_t index = 0;  // join key across ranks: the step, or the bucket number in downsampled reads
  std::int64_t attempt = 0, first_step = 0, step = 0, time_ms = 0;
  std::int64_t count = 0, finite = 0;
  double min = 0, max = 0, sum = 0;
};

/// Adds the value of a later step to `piece`.
void add(SeriesBucket& piece, std::int64_t step, std::int64_t time_ms, double value);

/// Merges the later piece `later` into `into`.
void absorb(SeriesBucket& into, const SeriesBucket& later);

/// Reads the values of one key in step order, span by span.
class SpanReader {
 public:
  using Visit = std::function<bool(std::int64_t step, std::int64_t time_ms, double value)>;

  SpanReader(Reader& reader, std::int64_t run, const std::string& key) : reader_(reader), run_(run), key_(key) {}

  /// Visits the steps from `first` to `last` until `visit` returns false. Returns true if all steps were visited.
  bool visit(const Span& span, std::int64_t first, std::int64_t last, const Visit& visit);
  /// Appends one piece for each bucket of a pyramid level (-1: one for each step), starting at step `first` of the
  /// span. Uses the stored summary where there is one. Elsewhere, and at the span's edges, the piece is computed from
  /// lower levels and single steps. Extends the last element of `pieces` if it belongs to the same bucket, and appends
  /// at most `most` new ones. Returns the step to continue from; past the end of the span when done.
  std::int64_t read(const Span& span, std::int64_t first, int level, std::size_t most,
                    std::vector<SeriesBucket>& pieces);
  /// The first step of a span at or after `time_ms`, or last + 1 if there is none. Assumes times increase with steps.
  std::int64_t step_at(const Span& span, std::int64_t time_ms);

 private:
  using Take = std::function<bool(const SeriesBucket&)>;
  /// Passes the range to `take` until it returns false, in as few pieces as the levels up to `level` allow. Returns
  /// true if the whole range was passed.
  bool descend(const Span& span, std::int64_t first, std::int64_t last, int level, const Take& take);
  /// The first summaries_at_once_ stored summaries of the range.
  std::vector<SeriesBucket> summaries(const Span& span, std::int64_t first, std::int64_t last, int level);

  Reader& reader_;
  std::int64_t run_;
  const std::string& key_;
  std::int64_t summaries_at_once_ = 0;
};

}  // namespace babelring::store
