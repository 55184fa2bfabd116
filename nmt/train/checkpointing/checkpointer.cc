#include "nmt/train/checkpointing/checkpointer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/run_fence.h"
#include "nmt/checkpoint/finite.h"
#include "nmt/comm/rank_results.h"
#include "nmt/train/checkpointing/model_loader.h"
#include "nmt/train/checkpointing/resume_check.h"

namespace babelring {

namespace {

constexpr double max_loss_above_lowest = 1;  // a rewind skips checkpoints written while training was already diverging

/// A copy of one of the store's flat arrays in host memory.
class HostCopy {
 public:
  HostCopy(Backend& backend, ConstTensor flat)
      : values_(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(flat.shape.elements()))) {
    backend.download(flat, values_.get());
  }
  void append(std::vector<NamedTensor>& tensors, const ParameterStore& store, const std::string& prefix) const {
    for (const Parameter& parameter : store.all()) {
      tensors.push_back({.name = prefix + parameter.name,
                         .tensor = ConstTensor(values_.get() + parameter.offset, parameter.shape, DType::f32)});
    }
  }

 private:
  std::unique_ptr<float[]> values_;
};

void read_moment(const SafetensorsReader& file, const std::string& prefix, const ParameterStore& store, Tensor flat,
                 Backend& backend) {
  for (const Parameter& parameter : store.all()) {
    backend.upload(file.tensor(prefix + parameter.name, parameter.shape).data,
                   Tensor(flat.as<float>() + parameter.offset, parameter.shape, DType::f32));
  }
}

}  // namespace

Checkpointer::Checkpointer(const TrainConfig& config, const std::filesystem::path& folder, std::string vocabulary_model,
                           Backend& backend, Communicator& communicator, RecordSink& records,
                           std::function<void()> guard)
    : config_(config),
      vocabulary_model_(std::move(vocabulary_model)),
      backend_(backend),
      communicator_(communicator),
      records_(records),
      guard_(std::move(guard)) {
  if (communicator.rank() == 0) {
    store_.emplace(folder, config.checkpoint.keep_last, config.checkpoint.keep_best);
  }
}

void Checkpointer::start_save(const ModelReplica& replica, const TrainingState& state, const CheckpointScores& scores) {
  if (!store_) return;
  const ParameterStore& store = replica.model.parameters();
  std::vector<HostCopy> copies;
  for (const Tensor& flat : {store.masters(), replica.adam.first_moment(), replica.adam.second_moment()})
    copies.emplace_back(backend_, flat);
  CheckpointContent content{.update = state.progress.update,
                            .state = to_json(state),
                            .texts = {{"config.yaml", config_yaml(config_)}},
                            .sacrebleu = scores.sacrebleu,
                            .loss = scores.loss,
                            .best = scores.best};
  copies[0].append(content.weights, store, "");
  copies[1].append(content.optimizer, store, "m.");
  copies[2].append(content.optimizer, store, "v.");
  if (!vocabulary_model_.empty()) content.texts["spm.model"] = vocabulary_model_;
  writing_ = std::async(std::launch::async, [this, copies = std::move(copies), content = std::move(content)] {
    return store_->save(content, guard_);
  });
}

std::optional<Status> Checkpointer::finish_save(bool wait) {
  if (!writing_.valid()) return Status();
  if (!wait && writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return std::nullopt;
  try {
    CheckpointStore::Saved saved = writing_.get();
    saved.saved.world_size = communicator_.size();
    records_.write(std::move(saved.saved));
    for (CheckpointRecord& removed : saved.removed) records_.write(std::move(removed));
  } catch (const Fenced&) {
    throw;
  } catch (const Failure& failure) {
    return Error{failure.what()};
  }
  return Status();
}

void Checkpointer::move_all_aside() {
  if (!store_) return;
  for (CheckpointRecord& aside : store_->move_all_aside()) records_.write(std::move(aside));
}

std::optional<Checkpoint> Checkpointer::find(const std::filesystem::path& chosen) {
  if (chosen.empty()) return store_->latest();
  Result<Checkpoint> checkpoint = load_checkpoint(chosen);
  if (!checkpoint.ok()) fail("resume: {}", checkpoint.error());
  return std::move(checkpoint).value();
}

std::optional<Checkpoint> Checkpointer::find_good(std::int64_t before) const {
  std::vector<Checkpoint> usable;  // oldest first
  double lowest_loss = std::numeric_limits<double>::infinity();
  for (const std::filesystem::path& folder : store_->list()) {
    Result<Checkpoint> checkpoint = load_checkpoint(folder);
    if (!checkpoint.ok() || !check_finite(checkpoint->weights())) continue;
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
    checkpoint = find(options.from);
    if (checkpoint)
      check_resume(*checkpoint, config_, state, replica.model.parameters(), options.vocabulary, options.accept_changes);
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
    checkpoint = find_good(before);
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
  Adam& adam = replica.adam;
  std::string text;
  if (checkpoint) {
    read_weights(checkpoint->weights(), model, backend_);
    const SafetensorsReader moments = checkpoint->optimizer();
    read_moment(moments, "m.", model.parameters(), adam.first_moment(), backend_);
    read_moment(moments, "v.", model.parameters(), adam.second_moment(), backend_);
    text = to_text(checkpoint->state);
  }
  text = communicator_.all_gather(text)[0];
  if (text.empty()) return false;
  replica.sharding.broadcast(model.parameters().masters());
  replica.sharding.broadcast(adam.first_moment());
  replica.sharding.broadcast(adam.second_moment());
  replica.sharding.write([&] { model.refresh_compute_copies(backend_); });
  state = run_state_from_json(parse_json(text)->as_object());
  adam.set_steps(state.adam_steps);
  return true;
}

}  // namespace babelring
