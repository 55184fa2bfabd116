#include "nmt/data/gssm/generator.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "base/failure.h"

namespace babelring {

void for_each_part(std::int64_t count, int threads,
                   const std::function<void(std::int64_t first, std::int64_t last)>& work) {
  if (threads < 1) fail("parts: {} threads, expected at least 1", threads);
  const std::int64_t parts = std::clamp<std::int64_t>(count, 1, threads);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(parts));
  const auto run = [&](std::int64_t part) {
    try {
      work(count * part / parts, count * (part + 1) / parts);
    } catch (...) {
      failures[static_cast<std::size_t>(part)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::int64_t part = 1; part < parts; ++part) others.emplace_back(run, part);
    run(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

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

/// Swaps the largest probability of each row with that of the preferred state.
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

namespace {

/// Purpose of a random stream; part of its seed.
enum class Stream : std::uint64_t { kernels, context_kernels, tokens };

std::uint64_t stream_seed(const GssmGraph& graph, Stream stream) {
  return derive_seed(graph.kernel_seed, static_cast<std::uint64_t>(stream));
}

/// FNV-1a. A node's kernel depends on its name, not on the order of the configuration.
std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const unsigned char c : name) hash = (hash ^ c) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

GssmGenerator::GssmGenerator(GssmGraph graph) : graph_(std::move(graph)) {
  const std::uint64_t seed = stream_seed(graph_, Stream::kernels);
  for (const GssmNode& node : graph_.nodes) {
    const bool fixed = node.mode != GssmMode::context;
    fixed_.push_back(fixed ? std::make_shared<const GssmKernel>(node, derive_seed(seed, hash_name(node.name)))
                           : nullptr);
  }
}

GssmKernels GssmGenerator::kernels(const SequenceId& place) const {
  const std::uint64_t sequence =
      graph_.context_per == GssmContext::sequence ? static_cast<std::uint64_t>(place.sequence) : 0;
  const std::uint64_t seed = derive_seed(stream_seed(graph_, Stream::context_kernels), place.seed,
                                         static_cast<std::uint64_t>(place.update), sequence);
  GssmKernels kernels = fixed_;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i]) continue;
    const GssmNode& node = graph_.nodes[i];
    kernels[i] = std::make_shared<const GssmKernel>(node, derive_seed(seed, hash_name(node.name)));
  }
  return kernels;
}

void GssmGenerator::generate(const GssmKernels& kernels, const SequenceId& place,
                             std::span<std::int32_t> tokens) const {
  Random random(derive_seed(stream_seed(graph_, Stream::tokens), place.seed, static_cast<std::uint64_t>(place.update),
                            static_cast<std::uint64_t>(place.sequence)));
  std::vector<std::int32_t> states(graph_.nodes.size(), 0);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::size_t i = 0; t > 0 && i < graph_.nodes.size(); ++i) {
      std::int64_t row = 0;
      for (const GssmNode::Input& input : graph_.nodes[i].inputs) {
        row += states[static_cast<std::size_t>(input.node)] * input.stride;
      }
      states[i] = kernels[i]->draw(row, random);
    }
    tokens[t] = states.back();
  }
}

}  // namespace babelring
