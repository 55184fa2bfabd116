#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/records/records.h"
#include "base/result.h"
#include "nmt/checkpoint/safetensors.h"
#include "nmt/core/parameters.h"

namespace babelring {

/// SHA-256 digests of a model's weights, which do not depend on the file that contains them.
struct WeightsDigest {
  /// By parameter name: the digest of its f32 elements in row-major order, little-endian.
  std::map<std::string, std::string> parameters;
  /// The root of the Merkle tree over the parameters in the order of their names, as 64 hexadecimal digits: weights
  /// with equal roots are equal. Empty: not known, as in checkpoints of older versions.
  std::string root;

  friend bool operator==(const WeightsDigest&, const WeightsDigest&) = default;
};

/// The root over digests of parameters by name. A leaf is SHA-256(byte 0, NAME, one space, DIGEST); an inner node is
/// SHA-256(byte 1, left, right), where digests are hexadecimal digits and the left part has the largest power of two of
/// leaves below their number.  Tree: RFC 6962, section 2.1.
std::string merkle_root(const std::map<std::string, std::string>& parameters);

/// The digests of contiguous tensors in host memory.
WeightsDigest digest_of_weights(std::span<const NamedTensor> weights);

/// {"root": "…", "parameters": {NAME: DIGEST, …}}
json::object to_json(const WeightsDigest& digest);
/// Throws Failure if members are missing or the root is not that of the parameters.
WeightsDigest weights_digest_from_json(const json::value& value);

/// Shard `index` (from 0) of the `count` into which hosts divide a checkpoint's tensors.
struct ShardIndex {
  int index = 0, count = 1;
};

/// Parameters [begin, end) in the order of their declaration.
struct ParameterSpan {
  std::size_t begin = 0, end = 0;
};

/// The parameters of a shard. Shards follow one another, so their tensors are in the order of an unsharded file. Each
/// has its part of the bytes, give or take the size of one parameter. A shard may be empty.
ParameterSpan parameters_of_shard(const std::deque<Parameter>& parameters, ShardIndex place);

/// A host's part of a checkpoint.
struct CheckpointShard {
  CheckpointFile weights, optimizer;
  WeightsDigest digest;      // of its weights; the root is over these only
  double write_seconds = 0;  // until both files were durable
};

/// Writes the files of a shard into the checkpoint's folder. Throws Failure, also if a weight is not finite.
CheckpointShard write_shard(const std::filesystem::path& folder, ShardIndex place, std::span<const NamedTensor> weights,
                            std::span<const NamedTensor> optimizer);

/// For sending it to other ranks.
json::object to_json(const CheckpointShard& shard);
CheckpointShard shard_from_json(const json::value& value);

/// The digest of the weights of all shards.
WeightsDigest digest_of_shards(std::span<const CheckpointShard> shards);

/// {"name": …, "size": …, "sha256": …}. The inverse throws boost::system::system_error or std::out_of_range.
json::object to_json(const CheckpointFile& file);
CheckpointFile checkpoint_file_from_json(const json::value& value);

/// The tensors of one or several safetensors files, as if they were in one: the weights or the moments of a checkpoint.
/// Views are valid as long as the object.
class TensorFiles {
 public:
  /// Maps the files, at least one. Throws the Failures of SafetensorsReader, and one that names both files if two have
  /// a tensor of the same name.
  explicit TensorFiles(const std::vector<std::filesystem::path>& files);

  const std::vector<SafetensorsReader>& files() const { return files_; }
  /// The names of all tensors, in the order of files and of positions in them.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(std::string_view name) const { return file_of_.contains(name); }

  /// Like SafetensorsReader::tensor().
  ConstTensor tensor(std::string_view name) const;
  ConstTensor tensor(std::string_view name, const Shape& shape, DType dtype = DType::f32) const;

 private:
  const SafetensorsReader& reader_of(std::string_view name) const;

  std::vector<SafetensorsReader> files_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t, std::less<>> file_of_;  // by name of the tensor: index in files_
};

/// Gives back the memory of the whole pages of a mapped tensor, which is read again from its file at the next use. Who
/// goes over a checkpoint one tensor after the other needs the memory of the largest, not of all.
void release_pages(const ConstTensor& mapped);

/// Checks that all values of the f32 tensors are finite; other types are not checked. The Error names the first value
/// that is not: "decoder.norm.gain[0] is nan". The tensors must be contiguous and in host memory.
Status check_finite(std::span<const NamedTensor> tensors);

/// Checks the weights of a checkpoint in the same way: "FILE: weights are not finite: decoder.norm.gain[0] is nan".
Status check_finite(const TensorFiles& weights);

/// Throw Failure if a weight is not finite: "weights are not finite: …", in a checkpoint after "FILE: ".
void require_finite(std::span<const NamedTensor> weights);
void require_finite(const TensorFiles& weights);

}  // namespace babelring
