#include "nmt/train/checkpointing/checkpoint_policy.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace babelring {

void CheckpointConfig::bind(OptionBinder& b) {
  b.parsed("every", every,
           "interval between checkpoints in updates (u), epochs (e) or target tokens (t); 0: at the end only");
  b.integer("keep_last", keep_last, 1, 100000, "number of newest checkpoints to keep");
  b.flag("keep_best", keep_best, "also keep the best checkpoint");
  b.flag("sharded", sharded,
         "with several hosts: each writes its shard of a checkpoint; they need one shared folder for runs");
}

CheckpointPolicy::CheckpointPolicy(const CheckpointConfig& config, CheckpointWriting writing,
                                   CheckpointRequest* request)
    : every_(config.every), writing_(std::move(writing)), request_(request) {}

bool CheckpointPolicy::vote() {
  if (request_ == nullptr) return false;
  const std::int64_t wanted = request_->wanted();
  if (wanted <= std::max(request_->done(), request_in_progress_)) return false;
  request_voted_for_ = wanted;
  return true;
}

void CheckpointPolicy::note(const Progress& before, const Progress& now, bool voted, bool writing) {
  if (!writing) log_failure(FinishSave::poll);
  due_ |= every_.times(now) > every_.times(before);
  voted_ = voted;
}

void CheckpointPolicy::save(std::int64_t update) {
  if (in_progress_ == update) return;
  finish();
  if (writing_.start && saved_update_ != update) {
    start(update);
  } else {
    carried_out(request_voted_for_);
  }
}

void CheckpointPolicy::save_last(std::int64_t update) {
  finish();
  if (!writing_.start || saved_update_ == update) return carried_out(request_voted_for_);
  start(update);
  if (const Status saved = *outcome(FinishSave::wait); !saved.ok() && writing_.reports) {
    fail("checkpoint of update {} was not written, and what was trained since update {} is lost: {}", update,
         saved_update_, saved.error());
  }
}

void CheckpointPolicy::finish() {
  log_failure(FinishSave::wait);
}

void CheckpointPolicy::finish_after(const char* cause) {
  if (!in_progress_) return;
  spdlog::warn("training has failed; the checkpoint of update {} is still being written: {}", *in_progress_, cause);
  log_failure(FinishSave::alone);
}

void CheckpointPolicy::restored(std::int64_t update) {
  saved_update_ = update;
  due_ = voted_ = false;
}

void CheckpointPolicy::start(std::int64_t update) {
  writing_.start();
  in_progress_ = update;
  request_in_progress_ = request_voted_for_;
  due_ = false;
}

/// The outcome of the write in progress; nothing if there is none or, when polled, if it has not ended.
std::optional<Status> CheckpointPolicy::outcome(FinishSave how) {
  if (!in_progress_) return std::nullopt;
  const std::int64_t update = *std::exchange(in_progress_, std::nullopt);  // also if finish() throws
  std::optional<Status> ended = writing_.finish(how);
  if (!ended) {
    in_progress_ = update;
    return std::nullopt;
  }
  if (ended->ok()) saved_update_ = update;
  carried_out(request_in_progress_);
  return ended;
}

void CheckpointPolicy::log_failure(FinishSave how) {
  const std::optional<std::int64_t> update = in_progress_;
  if (const auto ended = outcome(how); ended && !ended->ok() && writing_.reports) {
    spdlog::error("checkpoint of update {} was not written{}: {}", *update,
                  how == FinishSave::alone ? "" : ", training goes on", ended->error());
  }
}

void CheckpointPolicy::carried_out(std::int64_t request) {
  if (request_ != nullptr) request_->carried_out(request);
}

}  // namespace babelring
