#include "nmt/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <string_view>

#include "base/clock.h"
#include "base/digest.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/log.h"
#include "base/names.h"
#include "base/result.h"
#include "base/version.h"
#include "base/work_folder.h"
#include "nmt/checkpoint/tensor_files.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

bool is_rewritten(std::string_view name) {
  return shards_of_file(name, weight_tensors) > 0 || shards_of_file(name, optimizer_tensors) > 0 ||
         name == "state.json";
}

std::unique_ptr<WorkFolder> work_folder_of(const fs::path& output, const char* command) try {
  return std::make_unique<WorkFolder>(output.parent_path(), output.filename().string());
} catch (const UsageFailure&) {
  throw;
} catch (const Failure& failure) {
  fail("{}: {}", command, failure.what());
}

/// How the weights of a new checkpoint come from those of others.
struct Merge {
  const char* command;  // for messages
  const char* member;   // of state.json, with the origin
  json::value origin;
  /// Sets `result` from the same tensor of each input.
  std::function<void(const std::vector<const float*>& inputs, std::vector<float>& result)> combine;
};

Checkpoint merge_checkpoints(const std::vector<fs::path>& inputs, const fs::path& output, const Merge& merge) try {
  const fs::path absolute = named_folder(output);
  const std::unique_ptr<WorkFolder> work = work_folder_of(absolute, merge.command);
  if (fs::exists(output)) throw UsageFailure(fmt::format("{}: {} exists already", merge.command, output.string()));
  std::vector<Checkpoint> checkpoints;
  std::vector<TensorFiles> weights;
  for (const fs::path& input : inputs) {
    checkpoints.push_back(load_checkpoint(input).value());
    weights.push_back(checkpoints.back().weights());
    require_finite(weights.back());
    if (weights.back().names().size() != weights.front().names().size()) {
      fail("{}: {} has {} tensors, {} has {}", merge.command, inputs.front().string(), weights.front().names().size(),
           input.string(), weights.back().names().size());
    }
  }

  const Checkpoint& last = checkpoints.back();
  CheckpointContent content{.update = last.update, .state = last.state};
  content.state[merge.member] = merge.origin;
  for (const CheckpointFile& file : last.files) {
    if (!is_rewritten(file.name)) content.copies[file.name] = last.folder / file.name;
  }
  std::vector<std::vector<float>> merged;
  for (const std::string& name : weights.front().names()) {
    const Shape shape = weights.front().tensor(name).shape;
    std::vector<const float*> values;
    for (const TensorFiles& input : weights) values.push_back(input.tensor(name, shape).as<float>());
    merge.combine(values, merged.emplace_back(static_cast<std::size_t>(shape.elements())));
    content.weights.push_back({name, ConstTensor(merged.back().data(), shape, DType::f32)});
  }

  write_checkpoint_files(content, work->path());
  work->publish(absolute);
  return load_checkpoint(absolute).value();
} catch (const fs::filesystem_error& error) {
  fail("{}: {}: {}", merge.command, error.path1().string(), error.code().message());
}

/// The name of a checkpoint, also of the one to which `best` points.
json::string name_of_folder(const fs::path& input) {
  return json::string(fs::weakly_canonical(named_folder(input)).filename().string());
}

}  // namespace

Checkpoint average_checkpoints(const std::vector<fs::path>& inputs, const fs::path& output) {
  if (inputs.empty()) throw UsageFailure("average: expected at least one checkpoint, found none");
  json::array names;
  for (const fs::path& input : inputs) names.emplace_back(name_of_folder(input));
  const auto mean = [](const std::vector<const float*>& values, std::vector<float>& result) {
    const auto count = static_cast<double>(values.size());
    for (std::size_t i = 0; i < result.size(); ++i) {
      double sum = 0;
      for (const float* input : values) sum += static_cast<double>(input[i]);
      result[i] = static_cast<float>(sum / count);
    }
  };
  return merge_checkpoints(inputs, output, {"average", "averaged_from", std::move(names), mean});
}

void interpolate(const float* base, const float* tuned, double alpha, std::vector<float>& result) {
  if (alpha == 0 || alpha == 1) {  // also of -0, to which adding 0 gives 0
    std::copy_n(alpha == 0 ? base : tuned, result.size(), result.begin());
    return;
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = static_cast<float>((1 - alpha) * static_cast<double>(base[i]) + alpha * static_cast<double>(tuned[i]));
  }
}

Checkpoint interpolate_checkpoints(const fs::path& base, const fs::path& tuned, double alpha, const fs::path& output) {
  json::object origin = {{"base", name_of_folder(base)}, {"tuned", name_of_folder(tuned)}, {"alpha", alpha}};
  const auto between = [alpha](const std::vector<const float*>& values, std::vector<float>& result) {
    interpolate(values[0], values[1], alpha, result);
  };
  return merge_checkpoints({base, tuned}, output, {"interpolate", "interpolated_from", std::move(origin), between});
}

namespace {

namespace fs = std::filesystem;
constexpr const char* state_name = "state.json";
constexpr const char* sums_name = "SHA256SUMS";

/// True for a file name that stays in the folder and does not replace state.json or SHA256SUMS.
bool plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 100 && name[0] != '.' && printable(name) == name &&
         name.find_first_of("/\\\n ") == std::string::npos && name != state_name && name != sums_name;
}

CheckpointFile write_text(const fs::path& file, std::string_view text) {
  write_file_atomically(file, text);
  return {.name = file.filename().string(), .size = static_cast<std::int64_t>(text.size()), .sha256 = sha256_hex(text)};
}

json::value number_or_null(double number) {
  return std::isfinite(number) ? json::value(number) : json::value(nullptr);
}

json::object state_document(const CheckpointContent& content, const std::vector<CheckpointFile>& files) {
  json::array list;
  for (const CheckpointFile& file : files) list.push_back(to_json(file));
  const WeightsDigest digest =
      content.shards.empty() ? digest_of_weights(content.weights) : digest_of_shards(content.shards);
  return {{"format", 1},
          {"update", content.update},
          {"time_ms", wall_time_ms()},
          {"version", version},
          {"metrics",
           json::object{{"sacrebleu", number_or_null(content.sacrebleu)}, {"loss", number_or_null(content.loss)}}},
          {"files", std::move(list)},
          {"weights", to_json(digest)},
          {"state", content.state}};
}

/// The content of SHA256SUMS: the digests of `files` in order. state.json must be last.
std::string sums_text(const std::vector<CheckpointFile>& files) {
  std::string text;
  for (const CheckpointFile& file : files) text += fmt::format("{}  {}\n", file.sha256, file.name);
  return text;
}

double metric(const json::object& document, const char* name) {
  const json::value& value = document.at("metrics").as_object().at(name);
  return value.is_null() ? std::nan("") : value.to_number<double>();
}

/// Throws Failure unless all files of these tensors are listed, each once; or none, if there are no such tensors.
void require_all_shards(const std::vector<CheckpointFile>& files, std::string_view tensors) {
  std::set<std::string> listed;
  int shards = 0;
  for (const CheckpointFile& file : files) {
    const int named = shards_of_file(file.name, tensors);
    if (named == 0) continue;
    if (shards == 0) shards = named;
    if (named != shards) fail("{} is listed beside {}", file.name, *listed.begin());
    if (!listed.insert(file.name).second) fail("{} is listed twice", file.name);
  }
  for (int shard = 0; shard < shards; ++shard) {
    const std::string name = tensor_file_name(tensors, shard, shards);
    if (!listed.contains(name)) fail("{} is listed without {}", *listed.begin(), name);
  }
}

/// Throws boost::system::system_error, std::out_of_range or Failure unless the document has the form of
/// state_document().
Checkpoint parse_state(const json::object& document, const fs::path& folder) {
  if (document.at("format").as_int64() != 1) fail("format {}, expected 1", document.at("format").as_int64());
  Checkpoint checkpoint;
  checkpoint.folder = named_folder(folder);
  checkpoint.update = document.at("update").as_int64();
  checkpoint.state = document.at("state").as_object();
  checkpoint.sacrebleu = metric(document, "sacrebleu");
  checkpoint.loss = metric(document, "loss");
  if (const json::value* weights = document.if_contains("weights")) {
    checkpoint.weights_digest = weights_digest_from_json(*weights);
  }
  for (const json::value& entry : document.at("files").as_array()) {
    checkpoint.files.push_back(checkpoint_file_from_json(entry));
    if (!plain_name(checkpoint.files.back().name)) fail("file name '{}'", printable(checkpoint.files.back().name));
  }
  for (const std::string_view tensors : {weight_tensors, optimizer_tensors}) {
    require_all_shards(checkpoint.files, tensors);
  }
  return checkpoint;
}

void verify_file(const fs::path& path, const CheckpointFile& file, Verify verify) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) fail("{}: {}", path.string(), error.message());
  if (size != static_cast<std::uintmax_t>(file.size)) {
    fail("{}: {} bytes, expected {}", path.string(), size, file.size);
  }
  const bool moments = shards_of_file(file.name, optimizer_tensors) > 0;
  if (verify == Verify::sizes || (verify == Verify::model && moments)) return;
  const std::string digest = sha256_file(path);
  if (digest != file.sha256) fail("{}: SHA-256 is {:.12}…, expected {:.12}…", path.string(), digest, file.sha256);
}

/// Writes weights and moments, or finds the shards that hosts have written.
std::vector<CheckpointFile> write_tensors(const CheckpointContent& content, const fs::path& folder) {
  std::vector<CheckpointFile> files;
  if (content.shards.empty()) {
    require_finite(content.weights);
    files.push_back(write_safetensors(folder / tensor_file_name(weight_tensors), content.weights));
    if (content.optimizer.empty()) return files;
    files.push_back(write_safetensors(folder / tensor_file_name(optimizer_tensors), content.optimizer));
    return files;
  }
  for (const CheckpointShard& shard : content.shards) files.push_back(shard.weights);
  for (const CheckpointShard& shard : content.shards) files.push_back(shard.optimizer);
  for (const CheckpointFile& file : files) verify_file(folder / file.name, file, Verify::sizes);
  return files;
}

TensorFiles tensors_of(const Checkpoint& checkpoint, std::string_view tensors) {
  std::vector<fs::path> paths;
  for (const CheckpointFile& file : checkpoint.files) {
    if (shards_of_file(file.name, tensors) > 0) paths.push_back(checkpoint.folder / file.name);
  }
  if (paths.empty()) paths.push_back(checkpoint.folder / tensor_file_name(tensors));  // its absence is the error
  return TensorFiles(paths);
}

}  // namespace

TensorFiles Checkpoint::weights() const {
  return tensors_of(*this, weight_tensors);
}

TensorFiles Checkpoint::optimizer() const {
  return tensors_of(*this, optimizer_tensors);
}

std::string checkpoint_name(std::int64_t update) {
  return fmt::format("update-{:08}", update);
}

fs::path named_folder(const fs::path& folder) {
  const fs::path absolute = fs::absolute(folder).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

CheckpointRecord write_checkpoint_files(const CheckpointContent& content, const fs::path& folder) {
  CheckpointRecord record{.update = content.update, .sacrebleu = content.sacrebleu, .loss = content.loss};
  record.best = content.best && std::isfinite(content.loss);
  record.version = version;
  auto& files = record.files;
  files = write_tensors(content, folder);
  const auto require_new = [&](const std::string& name) {
    if (!plain_name(name) || fs::exists(folder / name))
      fail("checkpoint: '{}' is not a new file name", printable(name));
  };
  for (const auto& [name, source] : content.copies) {
    require_new(name);
    files.push_back(write_text(folder / name, read_file(source)));
  }
  for (const auto& [name, text] : content.texts) {
    require_new(name);
    files.push_back(write_text(folder / name, text));
  }
  files.push_back(write_text(folder / state_name, to_text(state_document(content, files)) + "\n"));
  write_file_atomically(folder / sums_name, sums_text(files));
  return record;
}

Result<Checkpoint> load_checkpoint(const fs::path& folder, Verify verify) {
  try {
    const std::string text = read_file(folder / state_name);
    const auto document = parse_json(text);
    if (!document.ok()) fail("{}: {}", (folder / state_name).string(), document.error());
    Checkpoint checkpoint;
    try {
      checkpoint = parse_state(document->as_object(), folder);
    } catch (const std::exception& error) {
      fail("{}: not a checkpoint's state: {}", (folder / state_name).string(), error.what());
    }
    for (const CheckpointFile& file : checkpoint.files) verify_file(folder / file.name, file, verify);
    checkpoint.files.push_back({state_name, static_cast<std::int64_t>(text.size()), sha256_hex(text)});
    if (read_file(folder / sums_name) != sums_text(checkpoint.files)) {
      fail("{}: its digests differ from state.json or from those listed in state.json", (folder / sums_name).string());
    }
    return checkpoint;
  } catch (const Failure& failure) {
    return Error{fmt::format("checkpoint {}: {}", named_folder(folder).filename().string(), failure.what())};
  }
}

CheckpointRecord record_of(const Checkpoint& checkpoint) {
  CheckpointRecord record{.update = checkpoint.update, .name = checkpoint.folder.filename().string()};
  record.folder = checkpoint.folder.string();
  record.files = checkpoint.files;
  record.sacrebleu = checkpoint.sacrebleu;
  record.loss = checkpoint.loss;
  return record;
}

}  // namespace babelring
