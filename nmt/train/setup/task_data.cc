#include "nmt/train/setup/task_data.h"

#include <fmt/format.h>

#include <bit>
#include <numeric>
#include <utility>

#include "base/failure.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "nmt/comm/schedule/ring.h"
#include "nmt/data/gssm/config.h"
#include "nmt/data/gssm/gssm_source.h"
#include "nmt/data/manifest.h"
#include "nmt/data/sequence_source.h"
#include "nmt/data/text_source.h"

namespace babelring {
namespace {

void check_pairs(const Manifest& manifest, const TrainConfig& config) {
  const DataConfig& data = config.data;
  manifest.require_pairs(data.train_set, "data.train_set");
  if (const double weight = config.training.guided_alignment; weight > 0 && !manifest.set(data.train_set).links) {
    throw UsageFailure(
        fmt::format("training.guided_alignment: {}, but set '{}' of {} has no alignments; expected a folder of `nmt "
                    "prepare --align`, or 0",
                    weight, data.train_set, data.folder));
  }
  std::vector<CorpusPart> parts;
  for (const ManifestCorpus& corpus : manifest.set(data.train_set).corpora) parts.push_back({.name = corpus.name});
  check_mix(config.mix_options(), parts, data.folder);
  if (!data.valid_set.empty()) manifest.require_pairs(data.valid_set, "data.valid_set");
}

/// Throws Failure unless the other set's folder has pairs in subwords of the run's vocabulary.
void check_other_set(const OtherSet& other, const Manifest& of_run) {
  const Manifest manifest = load_manifest(other.folder);
  manifest.require_pairs(other.set, "validation.other_sets");
  if (manifest.vocabulary.sha256 != of_run.vocabulary.sha256) {
    fail(
        "validation.other_sets: {}: {} was prepared with the vocabulary {:.12}, data.folder {} with {:.12}; run `nmt "
        "prepare --vocabulary {}` for it",
        other.name, other.folder, manifest.vocabulary.sha256, of_run.folder.string(), of_run.vocabulary.sha256,
        (of_run.folder / of_run.vocabulary.name).string());
  }
  for (const ManifestFile& file : manifest.files_of(other.set)) check_file(manifest.folder, file, false);
  static_cast<void>(Corpus::open(manifest, other.set));
  static_cast<void>(ParallelText::open(manifest, other.set));
}

std::vector<ManifestFile> files_of_sets(const Manifest& manifest, const DataConfig& data) {
  std::vector<ManifestFile> files = manifest.files_of(data.train_set);
  if (data.valid_set.empty()) return files;
  const std::vector<ManifestFile> held_out = manifest.files_of(data.valid_set);
  files.insert(files.end(), held_out.begin(), held_out.end());
  return files;
}

TaskData open_translation(const TrainConfig& config, const PlanMemory& memory) {
  const DataConfig& data = config.data;
  const std::filesystem::path folder = data.folder;
  const Manifest manifest = load_manifest(folder);
  check_pairs(manifest, config);
  check_file(folder, manifest.vocabulary, true);  // the corpus holds ids of this vocabulary
  TaskData opened;
  opened.vocabulary = Vocabulary::load(folder / manifest.vocabulary.name);
  if (opened.vocabulary->digest() != manifest.vocabulary.sha256) {
    fail("{}: changed while it was being opened", data.folder);
  }
  opened.model_vocabulary = opened.vocabulary->size();
  opened.corpus = std::make_unique<Corpus>(Corpus::open(manifest, data.train_set));
  if (config.training.guided_alignment > 0) opened.corpus->open_links(manifest, data.train_set);
  opened.source_lines = usual_line_size(*opened.corpus, *opened.vocabulary, data.max_length);
  std::optional<SegmentSampler> sampler;
  if (data.segmentation.draws()) {
    sampler.emplace(*opened.vocabulary, data.segmentation, static_cast<std::uint64_t>(config.training.seed),
                    data.max_length);
  }
  auto source = std::make_unique<TextSource>(*opened.corpus, config.plan_options(), memory, std::move(sampler));
  opened.size = fmt::format("{} sentence pairs, {} updates an epoch", opened.corpus->sentences(),
                            source->plan().updates_per_epoch());
  if (const std::int64_t left_out = source->plan().left_out(); left_out > 0) {
    opened.size += fmt::format("; {} pairs are left out because they are longer than data.max_length, {} tokens",
                               left_out, data.max_length);
  }
  if (source->mix() != nullptr) opened.size += "; mixed by sentences: " + source->mix()->text();
  if (data.segmentation.draws()) {
    opened.size += fmt::format(
        "; segmented anew in each epoch, into {:.2f} times as many source and {:.2f} times as many target "
        "tokens",
        source->growth().source, source->growth().target);
  }
  opened.source = std::move(source);
  return opened;
}

TaskData open_files(const TrainConfig& config) {
  const Manifest manifest = load_manifest(config.data.folder);
  auto source =
      std::make_unique<SequenceSource>(SequenceFile(manifest, config.data.train_set), config.data.sequences_per_update,
                                       static_cast<std::uint64_t>(config.training.seed));
  TaskData opened;
  opened.size = fmt::format("{} sequences of {} tokens, {} updates an epoch", source->file().sequences(),
                            source->file().length(), source->updates_per_epoch());
  opened.source = std::move(source);
  return opened;
}

TaskData open_generator(const TrainConfig& config) {
  TaskData opened;
  opened.source = std::make_unique<GssmSource>(
      make_gssm_graph(config.gssm),
      GssmSourceOptions{.sequence_length = config.data.sequence_length,
                        .sequences_per_update = config.data.sequences_per_update,
                        .seed = static_cast<std::uint64_t>(config.training.seed),
                        .entropy_every = static_cast<std::int64_t>(config.gssm.entropy_every.value())});
  opened.size = fmt::format("{} sequences of {} tokens an update, made on the fly", config.data.sequences_per_update,
                            config.data.sequence_length);
  return opened;
}

}  // namespace

PlanOptions TrainConfig::plan_options() const {
  return {.tokens_per_update = data.tokens_per_update,
          .max_length = data.max_length,
          .seed = static_cast<std::uint64_t>(training.seed),
          .source_word_dropout = training.source_word_dropout,
          .target_word_dropout = training.target_word_dropout,
          .mix = mix_options(),
          .names_pairs = training.pair_losses};
}

namespace {

[[noreturn]] void refuse_mix(const std::string& found) {
  throw ConfigError("data.mix", "data.mix: " + found);
}

/// `stage`: "stage 2: ", or "" of the only one.
MixEnd end_of_stage(const TrainConfig& config, const std::string& stage, const std::string& text) {
  const Result<Interval> parsed = Interval::parse(text);
  if (!parsed) refuse_mix(stage + "until: " + parsed.error());
  const Interval* until = &*parsed;
  double fraction = 1;
  if (until->unit() == Interval::Unit::percent) {
    if (until->value() >= 100) refuse_mix(stage + fmt::format("found until {}, expected less than 100%", text));
    if (config.training.max_minutes > 0) {
      refuse_mix(stage + fmt::format("found until {}, but no update knows when training.max_minutes ends; expected "
                                     "updates (u), epochs (e) or target tokens (t)",
                                     text));
    }
    fraction = until->value() / 100;
    until = &config.training.stop_after;
  }
  if (fraction <= 0 || until->value() <= 0) refuse_mix(stage + fmt::format("found until {}, expected more", text));
  MixEnd end{.unit = MixEnd::Unit::updates, .value = fraction * until->value()};
  if (until->unit() == Interval::Unit::epochs) end.unit = MixEnd::Unit::epochs;
  if (until->unit() == Interval::Unit::target_tokens) end.unit = MixEnd::Unit::target_tokens;
  return end;
}

MixStage stage_of(const TrainConfig& config, const std::string& name, const OptionMap& map) {
  MixStage stage;
  for (const auto& [key, text] : map) {
    if (key == "until") {
      stage.end = end_of_stage(config, name, text);
      continue;
    }
    const auto weight = parse_decimal<double>(text);
    if (!weight || *weight <= 0) {
      refuse_mix(fmt::format("{}{}: expected a weight above 0, found '{}'", name, printable(key), printable(text)));
    }
    stage.weights.emplace_back(key, *weight);
  }
  if (stage.weights.empty()) refuse_mix(name + "expected the weight of at least one corpus");
  return stage;
}

}  // namespace

MixOptions TrainConfig::mix_options() const {
  MixOptions mix{.stages = {}, .temperature = data.mix_temperature};
  if (!data.has_mix()) return mix;
  if (task != Task::translation) refuse_mix("given, but task gssm has no corpora; expected {}");
  if (!data.mix.empty() && data.mix_temperature > 0) {
    throw ConfigError(
        "data.mix_temperature",
        fmt::format("data.mix_temperature: {}, but data.mix gives the weights; expected 0", data.mix_temperature));
  }
  for (const OptionMap& map : data.mix) {
    const std::size_t number = mix.stages.size() + 1;
    const std::string place = data.mix.size() > 1 ? fmt::format("stage {}: ", number) : "";
    const MixStage stage = stage_of(*this, place, map);
    const bool ends = stage.end.unit != MixEnd::Unit::none;
    if (ends != (number < data.mix.size())) {
      refuse_mix(place +
                 (ends ? "found until, but no stage follows it" : "expected until, since another stage follows it"));
    }
    if (ends && !mix.stages.empty()) {
      const MixEnd& before = mix.stages.back().end;
      if (before.unit != stage.end.unit || before.value >= stage.end.value) {
        refuse_mix(fmt::format("{}found until {}, expected more than that of the stage before, {}, in one unit", place,
                               stage.end.text(), before.text()));
      }
    }
    mix.stages.push_back(stage);
  }
  return mix;
}

std::int64_t TrainConfig::target_tokens_per_update() const {
  if (task == Task::translation) return data.tokens_per_update;
  const bool automatic = data.sequences_per_update == DataConfig::automatic;
  return (automatic ? 1 : data.sequences_per_update) * (data.sequence_length - 1);
}

void check_task_data(const TrainConfig& config) {
  if (config.on_the_fly()) return;
  if (config.task == Task::gssm) {
    const Manifest manifest = load_manifest(config.data.folder);
    static_cast<void>(with_generator_of_folder(config));
    if (!config.data.valid_set.empty()) SequenceFile(manifest, config.data.valid_set);
    return;
  }
  const Manifest manifest = load_manifest(config.data.folder);
  check_pairs(manifest, config);
  check_file(manifest.folder, manifest.vocabulary, true);
  for (const ManifestFile& file : files_of_sets(manifest, config.data)) check_file(manifest.folder, file, false);
  if (config.data.valid_set.empty()) return;
  for (const OtherSet& other : config.validation.others()) check_other_set(other, manifest);
  static_cast<void>(Corpus::open(manifest, config.data.valid_set));
  static_cast<void>(ParallelText::open(manifest, config.data.valid_set));
}

std::unique_ptr<DataCheck> make_data_check(const TrainConfig& config) {
  if (config.on_the_fly() || config.emulated()) return nullptr;
  const Manifest manifest = load_manifest(config.data.folder);
  auto check = std::make_unique<DataCheck>(manifest.folder, files_of_sets(manifest, config.data));
  for (const OtherSet& other : config.validation.others()) {
    const Manifest of_other = load_manifest(other.folder);
    check->add(of_other.folder, of_other.files_of(other.set));
  }
  return check;
}

std::int64_t model_vocabulary(const TrainConfig& config) {
  return config.task == Task::gssm ? make_gssm_graph(config.gssm).vocabulary()
                                   : load_manifest(config.data.folder).vocabulary_size;
}

void require_sequences_per_update(const TrainConfig& config) {
  if (config.task != Task::gssm || config.data.sequences_per_update != DataConfig::automatic) return;
  throw UsageFailure("data.sequences_per_update: auto is found by a run when it begins; expected a number");
}

TaskData open_task_data(const TrainConfig& config, const PlanMemory& memory) {
  if (config.task == Task::translation) return open_translation(config, memory);
  require_sequences_per_update(config);
  TaskData opened = config.on_the_fly() ? open_generator(config) : open_files(config);
  opened.model_vocabulary = model_vocabulary(config);
  if (!config.data.valid_set.empty()) opened.held_out = open_held_out(config, config.data.valid_set);
  if (config.validation.train_sample > 0) {
    opened.train_sample = std::make_unique<SequenceFileSet>(load_manifest(config.data.folder), config.data.train_set,
                                                            config.validation.train_sample);
  }
  return opened;
}

std::unique_ptr<SequenceSet> open_held_out(const TrainConfig& config, const std::string& name) {
  if (!config.on_the_fly()) return std::make_unique<SequenceFileSet>(load_manifest(config.data.folder), name);
  return std::make_unique<GssmHeldOut>(make_gssm_graph(config.gssm), name, config.validation.sequences,
                                       config.data.sequence_length, static_cast<std::uint64_t>(config.training.seed));
}

TrainConfig with_generator_of_folder(TrainConfig config) {
  if (config.task != Task::gssm || config.on_the_fly()) return config;
  const std::filesystem::path folder = config.data.folder;
  const Manifest manifest = load_manifest(folder);
  const SequenceFile train(manifest, config.data.train_set);
  check_file(folder, manifest.vocabulary, true);
  const std::filesystem::path file = folder / manifest.vocabulary.name;
  const GssmConfig stored = read_gssm_config(read_file(file), file.string(), {});
  if (config.gssm.nodes.empty()) {
    static_cast<GssmOptions&>(config.gssm) = stored.gssm;
    config.data.sequence_length = train.length();
  }
  if (make_gssm_graph(config.gssm).digest() != make_gssm_graph(stored.gssm).digest()) {
    throw ConfigError("gssm.nodes", fmt::format("gssm.nodes: another generator than that of data.folder, {}; leave out "
                                                "gssm, or use the folder of this generator",
                                                file.string()));
  }
  if (config.data.sequence_length != train.length()) {
    throw ConfigError("data.sequence_length",
                      fmt::format("data.sequence_length: {}, but the sequences of data.folder {} have {} tokens",
                                  config.data.sequence_length, config.data.folder, train.length()));
  }
  config.check();
  return config;
}

void TrainConfig::check_ranks(int ranks) const {
  if (!training.by_units()) return;
  if (std::has_single_bit(static_cast<unsigned>(ranks)) && ranks <= training.units) return;
  throw UsageFailure(
      fmt::format("training.reproducible ranks: found {} ranks, expected a power of two up to training.units, {}",
                  ranks, training.units));
}

CommOptions TrainConfig::comm_options() const {
  CommOptions options = communication.options();
  if (training.by_units()) options.order = AddOrder::tree;
  return options;
}

RankPart rank_part(const TrainConfig& config, const Communicator& communicator, std::int64_t micro_batch_tokens) {
  RankPart part{.rank = communicator.rank(), .world = communicator.size(), .micro_batch_tokens = micro_batch_tokens};
  if (!config.training.by_units()) return part;
  part.rank = ring_position(communicator.hosts(), communicator.rank()).position;
  part.units = config.training.units;
  return part;
}

std::vector<int> ranks_by_part(const TrainConfig& config, const Communicator& communicator) {
  if (config.training.by_units()) return ring_position(communicator.hosts(), communicator.rank()).order;
  std::vector<int> ranks(static_cast<std::size_t>(communicator.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace babelring
