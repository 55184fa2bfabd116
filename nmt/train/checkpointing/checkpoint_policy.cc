#include "nmt/train/checkpointing/checkpoint_policy.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace babelring {

CheckpointPolicy::CheckpointPolicy(const CheckpointConfig& config, Write write, CheckpointRequest* request)
    : every_(config.every), write_(std::move(write)), request_(request) {}

bool CheckpointPolicy::vote() {
  if (request_ == nullptr) return false;
  const std::int64_t wanted = request_->wanted();
  if (wanted <= request_->done()) return false;
  request_voted_for_ = wanted;
  return true;
}

void CheckpointPolicy::note(const Progress& before, const Progress& now, bool voted) {
  due_ |= every_.times(now) > every_.times(before);
  voted_ = voted;
}

Status CheckpointPolicy::save(std::int64_t update) {
  Status saved;
  if (write_ && saved_update_ != update) {
    saved = write_();
    if (saved.ok()) saved_update_ = update;
    due_ = false;
  }
  if (request_ != nullptr) request_->carried_out(request_voted_for_);
  return saved;
}

void CheckpointPolicy::save_meanwhile(std::int64_t update) {
  if (const Status saved = save(update); !saved.ok()) {
    spdlog::error("checkpoint of update {} was not written, training goes on: {}", update, saved.error());
  }
}

void CheckpointPolicy::save_last(std::int64_t update) {
  const std::int64_t previous = saved_update_;
  if (const Status saved = save(update); !saved.ok()) {
    fail("checkpoint of update {} was not written, and what was trained since update {} is lost: {}", update, previous,
         saved.error());
  }
}

void CheckpointPolicy::restored(std::int64_t update) {
  saved_update_ = update;
  due_ = voted_ = false;
}

}  // namespace babelring
