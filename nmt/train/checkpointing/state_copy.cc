#include "nmt/train/checkpointing/state_copy.h"

#include <algorithm>
#include <utility>

#include "nmt/train/checkpointing/training_state.h"

namespace babelring {

namespace {

constexpr std::int64_t max_steps = 16;                  // updates beside which the values travel
constexpr std::int64_t min_message_elements = 1 << 16;  // smaller messages would cost more than they spread

std::int64_t elements_in(const ElementRange& range) {
  return range.end - range.begin;
}

ElementRange elements_of(const std::deque<Parameter>& parameters, const ParameterSpan& range) {
  if (range.begin == range.end) return {};
  const Parameter& last = parameters[range.end - 1];
  return {.begin = parameters[range.begin].offset, .end = last.offset + last.shape.elements()};
}

}  // namespace

StateCopy::StateCopy(const ModelReplica& replica, const std::vector<std::optional<ShardIndex>>& shards)
    : replica_(&replica) {
  const std::deque<Parameter>& parameters = replica.model.parameters().all();
  const auto parameters_of = [&](const std::optional<ShardIndex>& shard) {
    return shard ? parameters_of_shard(parameters, *shard) : ParameterSpan();
  };
  const ParameterSpan range = parameters_of(shards[static_cast<std::size_t>(replica.communicator.rank())]);
  shard_ = elements_of(parameters, range);
  for (std::size_t array = 0; array < arrays(); ++array) {
    values_[array] = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(elements_in(shard_)));
  }
  name_tensors(range);
  if (replica.sharding.shards_optimizer()) {
    std::vector<ElementRange> wanted;
    for (const auto& shard : shards) wanted.push_back(elements_of(parameters, parameters_of(shard)));
    plan_messages(wanted);
    start_step();
  } else if (elements_in(shard_) > 0) {
    for (std::size_t array = 0; array < arrays(); ++array) read({array, shard_}, values_[array].get());
  }
}

std::size_t StateCopy::arrays() const {
  return replica_->adam.average() == nullptr ? max_arrays - 1 : max_arrays;
}

void StateCopy::name_tensors(const ParameterSpan& range) {
  const std::deque<Parameter>& parameters = replica_->model.parameters().all();
  constexpr std::array<const char*, max_arrays> prefixes{"", "m.", "v.", raw_weight_prefix};
  for (std::size_t array = 0; array < arrays(); ++array) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const float* const values = values_[array].get() + (parameters[i].offset - shard_.begin);
      (array == 0 ? weights_ : moments_)
          .push_back({.name = prefixes.at(array) + parameters[i].name,
                      .tensor = ConstTensor(values, parameters[i].shape, DType::f32)});
    }
  }
}

/// `wanted`: the shard of each rank.
void StateCopy::plan_messages(const std::vector<ElementRange>& wanted) {
  const int own = replica_->communicator.rank();
  for (int to = 0; to < std::ssize(wanted); ++to) {
    const ElementRange& shard = wanted[static_cast<std::size_t>(to)];
    if (elements_in(shard) == 0) continue;
    for (int from = 0; from < std::ssize(wanted); ++from) {
      const std::vector<ElementRange> kept = replica_->sharding.shard_of(from).within(shard);
      if (from != to) {
        add_messages(from, to, kept);
      } else if (to == own) {
        for (const Part& part : parts_of(kept)) read(part, place_of(part));
      }
    }
  }
}

std::vector<StateCopy::Part> StateCopy::parts_of(const std::vector<ElementRange>& ranges) const {
  std::vector<Part> parts;
  for (std::size_t array = 0; array < arrays(); ++array) {
    for (const ElementRange& range : ranges) parts.push_back({array, range});
  }
  return parts;
}

/// Divides what a rank sends to another among the steps, and copies it if it is this rank's.
void StateCopy::add_messages(int from, int to, const std::vector<ElementRange>& kept) {
  const std::vector<Part> parts = parts_of(kept);
  std::int64_t total = 0;
  for (const Part& part : parts) total += elements_in(part.elements);
  const std::int64_t enough = std::max(min_message_elements, (total + max_steps - 1) / max_steps);
  std::size_t step = 0;
  for (std::size_t first = 0; first < parts.size(); ++step) {
    Message message{.transfer = {.from = from, .to = to}};
    std::int64_t elements = 0;
    for (; first < parts.size() && elements < enough; ++first) {
      message.parts.push_back(parts[first]);
      elements += elements_in(parts[first].elements);
    }
    message.transfer.bytes = elements * std::int64_t{sizeof(float)};
    if (from == replica_->communicator.rank()) {
      allocate(message);
      auto* next = static_cast<float*>(message.transfer.memory->data());
      for (const Part& part : message.parts) {
        read(part, next);
        next += elements_in(part.elements);
      }
    }
    const int own = replica_->communicator.rank();
    if (from != own && to != own) message.parts.clear();  // of many ranks they would take much memory
    if (step == steps_.size()) steps_.emplace_back();
    steps_[step].push_back(std::move(message));
  }
}

void StateCopy::allocate(Message& message) {
  message.transfer.memory = std::make_shared<Buffer>(allocate_host(static_cast<std::size_t>(message.transfer.bytes)));
}

/// Copies values that this rank keeps.
void StateCopy::read(const Part& part, float* values) const {
  const Adam& adam = replica_->adam;
  const ElementRange& range = part.elements;
  const std::array<const Moment*, max_arrays> kept{adam.average(), &adam.first_moment(), &adam.second_moment(),
                                                   nullptr};
  const Moment* moment = kept[part.array];
  const ConstTensor from = moment != nullptr
                               ? moment->part(range)
                               : replica_->model.parameters().masters().row_slice(range.begin, elements_in(range));
  replica_->backend.download(from, values);
}

float* StateCopy::place_of(const Part& part) const {
  return values_[part.array].get() + (part.elements.begin - shard_.begin);
}

/// Starts the messages of the next step.
void StateCopy::start_step() {
  if (complete()) return;
  std::vector<Transfer> transfers;
  for (Message& message : steps_[arrived_]) {
    if (message.transfer.to == replica_->communicator.rank()) allocate(message);
    transfers.push_back(message.transfer);
  }
  replica_->communicator.transfers().start(transfers);
}

void StateCopy::advance() {
  if (complete()) return;
  for (Message& message : std::exchange(steps_[arrived_], {})) {
    if (message.transfer.to != replica_->communicator.rank()) continue;
    const auto* next = static_cast<const float*>(message.transfer.memory->data());
    for (const Part& part : message.parts) {
      std::copy_n(next, elements_in(part.elements), place_of(part));
      next += elements_in(part.elements);
    }
  }
  ++arrived_;
  start_step();
}

void StateCopy::finish() {
  while (!complete()) {
    replica_->communicator.all_reduce_finish();
    advance();
  }
}

}  // namespace babelring
