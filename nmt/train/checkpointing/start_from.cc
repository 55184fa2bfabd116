#include "nmt/train/checkpointing/start_from.h"

#include <fnmatch.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "nmt/checkpoint/store.h"
#include "nmt/comm/rank_results.h"
#include "nmt/train/checkpointing/model_loader.h"
#include "nmt/train/checkpointing/resume_check.h"

namespace babelring {

namespace {

/// A few parameter names as examples for an error message.
std::string some_names(const ParameterStore& parameters) {
  std::vector<std::string> names;
  const std::size_t step = std::max<std::size_t>(1, parameters.all().size() / 6);
  for (std::size_t i = 0; i < parameters.all().size(); i += step) names.push_back(parameters.all()[i].name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Throws UsageFailure unless the checkpoint has the run's vocabulary.
void check_vocabulary(const Checkpoint& checkpoint, const Vocabulary& vocabulary, const TrainConfig& config) {
  const std::string found = vocabulary_digest(checkpoint);
  if (found == vocabulary.digest()) return;
  throw UsageFailure(
      fmt::format("training.start_from: the vocabulary of {} is {:.12}, the vocabulary of data.folder {} is {:.12}; "
                  "prepare the data with `nmt prepare --vocabulary {}`",
                  config.training.start_from, found, config.data.folder, vocabulary.digest(),
                  (checkpoint.folder / "spm.model").string()));
}

/// Lists the model keys that differ.
std::string model_differences(ModelConfig before, ModelConfig after) {
  OptionBinder old_keys, new_keys;
  before.bind(old_keys);
  after.bind(new_keys);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < new_keys.fields().size(); ++i) {
    const std::string then = old_keys.fields()[i].get(), now = new_keys.fields()[i].get();
    if (then != now) lines.push_back(fmt::format("model.{} {} → {}", new_keys.fields()[i].key, then, now));
  }
  return fmt::format("{}", fmt::join(lines, ", "));
}

}  // namespace

std::vector<const Parameter*> frozen_parameters(const ParameterStore& parameters, const std::string& globs) {
  std::vector<const Parameter*> frozen;
  std::vector<bool> seen(parameters.all().size());
  std::istringstream list(globs);
  for (std::string glob; std::getline(list, glob, ',');) {
    bool matched = false;
    for (const Parameter& parameter : parameters.all()) {
      if (fnmatch(glob.c_str(), parameter.name.c_str(), 0) != 0) continue;
      matched = true;
      if (!seen[parameter.index]) frozen.push_back(&parameter);
      seen[parameter.index] = true;
    }
    if (!matched) {
      throw UsageFailure(fmt::format("training.freeze: '{}' matches no parameter; parameters are {}, …", glob,
                                     some_names(parameters)));
    }
  }
  if (frozen.size() == parameters.all().size()) {
    throw UsageFailure(fmt::format("training.freeze: '{}' matches every parameter; nothing is left to train", globs));
  }
  return frozen;
}

void start_from_checkpoint(const TrainConfig& config, const Vocabulary* vocabulary, Model& model,
                           const ParameterSharding& sharding, Backend& backend, Communicator& communicator) {
  run_on_rank_0(communicator, [&] {
    const Result<Checkpoint> loaded = find_and_load_checkpoint(config.training.start_from, Verify::model);
    if (!loaded.ok()) throw UsageFailure("training.start_from: " + loaded.error());
    const std::filesystem::path& folder = loaded->folder;
    const Checkpoint& checkpoint = *loaded;
    if (vocabulary != nullptr) check_vocabulary(checkpoint, *vocabulary, config);
    const TensorFiles weights = checkpoint.weights();
    if (!weights_fit(weights, model.parameters())) {
      const std::filesystem::path file = checkpoint.folder / "config.yaml";
      const TrainConfig stored = read_stored_config(read_file(file), file.string());
      throw UsageFailure(fmt::format("training.start_from: the weights of {} do not fit this model: {}",
                                     folder.string(), model_differences(stored.model, config.model)));
    }
    read_weights(weights, model, backend);
    spdlog::info("training.start_from: starting from the weights of {}, update {}", folder.string(), checkpoint.update);
  });
  sharding.broadcast(model.parameters().masters());
  sharding.write([&] { model.refresh_compute_copies(backend); });
  sharding.drop_other_masters(model.parameters());
}

}  // namespace babelring
