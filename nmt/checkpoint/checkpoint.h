#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/records.h"
#include "base/result.h"
#include "nmt/checkpoint/safetensors.h"

namespace babelring {

/// What a checkpoint is made of. Names and host tensors only: which model they belong to is the caller's affair.
struct CheckpointContent {
  std::int64_t update = 0;
  std::vector<NamedTensor> weights;                          // weights.safetensors: the f32 masters
  std::vector<NamedTensor> optimizer;                        // optimizer.safetensors: the moments; empty: no such file
  json::object state = {};                                   // the caller's own member `state` of state.json
  std::map<std::string, std::filesystem::path> copies = {};  // name in the checkpoint: file copied in (spm.model)
  std::map<std::string, std::string> texts = {};             // name in the checkpoint: content (config.yaml)
  double sacrebleu = std::numeric_limits<double>::quiet_NaN();  // NaN: not evaluated
  double loss = std::numeric_limits<double>::quiet_NaN();
  bool best = false;  // becomes what the link `best` points to, if its loss is finite
};

/// A checkpoint on disk: a folder update-00001000 with weights.safetensors, state.json, SHA256SUMS and more.
struct Checkpoint {
  std::filesystem::path folder;  // absolute
  std::int64_t update = 0;
  json::object state;                 // as given in CheckpointContent
  std::vector<CheckpointFile> files;  // all but SHA256SUMS
  double sacrebleu = 0, loss = 0;     // NaN: not evaluated

  SafetensorsReader weights() const { return SafetensorsReader(folder / "weights.safetensors"); }
  SafetensorsReader optimizer() const { return SafetensorsReader(folder / "optimizer.safetensors"); }
};

/// update-00001000.
std::string checkpoint_name(std::int64_t update);

/// The absolute path without a trailing slash, which shells append when they complete names: filename() is the name.
std::filesystem::path named_folder(const std::filesystem::path& folder);

/// What load_checkpoint() compares with state.json, besides the presence and size of each file.
enum class Verify {
  sizes,    // nothing else
  model,    // the digests of all files but the optimizer's: what translating needs
  digests,  // the digests of all files
};

/// Reads state.json and checks every file against it. The Error names the damaged file and what is wrong with it.
Result<Checkpoint> load_checkpoint(const std::filesystem::path& folder, Verify verify = Verify::digests);

/// Writes all files of a checkpoint into an existing, empty folder, each fsynced. Throws Failure (file, reason), also
/// if a weight is not finite. The record's `name` and `folder` are left empty: only the caller knows the final ones.
CheckpointRecord write_checkpoint_files(const CheckpointContent& content, const std::filesystem::path& folder);

/// The record of a checkpoint that exists, for the server.
CheckpointRecord record_of(const Checkpoint& checkpoint);

/// Averages weights.safetensors of checkpoints of one model, summing in double, into a new checkpoint folder `output`
/// that translates by itself (files besides weights, moments and state come from the last input). Throws Failure if
/// `output` exists, an input is damaged or has a weight that is not finite, or names and shapes differ.
Checkpoint average_checkpoints(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& output);

}  // namespace babelring
