#include "nmt/train/evaluation/token_losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/failure.h"

namespace babelring {
namespace {

/// log of the sum of exp of the logits.
double log_normaliser(std::span<const float> logits) {
  const double max = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return max + std::log(sum);
}

}  // namespace

TokenLosses token_losses(const LanguageModel& model, const PackedBatch& batch, Backend& backend,
                         ActivationArenas& arenas) {
  Context context = arenas.begin(model.compute_dtype());
  const DeviceBatch on_device(backend, context.saved, batch);
  const Tensor logits = model.logits(context, on_device.target);
  const auto vocabulary = static_cast<std::size_t>(model.vocabulary());
  std::vector<float> values(batch.target_out.size() * vocabulary);
  const Tensor plain = context.scratch.make(logits.shape, DType::f32);
  backend.run(Cast{.x = logits, .y = plain});
  backend.download(plain, values.data());
  TokenLosses losses;
  for (std::size_t i = 0; i < batch.target_out.size(); ++i) {
    const std::span<const float> row = std::span(values).subspan(i * vocabulary, vocabulary);
    const double normaliser = log_normaliser(row);
    const auto target = static_cast<std::size_t>(batch.target_out[i]);
    double sum = 0;
    for (const float logit : row) sum += logit;
    losses.nll.push_back(normaliser - row[target]);
    losses.spread.push_back(normaliser - sum / static_cast<double>(vocabulary));
    if (std::ranges::max_element(row) - row.begin() == batch.target_out[i]) ++losses.correct;
  }
  return losses;
}

const LanguageModel& require_language_model(const Model& model) {
  if (const auto* found = dynamic_cast<const LanguageModel*>(&model)) return *found;
  throw UsageFailure(fmt::format("predicting sequences needs a language model, found {}", model.kind()));
}

}  // namespace babelring
