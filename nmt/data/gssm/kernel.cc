#include "nmt/data/gssm/kernel.h"

#include <algorithm>
#include <cmath>

namespace babelring {
namespace {

/// Replaces logarithms of weights by probabilities of at least GssmKernel::min_probability with sum 1.
void normalise(std::span<double> row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double& value : row) sum += value = std::exp(value - largest);
  double raised_sum = 0;
  for (double& value : row) raised_sum += value = std::max(value / sum, GssmKernel::min_probability);
  for (double& value : row) value /= raised_sum;
}

void draw_log_dirichlet(double alpha, Random& random, std::span<double> row) {
  for (double& value : row) value = draw_log_gamma(alpha, random);
}

/// A row for each combination of inputs. Each row has its own random stream.
void draw_fullrank(const GssmNode& node, std::uint64_t seed, std::span<double> rows) {
  const auto states = static_cast<std::size_t>(node.states);
  for (std::int64_t i = 0; i < node.rows; ++i) {
    Random random(derive_seed(seed, static_cast<std::uint64_t>(i)));
    const std::span<double> row = rows.subspan(static_cast<std::size_t>(i) * states, states);
    draw_log_dirichlet(node.alpha, random, row);
    normalise(row);
  }
}

/// A small kernel [states of the input, states] for each input; rows are normalised products.
void draw_product(const GssmNode& node, std::uint64_t seed, std::span<double> rows) {
  const auto states = static_cast<std::size_t>(node.states);
  std::fill(rows.begin(), rows.end(), 0.0);
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const GssmNode::Input& input = node.inputs[k];
    std::vector<double> small(static_cast<std::size_t>(input.states) * states);
    for (int s = 0; s < input.states; ++s) {
      Random random(derive_seed(seed, k, static_cast<std::uint64_t>(s)));
      const std::span<double> row = std::span(small).subspan(static_cast<std::size_t>(s) * states, states);
      draw_log_dirichlet(node.alpha, random, row);
      normalise(row);
    }
    for (double& value : small) value = std::log(value);
    for (std::int64_t i = 0; i < node.rows; ++i) {
      const double* factor = small.data() + static_cast<std::size_t>(i / input.stride % input.states) * states;
      double* row = rows.data() + static_cast<std::size_t>(i) * states;
      for (std::size_t s = 0; s < states; ++s) row[s] += factor[s];
    }
  }
  for (std::size_t at = 0; at < rows.size(); at += states) normalise(rows.subspan(at, states));
}

/// Lets the largest probability of each row change places with that of the preferred state.
void prefer_states(const GssmNode& node, std::span<double> rows) {
  const auto states = static_cast<std::size_t>(node.states);
  for (std::int64_t i = 0; i < node.rows; ++i) {
    const std::span<double> row = rows.subspan(static_cast<std::size_t>(i) * states, states);
    const std::int64_t own = i / node.inputs.front().stride;  // the first input is the own old state
    const std::int64_t preferred = node.mode == GssmMode::slow ? own : 0;
    std::swap(*std::max_element(row.begin(), row.end()), row[static_cast<std::size_t>(preferred)]);
  }
}

}  // namespace

double draw_log_gamma(double alpha, Random& random) {
  // log Gamma(alpha) = log Gamma(alpha + 1) + log(U) / alpha; Gamma(alpha + 1) by Marsaglia and Tsang 2000.
  const double d = alpha + 1.0 - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = random.normal();
    const double root = 1.0 + c * x;
    if (root <= 0) continue;
    const double log_v = 3.0 * std::log(root);
    if (std::log(1.0 - random.uniform()) >= 0.5 * x * x + d - d * std::exp(log_v) + d * log_v) continue;
    return std::log(d) + log_v + std::log(1.0 - random.uniform()) / alpha;
  }
}

GssmKernel::GssmKernel(const GssmNode& node, std::uint64_t seed)
    : states_(node.states), probabilities_(static_cast<std::size_t>(node.rows * node.states)) {
  // Without inputs, a product has no factors: its one row is drawn.
  if (node.form == GssmForm::product && !node.inputs.empty()) {
    draw_product(node, seed, probabilities_);
  } else {
    draw_fullrank(node, seed, probabilities_);
  }
  if (node.mode == GssmMode::slow || node.mode == GssmMode::dead) prefer_states(node, probabilities_);
  make_aliases();
}

void GssmKernel::make_aliases() {
  const auto states = static_cast<std::size_t>(states_);
  aliases_.resize(probabilities_.size());
  std::vector<double> rest(states);
  std::vector<std::uint32_t> small, large;
  for (std::size_t at = 0; at < probabilities_.size(); at += states) {
    small.clear();
    large.clear();
    for (std::uint32_t s = 0; s < states; ++s) {
      rest[s] = probabilities_[at + s] * states_;
      (rest[s] < 1 ? small : large).push_back(s);
      aliases_[at + s] = {.threshold = UINT32_MAX, .other = s};
    }
    while (!small.empty() && !large.empty()) {
      const std::uint32_t giver = large.back(), taker = small.back();
      small.pop_back();
      aliases_[at + taker] = {.threshold = static_cast<std::uint32_t>(rest[taker] * 0x1.0p32), .other = giver};
      rest[giver] -= 1 - rest[taker];
      if (rest[giver] >= 1) continue;
      large.pop_back();
      small.push_back(giver);
    }
  }
}

}  // namespace babelring
