#pragma once

#include <functional>
#include <vector>

#include "server/store/series.h"

namespace babelring::store {

/// A step or a summary of several, of one rank and key.
struct Piece {
  std::int64_t index = 0;  // step, or bucket number when read coarsely: what ranks are joined on
  std::int64_t attempt = 0, first_step = 0, step = 0, time_ms = 0;
  std::int64_t count = 0, finite = 0;
  double min = 0, max = 0, sum = 0;
};

/// Folds `value` at a step into a piece.
void add(Piece& piece, std::int64_t step, std::int64_t time_ms, double value);

/// Folds a piece into one that ends before it.
void absorb(Piece& into, const Piece& later);

/// Reads one key of one span, in order of steps.
class SpanReader {
 public:
  using Visit = std::function<void(std::int64_t step, std::int64_t time_ms, double value)>;

  SpanReader(Reader& reader, std::int64_t run, const std::string& key) : reader_(reader), run_(run), key_(key) {}

  /// Every step from `first` to `last`, from the steps themselves.
  void visit(const Span& span, std::int64_t first, std::int64_t last, const Visit& visit);
  /// The same range as one piece a step.
  void read_fine(const Span& span, std::vector<Piece>& pieces);
  /// The same range as one piece for each stretch of a level of the pyramid: summaries where whole stretches are
  /// covered, those of the levels below and steps at the edges and where a summary is missing.
  void read_coarse(const Span& span, int level, std::vector<Piece>& pieces);
  /// First step of a span whose time is not before `time_ms`, or last + 1. Times grow with steps.
  std::int64_t step_at(const Span& span, std::int64_t time_ms);

 private:
  using Take = std::function<void(const Piece&)>;
  /// Gives the range to `take` in as few pieces as levels up to `level` allow.
  void descend(const Span& span, std::int64_t first, std::int64_t last, int level, const Take& take);
  std::vector<Piece> summaries(const Span& span, std::int64_t first, std::int64_t last, int level);

  Reader& reader_;
  std::int64_t run_;
  const std::string& key_;
};

}  // namespace babelring::store
