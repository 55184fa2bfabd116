#include "nmt/train/checkpointing/state_copy.h"

namespace babelring {

StateCopy::StateCopy(const ModelReplica& replica, std::optional<ShardPlace> place) {
  const ParameterStore& store = replica.model.parameters();
  const ParameterRange range = place ? parameters_of_shard(store.all(), *place) : ParameterRange();
  copy(replica, range, store.masters(), "", weights_);
  copy(replica, range, replica.adam.first_moment(), "m.", moments_);
  copy(replica, range, replica.adam.second_moment(), "v.", moments_);
}

void StateCopy::copy(const ModelReplica& replica, ParameterRange range, Tensor flat, const std::string& prefix,
                     std::vector<NamedTensor>& tensors) {
  if (range.begin == range.end) return replica.sharding.read_whole(replica.model.parameters(), flat, [] {});
  const std::deque<Parameter>& parameters = replica.model.parameters().all();
  const std::int64_t first = parameters[range.begin].offset;
  const Parameter& last = parameters[range.end - 1];
  const std::int64_t elements = last.offset + last.shape.elements() - first;
  values_.push_back(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(elements)));
  const float* values = values_.back().get();
  replica.sharding.read_whole(replica.model.parameters(), flat, [&] {
    replica.backend.download(ConstTensor(flat.as<float>() + first, {elements}, DType::f32), values_.back().get());
  });
  for (std::size_t i = range.begin; i < range.end; ++i) {
    tensors.push_back(
        {.name = prefix + parameters[i].name,
         .tensor = ConstTensor(values + (parameters[i].offset - first), parameters[i].shape, DType::f32)});
  }
}

}  // namespace babelring
