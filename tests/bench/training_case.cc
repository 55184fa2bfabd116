#include "tests/bench/training_case.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "nmt/data/special_ids.h"

namespace babelring {

namespace {

TrainConfig make_config(const TrainingCaseOptions& options) {
  TrainConfig config;
  config.preset = "transformer-" + options.preset;
  config.model = model_preset(config.preset);
  config.model.norm = options.norm;
  if (options.dropout >= 0) config.model.dropout = options.dropout;
  config.model.attention_dropout = options.attention_dropout;
  config.model.activation_dropout = options.activation_dropout;
  config.model.attention_bias = options.attention_bias;
  config.model.tied_embeddings = options.tied_embeddings;
  config.training.precision = options.precision;
  config.training.threads = options.threads;
  config.model.check();
  return config;
}

/// `sentences` of `length` tokens, the last of each </s>, of a generator that every rank advances alike.
std::vector<std::int32_t> random_tokens(Random& random, std::int64_t sentences, std::int64_t length,
                                        std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 1; i <= sentences * length; ++i) {
    const auto piece = first_free_id + random.below(static_cast<std::uint64_t>(vocabulary - first_free_id));
    ids.push_back(i % length == 0 ? eos_id : static_cast<std::int32_t>(piece));
  }
  return ids;
}

/// Sentences [first, last) of equal length.
PackedSequences sequences(const std::vector<std::int32_t>& ids, std::int64_t length, std::int64_t first,
                          std::int64_t last) {
  PackedSequences packed{.ids = {ids.begin() + first * length, ids.begin() + last * length}};
  for (std::int64_t i = 1; i <= last - first; ++i) packed.offsets.push_back(static_cast<std::int32_t>(i * length));
  return packed;
}

UpdateBatches random_update(const TrainingCaseOptions& options, int rank, int ranks) {
  if (options.vocabulary <= first_free_id) {
    fail("bench: a vocabulary of {}; more than {} are needed", options.vocabulary, first_free_id);
  }
  Random random(20261121);
  const std::int64_t all = options.sentences;
  const auto source = random_tokens(random, all, options.source_length, options.vocabulary);
  const auto target = random_tokens(random, all, options.target_length, options.vocabulary);
  const std::int64_t first = all * rank / ranks, last = all * (rank + 1) / ranks;
  PackedBatch batch;
  batch.source = sequences(source, options.source_length, first, last);
  batch.target_in = sequences(target, options.target_length, first, last);
  batch.target_out = batch.target_in.ids;
  std::vector<std::int32_t>& shifted = batch.target_in.ids;
  for (std::int64_t i = 0; i < last - first; ++i) {
    const auto begin = shifted.begin() + i * options.target_length;
    std::shift_right(begin, begin + options.target_length, 1);
    *begin = bos_id;
  }
  batch.first_source_row = first * options.source_length;
  batch.first_target_row = first * options.target_length;
  UpdateBatches update{.update = 1,
                       .global_sentences = all,
                       .global_source_tokens = all * options.source_length,
                       .global_target_tokens = all * options.target_length,
                       .sentences = last - first,
                       .source_tokens = batch.source.tokens(),
                       .target_tokens = batch.target_in.tokens()};
  update.micro_batches.push_back(std::move(batch));
  return update;
}

}  // namespace

TrainingCase::TrainingCase(const TrainingCaseOptions& options, Communicator& communicator)
    : config_(make_config(options)),
      communicator_(communicator),
      backend_(make_cpu_backend(options.threads)),
      model_(config_.model, options.vocabulary, static_cast<float>(config_.optimizer.label_smoothing), *backend_,
             options.precision == "bf16" ? DType::bf16 : DType::f32),
      adam_(model_.parameters(), *backend_, config_.optimizer.adam),
      workspace_(*backend_),
      runner_(config_, model_, adam_, *backend_, communicator, workspace_, nullptr),
      batches_(random_update(options, communicator.rank(), communicator.size())) {
  model_.initialize(*backend_, static_cast<std::uint64_t>(config_.training.seed));
}

StepRecord TrainingCase::update() {
  const double step = static_cast<double>(++done_);
  const double rate = std::min(1 / std::sqrt(step), step * std::pow(4000.0, -1.5));
  batches_.update = done_;
  StepRecord record;
  runner_.run(batches_, rate / std::sqrt(static_cast<double>(config_.model.width)), 0, false, 0, record);
  return record;
}

double TrainingCase::unavoidable_bytes() const {
  const ModelConfig& model = config_.model;
  const auto element = static_cast<double>(size_of(precision()));
  const auto parameters = static_cast<double>(model_.parameters().count());
  const auto width = static_cast<double>(model.width), inner = static_cast<double>(model.inner);
  const auto source = static_cast<double>(batches_.source_tokens), target = static_cast<double>(batches_.target_tokens);
  // Master, both moments: read and written; gradient: written by backward, read by Adam.
  double bytes = parameters * (8 + 16 + 8);
  // The copy for products: written by Adam, read by the next update.
  if (precision() == DType::bf16) bytes += parameters * 2 * element;
  // What backward reads of forward: the inputs of every product, written once and read once.
  const double encoder = source * (6 * width + inner);
  const double decoder = target * (9 * width + inner) + source * 2 * width;
  return bytes + 2 * element * (model.encoder_layers * encoder + model.decoder_layers * decoder);
}

}  // namespace babelring
