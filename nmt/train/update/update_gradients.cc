#include "nmt/train/update/update_gradients.h"

#include <optional>
#include <utility>

#include "nmt/comm/schedule/ring.h"
#include "nmt/model/device_batch.h"
#include "nmt/ops/elementwise.h"

namespace babelring {

UnitExchange::UnitExchange(Backend& backend, Communicator& communicator, const ParameterStore& store)
    : backend_(backend),
      communicator_(communicator),
      store_(store),
      ranks_(ring_position(communicator.hosts(), communicator.rank()).order) {}

void UnitExchange::begin(const UpdateBatches& batches) {
  transfers_.clear();
  gives_.clear();
  receives_.clear();
  given_ = 0;
  for (const MovedUnit& moved : batches.moved) {
    Transfer transfer{.from = ranks_[static_cast<std::size_t>(moved.computed_by)],
                      .to = ranks_[static_cast<std::size_t>(moved.home)],
                      .bytes = static_cast<std::int64_t>(store_.gradients().bytes())};
    const bool gives = transfer.from == communicator_.rank();
    if (gives || transfer.to == communicator_.rank()) {
      transfer.memory = memory(gives_.size() + receives_.size());
      (gives ? gives_ : receives_)[moved.unit] = transfers_.size();
    }
    transfers_.push_back(std::move(transfer));
  }
  start_when_given();
}

void UnitExchange::give(int unit) {
  backend_.download(store_.gradients(), transfers_[gives_.at(unit)].memory->data());
  ++given_;
  start_when_given();
}

void UnitExchange::finish(const std::function<void(const float* gradients, int unit)>& add) {
  if (transfers_.empty()) return;
  communicator_.all_reduce_finish();
  for (const auto& [unit, transfer] : receives_) {
    add(static_cast<const float*>(transfers_[transfer].memory->data()), unit);
  }
}

/// Only then is the memory of all transfers ready. A rank that gives nothing can receive from the start.
void UnitExchange::start_when_given() {
  if (given_ == gives_.size() && !transfers_.empty()) communicator_.transfers().start(transfers_);
}

std::shared_ptr<Buffer> UnitExchange::memory(std::size_t index) {
  const std::size_t bytes = store_.gradients().bytes();
  if (index == memory_.size()) {
    memory_.push_back(std::make_shared<Buffer>(
        backend_.host_memory() ? backend_.allocate(bytes, MemoryPurpose::gradients) : allocate_host(bytes)));
  }
  return memory_[index];
}

namespace {

std::int64_t choose_bucket_bytes(const TrainConfig& config, const ModelReplica& replica) {
  Communicator& communicator = replica.communicator;
  const std::int64_t gradient_bytes = replica.model.parameters().count() * static_cast<std::int64_t>(sizeof(float));
  if (replica.sharding.shards_optimizer()) return replica.sharding.scattered_bytes();
  return replica.sharding.single_copy()  // without buckets
             ? gradient_bytes
             : config.communication.bucket_bytes(gradient_bytes, communicator, communicator.device_memory());
}

int units_of_rank(const TrainConfig& config, const ModelReplica& replica) {
  return config.training.by_units() ? config.training.units / replica.communicator.size() : 1;
}

}  // namespace

UpdateGradients::UpdateGradients(const TrainConfig& config, ModelReplica& replica, StepClock& clock)
    : config_(config),
      replica_(replica),
      clock_(clock),
      units_(replica.backend, replica.model.parameters(), units_of_rank(config, replica)),
      exchange_(replica.backend, replica.communicator, replica.model.parameters()),
      bucket_bytes_(choose_bucket_bytes(config, replica)),
      reducer_(replica.sharding.make_reducer(replica.model.parameters(), bucket_bytes_, replica.model.shared_table(),
                                             config.comm_options().order)),
      replays_(config.training.cuda_graphs && !replica.backend.host_memory()) {}

std::int64_t UpdateGradients::bucket_bytes() const {
  return replica_.communicator.size() == 1 || replica_.sharding.single_copy() ? 0 : bucket_bytes_;
}

FetchedLosses UpdateGradients::forward_backward(const UpdateBatches& batches, std::size_t index) {
  const std::size_t per_unit = batches.micro_batches_per_unit();
  const int unit = batches.computed[index / per_unit];
  const bool moves = !batches.units.has(unit);
  if (index == 0) begin(batches);
  if (index % per_unit == 0) units_.begin(moves ? 0 : unit - batches.units.first);
  const WorkRange range(replica_.backend, "micro_batch");
  Context context = make_context(batches, index);
  const PackedBatch& batch = batches.micro_batches[index];
  const float scale = 1.0f / static_cast<float>(batches.global_target_tokens);
  if (replays_) return replay(context, batch, scale);
  clock_.enter(StepPart::forward);
  const DeviceBatch on_device(replica_.backend, context.saved, batch);
  FetchedLosses losses(replica_.backend, replica_.model.add_gradients(context, on_device, scale));
  if (moves && (index + 1) % per_unit == 0) exchange_.give(unit);
  return losses;
}

void UpdateGradients::begin(const UpdateBatches& batches) {
  if (!replica_.backend.host_memory()) replica_.await_weights();  // a recorded pass cannot wait in its middle
  own_units_ = batches.units;
  receives_ = batches.receives();
  exchange_.begin(batches);
  // The last batch of a rank that waits for units is not its last gradient, so tables are reduced as a whole.
  const bool rows = reduces_embedding_rows() && batches.moved.empty();
  embedding_rows_ = reducer_->begin(rows ? &batches.micro_batches.back() : nullptr);
}

/// Adds the units of this rank that others computed.
void UpdateGradients::add_moved_units() {
  exchange_.finish([this](const float* gradients, int unit) { units_.add_all(gradients, unit - own_units_.first); });
  if (!receives_) return;
  const auto& parameters = replica_.model.parameters().all();
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) report(*parameter);
}

/// The parameter's gradient is complete on this rank.
void UpdateGradients::report(const Parameter& parameter) {
  // The gradient's norm must not contain frozen parameters.
  if (replica_.adam.freezes(parameter)) replica_.backend.run(Fill{.y = parameter.gradient, .value = 0});
  reducer_->ready(parameter);
}

void UpdateGradients::reduce() {
  clock_.enter(StepPart::communication);
  const WorkRange range(replica_.backend, "gradient_sum");
  add_moved_units();
  reducer_->finish();
}

GradientSquares UpdateGradients::squares() {
  clock_.enter(StepPart::optimizer);
  const ConstTensor squares = reducer_->squares();
  return {.on_backend = squares, .fetched = replica_.backend.fetch(squares)};
}

Context UpdateGradients::make_context(const UpdateBatches& batches, std::size_t index) {
  Context context = replica_.arenas.begin(replica_.model.compute_dtype());
  context.training = true;
  const std::size_t per_unit = batches.micro_batches_per_unit();
  context.accumulate = index % per_unit > 0;
  context.dropout_seed =
      derive_seed(static_cast<std::uint64_t>(config_.training.seed), static_cast<std::uint64_t>(batches.update));
  context.layer_drop = static_cast<float>(config_.training.layer_drop);
  context.clock = &clock_;
  WeightsGather* const weights = replica_.weights_gather.get();
  if (weights != nullptr && replica_.backend.host_memory()) {
    context.before_read = [this, weights](const Parameter& parameter) {
      if (weights->has(parameter)) return;
      clock_.enter(StepPart::communication);
      weights->wait_for(parameter);
      clock_.enter(StepPart::forward);
    };
  }
  const int unit = batches.computed[index / per_unit];
  if ((index + 1) % per_unit != 0 || !batches.units.has(unit)) return context;
  const bool last = index + 1 == batches.micro_batches.size() && !receives_;
  if (last) context.embedding_rows = embedding_rows_;
  context.gradient_ready = [this, last, own = unit - batches.units.first](const Parameter& parameter) {
    units_.add(parameter, own);
    if (last) report(parameter);
  };
  return context;
}

/// Pads the batch to one of a few sizes, so that the device can replay the whole pass. Nothing can be sent to
/// other ranks in the middle of a recording, so all gradients are reported ready at the end.
FetchedLosses UpdateGradients::replay(Context& context, const PackedBatch& batch, float gradient_scale) {
  context.clock = nullptr;  // its marks would be replayed too
  const auto ready = std::exchange(context.gradient_ready, {});
  const PackedBatch padded = padded_batch(batch);
  const DeviceBatch on_device(replica_.backend, context.saved, padded);
  clock_.enter(StepPart::whole_pass);
  std::optional<Arena::Scope> kept;  // each call begins at the same address
  const ConstTensor losses = replica_.backend.repeat([&] {
    kept.reset();
    kept.emplace(context.saved);
    return replica_.model.add_gradients(context, on_device, gradient_scale);
  });
  FetchedLosses fetched(replica_.backend, losses, padded.target_in.tokens() - batch.target_in.tokens());
  if (!ready) return fetched;
  const auto& parameters = replica_.model.parameters().all();
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) ready(*parameter);
  return fetched;
}

/// A recorded pass does not contain the rows of other batches, and a frozen table's gradient is 0.
bool UpdateGradients::reduces_embedding_rows() const {
  const Parameter* table = replica_.model.shared_table();
  return !replays_ && table != nullptr && !replica_.adam.freezes(*table);
}

}  // namespace babelring
