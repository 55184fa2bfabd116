#include "nmt/train/update_runner.h"

namespace babelring {

UpdateRunner::UpdateRunner(const TrainConfig& config, Transformer& model, Adam& adam, const ModelOwnership& ownership,
                           Backend& backend, Communicator& communicator, Workspace& workspace, StepObserver* observer)
    : config_(config),
      model_(model),
      adam_(adam),
      ownership_(ownership),
      backend_(backend),
      communicator_(communicator),
      workspace_(workspace),
      observer_(observer),
      gradients_(ownership.gradient_sum(model.parameters(),
                                        static_cast<std::int64_t>(config.communication.bucket_mb * 1e6))) {}

LossSums UpdateRunner::accumulate(const UpdateBatches& batches, StepRecord& record) {
  PhaseClock clock;
  LossSums sums;
  gradients_->begin();
  for (std::size_t i = 0; i < batches.micro_batches.size(); ++i) {
    Context context = workspace_.begin(model_.compute_dtype());
    context.training = true;
    context.accumulate = i > 0;
    context.dropout_seed =
        derive_seed(static_cast<std::uint64_t>(config_.training.seed), static_cast<std::uint64_t>(batches.update));
    context.observer = observer_;
    context.clock = &clock;
    if (i + 1 == batches.micro_batches.size()) {
      context.gradient_ready = [this](const Parameter& parameter) { gradients_->ready(parameter); };
    }
    clock.enter(Phase::forward);
    const DeviceBatch batch(backend_, context.saved, batches.micro_batches[i]);
    sums += model_.accumulate_gradients(context, batch, 1.0f / static_cast<float>(batches.global_target_tokens));
    clock.enter(Phase::backward);
  }
  backend_.synchronize();
  clock.enter(Phase::backward);
  record.forward_ms = clock.forward_ms();
  record.backward_ms = clock.backward_ms();
  return sums;
}

UpdateResult UpdateRunner::run(const UpdateBatches& batches, double learning_rate, double data_ms, const Votes& votes,
                               double minutes, StepRecord& record) {
  const Stopwatch step;
  const CommTotals before = communicator_.totals();
  const double flops_before = backend_.flops();
  const LossSums local = accumulate(batches, record);

  Stopwatch lap;
  gradients_->finish();
  std::vector<double> shared = {local.loss,
                                local.nll,
                                local.correct,
                                local.tokens,
                                votes.stop ? 1.0 : 0.0,
                                communicator_.rank() == 0 ? minutes : 0.0,
                                votes.without_checkpoint ? 1.0 : 0.0,
                                votes.checkpoint ? 1.0 : 0.0};
  communicator_.sum(shared);
  record.exposed_communication_ms = lap.lap_ms();

  const UpdateStats stats = adam_.step(backend_, learning_rate, gradients_->squares());
  backend_.synchronize();
  ownership_.publish();
  record.optimizer_ms = lap.lap_ms();

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
  record.other_ms = record.step_ms - record.data_ms - record.forward_ms - record.backward_ms -
                    record.exposed_communication_ms - record.optimizer_ms;
  return result;
}

}  // namespace babelring
