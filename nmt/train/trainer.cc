#include "nmt/train/trainer.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "base/failure.h"
#include "base/records/records.h"
#include "base/result.h"
#include "base/text.h"
#include "nmt/comm/rank_results.h"
#include "nmt/train/checkpointing/resume_check.h"
#include "nmt/train/evaluation/sequence_validator.h"
#include "nmt/train/evaluation/translation_validator.h"
#include "nmt/train/pair_losses.h"
#include "nmt/train/setup/memory_plan.h"
#include "nmt/train/setup/own_libraries.h"
#include "nmt/train/setup/task_data.h"
#include "nmt/train/update/divergence.h"

namespace babelring {

namespace {

/// Each rewind halved the learning rate.
double learning_rate_factor(const TrainingState& state) {
  return std::ldexp(1.0, -static_cast<int>(state.rewinds));
}

}  // namespace

Trainer::Trainer(const TrainerParts& parts)
    : parts_(parts),
      replica_(parts.config, parts.model_vocabulary, parts.backend, parts.communicator),
      updates_(parts.config, replica_, parts.spans),
      meter_(parts.communicator.local_rank() == 0, parts.backend.host_memory() ? parts.threads : 0),
      evaluations_(parts.config.validation),
      checkpoints_(
          parts.config.checkpoint,
          parts.checkpoints == nullptr
              ? CheckpointWriting()
              : CheckpointWriting{.start = [this] { start_checkpoint(); },
                                  .busy = [this] { return parts_.checkpoints->writing(); },
                                  .finish = [this](FinishSave how) { return parts_.checkpoints->finish_save(how); },
                                  .reports = parts.communicator.rank() == 0},
          parts.checkpoint_request),
      divergence_(parts.config),
      balancer_(parts.config, parts.communicator),
      corpora_(parts.source.corpora()),
      corpora_since_(corpora_.size()) {
  state_.corpus_digest = parts.source.digest();
  state_.ranks = parts.communicator.size();
  state_.threads = parts.threads;
  state_.libraries = own_libraries();
  state_.source_lines = parts.source_lines;
  if (parts.communicator.rank() == 0 && !replica_.sharding.line().empty()) {
    spdlog::info("{}", replica_.sharding.line());
  }
  replica_.initialize(static_cast<std::uint64_t>(parts.config.training.seed));
  make_validators();
  if (validator_ != nullptr) state_.scoring = validator_->scoring(parts.config);
}

void Trainer::make_validators() {
  const TrainConfig& config = parts_.config;
  const auto of_sequences = [&](const SequenceSet& set) {
    return std::make_unique<SequenceValidator>(set, replica_.rank(), rank_part(config, parts_.communicator, 0),
                                               parts_.threads);
  };
  const auto of_pairs = [&](EvaluatedSet set) {
    return std::make_unique<TranslationValidator>(config, *parts_.vocabulary, replica_.rank(), std::move(set));
  };
  if (parts_.held_out != nullptr) {
    validator_ = of_sequences(*parts_.held_out);
    if (parts_.train_sample != nullptr) beside_.push_back({train_sample_set, of_sequences(*parts_.train_sample)});
  } else if (parts_.vocabulary != nullptr && !config.data.valid_set.empty()) {
    const std::string& main_set = config.data.valid_set;
    EvaluatedSet decisive = open_held_out_pairs({main_set, config.data.folder, main_set}, *parts_.vocabulary);
    decisive.resampled = true;  // the best of a run is compared with the next, and with that of other runs
    validator_ = of_pairs(std::move(decisive));
    for (const OtherSet& other : config.validation.others()) {
      auto validator = of_pairs(open_held_out_pairs(other, *parts_.vocabulary));
      json::object scoring = validator->scoring(config);
      beside_.push_back({other.name, std::move(validator), std::move(scoring), true});
    }
    if (config.validation.train_sample > 0) {
      beside_.push_back({train_sample_set, of_pairs(sample_training_set(config, *parts_.vocabulary))});
    }
  }
}

void Trainer::begin(const std::string& run, std::int64_t attempt, const ResumeOptions& resume) {
  const TrainingState fresh = state_;
  const std::string& start_from = parts_.config.training.start_from;
  const ResumeOptions options{.from = resume.from,
                              .accept_changes = resume.accept_changes,
                              .vocabulary = parts_.vocabulary != nullptr ? parts_.vocabulary->digest() : "",
                              .expected = resume.expected};
  if (parts_.checkpoints != nullptr && parts_.checkpoints->restore(replica_, state_, options)) {
    if (!start_from.empty() && parts_.communicator.rank() == 0) {
      spdlog::info("training.start_from is ignored: the run has checkpoints");
    }
    adopt_state(fresh);
    checkpoints_.restored(state_.progress.update);
  } else if (!start_from.empty()) {
    start_from_checkpoint(parts_.config, parts_.vocabulary, replica_.model, replica_.sharding, parts_.backend,
                          parts_.communicator);
    replica_.start_average();
  }
  if (replica_.adam.average() != nullptr && parts_.communicator.rank() == 0) {
    spdlog::info("training.ema: validations and checkpoints have the moving average of the weights, decay {:g}",
                 parts_.config.training.ema);
  }
  state_.run = run;
  state_.attempt = attempt;
  if (!parts_.config.training.pair_losses) return;
  run_on_rank_0(parts_.communicator, [&] { parts_.pair_losses->begin(state_.progress.update == 0); });
}

/// Makes the restored state this attempt's, whose own state is `own`.
void Trainer::adopt_state(const TrainingState& own) {
  state_.run = own.run;
  state_.attempt = own.attempt;
  state_.corpus_digest = own.corpus_digest;
  state_.ranks = own.ranks;
  state_.threads = own.threads;
  state_.libraries = own.libraries;
  if (!own.scoring.empty()) state_.scoring = own.scoring;
  if (own.source_lines) state_.source_lines = own.source_lines;
  state_.position = parts_.source.resume(state_.data_order, state_.position, state_.progress.epoch);
}

TrainingEnd Trainer::run() try {
  updates_.start_time(state_.elapsed_minutes);
  began_after_ = state_.progress.update;
  const std::int64_t micro_batch_tokens = prepare_memory();
  UpdateResult last{.elapsed_minutes = state_.elapsed_minutes};
  TrainingEnd end = train(micro_batch_tokens, last);
  while (divergence_.diverged()) {
    rewind();
    end = train(micro_batch_tokens, last);
  }
  if (parts_.lab != nullptr) parts_.lab->finish();
  if (last.votes.without_checkpoint) {
    checkpoints_.finish();
  } else {
    checkpoints_.save_last(state_.progress.update);
  }
  if (!last.votes.stop) await_data_checks();
  return end;
} catch (const std::exception& failure) {
  checkpoints_.finish_after(failure.what());
  throw;
}

/// Trains and evaluates to the end, or until training has diverged; then the result has no meaning.
TrainingEnd Trainer::train(std::int64_t micro_batch_tokens, UpdateResult& last) {
  balancer_.begin(state_.progress.update + 1);
  RankPart part = rank_part(parts_.config, parts_.communicator, micro_batch_tokens);
  part.assignment = balancer_.assignment();
  BatchPipeline pipeline(parts_.source, {.part = part,
                                         .start = state_.position.value(),
                                         .first_update = state_.progress.update + 1,
                                         .prefetch = parts_.config.data.prefetch,
                                         .threads = parts_.config.data.workers,
                                         .spans = parts_.spans});
  std::optional<TrainingEnd> end = end_after(last);
  while (!end) {
    const Progress before = state_.progress;
    last = train_update(pipeline);
    checkpoints_.note(before, state_.progress, last.votes.checkpoint, last.votes.writing);
    if (last.votes.damaged) {
      checkpoints_.finish();  // nothing may be in flight when the ranks end
      replica_.await_weights();
      refuse_damaged_data();
    }
    // May save the best checkpoint, so that none is due afterwards.
    if (!divergence_.diverged()) evaluate(evaluations_.due(before, state_.progress));
    if (divergence_.diverged()) return {};
    end = end_after(last);
    // The last checkpoint is written after the last evaluation, so that it contains its scores. While updates are
    // skipped, none is written: the weights may be useless, and have not changed.
    if (!end && checkpoints_.due() && divergence_.skipped() == 0) checkpoints_.save(state_.progress.update);
  }
  parts_.backend.synchronize();  // errors of the last update's asynchronous work must fail this run
  replica_.await_weights();
  if (!last.votes.stop && state_.progress.update > 0) evaluate(evaluations_.at_end());
  return *end;
}

/// Goes back to a good checkpoint with half the learning rate. Throws Diverged if that is not configured or impossible.
void Trainer::rewind() {
  checkpoints_.finish();
  replica_.await_weights();
  const std::string cause = divergence_.description();
  const TrainingState diverged = state_;
  const std::int64_t max_rewinds = parts_.config.training.divergence.rewind;
  if (diverged.rewinds >= max_rewinds || parts_.checkpoints == nullptr) throw Diverged(cause);
  if (!parts_.checkpoints->rewind(replica_, state_, divergence_.last_finite_update())) {
    throw Diverged(cause + "; there is no checkpoint to rewind to");
  }
  adopt_state(diverged);
  state_.rewinds = diverged.rewinds + 1;
  divergence_.reset();
  evaluations_.rewind();
  checkpoints_.restored(state_.progress.update);
  parts_.communicator.forget_errors();
  const std::string detail =
      fmt::format("{}; training goes on after update {} with learning rates multiplied by {:g} (rewind {} of {})",
                  cause, state_.progress.update, learning_rate_factor(state_), state_.rewinds, max_rewinds);
  if (parts_.communicator.rank() == 0) spdlog::warn("{}", detail);
  parts_.records.write(LifecycleRecord{.event = "rewound", .detail = detail, .update = state_.progress.update});
}

/// Reserves the arenas' memory. Returns the max number of tokens of a micro-batch.
std::int64_t Trainer::prepare_memory() {
  const ArenaBytes validation = validator_ != nullptr ? validator_->need(replica_.model) : ArenaBytes();
  const MemoryPlan plan = plan_memory(parts_.config, parts_.source.shape(), replica_.model, parts_.backend,
                                      parts_.communicator, validation);
  if (!plan.answer.empty() && parts_.communicator.rank() == 0) spdlog::info("{}", plan.answer);
  // Blocks that turn out too small lie idle next to larger ones: on a device for ever, on the host until they are
  // merged after a pass.
  const bool reserves = !parts_.backend.host_memory() || total_of(plan.need) > 0;
  if (reserves) replica_.arenas.reserve(ArenaBytes::larger(plan.need, validation));
  return plan.micro_batch_tokens;
}

/// Decided only from values that are equal on every rank, so that all end at the same update.
std::optional<TrainingEnd> Trainer::end_after(const UpdateResult& last) const {
  const TrainingConfig& config = parts_.config.training;
  if (last.votes.stop) return TrainingEnd{EndReason::stopped_on_request, "stopped on request"};
  if (config.stop_after.fraction(state_.progress) >= 1) {
    return TrainingEnd{EndReason::finished, "finished: " + config.stop_after.text() + " of training"};
  }
  if (config.max_minutes > 0 && last.elapsed_minutes >= config.max_minutes) {
    return TrainingEnd{EndReason::finished,
                       fmt::format("finished: {} of training", counted(config.max_minutes, "minute"))};
  }
  if (evaluations_.out_of_patience(state_)) {
    return TrainingEnd{EndReason::stopped_early, "early stopping: " + evaluations_.patience_text(state_)};
  }
  return std::nullopt;
}

UpdateResult Trainer::train_update(BatchPipeline& pipeline) {
  const Votes votes{.stop = parts_.stop.requested(),
                    .without_checkpoint = parts_.stop.without_checkpoint(),
                    .checkpoint = checkpoints_.vote(),
                    .trace = parts_.lab != nullptr && parts_.lab->votes_for_trace(),
                    .writing = checkpoints_.writing(),
                    .damaged = parts_.data_check != nullptr && parts_.data_check->found_damage()};
  const Progress before = state_.progress;
  ObservedUpdate observed(parts_.lab, {.update = before.update + 1, .trace = trace_next_, .replica = replica_});
  UpdateResult result = updates_.run(pipeline, before, votes, learning_rate_factor(state_));
  observed.end(result.record);
  trace_next_ = result.votes.trace;
  if (parts_.data_check != nullptr) parts_.data_check->start();  // the first update does not wait for it
  state_.progress = result.progress;
  state_.position = result.next;
  state_.adam_steps = replica_.adam.steps();
  state_.elapsed_minutes = result.elapsed_minutes;
  divergence_.note(result.record);
  balancer_.note(result.record);
  if (!corpora_.empty()) add_corpora(result.corpora, before, result.record);
  if (parts_.pair_losses != nullptr && !result.record.skipped) parts_.pair_losses->add(result.pairs);
  record(std::move(result.record), before);
  return result;
}

/// Puts the losses by corpus since the last such record into that of rank 0 at each training.log_every.
void Trainer::add_corpora(const CorpusSums& sums, const Progress& before, StepRecord& record) {
  if (!record.skipped && std::isfinite(record.loss)) corpora_since_ += sums;
  const Interval& every = parts_.config.training.log_every;
  if (every.times(state_.progress) == every.times(before)) return;
  for (std::size_t i = 0; i < corpora_.size() && parts_.communicator.rank() == 0; ++i) {
    if (corpora_since_.tokens[i] == 0) continue;
    record.corpus_loss[corpora_[i]] = corpora_since_.loss[i] / corpora_since_.tokens[i];
    record.corpus_tokens[corpora_[i]] = static_cast<std::int64_t>(corpora_since_.tokens[i]);
  }
  corpora_since_ = CorpusSums(corpora_.size());
}

/// Completes the record of an update and writes it.
void Trainer::record(StepRecord record, const Progress& before) {
  if (record.skipped) {
    spdlog::warn("update {}: gradient is not finite; skipped, weights unchanged", record.update);
    parts_.communicator.forget_errors();  // they may be huge
    replica_.clear_gradients();           // int8 makes whole blocks NaN, with padding that later sums would read
  }
  const Interval& every = parts_.config.training.digest_every;
  std::string difference;
  if (every.times(state_.progress) > every.times(before)) {
    RankDigest digest = digest_over_ranks(replica_, record.update);
    record.weights_digest = std::move(digest.weights);
    difference = std::move(digest.difference);
  }
  meter_.fill(record, parts_.backend.ledger());
  if (parts_.gpu_meter != nullptr) parts_.gpu_meter->fill(record);
  if (parts_.lab != nullptr) parts_.lab->recorded(record);
  parts_.records.write(std::move(record));
  if (difference.empty()) return;
  if (parts_.config.training.on_difference == OnDifference::stop) throw RanksDiffer(difference);
  if (parts_.communicator.rank() == 0) spdlog::warn("{}", difference);
}

void Trainer::evaluate(Evaluation evaluation) {
  const std::int64_t update = state_.progress.update;
  if (validator_ == nullptr || evaluation == Evaluation::none || evaluations_.done(evaluation, update)) return;
  const bool averages = replica_.adam.average() != nullptr;
  replica_.await_weights();
  if (averages) replica_.exchange_average();
  const bool best = evaluate_weights(evaluation);
  if (averages) replica_.exchange_average();
  if (best && parts_.config.checkpoint.keep_best) checkpoints_.save(update);
}

/// Scores the weights that the model has now. Returns true if they are the best so far.
bool Trainer::evaluate_weights(Evaluation evaluation) {
  EvalRecord record = evaluated(*validator_, evaluation == Evaluation::translations);
  evaluations_.note(record, evaluation, state_);
  divergence_.note(record);
  const bool best = record.best;
  if (parts_.communicator.rank() == 0) parts_.records.write(std::move(record));
  validate_beside(evaluation == Evaluation::translations);
  return best;
}

void Trainer::validate_beside(bool translate) {
  for (const BesideSet& beside : beside_) {
    EvalRecord record = evaluated(*beside.validator, translate && beside.translates);
    record.set = beside.name;
    describe_scoring(record, beside.scoring);
    if (parts_.communicator.rank() == 0) parts_.records.write(std::move(record));
  }
}

EvalRecord Trainer::evaluated(Validator& validator, bool translate) {
  const WorkRange range(parts_.backend, "validation");
  const SpanScope validating(parts_.spans, "main", "validation");
  EvalRecord record = validator.run(replica_.model, translate);
  record.update = state_.progress.update;
  return record;
}

/// Collective. In short steps, so that a slow disk keeps no other rank in a collective for longer than
/// communication.deadline_s.
void Trainer::await_data_checks() {
  constexpr std::chrono::milliseconds step{500};
  if (parts_.data_check != nullptr) parts_.data_check->start();
  std::vector<double> busy;
  for (bool said = parts_.communicator.rank() != 0;; said = true) {
    busy = {parts_.data_check == nullptr || parts_.data_check->ended_within(step) ? 0.0 : 1.0};
    parts_.communicator.sum(busy);
    if (busy[0] == 0) return refuse_damaged_data();
    if (!said) spdlog::info("training is done; data.folder is still being compared with its digests");
  }
}

/// Collective. Returns if no rank has found damage.
void Trainer::refuse_damaged_data() {
  const Status own = parts_.data_check == nullptr ? Status() : parts_.data_check->result();
  run_on_every_rank(parts_.communicator, [&] {
    if (own) return;
    throw UsageFailure(
        fmt::format("{}; this attempt has used it from update {} to {}: copy the folder again, and begin anew "
                    "(--from-scratch) or with a checkpoint of an earlier attempt (--resume-from)",
                    own.error(), began_after_ + 1, state_.progress.update));
  });
}

void Trainer::start_checkpoint() {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  CheckpointScores scores{.sacrebleu = none, .loss = none};
  if (const EvalRecord* newest = evaluations_.newest(state_.progress.update)) {
    scores = {.sacrebleu = newest->sacrebleu, .loss = newest->loss, .best = newest->best};
  }
  const WorkRange range(parts_.backend, "checkpoint");
  const SpanScope saving(parts_.spans, "main", "checkpoint");
  parts_.checkpoints->start_save(replica_, state_, scores);
  parts_.communicator.forget_errors();  // a run that continues from this checkpoint has none
}

}  // namespace babelring
