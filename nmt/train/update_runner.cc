#include "nmt/train/update_runner.h"

#include <optional>
#include <utility>

#include "nmt/model/padded_batch.h"

namespace babelring {

namespace {

std::int64_t bucket_bytes(const TrainConfig& config, const Transformer& model, const Communicator& communicator) {
  const std::int64_t gradient = model.parameters().count() * static_cast<std::int64_t>(sizeof(float));
  return config.communication.bucket_bytes(gradient, communicator, communicator.device_memory());
}

}  // namespace

UpdateRunner::UpdateRunner(const TrainConfig& config, Transformer& model, Adam& adam,
                           const ParameterSharding& ownership, Backend& backend, Communicator& communicator,
                           ActivationArenas& arenas)
    : config_(config),
      model_(model),
      adam_(adam),
      ownership_(ownership),
      backend_(backend),
      communicator_(communicator),
      arenas_(arenas),
      gradients_(
          ownership.gradient_sum(model.parameters(), bucket_bytes(config, model, communicator), model.shared_table())),
      clock_([&backend] { return backend.mark(); }),
      repeats_(config.training.cuda_graphs && !backend.host_memory()) {}

/// A pass padded to a size that comes again, so that the device may repeat it as a whole. Gradients are ready when all
/// of it is given: in the middle of a recording nothing can leave for other ranks.
FetchedLosses UpdateRunner::repeat_pass(Context& context, const PackedBatch& batch, float gradient_scale) {
  context.clock = nullptr;  // its marks would be repeated too
  const auto ready = std::exchange(context.gradient_ready, {});
  const PackedBatch padded = padded_batch(batch);
  const DeviceBatch on_device(backend_, context.saved, padded);
  clock_.enter(StepPart::whole_pass);
  std::optional<Arena::Scope> kept;  // each call begins at the same place
  const ConstTensor losses = backend_.repeat([&] {
    kept.reset();
    kept.emplace(context.saved);
    return model_.add_gradients(context, on_device, gradient_scale);
  });
  FetchedLosses fetched(backend_, losses, padded.target_in.tokens() - batch.target_in.tokens());
  if (!ready) return fetched;
  const auto& parameters = model_.parameters().all();
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) ready(*parameter);
  return fetched;
}

/// Recordings of passes know no rows, and a frozen table's gradient is 0.
bool UpdateRunner::rows_may_go_apart() const {
  return !repeats_ && model_.shared_table() != nullptr && !adam_.freezes(*model_.shared_table());
}

/// Gives forward and backward of every micro-batch to the backend.
std::vector<FetchedLosses> UpdateRunner::start_gradients(const UpdateBatches& batches) {
  std::vector<FetchedLosses> losses;
  const EmbeddingRows* rows = gradients_->begin(rows_may_go_apart() ? &batches.micro_batches.back() : nullptr);
  for (std::size_t i = 0; i < batches.micro_batches.size(); ++i) {
    Context context = arenas_.begin(model_.compute_dtype());
    context.training = true;
    context.accumulate = i > 0;
    context.dropout_seed =
        derive_seed(static_cast<std::uint64_t>(config_.training.seed), static_cast<std::uint64_t>(batches.update));
    context.clock = &clock_;
    if (i + 1 == batches.micro_batches.size()) {
      context.embedding_rows = rows;
      context.gradient_ready = [this](const Parameter& parameter) {
        // The norm is of what is trained.
        if (adam_.freezes(parameter)) backend_.run(Fill{.y = parameter.gradient, .value = 0});
        gradients_->ready(parameter);
      };
    }
    clock_.enter(StepPart::forward);
    const float scale = 1.0f / static_cast<float>(batches.global_target_tokens);
    if (repeats_) {
      losses.push_back(repeat_pass(context, batches.micro_batches[i], scale));
      continue;
    }
    const DeviceBatch batch(backend_, context.saved, batches.micro_batches[i]);
    losses.emplace_back(backend_, model_.add_gradients(context, batch, scale));
  }
  return losses;
}

/// Losses and votes of all ranks, in the order that UpdateResult is made from.
std::vector<double> UpdateRunner::summed_over_ranks(const std::vector<FetchedLosses>& losses, const Votes& votes,
                                                    double minutes) {
  LossSums local;
  for (const FetchedLosses& part : losses) local += part.sums();
  std::vector<double> shared = {local.loss,
                                local.nll,
                                local.correct,
                                local.tokens,
                                votes.stop ? 1.0 : 0.0,
                                communicator_.rank() == 0 ? minutes : 0.0,
                                votes.without_checkpoint ? 1.0 : 0.0,
                                votes.checkpoint ? 1.0 : 0.0};
  communicator_.sum(shared);
  return shared;
}

UpdateResult UpdateRunner::run(const UpdateBatches& batches, double learning_rate, double data_ms, const Votes& votes,
                               double minutes, StepRecord& record) {
  const Stopwatch step;
  const CommTotals before = communicator_.totals();
  const double flops_before = backend_.flops();
  const std::vector<FetchedLosses> losses = start_gradients(batches);

  clock_.enter(StepPart::communication);
  {
    const WorkRange range(backend_, "gradient_sum");
    gradients_->finish();
  }
  const WorkRange range(backend_, "optimizer");
  clock_.enter(StepPart::optimizer);
  const ConstTensor squares = gradients_->squares();
  const auto fetched_squares = backend_.fetch(squares);
  adam_.start_step(backend_, learning_rate, squares);
  ownership_.publish();
  clock_.enter(StepPart::communication);
  backend_.await_fetched();  // the losses too
  const std::vector<double> shared = summed_over_ranks(losses, votes, minutes);
  const UpdateStats stats = adam_.finish_step(*fetched_squares);
  clock_.enter(StepPart::other);

  const UpdateResult result{
      .loss = {.loss = shared[0], .nll = shared[1], .correct = shared[2], .tokens = shared[3]},
      .votes = {.stop = shared[4] > 0, .without_checkpoint = shared[6] > 0, .checkpoint = shared[7] > 0},
      .elapsed_minutes = shared[5]};
  const CommTotals after = communicator_.totals();
  record.update = batches.update;
  record.epoch = batches.epoch;
  record.loss = result.loss.loss / result.loss.tokens;
  record.nll = result.loss.nll / result.loss.tokens;
  record.gradient_norm = stats.gradient_norm;
  record.skipped = stats.skipped;
  record.learning_rate = learning_rate;
  record.sentences = batches.sentences;
  record.source_tokens = batches.source_tokens;
  record.target_tokens = batches.target_tokens;
  record.update_target_tokens = batches.global_target_tokens;
  record.communication_ms = after.busy_ms - before.busy_ms;
  record.communication_bytes = after.bytes_sent - before.bytes_sent;
  record.flops = backend_.flops() - flops_before;
  record.data_ms = data_ms;
  record.step_ms = data_ms + step.elapsed_ms();
  clock_.fill(record);
  return result;
}

}  // namespace babelring
