#pragma once

#include <cstdint>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/core/shards.h"

namespace babelring {

/// A moment of Adam: an f32 value for each element of a store's flat arrays. A rank may keep the values of its shard
/// only.
class Moment {
 public:
  /// Keeps all `size` values, in `memory`.
  Moment(Buffer memory, std::int64_t size) : Moment(std::move(memory), size, Shards()) {}
  /// Keeps the values of `shard`, one range behind the other. `memory`: of bytes_of() bytes.
  Moment(Buffer memory, std::int64_t size, const Shards& shard);
  /// The bytes of the values of `shard`.
  static std::size_t bytes_of(std::int64_t size, const Shards& shard);

  std::int64_t size() const { return size_; }
  /// The elements whose values are kept, as ascending ranges.
  const std::vector<ElementRange>& kept() const { return kept_; }
  /// The kept values, in the order of kept(): [elements of kept()] f32.
  Tensor values() const;
  /// The values of `range`, [its elements] f32. Throws Failure unless it lies in one range of kept().
  Tensor part(const ElementRange& range) const;

 private:
  Buffer memory_;
  std::int64_t size_;
  std::vector<ElementRange> kept_;
  std::vector<std::int64_t> begins_;  // of the kept ranges, in values()
};

}  // namespace babelring
