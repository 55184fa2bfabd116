#pragma once

#include <cstddef>
#include <vector>

#include "server/store/series_reader.h"

namespace babelring::store {

/// Makes at most a given number of points of pieces whose number is not known in advance: each point is one of as many
/// consecutive pieces. Holds at most eight times the points.
class PointGroups {
 public:
  explicit PointGroups(std::size_t points);
  void add(const Piece& piece);
  /// Pieces that were added.
  std::size_t pieces() const { return pieces_; }
  std::vector<SeriesPoint> finish();

 private:
  struct Group {
    SeriesPoint point;
    double sum = 0, weight = 0;
    std::size_t pieces = 0;
    void add(const Piece& piece);
    void add(const Group& later);
  };
  void halve();

  const std::size_t points_, capacity_;
  std::size_t pieces_ = 0, pieces_a_group_ = 1;
  std::vector<Group> groups_;
};

}  // namespace babelring::store
