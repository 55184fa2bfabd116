#include "nmt/train/update/update_runner.h"

#include <cmath>

#include "nmt/parallel/rank_context.h"

namespace babelring {

namespace {

/// Measures an update from the wait for its data to its end.
class UpdateMeter {
 public:
  explicit UpdateMeter(ModelReplica& replica)
      : replica_(replica), communication_(replica.communicator.totals()), flops_(replica.backend.flops()) {}

  void data_arrived() { data_ms_ = watch_.elapsed_ms(); }
  /// Sets all measured members of `record`.
  void fill(StepRecord& record, StepClock& clock) const {
    const CommTotals after = replica_.communicator.totals();
    record.times.communication = after.busy_ms - communication_.busy_ms;
    record.communication_bytes = after.bytes_sent - communication_.bytes_sent;
    record.flops = replica_.backend.flops() - flops_;
    record.times.data = data_ms_;
    record.times.step = watch_.elapsed_ms();
    clock.fill(record.times);
  }

 private:
  ModelReplica& replica_;
  Stopwatch watch_;
  double data_ms_ = 0;
  CommTotals communication_;
  double flops_;
};

Progress progress_after(const Progress& before, const UpdateBatches& batches) {
  return {.update = batches.update,
          .epoch = batches.epoch,
          .target_tokens = before.target_tokens + batches.global_target_tokens};
}

StepRecord describe(const UpdateBatches& batches, const UpdateResult& result, double learning_rate,
                    const UpdateStats& stats, const Model& model) {
  const LossSums& loss = result.loss;
  StepRecord record;
  record.update = batches.update;
  record.epoch = batches.epoch;
  record.loss = loss.loss / loss.tokens;
  record.nll = loss.nll / loss.tokens;
  record.entropy = result.entropy / loss.tokens;
  if (model.guided_alignment() > 0) record.alignment_loss = loss.alignment / loss.tokens;
  if (model.r_drop() > 0) record.r_drop_loss = loss.r_drop / loss.tokens;
  record.gradient_norm = stats.gradient_norm;
  record.skipped = stats.skipped;
  record.learning_rate = learning_rate;
  record.sentences = batches.sentences;
  record.source_tokens = batches.source_tokens;
  record.target_tokens = batches.target_tokens;
  record.update_target_tokens = batches.global_target_tokens;
  return record;
}

}  // namespace

UpdateRunner::UpdateRunner(const TrainConfig& config, ModelReplica& replica, SpanLog* spans)
    : emulated_(config.emulated()),
      replica_(replica),
      spans_(spans),
      schedule_(config.optimizer.schedule),
      stop_after_(config.training.stop_after),
      max_minutes_(config.training.max_minutes),
      clock_([&replica] { return replica.backend.mark(); }, spans),
      gradients_(config, replica, clock_) {}

void UpdateRunner::start_time(double minutes) {
  watch_ = Stopwatch();
  minutes_before_ = elapsed_minutes_ = minutes;
}

UpdateResult UpdateRunner::run(BatchPipeline& pipeline, const Progress& before, const Votes& votes,
                               double learning_rate_factor) {
  UpdateMeter meter(replica_);
  const UpdateBatches batches = next_batches(pipeline);
  meter.data_arrived();
  UpdateResult result{
      .progress = progress_after(before, batches), .next = batches.next, .source_tokens = batches.global_source_tokens};
  result.progress.fraction = fraction_done(stop_after_, max_minutes_, result.progress, elapsed_minutes_);
  const double learning_rate = learning_rate_factor * schedule_.learning_rate(result.progress);

  std::vector<FetchedLosses> losses;
  for (std::size_t i = 0; i < batches.micro_batches.size(); ++i) {
    losses.push_back(gradients_.forward_backward(batches, i));
  }
  gradients_.reduce();
  const GradientSquares squares = gradients_.squares();
  const WorkRange range(replica_.backend, "optimizer");
  replica_.adam.start_step(replica_.backend, learning_rate, squares.on_backend);
  replica_.sharding.publish();
  add_over_ranks(batches, losses, votes, result);  // waits for losses and squares
  const UpdateStats stats = replica_.adam.finish_step(*squares.fetched);
  if (replica_.weights_gather != nullptr) replica_.weights_gather->start();  // the sums would have waited for it

  result.record = describe(batches, result, learning_rate, stats, replica_.model);
  if (emulated_) {
    for (double* value : {&result.record.loss, &result.record.nll, &result.record.gradient_norm,
                          &result.record.alignment_loss, &result.record.r_drop_loss}) {
      *value = std::nan("");
    }
  }
  meter.fill(result.record, clock_);
  return result;
}

UpdateBatches UpdateRunner::next_batches(BatchPipeline& pipeline) {
  const WorkRange range(replica_.backend, "data");
  const SpanScope waiting(spans_, "main", "data");
  return pipeline.next();
}

/// The losses by corpus of this rank's micro-batches; 0 for units of other ranks.
std::vector<CorpusSums> UpdateRunner::corpora_of_units(const UpdateBatches& batches,
                                                       const std::vector<FetchedLosses>& losses) const {
  std::vector<CorpusSums> units(static_cast<std::size_t>(batches.units.total), CorpusSums(batches.corpora));
  for (std::size_t i = 0; batches.corpora > 0 && i < losses.size(); ++i) {
    const int unit = batches.computed[i / batches.micro_batches_per_unit()];
    losses[i].add_to(units[static_cast<std::size_t>(unit)], batches.micro_batches[i]);
  }
  return units;
}

/// Sets losses, entropy, votes and time in `result`.
void UpdateRunner::add_over_ranks(const UpdateBatches& batches, const std::vector<FetchedLosses>& losses,
                                  const Votes& votes, UpdateResult& result) {
  struct {
    std::vector<LossSums> units;      // each rank's, and 0 for those of other ranks
    std::vector<CorpusSums> corpora;  // of each unit likewise
    std::vector<double> pairs;        // means of this rank's, and 0 for those of other ranks
    double entropy;
    double stop, without_checkpoint, checkpoint, trace, writing, damaged;  // number of ranks that vote for it
    double minutes;                                                        // rank 0's, other ranks add 0
  } sums{.units = std::vector<LossSums>(static_cast<std::size_t>(batches.units.total)),
         .corpora = {},
         .pairs = std::vector<double>(batches.pairs.size()),
         .entropy = batches.entropy,
         .stop = votes.stop ? 1.0 : 0.0,
         .without_checkpoint = votes.without_checkpoint ? 1.0 : 0.0,
         .checkpoint = votes.checkpoint ? 1.0 : 0.0,
         .trace = votes.trace ? 1.0 : 0.0,
         .writing = votes.writing ? 1.0 : 0.0,
         .damaged = votes.damaged ? 1.0 : 0.0,
         .minutes = replica_.communicator.rank() == 0 ? minutes_before_ + watch_.elapsed_ms() / 60000 : 0};
  clock_.enter(StepPart::communication);
  replica_.backend.await_fetched();
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const int unit = batches.computed[i / batches.micro_batches_per_unit()];
    sums.units[static_cast<std::size_t>(unit)] += losses[i].sums();
    if (!sums.pairs.empty()) losses[i].set_means(sums.pairs, batches.micro_batches[i]);
  }
  sums.corpora = corpora_of_units(batches, losses);
  sum_over_ranks(replica_.communicator, [&sums](auto&& visit) {
    for (LossSums& unit : sums.units) unit.each(visit);
    for (CorpusSums& unit : sums.corpora) unit.each(visit);
    for (double& pair : sums.pairs) visit(pair);
    for (double* number : {&sums.stop, &sums.without_checkpoint, &sums.checkpoint, &sums.trace, &sums.writing,
                           &sums.damaged, &sums.minutes, &sums.entropy}) {
      visit(*number);
    }
  });
  clock_.enter(StepPart::other);
  result.loss = sum_in_tree(sums.units);
  if (!emulated_) result.corpora = sum_in_tree(sums.corpora);
  for (std::size_t i = 0; i < sums.pairs.size(); ++i) {
    result.pairs.push_back({batches.pairs[i].sentence, batches.pairs[i].epoch, sums.pairs[i]});
  }
  result.entropy = sums.entropy;
  result.votes = {.stop = sums.stop > 0,
                  .without_checkpoint = sums.without_checkpoint > 0,
                  .checkpoint = sums.checkpoint > 0,
                  .trace = sums.trace > 0,
                  .writing = sums.writing > 0,
                  .damaged = sums.damaged > 0};
  result.elapsed_minutes = elapsed_minutes_ = sums.minutes;
}

}  // namespace babelring
