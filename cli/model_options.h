#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/translate_options.h"
#include "nmt/checkpoint/store.h"  // find_checkpoint()
#include "nmt/decode/translator.h"
#include "nmt/ops/backend.h"
#include "nmt/train/checkpointing/training_state.h"

namespace CLI {
class App;
}

namespace babelring {

/// True if the path is a run's folder or its checkpoints/, with at least one checkpoint.
bool is_run_folder(const std::filesystem::path& given);

/// The newest `count` checkpoints of a run's folder or its checkpoints/, oldest first. Throws Failure if there are
/// fewer.
std::vector<std::filesystem::path> last_checkpoints(const std::filesystem::path& given, int count);

/// Throws Failure that names both unless two checkpoints have the same vocabulary and the same model but for dropout
/// rates, which affect only training. `command`: for messages.
void require_same_model(std::string_view command, const Checkpoint& first, const Checkpoint& other);

/// Models that translate together, the first of which is the model of --checkpoint.
struct LoadedEnsemble {
  std::vector<LoadedModel> models;  // with one vocabulary
  std::vector<double> weights;      // one each
  Combination combination = Combination::probabilities;

  /// A translator of all models, which must outlive it as must `backend`. Logs their memory if there are several.
  Translator translator(Backend& backend) const;
};

/// How many models a command takes: with `ensemble`, --checkpoint may be given several times.
enum class Models { one, ensemble };

/// Options of all subcommands that run a model.
struct ModelOptions {
  std::string checkpoint;
  std::vector<std::string> further_checkpoints;  // of an ensemble
  std::vector<double> weights;                   // of the ensemble's models; empty: equal ones
  Combination combination = Combination::probabilities;
  DType precision = DType::f32;
  DeviceChoice device = DeviceChoice::automatic;
  int threads = 0;
  TranslateChoices search;
  std::string shortlist;  // a file; empty: none

  /// Adds --checkpoint, --precision and --threads, and for an ensemble --weights and --combine. They are bound to this
  /// object, which must outlive `command`.
  void declare_model(CLI::App& command, Models models = Models::one);
  /// The same, with the options of beam search.
  void declare(CLI::App& command, Models models = Models::one);

  /// Adds the options of samples. Call choose_search() once they are parsed.
  void declare_sampling(CLI::App& command);

  /// Adds --device, for commands that may use a GPU. The translation service does not, since GPUs are left to training.
  void declare_device(CLI::App& command);

  /// Reads --shortlist; null if there is none. Throws Failure or UsageFailure if it does not fit.
  std::shared_ptr<const Shortlist> load_shortlist(const Vocabulary& vocabulary) const;

  /// `search` for this model or ensemble, as options_with() has it, with the shortlist. Logs if --max-source is too
  /// large for it.
  TranslateOptions translate_with(const LoadedModel& loaded) const;
  TranslateOptions translate_with(const LoadedEnsemble& ensemble) const;

  /// Creates the backend of the chosen device. Throws Failure if it is not available.
  std::unique_ptr<Backend> make_backend() const;
  /// Loads the checkpoint of a translation model. Throws Failure if it is absent or damaged, UsageFailure that names
  /// the command for it if it holds another model.
  LoadedModel load(Backend& backend) const;
  /// Loads the models of all --checkpoint options. Throws like load(), and Failure that names two of them if their
  /// vocabularies differ, UsageFailure if the weights do not fit.
  LoadedEnsemble load_ensemble(Backend& backend) const;
  /// Loads the checkpoint of any model. Throws Failure if it is absent or damaged.
  LoadedModel load_any(Backend& backend) const;
};

/// The options of a search with this model: with the bounds of lines that it translates whole, its pieces for words.
/// No part of a line has more subwords than data.max_length of the training allowed. Throws UsageFailure if the model's
/// vocabulary does not allow a choice.
TranslateOptions options_with(const TranslateChoices& choices, const LoadedModel& loaded);
/// The same for the first model, with the shortest data.max_length of all.
TranslateOptions options_with(const TranslateChoices& choices, const LoadedEnsemble& ensemble);

}  // namespace babelring
