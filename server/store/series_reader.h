#pragma once

#include <functional>
#include <vector>

#include "server/store/series.h"

namespace babelring::store {

/// One step, or a summary of several, of one rank and key.
struct Piece {
  std::int64_t index = 0;  // ranks are joined on it: the step, or in coarse reads the number of the bucket
  std::int64_t attempt = 0, first_step = 0, step = 0, time_ms = 0;
  std::int64_t count = 0, finite = 0;
  double min = 0, max = 0, sum = 0;
};

/// Adds the value of a later step to a piece.
void add(Piece& piece, std::int64_t step, std::int64_t time_ms, double value);

/// Adds a later piece to a piece.
void absorb(Piece& into, const Piece& later);

/// Reads one key of one span, in order of steps.
class SpanReader {
 public:
  using Visit = std::function<bool(std::int64_t step, std::int64_t time_ms, double value)>;

  SpanReader(Reader& reader, std::int64_t run, const std::string& key) : reader_(reader), run_(run), key_(key) {}

  /// Visits every step from `first` to `last`, as long as `visit` returns true. Returns whether it always did.
  bool visit(const Span& span, std::int64_t first, std::int64_t last, const Visit& visit);
  /// Appends one piece for each bucket of a level of the pyramid, from step `first` of the span: its summary where
  /// there is one, otherwise, and at the edges of the span, one made of the levels below and of steps. Level -1: one
  /// for each step. Adds to the last piece if that is of the same bucket, and begins at most `most` others. Returns the
  /// step from which to read on, at the end one beyond the span.
  std::int64_t read(const Span& span, std::int64_t first, int level, std::size_t most, std::vector<Piece>& pieces);
  /// The first step of a span whose time is not before `time_ms`, or last + 1. Assumes that times grow with steps.
  std::int64_t step_at(const Span& span, std::int64_t time_ms);

 private:
  using Take = std::function<bool(const Piece&)>;
  /// Passes the range to `take`, in as few pieces as the levels up to `level` allow, until it returns false. Returns
  /// whether it never did.
  bool descend(const Span& span, std::int64_t first, std::int64_t last, int level, const Take& take);
  /// The first summaries_at_once_ of them.
  std::vector<Piece> summaries(const Span& span, std::int64_t first, std::int64_t last, int level);

  Reader& reader_;
  std::int64_t run_;
  const std::string& key_;
  std::int64_t summaries_at_once_ = 0;
};

}  // namespace babelring::store
