#include "nmt/train/evaluation/sequence_validator.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cmath>
#include <limits>
#include <span>

#include "base/clock.h"
#include "base/digest.h"
#include "base/failure.h"
#include "nmt/ops/elementwise.h"
#include "nmt/parallel/rank_context.h"
#include "nmt/train/setup/memory_plan.h"

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

namespace {

constexpr std::int64_t targets_per_batch = 2048;

}  // namespace

void for_each_sequence_batch(const SequenceSet& set, const SequenceRange& range,
                             const std::function<void(const PackedBatch&)>& use) {
  const std::int64_t sequences = std::max<std::int64_t>(1, targets_per_batch / (set.length() - 1));
  for (std::int64_t first = range.first; first < range.last; first += sequences) {
    const SequenceRange part{first, std::min(first + sequences, range.last)};
    use(pack_sequences(part, set.length(),
                       [&set](std::int64_t i, std::span<std::int32_t> tokens) { set.read(i, tokens); }));
  }
}

std::int64_t sequence_batch_targets(std::int64_t sequence_length) {
  return std::max(targets_per_batch, sequence_length - 1);
}

SequenceValidator::SequenceValidator(const SequenceSet& set, const RankContext& rank, const RankPart& part, int threads)
    : set_(set), rank_(rank), part_(part), threads_(std::max(1, threads)) {}

EvalRecord SequenceValidator::run(const Model& model, bool) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  const Stopwatch watch;
  const SequenceRange all{0, set_.sequences()};
  const SequenceRange mine = part_of_range(all, part_.rank, part_.world);
  const UnitRange own = units_of(part_);
  std::vector<LossSums> units(static_cast<std::size_t>(own.total));
  for (int unit = own.first; unit < own.first + own.count; ++unit) {
    const SequenceRange of_unit = part_.units > 0 ? part_of_range(all, unit, own.total) : mine;
    for_each_sequence_batch(set_, of_unit, [&](const PackedBatch& batch) {
      Context context = rank_.arenas.begin(model.compute_dtype());
      const DeviceBatch on_device(rank_.backend, context.saved, batch);
      units[static_cast<std::size_t>(unit)] += model.evaluate(context, on_device);
    });
  }
  if (!entropy_) entropy_ = set_.entropy(mine.first, mine.last, threads_);
  double entropy = *entropy_;
  sum_over_ranks(rank_.communicator, [&](auto&& visit) {
    for (LossSums& unit : units) unit.each(visit);
    visit(entropy);
  });
  const LossSums sums = sum_in_tree(std::move(units));
  return {.set = set_.name(),
          .loss = sums.loss / sums.tokens,
          .nll = sums.nll / sums.tokens,
          .entropy = entropy / sums.tokens,
          .accuracy = sums.correct / sums.tokens,
          .sacrebleu = none,
          .chrf = none,
          .seconds = watch.elapsed_ms() / 1000};
}

json::object SequenceValidator::scoring(const TrainConfig& config) const {
  constexpr std::int64_t max_read = 64;  // of a larger set a sample tells it from another one
  const std::int64_t read = std::min(set_.sequences(), max_read);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(set_.length()));
  Sha256 digest;
  for (std::int64_t k = 0; k < read; ++k) {
    set_.read(k * set_.sequences() / read, tokens);
    digest.add(tokens.data(), tokens.size() * sizeof(tokens[0]));
  }
  json::object scoring = scoring_options(config, Tokenizer::none);
  scoring["sequences"] = fmt::format("{}", set_.sequences());
  scoring["digest"] = digest.hex();
  return scoring;
}

ArenaBytes SequenceValidator::need(const Model& model) const {
  return dry_run_evaluation(model, rank_.backend, sequence_batch_targets(set_.length()));
}

}  // namespace babelring
