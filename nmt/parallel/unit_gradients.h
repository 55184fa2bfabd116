#pragma once

#include "nmt/core/parameters.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// Sums the gradients of a rank's units in a binary tree over their numbers: (0 + 1) + (2 + 3), and so on. A unit's
/// gradient goes to an array by itself, and is added to that of its left neighbour as soon as the tree allows, while a
/// layer's gradient is still in the cache. The sum ends in the store's own array. At most log2(units) sums wait at a
/// time, so as many further arrays are needed; with one unit none. See docs/design/units.md.
class UnitGradients {
 public:
  /// Allocates the further arrays. `units`: a power of two. Backend and store must outlive the object.
  UnitGradients(Backend& backend, ParameterStore& store, int units);

  /// The gradients of unit `unit`, counted from 0 on this rank, go to an array in which no sum waits. Call the units in
  /// order.
  void begin(int unit);
  /// Call when the parameter's gradient of `unit` is complete. After the last unit, the parameter's gradient is the sum
  /// over all units.
  void add(const Parameter& parameter, int unit);
  /// In place of begin() and add(): the gradients of `unit` that another rank computed, in host memory with the layout
  /// of ParameterStore::gradients().
  void add_all(const float* gradients, int unit);

 private:
  Backend& backend_;
  ParameterStore& store_;
  int units_;
};

}  // namespace babelring
