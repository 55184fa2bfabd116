#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/records/records.h"
#include "base/result.h"
#include "nmt/checkpoint/safetensors.h"
#include "nmt/checkpoint/tensor_files.h"

namespace babelring {

/// The content of a new checkpoint: named host tensors and files. Independent of the model.
struct CheckpointContent {
  std::int64_t update = 0;
  std::vector<NamedTensor> weights;                             // weights.safetensors: the f32 master weights
  std::vector<NamedTensor> optimizer;                           // optimizer.safetensors: the moments; no file if empty
  std::vector<CheckpointShard> shards = {};                     // written by hosts, instead of weights and optimizer
  json::object state = {};                                      // caller-defined member `state` of state.json
  std::map<std::string, std::filesystem::path> copies = {};     // files to copy: name → source path (spm.model)
  std::map<std::string, std::string> texts = {};                // files to write: name → content (config.yaml)
  double sacrebleu = std::numeric_limits<double>::quiet_NaN();  // NaN if not evaluated
  double loss = std::numeric_limits<double>::quiet_NaN();
  bool best = false;  // make the link `best` point to it, if its loss is finite
};

/// A checkpoint on disk: a folder like update-00001000 with weights.safetensors or shards of it, state.json, SHA256SUMS
/// and other files.
struct Checkpoint {
  std::filesystem::path folder;  // absolute
  std::int64_t update = 0;
  json::object state;                 // as given in CheckpointContent
  WeightsDigest weights_digest;       // from state.json; root empty if an older version wrote it
  std::vector<CheckpointFile> files;  // all files except SHA256SUMS
  double sacrebleu = 0, loss = 0;     // NaN if not evaluated

  /// Throw Failure if a file is absent or cannot be read.
  TensorFiles weights() const;
  TensorFiles optimizer() const;
};

/// Folder name of a checkpoint: "update-00001000".
std::string checkpoint_name(std::int64_t update);

/// The absolute path without a trailing slash (which shell completion appends), so that filename() is the folder's
/// name.
std::filesystem::path named_folder(const std::filesystem::path& folder);

/// Checks by load_checkpoint() in addition to the presence and size of each file.
enum class Verify {
  sizes,    // nothing more
  model,    // digests of all files except the optimizer's; sufficient for translating
  digests,  // the digests of all files
};

/// Reads state.json and checks all files against it. The Error names the damaged file and the defect, or a shard that
/// state.json does not list.
Result<Checkpoint> load_checkpoint(const std::filesystem::path& folder, Verify verify = Verify::digests);

/// Writes and fsyncs all files of a checkpoint in an existing folder, which has nothing but the files of
/// content.shards. Throws Failure (file, reason), also if a weight is not finite or a shard is not there. Leaves the
/// record's `name` and `folder` empty, because the caller knows the final location.
CheckpointRecord write_checkpoint_files(const CheckpointContent& content, const std::filesystem::path& folder);

/// The record of an existing checkpoint, for the server.
CheckpointRecord record_of(const Checkpoint& checkpoint);

/// Averages the weights of several checkpoints of one model, summing in double, into a new checkpoint folder `output`.
/// Other files are copied from the last input, so `output` can be used for translation. Throws Failure if `output`
/// exists, an input is damaged or has a non-finite weight, or names and shapes differ.
Checkpoint average_checkpoints(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& output);

/// (1 - alpha) base + alpha tuned of each element, in double and rounded to f32; at alpha 0 and 1 the bits of `base`
/// and `tuned`. Both have as many elements as `result`, which is overwritten. `alpha`: from 0 to 1.
void interpolate(const float* base, const float* tuned, double alpha, std::vector<float>& result);

/// The checkpoint between two of one model, whose weights are those of interpolate(), as a new folder `output`. Other
/// files are copied from `tuned`. Throws like average_checkpoints().
Checkpoint interpolate_checkpoints(const std::filesystem::path& base, const std::filesystem::path& tuned, double alpha,
                                   const std::filesystem::path& output);

}  // namespace babelring
