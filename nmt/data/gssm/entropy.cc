#include "nmt/data/gssm/entropy.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "base/failure.h"
#include "nmt/data/gssm/parallel.h"

namespace babelring {

GssmEntropy summarise_entropy(std::span<const double> nats_of_sequences, std::int64_t tokens_per_sequence) {
  if (nats_of_sequences.empty()) fail("entropy: no sequences, expected at least 1");
  const auto count = static_cast<double>(nats_of_sequences.size());
  const double mean = std::accumulate(nats_of_sequences.begin(), nats_of_sequences.end(), 0.0) / count;
  double squares = 0;
  for (const double nats : nats_of_sequences) squares += (nats - mean) * (nats - mean);
  const auto sequences = static_cast<std::int64_t>(nats_of_sequences.size());
  return {.nats = mean,
          .standard_error =
              sequences > 1 ? std::sqrt(squares / (count - 1) / count) : std::numeric_limits<double>::quiet_NaN(),
          .sequences = sequences,
          .tokens = sequences * tokens_per_sequence};
}

GssmEntropy estimate_entropy(const GssmGenerator& generator, const GssmPlace& place, std::int64_t sequences,
                             std::int64_t length, int threads) {
  if (sequences < 1 || length < 2) {
    fail("entropy: {} sequences of {} tokens, expected at least 1 of at least 2", sequences, length);
  }
  std::vector<double> nats(static_cast<std::size_t>(sequences));
  for_each_part(sequences, threads, [&](std::int64_t first, std::int64_t last) {
    GssmLikelihood likelihood(generator.graph());
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
    std::vector<double> log_probabilities(tokens.size() - 1);
    for (std::int64_t i = first; i < last; ++i) {
      const GssmPlace at{.seed = place.seed, .update = place.update, .sequence = i};
      const GssmKernels kernels = generator.kernels(at);
      generator.generate(kernels, at, tokens);
      likelihood.run(kernels, tokens, log_probabilities);
      const double sum = std::accumulate(log_probabilities.begin(), log_probabilities.end(), 0.0);
      nats[static_cast<std::size_t>(i)] = -sum / static_cast<double>(log_probabilities.size());
    }
  });
  return summarise_entropy(nats, length - 1);
}

}  // namespace babelring
