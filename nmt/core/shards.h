#pragma once

#include <cstdint>
#include <vector>

namespace babelring {

/// Elements [begin, end) of a flat array.
struct ElementRange {
  std::int64_t begin = 0, end = 0;
  bool operator==(const ElementRange&) const = default;
};

/// The shard of a flat array that one rank owns. Shards consist of stripes assigned round-robin, so every long range of
/// the array is also divided evenly. The shards of all ranks are disjoint and cover the array. A pure function of its
/// arguments.
class Shards {
 public:
  /// Stripes begin at multiples of this number of elements.
  static constexpr std::int64_t grain = 16384;

  /// The shard of a single rank: the whole array.
  Shards() = default;
  /// Shard of rank `rank` of `ranks` in an array of `count` elements. Throws Failure if the rank is out of range.
  Shards(std::int64_t count, int rank, int ranks);
  /// Shard of rank `rank` of `ranks` in stripes of `stripe` elements. Throws Failure if the rank is out of range or the
  /// stripe is no multiple of `grain`.
  static Shards in_stripes(std::int64_t stripe, int rank, int ranks);

  /// True if the array is divided among several ranks.
  bool divided() const { return ranks_ > 1; }
  /// The intersection of the shard with `range`, as ascending ranges.
  std::vector<ElementRange> within(ElementRange range) const;

 private:
  std::int64_t stripe_ = 0;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace babelring
