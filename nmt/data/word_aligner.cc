#include "nmt/data/word_aligner.h"

#include <algorithm>
#include <boost/math/special_functions/digamma.hpp>
#include <cmath>
#include <thread>
#include <utility>

#include "base/failure.h"
#include "nmt/core/random.h"

namespace babelring {

namespace {

constexpr int iterations = 5;
constexpr double null_probability = 0.08;  // of a piece that no piece of the other side explains
constexpr double tension = 4;              // towards the diagonal
constexpr double prior = 0.01;             // of each translation, in counts
constexpr std::int32_t null_piece = -1;    // what explains such a piece

/// Probabilities and expected counts of pairs of pieces, by open addressing.
class PairTable {
 public:
  struct Entry {
    std::uint64_t key = none;
    float probability = 0, count = 0;
  };
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  static std::uint64_t key(std::int32_t given, std::int32_t piece) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(given)) << 32 | static_cast<std::uint32_t>(piece);
  }
  static std::int32_t given(const Entry& entry) { return static_cast<std::int32_t>(entry.key >> 32); }

  /// The pair's entry, added if it is new. Valid until the next call.
  Entry& at(std::uint64_t key) {
    if (3 * used_ >= 2 * entries_.size()) grow();
    Entry& entry = entries_[slot(key)];
    if (entry.key == none) {
      entry.key = key;
      ++used_;
    }
    return entry;
  }
  /// Null if the pair is not in the table.
  const Entry* find(std::uint64_t key) const {
    const Entry& entry = entries_[slot(key)];
    return entry.key == none ? nullptr : &entry;
  }
  template <class Visit>
  void each(Visit&& visit) {
    for (Entry& entry : entries_) {
      if (entry.key != none) visit(entry);
    }
  }

 private:
  std::size_t slot(std::uint64_t key) const {
    const std::size_t mask = entries_.size() - 1;
    std::size_t at = derive_seed(0, key) & mask;
    while (entries_[at].key != none && entries_[at].key != key) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<Entry> old(2 * entries_.size());
    std::swap(old, entries_);
    for (const Entry& entry : old) {
      if (entry.key != none) entries_[slot(entry.key)] = entry;
    }
  }
  std::vector<Entry> entries_ = std::vector<Entry>(1024);
  std::size_t used_ = 0;
};

/// The prior of aligning piece `j` of `length` with each of `others` pieces; their sum is 1 - null_probability.
void diagonal_prior(std::int64_t j, std::int64_t length, std::int64_t others, std::vector<double>& weights) {
  weights.resize(static_cast<std::size_t>(others));
  const double at = static_cast<double>(j + 1) / static_cast<double>(length);
  double sum = 0;
  for (std::int64_t i = 0; i < others; ++i) {
    const double apart = std::abs(static_cast<double>(i + 1) / static_cast<double>(others) - at);
    sum += weights[static_cast<std::size_t>(i)] = std::exp(-tension * apart);
  }
  for (double& weight : weights) weight *= (1 - null_probability) / sum;
}

}  // namespace

/// Explains the pieces of one side by those of the other.
class WordAligner::Direction {
 public:
  /// Learns from every `step`-th pair.
  void learn(const IdSequences& given, const IdSequences& explained, std::int64_t step) {
    for (int iteration = 0; iteration < iterations; ++iteration) {
      for (std::int64_t pair = 0; pair < given.sentences(); pair += step) {
        add_counts(given[pair], explained[pair], iteration == 0);
      }
      count_to_probabilities();
    }
  }

  /// For each piece of `explained` the piece of `given` that it comes from; -1: none.
  std::vector<std::int32_t> best(std::span<const std::int32_t> given, std::span<const std::int32_t> explained) const {
    std::vector<std::int32_t> sources;
    std::vector<double> weights;
    for (std::int64_t j = 0; j < std::ssize(explained); ++j) {
      const std::int32_t piece = explained[static_cast<std::size_t>(j)];
      diagonal_prior(j, std::ssize(explained), std::ssize(given), weights);
      double largest = null_probability * probability(null_piece, piece);
      std::int32_t found = -1;
      for (std::size_t i = 0; i < given.size(); ++i) {
        const double score = weights[i] * probability(given[i], piece);
        if (score > largest) largest = score, found = static_cast<std::int32_t>(i);
      }
      sources.push_back(found);
    }
    return sources;
  }

 private:
  double probability(std::int32_t given, std::int32_t piece) const {
    const PairTable::Entry* entry = table_.find(PairTable::key(given, piece));
    return entry == nullptr ? 1e-9 : std::max(1e-9, static_cast<double>(entry->probability));
  }

  void add_counts(std::span<const std::int32_t> given, std::span<const std::int32_t> explained, bool first) {
    for (std::int64_t j = 0; j < std::ssize(explained); ++j) {
      const std::int32_t piece = explained[static_cast<std::size_t>(j)];
      diagonal_prior(j, std::ssize(explained), std::ssize(given), weights_);
      weights_.push_back(null_probability);
      double sum = 0;
      for (std::size_t i = 0; i < weights_.size(); ++i) {
        const std::int32_t from = i < given.size() ? given[i] : null_piece;
        if (!first) weights_[i] *= probability(from, piece);
        sum += weights_[i];
      }
      for (std::size_t i = 0; i < weights_.size(); ++i) {
        const std::int32_t from = i < given.size() ? given[i] : null_piece;
        table_.at(PairTable::key(from, piece)).count += static_cast<float>(weights_[i] / sum);
      }
    }
  }

  /// The mean of the probabilities under a Dirichlet prior, in the geometric sense: exp(E[log p]).
  void count_to_probabilities() {
    std::vector<std::pair<double, std::int64_t>> totals;  // by piece, null first: counts and number of translations
    const auto total = [&totals](const PairTable::Entry& entry) -> auto& {
      const auto at = static_cast<std::size_t>(std::int64_t{PairTable::given(entry)} + 1);
      if (at >= totals.size()) totals.resize(at + 1);
      return totals[at];
    };
    table_.each([&](const PairTable::Entry& entry) {
      total(entry).first += static_cast<double>(entry.count);
      ++total(entry).second;
    });
    table_.each([&](PairTable::Entry& entry) {
      const auto& [counts, translations] = total(entry);
      const double log_sum = boost::math::digamma(counts + prior * static_cast<double>(translations));
      const double own = static_cast<double>(entry.count) + prior;
      entry.probability = static_cast<float>(std::exp(boost::math::digamma(own) - log_sum));
      entry.count = 0;
    });
  }

  PairTable table_;
  std::vector<double> weights_;
};

WordAligner::WordAligner(const IdSequences& source, const IdSequences& target, std::int64_t pairs)
    : to_target_(std::make_unique<Direction>()), to_source_(std::make_unique<Direction>()) {
  if (source.sentences() != target.sentences()) {
    fail("aligner: {} sources, {} targets; expected equal numbers", source.sentences(), target.sentences());
  }
  const std::int64_t step = std::max<std::int64_t>(1, (source.sentences() + pairs - 1) / pairs);
  std::exception_ptr error;
  std::thread other([&] {
    try {
      to_source_->learn(target, source, step);
    } catch (...) {
      error = std::current_exception();
    }
  });
  try {
    to_target_->learn(source, target, step);
  } catch (...) {
    other.join();
    throw;
  }
  other.join();
  if (error) std::rethrow_exception(error);
}

WordAligner::~WordAligner() = default;

std::vector<AlignedPair> WordAligner::align(std::span<const std::int32_t> source,
                                            std::span<const std::int32_t> target) const {
  return grow_diag_final_and(to_target_->best(source, target), to_source_->best(target, source));
}

std::vector<AlignedPair> grow_diag_final_and(const std::vector<std::int32_t>& forward,
                                             const std::vector<std::int32_t>& backward) {
  const auto targets = static_cast<std::int32_t>(forward.size()), sources = static_cast<std::int32_t>(backward.size());
  const auto in_forward = [&](std::int32_t s, std::int32_t t) { return forward[static_cast<std::size_t>(t)] == s; };
  const auto in_backward = [&](std::int32_t s, std::int32_t t) { return backward[static_cast<std::size_t>(s)] == t; };
  std::vector<bool> source_done(backward.size()), target_done(forward.size());
  std::vector<AlignedPair> joined;
  const auto add = [&](std::int32_t s, std::int32_t t) {
    joined.push_back({.source = s, .target = t});
    source_done[static_cast<std::size_t>(s)] = target_done[static_cast<std::size_t>(t)] = true;
  };
  for (std::int32_t t = 0; t < targets; ++t) {
    const std::int32_t s = forward[static_cast<std::size_t>(t)];
    if (s >= 0 && in_backward(s, t)) add(s, t);
  }
  for (std::size_t next = 0; next < joined.size(); ++next) {  // those added here are neighbours of others in turn
    const AlignedPair pair = joined[next];
    for (std::int32_t s = std::max(0, pair.source - 1); s <= std::min(sources - 1, pair.source + 1); ++s) {
      for (std::int32_t t = std::max(0, pair.target - 1); t <= std::min(targets - 1, pair.target + 1); ++t) {
        const bool both_done = source_done[static_cast<std::size_t>(s)] && target_done[static_cast<std::size_t>(t)];
        if (!both_done && (in_forward(s, t) || in_backward(s, t))) add(s, t);
      }
    }
  }
  const auto add_if_both_free = [&](std::int32_t s, std::int32_t t) {
    if (s < 0 || t < 0 || source_done[static_cast<std::size_t>(s)] || target_done[static_cast<std::size_t>(t)]) return;
    add(s, t);
  };
  for (std::int32_t t = 0; t < targets; ++t) add_if_both_free(forward[static_cast<std::size_t>(t)], t);
  for (std::int32_t s = 0; s < sources; ++s) add_if_both_free(s, backward[static_cast<std::size_t>(s)]);
  std::sort(joined.begin(), joined.end(), [](const AlignedPair& a, const AlignedPair& b) {
    return std::pair(a.target, a.source) < std::pair(b.target, b.source);
  });
  return joined;
}

}  // namespace babelring
