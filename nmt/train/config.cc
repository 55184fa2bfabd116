#include "nmt/train/config.h"

#include <cmath>

#include "base/check_name.h"
#include "nmt/data/batch_plan.h"

namespace babelring {

void DataConfig::bind(OptionBinder& b) {
  b.text("folder", folder, "folder written by `nmt prepare`");
  b.text("train_set", train_set, "name of the training set");
  b.text("valid_set", valid_set, "name of the validation set; empty: no validation");
  b.integer("tokens_per_update", tokens_per_update, 1, std::int64_t{1} << 40,
            "target tokens per update, summed over all ranks");
  b.integer_or(
      "micro_batch_tokens", micro_batch_tokens, 0, std::int64_t{1} << 40, "auto", automatic,
      "max tokens in one forward pass of a rank; fewer need less memory; 0: one pass per update; auto: as many as fit "
      "into free memory, up to one pass per update");
  b.integer("max_length", max_length, 2, 1 << 20, "max sentence length in tokens; longer sentences are skipped");
  b.integer("prefetch", prefetch, 1, 1000, "number of updates whose batches are prepared ahead");
}

void OptimizerConfig::bind(OptionBinder& b) {
  schedule.bind(b);
  adam.bind(b);
  b.number("label_smoothing", label_smoothing, 0, 0.99,
           "label smoothing: probability mass spread evenly over the vocabulary");
}

void DivergenceConfig::bind(OptionBinder& b) {
  b.parsed(
      "after", after,
      "end training as diverged after N consecutive updates with a non-finite gradient (20u), or after a validation "
      "with a non-finite loss; 0u: never");
  b.integer("rewind", rewind, 0, 1000,
            "max number of times a diverged run returns to its newest good checkpoint instead of ending; each time "
            "halves the learning rate");
}

void TrainingConfig::bind(OptionBinder& b) {
  b.parsed("stop_after", stop_after, "when training ends: 100000u updates, 20e epochs or 500Mt target tokens");
  b.number("max_minutes", max_minutes, 0, 1e7, "max training time in minutes, including earlier attempts; 0: no limit");
  b.choice("precision", precision, {{"bf16", DType::bf16}, {"f32", DType::f32}},
           "data type of activations and matmuls; master weights and Adam moments are always f32");
  b.choice("device", device,
           {{"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}},
           "compute device; auto: CUDA if every rank has its own GPU, otherwise the CPU");
  b.flag("cuda_graphs", cuda_graphs,
         "GPU only: pad batches of similar size to one size and replay forward and backward as a CUDA graph; faster "
         "for small models, whose kernels run shorter than their launches take");
  b.flag("tune_products", tune_products,
         "GPU only: time the algorithms that cuBLASLt proposes for each new matmul shape and use the fastest; choices "
         "are kept in the run's folder (products-rank-N.jsonl); false: use the first proposal");
  b.integer("threads", threads, 0, 1024,
            "threads per rank; 0: the host's CPUs, within affinity and CPU quota, divided among its ranks");
  b.integer("seed", seed, 0, std::int64_t{1} << 62, "random seed for initial weights, data order and dropout");
  b.text("start_from", start_from,
         "checkpoint folder whose weights a new run starts from; the vocabulary must be the same; optimizer, schedule "
         "and data position start afresh");
  b.text("freeze", freeze, "parameters that are not trained: comma-separated names with * and ?, such as encoder.*");
  b.parsed("log_every", log_every,
           "interval between log lines in updates (u), epochs (e) or target tokens (t); each shows the mean loss since "
           "the previous line");
  b.parsed("digest_every", digest_every,
           "interval at which the step record contains a SHA-256 of the weights, which ranks compare, in u, e or t; 0: "
           "never");
  b.choice(
      "on_difference", on_difference, {{"stop", OnDifference::stop}, {"warn", OnDifference::warn}},
      "when ranks find that their weights differ: stop ends the run with an error that names update, parameters and "
      "ranks; warn logs it");
  b.group("divergence", divergence);
}

void ValidationConfig::bind(OptionBinder& b) {
  b.parsed("every", every,
           "interval between validations in updates (u), epochs (e) or target tokens (t); 0: at the end only");
  b.parsed("bleu_every", bleu_every, "min interval between validations that also translate and compute BLEU; 0: never");
  b.integer("max_sentences", max_sentences, 0, std::int64_t{1} << 40,
            "max number of sentences translated for BLEU; 0: all");
  b.integer("beam", beam, 1, 64, "beam size; 1: greedy search");
  b.number("length_penalty", length_penalty, 0, 10,
           "hypothesis scores are divided by length^N; larger values favour longer translations");
  b.integer("samples", samples, 0, 200, "number of sample translations stored with each evaluation");
  b.integer("patience", patience, 0, 1000000,
            "stop early after N evaluations without a better BLEU (or loss, if BLEU is off); 0: never");
}

void CheckpointConfig::bind(OptionBinder& b) {
  b.parsed("every", every,
           "interval between checkpoints in updates (u), epochs (e) or target tokens (t); 0: at the end only");
  b.integer("keep_last", keep_last, 1, 100000, "number of newest checkpoints to keep");
  b.flag("keep_best", keep_best, "also keep the best checkpoint");
}

void TrainConfig::bind(OptionBinder& b) {
  b.text("name", name, "display name of the run");
  b.choice("preset", preset, {"transformer-tiny", "transformer-base", "transformer-big"},
           "defaults for the model.* keys; each can be overridden");
  b.group("model", model);
  b.group("data", data);
  b.group("optimizer", optimizer);
  b.group("training", training);
  b.group("validation", validation);
  b.group("checkpoint", checkpoint);
  b.group("communication", communication);
  b.group("lab", lab);
  b.flag("tensorboard", tensorboard, "write TensorBoard event files into the folder tensorboard of the run (rank 0)");
}

void TrainConfig::check() const {
  const auto refuse = [](const std::string& key, const std::string& detail) {
    throw ConfigError(key, key + ": " + detail);
  };
  if (const Status checked = check_name(name); !checked) refuse("name", checked.error());
  model.check();
  if (model.encoder_layers == 0) refuse("model.encoder_layers", "0, but translation needs at least 1");
  static_cast<void>(Schedule(optimizer.schedule));
  if (const Interval& after = training.divergence.after;
      after.unit() != Interval::Unit::updates || after.value() != std::floor(after.value())) {
    refuse("training.divergence.after", fmt::format("expected a number of updates (20u), found '{}'", after.text()));
  }
  if (communication.all_reduce == GradientPath::mpi && communication.gradient_wire == GradientWire::bf16) {
    refuse("communication.gradient_wire", "bf16 needs all_reduce ring, nccl or auto, found mpi");
  }
  lab.check();
  if (data.folder.empty()) refuse("data.folder", "missing; expected a folder written by `nmt prepare`");
}

PlanOptions TrainConfig::plan_options() const {
  return {.tokens_per_update = data.tokens_per_update,
          .max_length = data.max_length,
          .seed = static_cast<std::uint64_t>(training.seed)};
}

namespace {

TrainConfig load(TrainConfig config, const std::string& yaml, const std::string& file_name,
                 const std::vector<std::string>& overrides) {
  OptionBinder binder;
  config.bind(binder);
  load_yaml(binder, yaml, file_name);
  for (const std::string& assignment : overrides) apply_override(binder, assignment);
  return config;
}

TrainConfig load_with_preset(const std::string& yaml, const std::string& file_name,
                             const std::vector<std::string>& overrides) {
  TrainConfig start;
  start.preset = load(TrainConfig(), yaml, file_name, overrides).preset;
  start.model = model_preset(start.preset);
  return load(start, yaml, file_name, overrides);
}

}  // namespace

TrainConfig read_config(const std::string& yaml, const std::string& file_name,
                        const std::vector<std::string>& overrides) {
  const TrainConfig config = load_with_preset(yaml, file_name, overrides);
  config.check();
  return config;
}

TrainConfig read_stored_config(const std::string& yaml, const std::string& file_name) {
  return load_with_preset(yaml, file_name, {});
}

std::string config_yaml(const TrainConfig& config) {
  TrainConfig copy = config;
  OptionBinder binder;
  copy.bind(binder);
  return dump_yaml(binder);
}

}  // namespace babelring
