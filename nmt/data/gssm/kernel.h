#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nmt/core/random.h"
#include "nmt/data/gssm/graph.h"

namespace babelring {

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

}  // namespace babelring
