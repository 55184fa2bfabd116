#include "nmt/train/update/model_replica.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "nmt/ops/elementwise.h"

namespace babelring {
namespace {

constexpr double min_updates_between_checkpoints = 30;

/// True if a sharded optimizer sends fewer bytes over a run: f32 weights take as many as the sums of gradients that are
/// not gathered, and each checkpoint gathers the whole state.
bool sharding_saves_bytes(const TrainConfig& config) {
  const Interval& every = config.checkpoint.every;
  const bool often =
      every.unit() == Interval::Unit::updates && every.value() > 0 && every.value() < min_updates_between_checkpoints;
  return config.training.precision == DType::bf16 && !often;
}

/// The configuration's, with `optimizer: auto` replaced by `replicated` where other settings rule out a sharded one, or
/// it saves no bytes.
CommConfig resolved_communication(const TrainConfig& config) {
  CommConfig resolved = config.communication;
  const bool shards = sharding_saves_bytes(config) && config.lab.needs_whole_state().empty();
  if (resolved.optimizer == OptimizerPlacement::automatic && !shards) {
    resolved.optimizer = OptimizerPlacement::replicated;
  }
  return resolved;
}

/// The parameters selected by training.freeze: comma-separated globs for fnmatch(3). Throws UsageFailure if a glob
/// matches no parameter or if no parameter is left to train.
std::vector<const Parameter*> frozen_parameters(const ParameterStore& parameters, const std::string& globs) {
  std::vector<const Parameter*> frozen;
  std::vector<bool> seen(parameters.all().size());
  std::istringstream list(globs);
  for (std::string glob; std::getline(list, glob, ',');) {
    for (const Parameter* parameter : matching_parameters(parameters, "training.freeze", glob)) {
      if (!seen[parameter->index]) frozen.push_back(parameter);
      seen[parameter->index] = true;
    }
  }
  if (frozen.size() == parameters.all().size()) {
    throw UsageFailure(fmt::format("training.freeze: '{}' matches every parameter; nothing is left to train", globs));
  }
  return frozen;
}

}  // namespace

ModelReplica::ModelReplica(const TrainConfig& config, std::int64_t vocabulary, Backend& on, Communicator& among)
    : backend(on),
      communicator(among),
      sharding(on, among, resolved_communication(config),
               count_parameters(config.model, vocabulary) * std::int64_t{sizeof(float)}),
      owned_model(make_model(config.model, vocabulary, static_cast<float>(config.optimizer.label_smoothing),
                             sharding.parameter_memory(), config.training.precision)),
      model(*owned_model),
      adam(model.parameters(), config.optimizer.adam, sharding.own_shard(model.parameters().flat_size()),
           [this] { return sharding.allocate_moment(model.parameters().flat_size()); }),
      arenas(on),
      weights_gather(sharding.make_weights_gather(model.parameters())) {
  config.check_ranks(among.size());
  owned_model->set_guided_alignment(static_cast<float>(config.training.guided_alignment));
  owned_model->set_r_drop(static_cast<float>(config.training.r_drop));
  if (config.training.by_units()) on.fix_blocking();
  const std::vector<const Parameter*> frozen = frozen_parameters(model.parameters(), config.training.freeze);
  for (const Parameter* parameter : frozen) adam.freeze(*parameter);
  if (config.training.ema > 0) {
    adam.keep_average(config.training.ema, sharding.allocate_moment(model.parameters().flat_size()));
  }
  if (!frozen.empty() && communicator.rank() == 0) {
    spdlog::info("training.freeze: {} of {} parameters keep their weights", frozen.size(),
                 model.parameters().all().size());
  }
}

void ModelReplica::clear_gradients() {
  const Tensor gradients = model.parameters().gradients();
  const std::vector<float> zeros(static_cast<std::size_t>(gradients.shape.elements()));
  backend.upload(zeros.data(), gradients);
}

namespace {

/// Calls body(range) for pieces of the elements that this rank updates, so that copies of them need little memory.
template <class Body>
void for_own_elements(const ModelReplica& replica, Body&& body) {
  constexpr std::int64_t piece = 1 << 20;
  const std::int64_t count = replica.model.parameters().flat_size();
  for (const auto& [begin, end] : replica.sharding.own_shard(count).within({0, count})) {
    for (std::int64_t first = begin; first < end; first += piece) {
      body(ElementRange{.begin = first, .end = std::min(end, first + piece)});
    }
  }
}

}  // namespace

void ModelReplica::start_average() {
  const Moment* average = adam.average();
  if (average == nullptr) return;
  std::vector<float> values;
  for_own_elements(*this, [&](const ElementRange& range) {
    const std::int64_t count = range.end - range.begin;
    values.resize(static_cast<std::size_t>(count));
    backend.download(model.parameters().masters().row_slice(range.begin, count), values.data());
    backend.upload(values.data(), average->part(range));
  });
  sharding.publish();
}

void ModelReplica::exchange_average() {
  const ParameterStore& store = model.parameters();
  const Tensor copies = store.compute_copies();
  if (sharding.shares_copy()) communicator.barrier();  // others may still read what this rank writes
  std::vector<float> weights, averages;
  for_own_elements(*this, [&](const ElementRange& range) {
    const std::int64_t count = range.end - range.begin;
    const Tensor master = store.masters().row_slice(range.begin, count), average = adam.average()->part(range);
    weights.resize(static_cast<std::size_t>(count));
    averages.resize(static_cast<std::size_t>(count));
    backend.download(master, weights.data());
    backend.download(average, averages.data());
    backend.upload(averages.data(), master);
    backend.upload(weights.data(), average);
    if (copies) backend.run(Cast{.x = master, .y = copies.row_slice(range.begin, count)});
  });
  sharding.publish();
  if (weights_gather != nullptr) weights_gather->start();
  await_weights();
}

void ModelReplica::await_weights() {
  if (weights_gather != nullptr) weights_gather->finish();
}

void ModelReplica::initialize(std::uint64_t seed) {
  sharding.write([this, seed] { model.initialize(backend, seed); });
  sharding.drop_other_masters(model.parameters());
  start_average();
}

}  // namespace babelring
