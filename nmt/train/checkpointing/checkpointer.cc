#include "nmt/train/checkpointing/checkpointer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "base/records/run_marks.h"
#include "base/write_watch.h"
#include "nmt/checkpoint/tensor_files.h"
#include "nmt/comm/rank_results.h"
#include "nmt/train/checkpointing/resume_check.h"
#include "nmt/train/checkpointing/training_state.h"

namespace babelring {

namespace {

constexpr double max_loss_above_lowest = 1;  // a rewind skips checkpoints written while training was already diverging

/// The shard that each rank writes; absent: none. Of `sharded` checkpoints the first rank of each host writes one, in
/// the order of these ranks; otherwise rank 0 writes everything.
std::vector<std::optional<ShardIndex>> shards_of_ranks(const Communicator& communicator, bool sharded) {
  std::vector<std::optional<ShardIndex>> shards(static_cast<std::size_t>(communicator.size()));
  std::set<std::string> hosts;
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const int index = static_cast<int>(hosts.size());
    const bool first = hosts.insert(communicator.hosts()[rank]).second;
    if (first && (sharded || rank == 0)) shards[rank] = {.index = index};
  }
  for (auto& shard : shards) {
    if (shard && sharded) shard->count = static_cast<int>(hosts.size());
  }
  return shards;
}

/// Runs `write`, which writes on this thread, under a WriteWatch.
template <class Write>
auto watched(std::int64_t update, const Write& write) {
  WriteWatch watch(fmt::format("checkpoint of update {}", update));
  const WriteWatch::Scope scope(watch);
  return write();
}

/// True if there is a thread and it has not ended within `time`.
template <class T>
bool runs_on(const std::future<T>& thread, std::chrono::milliseconds time) {
  return thread.valid() && thread.wait_for(time) != std::future_status::ready;
}

std::future<Result<json::value>> ready_result(Result<json::value> value) {
  std::promise<Result<json::value>> promise;
  promise.set_value(std::move(value));
  return promise.get_future();
}

}  // namespace

Checkpointer::Checkpointer(const TrainConfig& config, const std::filesystem::path& folder, std::string vocabulary_model,
                           Backend& backend, Communicator& communicator, RecordSink& records,
                           std::function<void()> guard)
    : config_(config),
      folder_(folder),
      vocabulary_model_(std::move(vocabulary_model)),
      backend_(backend),
      communicator_(communicator),
      records_(records),
      guard_(std::move(guard)) {
  run_on_rank_0(communicator,
                [&] { store_.emplace(folder, config.checkpoint.keep_last, config.checkpoint.keep_best); });
  shards_ = shards_of_ranks(communicator, config.checkpoint.sharded && !config.emulated());
  if (writes_shards()) require_one_folder();
}

void Checkpointer::require_one_folder() {
  const std::unique_ptr<ScratchFolder> made = store_ ? store_->begin(0) : nullptr;
  const std::string name = communicator_.all_gather(made ? made->path().filename().string() : "")[0];
  Result<json::value> own = json::value();
  if (std::error_code error; !std::filesystem::is_directory(folder_ / name, error)) {
    own = Error{fmt::format(
        "{} is not the folder that rank 0 on {} has by this name; give all hosts one shared folder (--run-dir), or set "
        "checkpoint.sharded to false",
        std::filesystem::absolute(folder_).string(), communicator_.hosts()[0])};
  }
  const Status one = first_error(communicator_, gather_results(communicator_, own));
  if (!one) throw UsageFailure("checkpoint.sharded: " + one.error());
}

void Checkpointer::start_save(const ModelReplica& replica, const TrainingState& state, const CheckpointScores& scores) {
  gathers_state_ = replica.sharding.shards_optimizer();
  update_in_progress_ = state.progress.update;
  if (!own_shard() && !collective()) return;
  if (store_) {
    content_ = {.update = state.progress.update,
                .state = to_json(state),
                .texts = {{"config.yaml", config_yaml(config_)}},
                .sacrebleu = scores.sacrebleu,
                .loss = scores.loss,
                .best = scores.best};
    if (!vocabulary_model_.empty()) content_.texts["spm.model"] = vocabulary_model_;
  }
  copy_.emplace(replica, shards_);
  if (copy_->complete()) start_writing();
}

/// Starts the threads that write the copied state. Collective if hosts write shards.
void Checkpointer::start_writing() {
  StateCopy copy = std::move(*copy_);
  copy_.reset();
  if (writes_shards()) return start_shard(std::move(copy));
  if (!store_) return;
  content_.weights = copy.weights();
  content_.optimizer = copy.moments();
  writing_ = std::async(std::launch::async, [this, copy = std::move(copy), content = std::move(content_)] {
    return watched(content.update, [&] { return store_->save(content, guard_); });
  });
}

void Checkpointer::start_shard(StateCopy copy) {
  Result<json::value> made = json::value();
  if (store_) {
    try {
      unfinished_ = watched(content_.update, [this] { return store_->begin(content_.update); });
      made = json::value(json::string(unfinished_->path().filename().string()));
    } catch (const Failure& failure) {
      made = Error{failure.what()};
    }
  }
  const Result<json::value> name = gather_results(communicator_, made)[0];
  if (!name || !own_shard()) {
    shard_ = ready_result(name ? Result<json::value>(json::value()) : Error{name.error()});
    return;
  }
  const std::filesystem::path folder = folder_ / std::string(name->as_string());
  shard_ = std::async(
      std::launch::async,
      [folder, shard = *own_shard(), copy = std::move(copy), update = update_in_progress_]() -> Result<json::value> {
        try {
          return watched(update, [&]() -> json::value {
            return to_json(write_shard(folder, shard, copy.weights(), copy.moments()));
          });
        } catch (const Failure& failure) {
          return Error{failure.what()};
        }
      });
}

bool Checkpointer::writing() const {
  return runs_on(shard_, {}) || runs_on(writing_, {});
}

std::optional<Status> Checkpointer::finish_save(FinishSave how) {
  if (collective() && how != FinishSave::alone) return finish_collectively(how);
  if (how == FinishSave::wait) wait_for_writers();
  if (copy_) {
    copy_.reset();
    return Error{"training failed before the state had been gathered"};
  }
  if (shard_.valid()) {
    shard_.wait();
    shard_ = {};
    unfinished_.reset();
    return Error{"training failed before all hosts were known to have written their shards"};
  }
  if (!writing_.valid()) return Status();
  if (how == FinishSave::poll && writing()) return std::nullopt;
  return written();
}

/// Collective.
std::optional<Status> Checkpointer::finish_collectively(FinishSave how) {
  if (copy_) {
    if (how == FinishSave::wait) {
      copy_->finish();
    } else {
      copy_->advance();
    }
    if (!copy_->complete()) return std::nullopt;
    start_writing();
    if (how == FinishSave::poll) return std::nullopt;
  }
  if (how == FinishSave::wait) wait_for_writers();
  if (shard_.valid()) {
    if (Status all = complete_shards(); !all) return all;
    if (how == FinishSave::poll) return std::nullopt;
    wait_for_writers();
  }
  Result<json::value> own = json::value();
  if (writing_.valid()) {
    if (const Status saved = written(); !saved) own = Error{saved.error()};
  }
  const Result<json::value> first = gather_results(communicator_, own)[0];
  return first ? Status() : Status(Error{first.error()});
}

/// Collective. Gathers the hosts' shards; then rank 0 starts to write the rest of the checkpoint.
Status Checkpointer::complete_shards() {
  const std::vector<Result<json::value>> shards = gather_results(communicator_, shard_.get());
  Status all = first_error(communicator_, shards);
  if (!store_) return all;
  if (!all) {
    unfinished_.reset();
    if (guard_) guard_();  // if the run was taken over, that is the cause
    return all;
  }
  for (const Result<json::value>& shard : shards) {
    if (!shard->is_null()) content_.shards.push_back(shard_from_json(*shard));
  }
  writing_ = std::async(
      std::launch::async, [this, content = std::move(content_), unfinished = std::move(unfinished_)]() mutable {
        return watched(content.update, [&] { return store_->complete(content, std::move(unfinished), guard_); });
      });
  return all;
}

/// Collective. Waits in short steps: a rank whose thread writes for long keeps no other rank in a collective for longer
/// than communication.deadline_s.
void Checkpointer::wait_for_writers() {
  constexpr std::chrono::milliseconds step{500};
  std::vector<double> busy;
  do {
    busy = {runs_on(shard_, step) || runs_on(writing_, step) ? 1.0 : 0.0};
    communicator_.sum(busy);
  } while (busy[0] > 0);
}

/// The outcome of rank 0's thread, after its records.
Status Checkpointer::written() {
  CheckpointStore::Saved saved;
  try {
    saved = writing_.get();
  } catch (const Fenced&) {
    throw;
  } catch (const Failure& failure) {
    return Error{failure.what()};
  }
  saved.saved.world_size = communicator_.size();
  records_.write(std::move(saved.saved));
  for (CheckpointRecord& removed : saved.removed) records_.write(std::move(removed));
  return Status();
}

void Checkpointer::move_all_aside() {
  if (!store_) return;
  for (CheckpointRecord& aside : store_->move_all_aside()) records_.write(std::move(aside));
}

std::optional<Checkpoint> Checkpointer::find(const std::filesystem::path& chosen) {
  if (chosen.empty()) return store_->latest();
  Result<Checkpoint> checkpoint = find_and_load_checkpoint(chosen);
  if (!checkpoint.ok()) throw UsageFailure("resume: " + checkpoint.error());
  return std::move(checkpoint).value();
}

std::optional<Checkpoint> Checkpointer::find_good(std::int64_t before, const json::object& scoring) const {
  std::vector<Checkpoint> usable;  // oldest first
  double lowest_loss = std::numeric_limits<double>::infinity();
  for (const std::filesystem::path& folder : store_->list()) {
    Result<Checkpoint> checkpoint = load_checkpoint(folder);
    if (!checkpoint.ok() || !check_finite(checkpoint->weights())) continue;
    const json::value* stored = checkpoint->state.if_contains("scoring");
    if (stored != nullptr && !scoring.empty() && *stored != scoring) {
      checkpoint->loss = std::numeric_limits<double>::quiet_NaN();  // not comparable, as if not evaluated
    }
    if (std::isfinite(checkpoint->loss)) lowest_loss = std::min(lowest_loss, checkpoint->loss);
    usable.push_back(std::move(checkpoint).value());
  }
  const bool any_evaluated = std::isfinite(lowest_loss);
  const auto good = std::find_if(usable.rbegin(), usable.rend(), [&](const Checkpoint& checkpoint) {
    return any_evaluated ? checkpoint.loss <= lowest_loss + max_loss_above_lowest : checkpoint.update < before;
  });
  if (good == usable.rend()) return std::nullopt;
  return std::move(*good);
}

bool Checkpointer::restore(ModelReplica& replica, TrainingState& state, const ResumeOptions& options) {
  std::optional<Checkpoint> checkpoint;
  run_on_rank_0(communicator_, [&] {
    store_->require(options.expected);
    checkpoint = find(options.from);
    if (checkpoint) {
      check_resume(*checkpoint, config_, state, replica.model.parameters(), options.vocabulary, options.accept_changes);
      const std::string line = other_onednn(run_state_from_json(checkpoint->state), state);
      if (!line.empty() && backend_.host_memory()) spdlog::info("{}", line);
    }
    if (options.from.empty()) return;
    for (CheckpointRecord& aside : store_->move_aside_after(checkpoint->update)) records_.write(std::move(aside));
  });
  return load(checkpoint, replica, state);
}

bool Checkpointer::rewind(ModelReplica& replica, TrainingState& state, std::int64_t before) {
  communicator_.barrier();  // other ranks may still be reading shared weights
  std::optional<Checkpoint> checkpoint;
  run_on_rank_0(communicator_, [&] {
    if (guard_) guard_();
    checkpoint = find_good(before, state.scoring);
    if (!checkpoint) return;
    // The checkpoint may come from an attempt with another configuration, which was accepted then.
    check_resume(*checkpoint, config_, state, replica.model.parameters(), "", true);
    for (CheckpointRecord& aside : store_->move_aside_after(checkpoint->update)) records_.write(std::move(aside));
  });
  return load(checkpoint, replica, state);
}

/// Collective. Only rank 0 passes a checkpoint.
bool Checkpointer::load(const std::optional<Checkpoint>& checkpoint, ModelReplica& replica, TrainingState& state) {
  Model& model = replica.model;
  std::string text;
  if (checkpoint) {
    read_trained_weights(*checkpoint, model, backend_);
    text = to_text(checkpoint->state);
  }
  text = communicator_.all_gather(text)[0];
  if (text.empty()) return false;
  replica.sharding.broadcast(model.parameters().masters());
  replica.sharding.write([&] { model.refresh_compute_copies(backend_); });
  replica.sharding.drop_other_masters(model.parameters());
  load_moments(checkpoint ? &*checkpoint : nullptr, replica);
  state = run_state_from_json(parse_json(text)->as_object());
  replica.adam.set_steps(state.adam_steps);
  return true;
}

}  // namespace babelring
