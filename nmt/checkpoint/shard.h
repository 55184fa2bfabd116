#pragma once

#include <deque>
#include <filesystem>
#include <span>
#include <vector>

#include "base/json.h"
#include "base/records/records.h"
#include "nmt/checkpoint/safetensors.h"
#include "nmt/checkpoint/weights_digest.h"
#include "nmt/core/parameters.h"

namespace babelring {

/// Shard `index` (from 0) of the `count` into which hosts divide a checkpoint's tensors.
struct ShardPlace {
  int index = 0, count = 1;
};

/// Parameters [begin, end) in the order of their declaration.
struct ParameterRange {
  std::size_t begin = 0, end = 0;
};

/// The parameters of a shard. Shards follow one another, so their tensors are in the order of an unsharded file. Each
/// has its share of the bytes, give or take the size of one parameter. A shard may be empty.
ParameterRange parameters_of_shard(const std::deque<Parameter>& parameters, ShardPlace place);

/// A host's part of a checkpoint.
struct CheckpointShard {
  CheckpointFile weights, optimizer;
  WeightsDigest digest;      // of its weights; the root is over these only
  double write_seconds = 0;  // until both files were durable
};

/// Writes the files of a shard into the checkpoint's folder. Throws Failure, also if a weight is not finite.
CheckpointShard write_shard(const std::filesystem::path& folder, ShardPlace place, std::span<const NamedTensor> weights,
                            std::span<const NamedTensor> optimizer);

/// For sending it to other ranks.
json::object to_json(const CheckpointShard& shard);
CheckpointShard shard_from_json(const json::value& value);

/// The digest of the weights of all shards.
WeightsDigest digest_of_shards(std::span<const CheckpointShard> shards);

/// {"name": …, "size": …, "sha256": …}. The inverse throws boost::system::system_error or std::out_of_range.
json::object to_json(const CheckpointFile& file);
CheckpointFile checkpoint_file_from_json(const json::value& value);

}  // namespace babelring
