#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "nmt/core/random.h"
#include "nmt/data/gssm/graph.h"

namespace babelring {

/// Cuts [0, count) into contiguous parts and calls `work(first, last)` for each on its own thread. Rethrows the
/// exception of the first part that failed, after all have ended. Throws Failure unless threads >= 1.
void for_each_part(std::int64_t count, int threads,
                   const std::function<void(std::int64_t first, std::int64_t last)>& work);

/// The transition probabilities of one node: a row for each combination of inputs, numbered by GssmNode::Input::stride.
class GssmKernel {
 public:
  static constexpr double min_probability = 1e-10;

  /// Draws the rows from symmetric Dirichlet distributions with node.alpha, raises probabilities to min_probability,
  /// applies node.mode, and normalises. A pure function of its arguments.
  GssmKernel(const GssmNode& node, std::uint64_t seed);

  int states() const { return states_; }
  std::int64_t rows() const { return static_cast<std::int64_t>(probabilities_.size()) / states_; }
  /// The probabilities of the new state, [states].
  std::span<const double> row(std::int64_t row) const {
    return std::span(probabilities_)
        .subspan(static_cast<std::size_t>(row * states_), static_cast<std::size_t>(states_));
  }
  /// All rows, [rows, states].
  std::span<const double> probabilities() const { return probabilities_; }

  /// Draws a new state. Takes one number from `random`.
  int draw(std::int64_t row, Random& random) const {
    const std::uint64_t bits = random.next();
    const auto column = static_cast<std::uint32_t>(((bits >> 32) * static_cast<std::uint64_t>(states_)) >> 32);
    const Alias& alias = aliases_[static_cast<std::size_t>(row * states_) + column];
    return static_cast<int>(static_cast<std::uint32_t>(bits) < alias.threshold ? column : alias.other);
  }

 private:
  /// A column of the alias method: `threshold` / 2^32 of it goes to its own state, the rest to `other`. Source: Walker
  /// 1977, Vose 1991.
  struct Alias {
    std::uint32_t threshold;
    std::uint32_t other;
  };
  void make_aliases();

  int states_;
  std::vector<double> probabilities_;
  std::vector<Alias> aliases_;
};

/// The kernels of all nodes, in the order of GssmGraph::nodes.
using GssmKernels = std::vector<std::shared_ptr<const GssmKernel>>;

/// The logarithm of a draw from the Gamma distribution with shape `alpha` and scale 1. Plain draws would underflow to 0
/// for small alpha.
double draw_log_gamma(double alpha, Random& random);

/// Names one sequence of a generator.
struct SequenceId {
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
  GssmKernels kernels(const SequenceId& place) const;
  /// Writes a sequence: tokens[0] is 0, the others are drawn. `kernels` are those of the place.
  void generate(const GssmKernels& kernels, const SequenceId& place, std::span<std::int32_t> tokens) const;

 private:
  GssmGraph graph_;
  GssmKernels fixed_;  // null for nodes in context mode
};

}  // namespace babelring
