#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/records/resamples.h"
#include "nmt/metrics/metric.h"

namespace babelring {

/// The random numbers of numpy's `default_rng(seed)`, for which sacreBLEU's p-values and intervals can be reproduced:
/// SeedSequence (a hash of the seed, after O'Neill 2015, "Developing a seed_seq alternative"), PCG64 (O'Neill 2014:
/// XSL-RR output of a 128-bit congruential generator) and Lemire 2019 ("Fast random integer generation in an
/// interval").
class NumpyDraws {
 public:
  explicit NumpyDraws(std::uint64_t seed);

  /// The next 64 and 32 bits. A half of 64 bits that was not asked for is the next 32.
  std::uint64_t next64();
  std::uint32_t next32();
  /// The next of `choice(count, size)`: uniform in [0, count). `count` is from 1 to 2^32 - 1.
  std::uint32_t below(std::uint32_t count);
  /// The next of `integers(2, size, dtype=bool)`. All draws of a generator are of one kind.
  bool coin();

 private:
  __extension__ using Wide = unsigned __int128;

  Wide state_ = 0, increment_ = 0;
  std::uint32_t half_ = 0, coins_ = 0;
  bool has_half_ = false;
  int coins_left_ = 0;
};

/// How statistics are drawn anew. The default seed is sacreBLEU's.
struct Resampling {
  std::int64_t samples = 1000;  // at least 1
  std::uint64_t seed = 12345;
};

/// The scores of bootstrap resamples of a system's sentences (Koehn 2004, "Statistical significance tests for machine
/// translation evaluation"). Equal to those of sacreBLEU 2.6.0 with numpy 2, whose statistics are single-precision
/// numbers.
class Bootstrap {
 public:
  /// Throws Failure if there are no sentences or no samples. Copies what it needs of the statistics.
  Bootstrap(const SentenceStatistics& statistics, const Resampling& resampling);

  ConfidenceInterval interval() const { return interval_of(scores_); }
  const std::vector<double>& scores() const { return scores_; }
  /// The probability, in (0, 1], that resamples of the same process differ from their mean difference by more than the
  /// two systems do. Both must be made with the same Resampling and of the same references.
  double p_value(const Bootstrap& baseline) const;

 private:
  double score_ = 0;            // of the sentences as they are
  std::vector<double> scores_;  // of the resamples
};

/// All that comparisons of a system with others on these texts, the only references, need. Throws like Bootstrap().
Resamples resamples_of(const SentenceStatistics& statistics, const std::vector<std::string>& references,
                       const Resampling& resampling = {});

/// The probability, in (0, 1], that two systems whose sentences are exchanged at random differ by more than they do
/// (approximate randomisation, two-sided; Riezler and Maxwell 2005). Throws Failure if they differ in their number of
/// sentences.
double randomization_p_value(const SentenceStatistics& baseline, const SentenceStatistics& system,
                             const Resampling& resampling);

}  // namespace babelring
