#include "nmt/checkpoint/shard.h"

#include <algorithm>

#include "base/clock.h"
#include "base/tensor_file_name.h"
#include "nmt/checkpoint/finite.h"

namespace babelring {

ParameterRange parameters_of_shard(const std::deque<Parameter>& parameters, ShardPlace place) {
  if (parameters.empty()) return {};
  const auto end_of = [](const Parameter& parameter) { return parameter.offset + parameter.shape.elements(); };
  const std::int64_t total = end_of(parameters.back());
  // The index of the first parameter whose middle lies in shard `index` or behind it.
  const auto first_of = [&](int index) {
    const auto at = std::partition_point(parameters.begin(), parameters.end(), [&](const Parameter& parameter) {
      return (parameter.offset + end_of(parameter)) * place.count < 2 * total * index;
    });
    return static_cast<std::size_t>(at - parameters.begin());
  };
  return {.begin = first_of(place.index), .end = first_of(place.index + 1)};
}

CheckpointShard write_shard(const std::filesystem::path& folder, ShardPlace place, std::span<const NamedTensor> weights,
                            std::span<const NamedTensor> optimizer) {
  const Stopwatch watch;
  require_finite(weights);
  const auto write = [&](std::string_view tensors, std::span<const NamedTensor> content) {
    return write_safetensors(folder / tensor_file_name(tensors, place.index, place.count), content);
  };
  CheckpointShard shard;
  shard.weights = write(weight_tensors, weights);
  shard.optimizer = write(optimizer_tensors, optimizer);
  shard.digest = digest_of_weights(weights);
  shard.write_seconds = watch.elapsed_ms() / 1000;
  return shard;
}

json::object to_json(const CheckpointShard& shard) {
  return {{"weights", to_json(shard.weights)},
          {"optimizer", to_json(shard.optimizer)},
          {"digest", to_json(shard.digest)},
          {"write_seconds", shard.write_seconds}};
}

CheckpointShard shard_from_json(const json::value& value) {
  return {.weights = checkpoint_file_from_json(value.at("weights")),
          .optimizer = checkpoint_file_from_json(value.at("optimizer")),
          .digest = weights_digest_from_json(value.at("digest")),
          .write_seconds = value.at("write_seconds").to_number<double>()};
}

WeightsDigest digest_of_shards(std::span<const CheckpointShard> shards) {
  WeightsDigest digest;
  for (const CheckpointShard& shard : shards) {
    digest.parameters.insert(shard.digest.parameters.begin(), shard.digest.parameters.end());
  }
  digest.root = merkle_root(digest.parameters);
  return digest;
}

json::object to_json(const CheckpointFile& file) {
  return {{"name", file.name}, {"size", file.size}, {"sha256", file.sha256}};
}

CheckpointFile checkpoint_file_from_json(const json::value& value) {
  const json::object& file = value.as_object();
  return {.name = std::string(std::string_view(file.at("name").as_string())),
          .size = file.at("size").as_int64(),
          .sha256 = std::string(std::string_view(file.at("sha256").as_string()))};
}

}  // namespace babelring
