#pragma once

#include <cstddef>
#include <vector>

#include "server/store/span_reader.h"

namespace babelring::store {

/// Downsamples a stream of pieces of unknown length to at most `points` points. Each point summarises the same number
/// of consecutive pieces. Memory is bounded by eight groups per point.
class PointGroups {
 public:
  explicit PointGroups(std::size_t points);
  void add(const SeriesBucket& piece);
  /// Number of pieces added.
  std::size_t pieces() const { return pieces_; }
  std::vector<SeriesPoint> finish();

 private:
  struct Group {
    SeriesPoint point;
    double sum = 0, weight = 0;
    std::size_t pieces = 0;
    void add(const SeriesBucket& piece);
    void add(const Group& later);
  };
  void halve();

  const std::size_t points_, capacity_;
  std::size_t pieces_ = 0, pieces_a_group_ = 1;
  std::vector<Group> groups_;
};

}  // namespace babelring::store
