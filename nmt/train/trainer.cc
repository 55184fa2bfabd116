#include "nmt/train/trainer.h"

#include <spdlog/spdlog.h>

#include <cmath>
#include <limits>

#include "base/grouped.h"
#include "nmt/train/checkpointing/start_from.h"
#include "nmt/train/memory_plan.h"

namespace babelring {

namespace {

PlanOptions plan_options(const TrainConfig& config) {
  return {.tokens_per_update = config.data.tokens_per_update,
          .max_length = config.data.max_length,
          .seed = static_cast<std::uint64_t>(config.training.seed)};
}

}  // namespace

Trainer::Trainer(const TrainerParts& parts)
    : parts_(parts),
      plan_(parts.corpus, plan_options(parts.config)),
      ownership_(parts.backend, parts.communicator),
      model_(parts.config.model, parts.model_vocabulary, static_cast<float>(parts.config.optimizer.label_smoothing),
             ownership_.parameter_memory(), parts.config.training.precision),
      adam_(model_.parameters(), parts.config.optimizer.adam, ownership_.shares(model_.parameters().flat_size()),
            [this](std::size_t bytes) { return ownership_.allocate(bytes); }),
      schedule_(parts.config.optimizer.schedule),
      arenas_(parts.backend),
      runner_(parts.config, model_, adam_, ownership_, parts.backend, parts.communicator, arenas_),
      meter_(parts.communicator.local_rank() == 0, parts.backend.host_memory() ? parts.threads : 0),
      divergence_(parts.config) {
  state_.corpus_digest = parts.corpus.digest();
  state_.ranks = parts.communicator.size();
  state_.threads = parts.threads;
  const std::vector<const Parameter*> frozen = frozen_parameters(model_.parameters(), parts.config.training.freeze);
  for (const Parameter* parameter : frozen) adam_.freeze(*parameter);
  if (!frozen.empty() && parts.communicator.rank() == 0) {
    spdlog::info("training.freeze: {} of {} parameters keep their weights", frozen.size(),
                 model_.parameters().all().size());
  }
  ownership_.write(
      [this] { model_.initialize(parts_.backend, static_cast<std::uint64_t>(parts_.config.training.seed)); });
  if (parts.vocabulary != nullptr && !parts.config.data.valid_set.empty()) {
    validator_ =
        std::make_unique<Validator>(parts.config, *parts.vocabulary, parts.backend, parts.communicator, arenas_);
  }
}

void Trainer::begin(const std::string& run, std::int64_t attempt, const ResumeOptions& resume) {
  const TrainingState fresh = state_;
  const std::string& start_from = parts_.config.training.start_from;
  const ResumeOptions options{.from = resume.from,
                              .accept_changes = resume.accept_changes,
                              .vocabulary = parts_.vocabulary != nullptr ? parts_.vocabulary->digest() : ""};
  if (parts_.checkpoints != nullptr && parts_.checkpoints->restore(model_, adam_, ownership_, state_, options)) {
    if (!start_from.empty() && parts_.communicator.rank() == 0) {
      spdlog::info("training.start_from is ignored: the run has checkpoints");
    }
    adopt_state(fresh);
    minutes_before_ = state_.elapsed_minutes;
    saved_update_ = state_.progress.update;
  } else if (!start_from.empty()) {
    start_from_checkpoint(parts_.config, parts_.vocabulary, model_, ownership_, parts_.backend, parts_.communicator);
  }
  state_.run = run;
  state_.attempt = attempt;
}

/// Makes the restored state this attempt's, whose own state is `own`.
void Trainer::adopt_state(const TrainingState& own) {
  state_.run = own.run;
  state_.attempt = own.attempt;
  state_.corpus_digest = own.corpus_digest;
  state_.ranks = own.ranks;
  state_.threads = own.threads;
  plan_.set_order(state_.data_order);
  // Accepted changes of the data may have left fewer sentences than the position has behind it.
  if (!state_.position || state_.position->sentences >= plan_.sentences()) {
    state_.position = plan_.position_at(state_.progress.epoch);
  }
}

std::string Trainer::run() {
  watch_ = Stopwatch();
  const std::int64_t micro_batch_tokens = prepare_memory();
  UpdateResult last{.loss = {}, .elapsed_minutes = state_.elapsed_minutes};
  std::string reason = train(micro_batch_tokens, last);
  while (divergence_.diverged()) {
    rewind();
    reason = train(micro_batch_tokens, last);
  }
  if (!last.votes.without_checkpoint) save_last();
  return reason;
}

/// Trains and evaluates to the end, whose reason it returns, or until training has diverged.
std::string Trainer::train(std::int64_t micro_batch_tokens, UpdateResult& last) {
  BatchPipeline pipeline(plan_, {.rank = parts_.communicator.rank(),
                                 .world = parts_.communicator.size(),
                                 .micro_batch_tokens = micro_batch_tokens,
                                 .start = state_.position.value(),
                                 .first_update = state_.progress.update + 1,
                                 .prefetch = parts_.config.data.prefetch});
  std::string reason = reason_to_end(last);
  while (reason.empty()) {
    const Progress before = state_.progress;
    last = train_update(pipeline);
    checkpoint_due_ |= due(parts_.config.checkpoint.every, before);
    if (!divergence_.diverged()) evaluate_if_due(before);  // may save the best checkpoint, which is then no longer due
    if (divergence_.diverged()) return "";
    reason = reason_to_end(last);
    // The last checkpoint is written after the last evaluation, so that it holds its scores. None is written while
    // updates are skipped: the weights may be of no use, and have not changed since the one before.
    const bool wanted = last.votes.checkpoint || checkpoint_due_;
    if (reason.empty() && wanted && divergence_.skipped() == 0) save_meanwhile();
  }
  parts_.backend.synchronize();  // errors of the last update's queued work must fail this run
  if (!last.votes.stop && state_.progress.update > 0) {
    evaluate(parts_.config.validation.bleu_every.value() > 0);
  }
  return reason;
}

/// Goes back to a good checkpoint with half the learning rate. Throws Diverged if that is not wanted or not possible.
void Trainer::rewind() {
  const std::string what = divergence_.description();
  const TrainingState diverged = state_;
  if (diverged.rewinds >= parts_.config.training.divergence.rewind || parts_.checkpoints == nullptr) {
    throw Diverged(what);
  }
  if (!parts_.checkpoints->rewind(model_, adam_, ownership_, state_, divergence_.last_finite_update())) {
    throw Diverged(what + "; there is no checkpoint to rewind to");
  }
  adopt_state(diverged);
  state_.rewinds = diverged.rewinds + 1;
  divergence_.reset();
  saved_update_ = state_.progress.update;
  evaluated_update_ = translated_update_ = 0;
  last_evaluation_ = {};
  checkpoint_due_ = false;
  const std::string detail = fmt::format(
      "{}; training goes on after update {} with learning rates multiplied by {:g} (rewind {} of {})", what,
      state_.progress.update, learning_rate_factor(), state_.rewinds, parts_.config.training.divergence.rewind);
  if (parts_.communicator.rank() == 0) spdlog::warn("{}", detail);
  parts_.records.write(LifecycleRecord{.event = "rewound", .detail = detail, .update = state_.progress.update});
}

/// Reserves the arenas' memory; returns the most tokens of a micro-batch.
std::int64_t Trainer::prepare_memory() {
  const MemoryPlan plan = plan_memory(parts_.config, plan_, model_, parts_.backend, parts_.communicator);
  if (!plan.answer.empty() && parts_.communicator.rank() == 0) spdlog::info("{}", plan.answer);
  // On a device, blocks that turn out too small would stay allocated beside larger ones; on the host they are merged.
  if (!parts_.backend.host_memory()) {
    const ArenaBytes validation = validator_ != nullptr ? evaluation_need(model_, parts_.backend) : ArenaBytes();
    arenas_.reserve(ArenaBytes::larger(plan.need, validation));
  }
  return plan.micro_batch_tokens;
}

/// Decided only from what every rank knows equally, so that all end at the same update.
std::string Trainer::reason_to_end(const UpdateResult& last) const {
  const TrainConfig& config = parts_.config;
  if (last.votes.stop) return "stopped on request";
  if (config.training.stop_after.fraction(state_.progress) >= 1) {
    return "finished: " + config.training.stop_after.text() + " of training";
  }
  if (config.training.max_minutes > 0 && last.elapsed_minutes >= config.training.max_minutes) {
    return fmt::format("finished: {} of training", counted(config.training.max_minutes, "minute"));
  }
  if (config.validation.patience > 0 && state_.evaluations_since_best >= config.validation.patience) {
    return fmt::format("early stopping: {} evaluations without a better one", state_.evaluations_since_best);
  }
  return "";
}

UpdateResult Trainer::train_update(BatchPipeline& pipeline) {
  const Stopwatch waiting;
  const UpdateBatches batches = pipeline.next();
  const double data_ms = waiting.elapsed_ms();

  Progress next{.update = batches.update,
                .epoch = batches.epoch,
                .target_tokens = state_.progress.target_tokens + batches.global_target_tokens};
  StepRecord record;
  const CheckpointRequest* request = parts_.checkpoint_request;
  const std::int64_t wanted = request != nullptr ? request->wanted() : 0;
  const Votes votes{.stop = parts_.stop.requested(),
                    .without_checkpoint = parts_.stop.without_checkpoint(),
                    .checkpoint = request != nullptr && wanted > request->done()};
  if (votes.checkpoint) request_voted_for_ = wanted;
  const double learning_rate = learning_rate_factor() * schedule_.learning_rate(next);
  const UpdateResult result = runner_.run(batches, learning_rate, data_ms, votes, minutes(), record);
  divergence_.note(record);
  if (record.skipped) spdlog::warn("update {}: gradient is not finite; skipped, weights unchanged", batches.update);

  const Progress before = state_.progress;
  state_.progress = next;
  state_.position = batches.next;
  state_.adam_steps = adam_.steps();
  state_.elapsed_minutes = result.elapsed_minutes;
  if (due(parts_.config.training.digest_every, before)) {
    record.weights_digest = digest_of(parts_.backend, model_.parameters().masters());
  }
  meter_.fill(record, arenas_, model_, adam_);
  if (parts_.gpu_meter != nullptr) parts_.gpu_meter->fill(record);
  parts_.records.write(std::move(record));
  return result;
}

bool Trainer::due(const Interval& every, const Progress& before) const {
  return every.times(state_.progress) > every.times(before);
}

void Trainer::evaluate_if_due(const Progress& before) {
  const bool translate = due(parts_.config.validation.bleu_every, before);
  if (translate || due(parts_.config.validation.every, before)) evaluate(translate);
}

void Trainer::evaluate(bool translate) {
  const std::int64_t update = state_.progress.update;
  if (validator_ == nullptr || (translate ? translated_update_ : evaluated_update_) == update) return;
  EvalRecord record = validator_->run(model_, translate);
  evaluated_update_ = update;
  if (translate) translated_update_ = update;

  const bool by_bleu = parts_.config.validation.bleu_every.value() > 0;
  if (translate || !by_bleu) {
    const double score = by_bleu ? record.sacrebleu : -record.loss;
    record.best = std::isfinite(record.loss) && score > state_.best_score;
    if (record.best) state_.best_score = score;
    state_.evaluations_since_best = record.best ? 0 : state_.evaluations_since_best + 1;
  }
  record.update = update;
  divergence_.note(record);
  last_evaluation_ = record;
  const bool best = record.best;
  if (parts_.communicator.rank() == 0) parts_.records.write(std::move(record));
  if (best && parts_.config.checkpoint.keep_best) save_meanwhile();
}

void Trainer::save_meanwhile() {
  if (const std::string trouble = save(); !trouble.empty()) {
    spdlog::error("checkpoint of update {} was not written, training goes on: {}", state_.progress.update, trouble);
  }
}

void Trainer::save_last() {
  if (const std::string trouble = save(); !trouble.empty()) {
    fail("checkpoint of update {} was not written, and what was trained since update {} is lost: {}",
         state_.progress.update, saved_update_, trouble);
  }
}

/// Returns why saving failed; empty if this state is on disk, or nothing is to be saved. A request for a checkpoint
/// counts as carried out either way: a failed save is not repeated for it.
std::string Trainer::save() {
  std::string trouble;
  if (parts_.checkpoints != nullptr && saved_update_ != state_.progress.update) trouble = write_checkpoint();
  if (parts_.checkpoint_request != nullptr) parts_.checkpoint_request->carried_out(request_voted_for_);
  return trouble;
}

std::string Trainer::write_checkpoint() {
  const bool evaluated = last_evaluation_.update == state_.progress.update;
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  std::string trouble = parts_.checkpoints->save(model_, adam_, state_,
                                                 {.sacrebleu = evaluated ? last_evaluation_.sacrebleu : none,
                                                  .loss = evaluated ? last_evaluation_.loss : none,
                                                  .best = evaluated && last_evaluation_.best});
  if (trouble.empty()) saved_update_ = state_.progress.update;
  checkpoint_due_ = false;
  return trouble;
}

}  // namespace babelring
