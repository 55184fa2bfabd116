#include "nmt/train/start_from.h"

#include <spdlog/spdlog.h>

#include "nmt/checkpoint/store.h"
#include "nmt/comm/rank_results.h"
#include "nmt/train/checkpointing/model_loader.h"
#include "nmt/train/checkpointing/resume_check.h"

namespace babelring {
namespace {

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
