#pragma once

#include <cstdint>
#include <span>

#include "nmt/data/gssm/graph.h"
#include "nmt/data/gssm/kernel.h"

namespace babelring {

/// Names one sequence of a generator.
struct GssmPlace {
  std::uint64_t seed = 1;     // training.seed
  std::int64_t update = 0;    // negative: held-out sequences
  std::int64_t sequence = 0;  // within the update, over all ranks
};

/// Generates sequences. Each is a pure function of the graph and its place. Thread-safe.
class GssmGenerator {
 public:
  /// Draws the kernels, except those in context mode.
  explicit GssmGenerator(GssmGraph graph);

  const GssmGraph& graph() const { return graph_; }
  /// The kernels that generate the sequence: shared ones, and for nodes in context mode newly drawn ones.
  GssmKernels kernels(const GssmPlace& place) const;
  /// Writes a sequence: tokens[0] is 0, the others are drawn. `kernels` are those of the place.
  void generate(const GssmKernels& kernels, const GssmPlace& place, std::span<std::int32_t> tokens) const;

 private:
  GssmGraph graph_;
  GssmKernels fixed_;  // null for nodes in context mode
};

}  // namespace babelring
