#include "nmt/train/checkpointing/state_copy.h"

namespace babelring {

StateCopy::StateCopy(const ModelReplica& replica, ShardPlace place) {
  const ParameterStore& store = replica.model.parameters();
  const ParameterRange range = parameters_of_shard(store.all(), place);
  if (range.begin == range.end) return;
  copy(replica, range, store.masters(), "", weights_);
  copy(replica, range, replica.adam.first_moment(), "m.", moments_);
  copy(replica, range, replica.adam.second_moment(), "v.", moments_);
}

void StateCopy::copy(const ModelReplica& replica, ParameterRange range, ConstTensor flat, const std::string& prefix,
                     std::vector<NamedTensor>& tensors) {
  const std::deque<Parameter>& parameters = replica.model.parameters().all();
  const std::int64_t first = parameters[range.begin].offset;
  const Parameter& last = parameters[range.end - 1];
  const std::int64_t elements = last.offset + last.shape.elements() - first;
  values_.push_back(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(elements)));
  const float* values = values_.back().get();
  replica.backend.download(ConstTensor(flat.as<float>() + first, {elements}, DType::f32), values_.back().get());
  for (std::size_t i = range.begin; i < range.end; ++i) {
    tensors.push_back(
        {.name = prefix + parameters[i].name,
         .tensor = ConstTensor(values + (parameters[i].offset - first), parameters[i].shape, DType::f32)});
  }
}

}  // namespace babelring
