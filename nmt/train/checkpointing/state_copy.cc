#include "nmt/train/checkpointing/state_copy.h"

#include <algorithm>

namespace babelring {

StateCopy::StateCopy(const ModelReplica& replica, std::optional<ShardPlace> place) {
  const ParameterStore& store = replica.model.parameters();
  const ParameterSharding& sharding = replica.sharding;
  const ParameterRange range = place ? parameters_of_shard(store.all(), *place) : ParameterRange();
  const auto read_masters = [&](const ReadPart& read) {
    sharding.read_masters(store, [&] { read({.begin = 0, .end = store.flat_size()}, store.masters()); });
  };
  copy(replica, range, "", read_masters, weights_);
  copy(
      replica, range, "m.",
      [&](const ReadPart& read) { sharding.read_moment(store, replica.adam.first_moment(), read); }, moments_);
  copy(
      replica, range, "v.",
      [&](const ReadPart& read) { sharding.read_moment(store, replica.adam.second_moment(), read); }, moments_);
}

void StateCopy::copy(const ModelReplica& replica, ParameterRange range, const std::string& prefix,
                     const std::function<void(const ReadPart&)>& read, std::vector<NamedTensor>& tensors) {
  if (range.begin == range.end) return read([](const ElementRange&, const ConstTensor&) {});
  const std::deque<Parameter>& parameters = replica.model.parameters().all();
  const Parameter& last = parameters[range.end - 1];
  const ElementRange shard{.begin = parameters[range.begin].offset, .end = last.offset + last.shape.elements()};
  values_.push_back(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(shard.end - shard.begin)));
  float* const values = values_.back().get();
  read([&](const ElementRange& part, const ConstTensor& found) {
    const std::int64_t begin = std::max(part.begin, shard.begin), end = std::min(part.end, shard.end);
    if (begin >= end) return;
    replica.backend.download(found.row_slice(begin - part.begin, end - begin), values + (begin - shard.begin));
  });
  for (std::size_t i = range.begin; i < range.end; ++i) {
    tensors.push_back(
        {.name = prefix + parameters[i].name,
         .tensor = ConstTensor(values + (parameters[i].offset - shard.begin), parameters[i].shape, DType::f32)});
  }
}

}  // namespace babelring
