#include "server/store/point_groups.h"

#include <algorithm>
#include <cmath>

namespace babelring::store {
namespace {

constexpr std::size_t groups_a_point = 8, max_spare_groups = 160'000;

void widen(SeriesPoint& point, double min, double max, std::int64_t finite) {
  point.min = point.finite == 0 ? min : std::min(point.min, min);
  point.max = point.finite == 0 ? max : std::max(point.max, max);
  point.finite += finite;
}

}  // namespace

PointGroups::PointGroups(std::size_t points)
    : points_(std::max<std::size_t>(points, 1)),
      capacity_(std::max(points_, std::min(points_ * groups_a_point, max_spare_groups))) {}

void PointGroups::Group::add(const SeriesBucket& piece) {
  ++pieces;
  point.step = piece.step;
  point.time_ms = piece.time_ms;
  point.count += piece.count;
  if (piece.finite == 0) return;
  widen(point, piece.min, piece.max, piece.finite);
  // The average of a single value is bit-identical to the stored value.
  point.average = point.finite == 1 ? piece.sum : 0;
  sum += piece.sum / static_cast<double>(piece.finite) * static_cast<double>(piece.count);
  weight += static_cast<double>(piece.count);
}

void PointGroups::Group::add(const Group& later) {
  pieces += later.pieces;
  point.step = later.point.step;
  point.time_ms = later.point.time_ms;
  point.count += later.point.count;
  if (later.point.finite == 0) return;
  const bool only = point.finite == 0;
  widen(point, later.point.min, later.point.max, later.point.finite);
  if (only) point.average = later.point.average;
  sum += later.sum;
  weight += later.weight;
}

void PointGroups::add(const SeriesBucket& piece) {
  ++pieces_;
  if (groups_.size() == capacity_ && groups_.back().pieces == pieces_a_group_) halve();
  if (groups_.empty() || groups_.back().pieces == pieces_a_group_) groups_.emplace_back();
  groups_.back().add(piece);
}

void PointGroups::halve() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < groups_.size(); i += 2) {
    Group joined = groups_[i];
    if (i + 1 < groups_.size()) joined.add(groups_[i + 1]);
    groups_[kept++] = joined;
  }
  groups_.resize(kept);
  pieces_a_group_ *= 2;
}

std::vector<SeriesPoint> PointGroups::finish() {
  const std::size_t together = (groups_.size() + points_ - 1) / points_;
  std::vector<SeriesPoint> points;
  for (std::size_t i = 0; i < groups_.size(); i += together) {
    Group group = groups_[i];
    for (std::size_t j = i + 1; j < std::min(i + together, groups_.size()); ++j) group.add(groups_[j]);
    SeriesPoint point = group.point;
    if (point.finite == 0) point.min = point.max = point.average = std::nan("");
    if (point.finite > 1) point.average = group.sum / group.weight;
    points.push_back(point);
  }
  groups_ = {};
  return points;
}

}  // namespace babelring::store
