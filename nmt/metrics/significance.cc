#include "nmt/metrics/significance.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

#include "base/digest.h"
#include "base/failure.h"

namespace babelring {
namespace {

__extension__ using Wide = unsigned __int128;

/// The hash of SeedSequence (O'Neill 2015). Its multiplier changes with each use.
class SeedHash {
 public:
  SeedHash(std::uint32_t start, std::uint32_t factor) : multiplier_(start), factor_(factor) {}

  std::uint32_t operator()(std::uint32_t value) {
    value ^= multiplier_;
    multiplier_ *= factor_;
    value *= multiplier_;
    return value ^ value >> 16;
  }

 private:
  std::uint32_t multiplier_, factor_;
};

std::uint32_t mix(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mixed = 0xca01f9ddU * a - 0x4973f715U * b;
  return mixed ^ mixed >> 16;
}

/// Four numbers of 64 bits, which SeedSequence makes of a seed of at most 64: two words of the four that its pool
/// takes, each hashed and then mixed into all others.
std::array<std::uint64_t, 4> seed_state(std::uint64_t seed) {
  SeedHash absorb(0x43b0d7e5U, 0x931e8875U);
  std::array<std::uint32_t, 4> pool = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), 0, 0};
  for (std::uint32_t& word : pool) word = absorb(word);
  for (std::size_t from = 0; from < pool.size(); ++from) {
    for (std::size_t to = 0; to < pool.size(); ++to) {
      if (from != to) pool[to] = mix(pool[to], absorb(pool[from]));
    }
  }
  SeedHash release(0x8b51f9ddU, 0x58f38dedU);
  std::array<std::uint64_t, 4> state{};
  for (std::size_t i = 0; i < 2 * state.size(); ++i) {
    state[i / 2] |= static_cast<std::uint64_t>(release(pool[i % pool.size()])) << 32 * (i % 2);
  }
  return state;
}

constexpr Wide wide(std::uint64_t high, std::uint64_t low) {
  return static_cast<Wide>(high) << 64 | low;
}

constexpr Wide pcg_multiplier = wide(0x2360ed051fc65da4ULL, 0x4385df649fccf645ULL);

template <class Real>
void add_row(const Real* row, std::vector<Real>& sums) {
  for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += row[k];
}

bool integral(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return value == std::trunc(value); });
}

/// The sums of two systems after their sentences were exchanged at random.
class Exchange {
 public:
  Exchange(const SentenceStatistics& baseline, const SentenceStatistics& system)
      : baseline_(baseline),
        system_(system),
        integral_(integral(baseline.values()) && integral(system.values())),
        baseline_sums_(baseline.sums()),
        system_sums_(system.sums()),
        first_(baseline.width()),
        second_(baseline.width()) {
    if (!integral_) return;
    const std::vector<double>&own = baseline.values(), &others = system.values();
    difference_.resize(own.size());
    std::transform(own.begin(), own.end(), others.begin(), difference_.begin(), std::minus<>());
  }

  void run(NumpyDraws& draws) {
    if (integral_) return run_exactly(draws);
    // In the order of numpy's matrix product with Debian's BLAS, which decides ties where sums are rounded.
    const std::size_t width = first_.size();
    std::array<std::vector<double>, 2> own, others;  // sums of each system, by the coin
    for (auto* sums : {own.data(), own.data() + 1, others.data(), others.data() + 1}) sums->assign(width, 0);
    for (std::size_t i = 0; i < baseline_.sentences(); ++i) {
      const std::size_t head = draws.coin() ? 1 : 0;
      add_row(baseline_.values().data() + i * width, own[head]);
      add_row(system_.values().data() + i * width, others[head]);
    }
    for (std::size_t k = 0; k < width; ++k) {
      first_[k] = own[1][k] + others[0][k];
      second_[k] = own[0][k] + others[1][k];
    }
  }

  const std::vector<double>& first() const { return first_; }
  const std::vector<double>& second() const { return second_; }

 private:
  /// Sums of integers are exact in any order: the first has the system's sentences, and the baseline's on heads.
  void run_exactly(NumpyDraws& draws) {
    const std::size_t width = first_.size();
    first_ = system_sums_;
    for (std::size_t i = 0; i < baseline_.sentences(); ++i) {
      if (draws.coin()) add_row(difference_.data() + i * width, first_);
    }
    for (std::size_t k = 0; k < width; ++k) second_[k] = baseline_sums_[k] + system_sums_[k] - first_[k];
  }

  const SentenceStatistics &baseline_, &system_;
  bool integral_;
  std::vector<double> baseline_sums_, system_sums_, first_, second_;
  std::vector<double> difference_;  // baseline less system, sentence by sentence
};

void check(const SentenceStatistics& statistics, const Resampling& resampling) {
  if (statistics.sentences() == 0) fail("resampling: no sentences");
  if (resampling.samples < 1) fail("resampling: found {} samples, expected at least 1", resampling.samples);
}

}  // namespace

NumpyDraws::NumpyDraws(std::uint64_t seed) {
  const std::array<std::uint64_t, 4> start = seed_state(seed);
  increment_ = wide(start[2], start[3]) << 1 | 1;
  state_ = (increment_ + wide(start[0], start[1])) * pcg_multiplier + increment_;
}

std::uint64_t NumpyDraws::next64() {
  state_ = state_ * pcg_multiplier + increment_;
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  const auto turns = static_cast<int>(state_ >> 122);
  return std::rotr(folded, turns);
}

std::uint32_t NumpyDraws::next32() {
  if (has_half_) {
    has_half_ = false;
    return half_;
  }
  const std::uint64_t whole = next64();
  half_ = static_cast<std::uint32_t>(whole >> 32);
  has_half_ = true;
  return static_cast<std::uint32_t>(whole);
}

std::uint32_t NumpyDraws::below(std::uint32_t count) {
  if (count == 1) return 0;  // without a draw
  std::uint64_t product = static_cast<std::uint64_t>(next32()) * count;
  if (static_cast<std::uint32_t>(product) < count) {
    const std::uint32_t rejected = (0U - count) % count;  // 2^32 modulo count
    while (static_cast<std::uint32_t>(product) < rejected) product = static_cast<std::uint64_t>(next32()) * count;
  }
  return static_cast<std::uint32_t>(product >> 32);
}

bool NumpyDraws::coin() {
  if (coins_left_ == 0) {
    coins_ = next32();
    coins_left_ = 32;
  }
  const bool head = (coins_ & 1U) != 0;
  coins_ >>= 1;
  --coins_left_;
  return head;
}

Bootstrap::Bootstrap(const SentenceStatistics& statistics, const Resampling& resampling) : score_(statistics.score()) {
  check(statistics, resampling);
  const std::vector<float> values(statistics.values().begin(), statistics.values().end());
  const std::size_t width = statistics.width();
  const auto count = static_cast<std::uint32_t>(statistics.sentences());
  NumpyDraws draws(resampling.seed);
  std::vector<float> sums(width);
  for (std::int64_t sample = 0; sample < resampling.samples; ++sample) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (std::uint32_t i = 0; i < count; ++i) add_row(values.data() + draws.below(count) * width, sums);
    scores_.push_back(statistics.metric().score(std::span<const float>(sums)));
  }
}

double Bootstrap::p_value(const Bootstrap& baseline) const {
  return paired_p_value(scores_, baseline.scores_, std::abs(baseline.score_ - score_));
}

Resamples resamples_of(const SentenceStatistics& statistics, const std::vector<std::string>& references,
                       const Resampling& resampling) {
  Sha256 texts, values;
  for (const std::string& reference : references) texts.add(reference).add("\n");
  values.add(statistics.values().data(), statistics.values().size() * sizeof(double));
  const Bootstrap bootstrap(statistics, resampling);
  return {.metric = statistics.metric().name(),
          .signature = statistics.metric().signature(1),
          .references = texts.hex(),
          .statistics = values.hex(),
          .score = statistics.score(),
          .scores = bootstrap.scores()};
}

double randomization_p_value(const SentenceStatistics& baseline, const SentenceStatistics& system,
                             const Resampling& resampling) {
  check(baseline, resampling);
  const std::size_t width = baseline.width();
  if (system.sentences() != baseline.sentences() || system.width() != width) {
    fail("randomization: {} and {} sentences, expected equal numbers", baseline.sentences(), system.sentences());
  }
  const Metric& metric = baseline.metric();
  const double observed = std::abs(baseline.score() - system.score());
  Exchange exchange(baseline, system);
  NumpyDraws draws(resampling.seed);
  std::size_t above = 0;
  for (std::int64_t sample = 0; sample < resampling.samples; ++sample) {
    exchange.run(draws);
    const double difference = metric.score(std::span<const double>(exchange.first())) -
                              metric.score(std::span<const double>(exchange.second()));
    if (std::abs(difference) > observed) ++above;
  }
  return p_of_samples(above, static_cast<std::size_t>(resampling.samples));
}

}  // namespace babelring
