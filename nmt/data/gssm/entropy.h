#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nmt/data/gssm/generator.h"
#include "nmt/data/gssm/likelihood.h"

namespace babelring {

/// An estimate of a generator's entropy: the mean of -log p over the tokens of generated sequences.
struct GssmEntropy {
  double nats = 0;            // per token
  double standard_error = 0;  // of nats, from the spread between sequences; NaN for one sequence
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;  // scored tokens: all but the first of each sequence
};

/// The mean of the sequences' values and its standard error. `nats_of_sequences`: the mean of -log p of each sequence.
/// Throws Failure if there is no sequence.
GssmEntropy summarise_entropy(std::span<const double> nats_of_sequences, std::int64_t tokens_per_sequence);

/// Generates sequences [0, sequences) of the update of `place`, of `length` tokens each, and computes their likelihood
/// on `threads` threads. The result does not depend on the number of threads. Throws Failure unless sequences and
/// threads are positive and length is at least 2.
GssmEntropy estimate_entropy(const GssmGenerator& generator, const GssmPlace& place, std::int64_t sequences,
                             std::int64_t length, int threads);

}  // namespace babelring
