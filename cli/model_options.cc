#include "cli/model_options.h"

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "base/failure.h"
#include "base/files.h"
#include "base/options/usage.h"
#include "nmt/parallel/device.h"
#include "nmt/train/checkpointing/resume_check.h"
#include "nmt/train/checkpointing/training_state.h"

namespace babelring {

namespace fs = std::filesystem;

namespace {

bool is_checkpoint(const fs::path& folder) {
  return fs::exists(folder / "state.json");
}

/// The checkpoints/ folder of a run's folder; any other folder itself.
fs::path store_of(const fs::path& given) {
  return fs::is_directory(given / "checkpoints") ? given / "checkpoints" : given;
}

std::vector<fs::path> all_checkpoints(const fs::path& store) {
  if (!fs::is_directory(store)) fail("{}: no such folder; expected a checkpoint or a run's folder", store.string());
  std::vector<fs::path> found = checkpoint_folders(store);
  std::erase_if(found, [](const fs::path& folder) { return !is_checkpoint(folder); });
  return found;
}

}  // namespace

bool is_run_folder(const fs::path& given) {
  return !is_checkpoint(given) && fs::is_directory(given) && !all_checkpoints(store_of(given)).empty();
}

std::vector<fs::path> last_checkpoints(const fs::path& given, int count) {
  std::vector<fs::path> found = all_checkpoints(store_of(given));
  const auto wanted = static_cast<std::ptrdiff_t>(count);
  if (found.empty()) fail("{}: no checkpoint here; expected update-NNN folders", given.string());
  if (std::ssize(found) < wanted) {
    fail("{}: found {} of {} checkpoints; --last {} takes all", given.string(), found.size(), count, found.size());
  }
  found.erase(found.begin(), found.end() - wanted);
  return found;
}

namespace {

std::string names_of(std::string_view command, const Checkpoint& first, const Checkpoint& other) {
  return fmt::format("{}: {} and {}", command, first.folder.string(), other.folder.string());
}

void require_same_vocabulary(std::string_view command, const Checkpoint& first, const Checkpoint& other) {
  const std::string vocabulary = vocabulary_digest(first), other_vocabulary = vocabulary_digest(other);
  if (vocabulary.empty()) fail("{}: {} has no spm.model", command, first.folder.string());
  if (vocabulary != other_vocabulary) {
    fail("{} have different vocabularies: spm.model is {:.12} and {:.12}", names_of(command, first, other), vocabulary,
         other_vocabulary);
  }
}

}  // namespace

void require_same_model(std::string_view command, const Checkpoint& first, const Checkpoint& other) {
  const std::string names = names_of(command, first, other);
  require_same_vocabulary(command, first, other);
  const auto config_of = [](const Checkpoint& checkpoint) {
    const std::string file = (checkpoint.folder / "config.yaml").string();
    return read_config(read_file(file), file, {}).model;
  };
  ModelConfig model = config_of(first), other_model = config_of(other);
  OptionBinder keys, other_keys;
  model.bind(keys);
  other_model.bind(other_keys);
  for (std::size_t i = 0; i < keys.fields().size(); ++i) {
    const OptionField& key = keys.fields()[i];
    const std::string value = key.get(), other_value = other_keys.fields()[i].get();
    if (value == other_value || key.key.ends_with("dropout") || key.key == "initialization") continue;
    fail("{} are different models: model.{} is {} and {}", names, key.key, value, other_value);
  }
}

void ModelOptions::declare_model(CLI::App& command, Models models) {
  const std::string one = "checkpoint, or a run's folder to use its best or else newest checkpoint";
  if (models == Models::one) {
    command.add_option("--checkpoint", checkpoint, one)->required();
  } else {
    const auto take = [this](const std::vector<std::string>& given) {
      checkpoint = given.front();
      further_checkpoints.assign(given.begin() + 1, given.end());
    };
    command
        .add_option_function<std::vector<std::string>>(
            "--checkpoint", take, one + "; given several times: an ensemble of models with the same vocabulary")
        ->required()
        ->type_name("TEXT")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    command
        .add_option("--weights", weights, "weights of an ensemble's models, separated by commas; without: equal ones")
        ->delimiter(',');
    add_choice(command, "--combine", combination,
               {{"probabilities", Combination::probabilities}, {"logarithms", Combination::logarithms}},
               "an ensemble's distribution: mean of the models' probabilities or of their logarithms");
  }
  add_choice(
      command, "--precision", precision, {{"f32", DType::f32}, {"bf16", DType::bf16}, {"int8", DType::int8}},
      "precision of matmuls: f32, or bf16, which is faster if the hardware supports it, or int8, on the CPU only: "
      "faster still with AVX512_VNNI, in a quarter of the memory, with weights kept in the checkpoint's folder");
  command
      .add_option("--threads", threads,
                  "compute threads; 0: OMP_NUM_THREADS, or one per processor that affinity and CPU quota allow")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

namespace {

void declare_group(CLI::App& command, std::span<const TranslateOption> added, const char* group) {
  const std::size_t others = command.get_options(nullptr).size();
  declare(command, added);
  const std::vector<CLI::Option*> options = command.get_options(nullptr);
  for (std::size_t i = others; i < options.size(); ++i) options[i]->group(group);
}

}  // namespace

void ModelOptions::declare(CLI::App& command, Models models) {
  declare_model(command, models);
  declare_group(command, search_options(search), "Search");
  command
      .add_option("--shortlist", shortlist,
                  "a file of `nmt shortlist`: a translation has only pieces that it lists for those of the source, on "
                  "the CPU only, which is faster")
      ->type_name("FILE")
      ->check(existing_file)
      ->group("Search");
}

void ModelOptions::declare_sampling(CLI::App& command) {
  declare_group(command, sampling_options(search), "Samples");
}

void ModelOptions::declare_device(CLI::App& command) {
  using enum DeviceChoice;
  add_choice(command, "--device", device, {{"auto", automatic}, {"cpu", cpu}, {"cuda", cuda}},
             "compute device; auto uses a CUDA GPU if available, otherwise the CPU");
}

TranslateOptions options_with(const TranslateChoices& choices, const LoadedModel& loaded) {
  TranslateOptions options = choices.translate;
  suppress(choices.suppressed, *loaded.vocabulary, options.beam.rules);
  if (!choices.terms.empty()) {
    const PieceTexts texts(*loaded.vocabulary);
    options.glossary = std::make_shared<Glossary>(choices.terms, "glossary", *loaded.vocabulary, texts);
  }
  options.align = choices.attention();
  if (options.align) {
    const bool is_guided = loaded.config.training.guided_alignment > 0;
    if (is_guided && options.align == AttentionChoice()) options.align->head = 0;  // the guided one
    const ModelConfig& model = require_transformer(*loaded.model).config();
    options.align->check(model.decoder_layers, model.heads);
  }
  const std::int64_t longest_trained = std::max(1, loaded.config.data.max_length - 1);  // without </s>
  options.max_source_pieces = std::min(options.max_source_pieces, longest_trained);
  if (choices.split == SplitLines::long_lines) return options;
  // Older versions stored no sizes. Then a line's context is lost sooner than its text.
  options.whole = {.sentences = 1};
  if (choices.split == SplitLines::automatic) {
    options.whole = source_lines_of(loaded.checkpoint.state).value_or(options.whole);
  }
  return options;
}

TranslateOptions options_with(const TranslateChoices& choices, const LoadedEnsemble& ensemble) {
  TranslateOptions options = options_with(choices, ensemble.models.front());
  for (const LoadedModel& model : ensemble.models) {
    options.max_source_pieces =
        std::min<std::int64_t>(options.max_source_pieces, std::max(1, model.config.data.max_length - 1));
  }
  return options;
}

namespace {

TranslateOptions with_limit_logged(TranslateOptions options, std::int64_t asked) {
  if (options.max_source_pieces < asked && asked != TranslateOptions().max_source_pieces) {
    spdlog::info("--max-source {}: the model was trained on lines of up to {} pieces, to which segments are limited",
                 asked, options.max_source_pieces);
  }
  return options;
}

}  // namespace

TranslateOptions ModelOptions::translate_with(const LoadedModel& loaded) const {
  TranslateOptions options = with_limit_logged(options_with(search, loaded), search.translate.max_source_pieces);
  options.shortlist = load_shortlist(*loaded.vocabulary);
  return options;
}

TranslateOptions ModelOptions::translate_with(const LoadedEnsemble& ensemble) const {
  TranslateOptions options = with_limit_logged(options_with(search, ensemble), search.translate.max_source_pieces);
  options.shortlist = load_shortlist(*ensemble.models.front().vocabulary);
  return options;
}

std::unique_ptr<Backend> ModelOptions::make_backend() const {
  const bool needs_cpu = (precision == DType::int8 || !shortlist.empty()) && device == DeviceChoice::automatic;
  if (!shortlist.empty() && device == DeviceChoice::cuda) {
    throw UsageFailure("--shortlist: found --device cuda, expected cpu or auto");
  }
  return choose_backend(needs_cpu ? DeviceChoice::cpu : device, threads, *make_single_communicator()).backend;
}

std::shared_ptr<const Shortlist> ModelOptions::load_shortlist(const Vocabulary& vocabulary) const {
  if (shortlist.empty()) return nullptr;
  return std::make_shared<const Shortlist>(Shortlist::load(shortlist, vocabulary));
}

LoadedModel ModelOptions::load(Backend& backend) const {
  LoadedModel loaded = load_any(backend);
  if (loaded.config.task == Task::translation) return loaded;
  throw UsageFailure(
      fmt::format("--checkpoint: {} holds {}, which does not translate; use `nmt gssm sample` for sequences, `nmt "
                  "evaluate` for its "
                  "loss",
                  checkpoint, loaded.model->kind()));
}

LoadedEnsemble ModelOptions::load_ensemble(Backend& backend) const {
  LoadedEnsemble ensemble{.models = {}, .weights = weights, .combination = combination};
  const std::size_t count = further_checkpoints.size() + 1;
  if (weights.empty()) ensemble.weights.assign(count, 1);
  if (ensemble.weights.size() != count) {
    throw UsageFailure(
        fmt::format("--weights: found {}, expected {}, one of each --checkpoint", weights.size(), count));
  }
  for (const double weight : ensemble.weights) {
    if (weight > 0 && std::isfinite(weight)) continue;
    throw UsageFailure(fmt::format("--weights: found {}, expected numbers above 0", weight));
  }
  ensemble.models.push_back(load(backend));
  for (const std::string& further : further_checkpoints) {
    ModelOptions other = *this;
    other.checkpoint = further;
    ensemble.models.push_back(other.load(backend));
    require_same_vocabulary("ensemble", ensemble.models.front().checkpoint, ensemble.models.back().checkpoint);
  }
  return ensemble;
}

Translator LoadedEnsemble::translator(Backend& backend) const {
  std::vector<EnsembleMember> members;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    members.push_back({&require_transformer(*models[i].model), weights[i]});
    for (const Parameter& parameter : models[i].model->parameters().all()) {
      bytes += parameter.quantized ? parameter.quantized.elements.bytes() : parameter.master.bytes();
    }
  }
  if (models.size() > 1) spdlog::info("ensemble of {} models: {} MB of weights", models.size(), bytes >> 20);
  return Translator(members, combination, *models.front().vocabulary, backend);
}

LoadedModel ModelOptions::load_any(Backend& backend) const {
  search.translate.check();
  require_matmul(backend, precision, "--precision f32");
  if (precision == DType::int8 && !cpu_multiplies_bytes()) {
    spdlog::info("--precision int8: no products of bytes (AVX512_VNNI) in {}; int8 is no faster than f32 here",
                 cpu_instruction_sets());
  }
  return load_model(find_checkpoint(checkpoint), backend, precision);
}

}  // namespace babelring
