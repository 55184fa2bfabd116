#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/options/options.h"
#include "nmt/data/gssm/options.h"
#include "nmt/data/update_source.h"
#include "nmt/metrics/tokenizer.h"
#include "nmt/model/config.h"
#include "nmt/ops/backend.h"
#include "nmt/optim/adam.h"
#include "nmt/optim/schedule.h"
#include "nmt/parallel/comm_config.h"
#include "nmt/train/setup/lab_config.h"

namespace babelring {

struct PlanOptions;

/// Task of a run: to translate sentence pairs, or to predict the next token of generated sequences.
enum class Task { translation, gssm };
const Choices<Task>& tasks();

/// How an update is divided among ranks: equally, or by their measured speed.
enum class Balance { equal, measured };

struct DataConfig {
  static constexpr std::int64_t automatic = -1;  // micro_batch_tokens, sequences_per_update: "auto"

  std::string folder;
  std::string train_set = "train";
  std::string valid_set = "valid";
  std::int64_t tokens_per_update = 4096;
  std::int64_t micro_batch_tokens = 0;
  int max_length = 256;
  std::int64_t sequence_length = 2048;
  std::int64_t sequences_per_update = 16;
  int prefetch = 4;
  int workers = 1;
  Balance balance = Balance::equal;
  SegmentationOptions segmentation;
  std::vector<OptionMap> mix;  // of each stage: weights by the name of a corpus, and "until"
  double mix_temperature = 0;

  bool has_mix() const { return !mix.empty() || mix_temperature > 0; }
  void bind(OptionBinder& binder);
};

/// The generator of task gssm, and when its exact entropy is computed.
struct GssmTaskConfig : GssmOptions {
  Interval entropy_every = "0u";

  void bind(OptionBinder& binder);
};

struct OptimizerConfig {
  ScheduleOptions schedule;
  AdamOptions adam;
  double label_smoothing = 0.1;

  void bind(OptionBinder& binder);
};

struct DivergenceConfig {
  Interval after = "20u";
  int rewind = 0;

  void bind(OptionBinder& binder);
};

/// Reaction to weights that differ between ranks.
enum class OnDifference { stop, warn };

/// How far a repeated run has the same bits: with equal ranks and threads, or at every number of ranks and threads.
enum class Reproducible { run, ranks };

struct TrainingConfig {
  Interval stop_after = "100000u";
  double max_minutes = 0;
  DType precision = DType::bf16;
  DeviceChoice device = DeviceChoice::automatic;
  bool cuda_graphs = false;
  bool tune_products = true;
  int threads = 0;
  std::int64_t seed = 1;
  Reproducible reproducible = Reproducible::run;
  int units = 8;
  std::string start_from;
  std::string freeze;
  double guided_alignment = 0;
  double ema = 0;
  double r_drop = 0;
  double layer_drop = 0;
  double source_word_dropout = 0;
  double target_word_dropout = 0;
  bool pair_losses = false;
  Interval log_every = "50u";
  Interval digest_every = "100u";
  OnDifference on_difference = OnDifference::stop;
  DivergenceConfig divergence;

  /// True if gradients are summed by units, see docs/design/units.md.
  bool by_units() const { return reproducible == Reproducible::ranks; }
  void bind(OptionBinder& binder);
};

/// A held-out set that validations score beside data.valid_set.
struct OtherSet {
  std::string name;           // in records
  std::string folder;         // written by `nmt prepare`
  std::string set = "valid";  // of the folder

  /// "general=data/general", or "general=data/general:test" for another set than valid.
  static Result<OtherSet> parse(std::string_view text);
};

/// Which weights the translations of validations are made with: those of training.precision, or copies in int8.
enum class ValidationPrecision { training, int8 };

struct ValidationConfig {
  Interval every = "1e";
  Interval bleu_every = "1e";
  std::int64_t max_sentences = 0;
  int beam = 4;
  double length_penalty = 1.0;
  ValidationPrecision precision = ValidationPrecision::training;
  Tokenizer tokenizer = Tokenizer::automatic;
  int samples = 8;
  int patience = 0;
  Interval patience_after = "0u";
  std::int64_t sequences = 64;
  std::int64_t train_sample = 0;
  std::vector<std::string> other_sets;

  /// The sets of other_sets. Throws ConfigError.
  std::vector<OtherSet> others() const;
  void bind(OptionBinder& binder);
};

struct CheckpointConfig {
  Interval every = "1e";
  int keep_last = 5;
  bool keep_best = true;
  bool sharded = false;

  void bind(OptionBinder& binder);
};

/// The complete configuration of a training run. Its resolved form is stored with the run and with each checkpoint.
struct TrainConfig {
  std::string name = "run";
  Task task = Task::translation;
  std::string preset = "transformer-base";
  ModelConfig model;
  DataConfig data;
  GssmTaskConfig gssm;
  OptimizerConfig optimizer;
  TrainingConfig training;
  ValidationConfig validation;
  CheckpointConfig checkpoint;
  CommConfig communication;
  LabConfig lab;
  bool tensorboard = false;

  /// True if the run computes nothing: it has no losses, validations and checkpoints.
  bool emulated() const { return training.device == DeviceChoice::emulated; }
  void bind(OptionBinder& binder);
  /// Checks values that depend on each other. Throws ConfigError.
  void check() const;
  /// Checks what depends on the number of ranks. Throws UsageFailure.
  void check_ranks(int ranks) const;
  /// Options for make_mpi_communicator().
  CommOptions comm_options() const;
  /// How the training set of a translation is divided into updates.
  PlanOptions plan_options() const;
  /// How its corpora are mixed; names are not checked. Throws ConfigError.
  MixOptions mix_options() const;
  /// Target tokens of an update over all ranks: of a translation on average. Those of one sequence while
  /// data.sequences_per_update is auto.
  std::int64_t target_tokens_per_update() const;
  /// True for task gssm without data.folder: the sequences are made on the fly and have no epochs.
  bool on_the_fly() const { return task == Task::gssm && data.folder.empty(); }

 private:
  void check_translation() const;
  void check_regularisers() const;
  void check_gssm() const;
};

/// Reads YAML text, then applies `key=value` overrides. `task` sets the defaults of other keys, `preset` the defaults
/// of model.*, wherever they appear, so explicit keys always win. Throws ConfigError.
TrainConfig read_config(const std::string& yaml, const std::string& file_name,
                        const std::vector<std::string>& overrides);

/// The same for the commands of `nmt gssm`: `task` defaults to gssm, so that a file with nothing but the nodes of a
/// generator is a configuration.
TrainConfig read_gssm_task(const std::string& yaml, const std::string& file_name,
                           const std::vector<std::string>& overrides);

/// Reads the output of config_yaml() from this or an older version. Missing keys get their defaults. check() is not
/// called.
TrainConfig read_stored_config(const std::string& yaml, const std::string& file_name);

/// The resolved configuration as YAML with every key. read_config() restores the same values from it.
std::string config_yaml(const TrainConfig& config);

}  // namespace babelring
