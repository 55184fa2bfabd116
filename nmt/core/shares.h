#pragma once

#include <cstdint>
#include <vector>

namespace babelring {

/// Elements [begin, end) of a flat array.
struct ElementRange {
  std::int64_t begin = 0, end = 0;
  bool operator==(const ElementRange&) const = default;
};

/// Which elements of a flat array one rank owns: stripes dealt out round-robin, so that any long part of the array is
/// divided evenly too. The ranks' shares are disjoint and cover the array. A pure function of its arguments.
class Shares {
 public:
  /// Every stripe begins at a multiple of so many elements.
  static constexpr std::int64_t grain = 16384;

  /// The whole array, of any size.
  Shares() = default;
  /// Of `count` elements, rank `rank` of `ranks`. Throws Failure if there is no such rank.
  Shares(std::int64_t count, int rank, int ranks);

  /// Whether others have a share too.
  bool divided() const { return ranks_ > 1; }
  /// The rank's stripes, or parts of them, within `range`, in order.
  std::vector<ElementRange> within(ElementRange range) const;

 private:
  std::int64_t stripe_ = 0;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace babelring
