#include "nmt/data/gssm/gssm_source.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "nmt/data/gssm/generator.h"
#include "nmt/data/gssm/likelihood.h"
#include "nmt/data/sequence_source.h"

namespace babelring {
namespace {

/// -log p of a sequence's targets, in nats.
double sequence_entropy(GssmLikelihood& likelihood, const GssmKernels& kernels, std::span<const std::int32_t> tokens) {
  std::vector<double> log_probabilities(tokens.size() - 1);
  likelihood.run(kernels, tokens, log_probabilities);
  return -std::accumulate(log_probabilities.begin(), log_probabilities.end(), 0.0);
}

}  // namespace

GssmSource::GssmSource(GssmGraph graph, const GssmSourceOptions& options)
    : generator_(std::move(graph)), options_(options) {
  check_sequence_sizes(options.sequences_per_update, options.sequence_length);
  digest_ = sha256_hex(fmt::format("{} {}", generator_.graph().digest(), options.sequence_length));
}

UpdateBatches GssmSource::make(std::int64_t update, const DataPosition&, const RankPart& part) const {
  const bool with_entropy = options_.entropy_every > 0 && update % options_.entropy_every == 0;
  std::optional<GssmLikelihood> likelihood;
  if (with_entropy) likelihood.emplace(generator_.graph());
  double entropy = 0;
  const SequenceUpdate size{
      .update = update, .sequences = options_.sequences_per_update, .length = options_.sequence_length};
  UpdateBatches batches = make_sequence_batches(size, part, [&](std::int64_t sequence, std::span<std::int32_t> tokens) {
    const SequenceId place{.seed = options_.seed, .update = update, .sequence = sequence};
    const GssmKernels kernels = generator_.kernels(place);
    generator_.generate(kernels, place, tokens);
    if (likelihood) entropy += sequence_entropy(*likelihood, kernels, tokens);
  });
  if (with_entropy) batches.entropy = entropy;
  return batches;
}

UpdateShape GssmSource::shape() const {
  const std::int64_t targets = options_.sequence_length - 1;
  return {.max_length = targets,
          .source_tokens = 0,
          .target_tokens = static_cast<double>(options_.sequences_per_update * targets)};
}

GssmHeldOut::GssmHeldOut(GssmGraph graph, std::string name, std::int64_t sequences, std::int64_t length,
                         std::uint64_t seed)
    : generator_(std::move(graph)), name_(std::move(name)), sequences_(sequences), length_(length), seed_(seed) {
  check_sequence_sizes(sequences, length);
}

void GssmHeldOut::read(std::int64_t i, std::span<std::int32_t> tokens) const {
  generator_.generate(generator_.kernels(place(i)), place(i), tokens);
}

std::vector<double> GssmHeldOut::target_entropies(std::int64_t i) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length_));
  read(i, tokens);
  std::vector<double> nats(tokens.size() - 1);
  GssmLikelihood(generator_.graph()).run(generator_.kernels(place(i)), tokens, nats);
  for (double& each : nats) each = -each;
  return nats;
}

double GssmHeldOut::entropy(std::int64_t first, std::int64_t last, int threads) const {
  std::vector<double> nats(static_cast<std::size_t>(last - first));
  for_each_part(last - first, threads, [&](std::int64_t begin, std::int64_t end) {
    GssmLikelihood likelihood(generator_.graph());
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length_));
    for (std::int64_t i = begin; i < end; ++i) {
      const GssmKernels kernels = generator_.kernels(place(first + i));
      generator_.generate(kernels, place(first + i), tokens);
      nats[static_cast<std::size_t>(i)] = sequence_entropy(likelihood, kernels, tokens);
    }
  });
  return std::accumulate(nats.begin(), nats.end(), 0.0);
}

}  // namespace babelring
