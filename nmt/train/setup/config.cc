#include "nmt/train/setup/config.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "base/names.h"
#include "base/records/records.h"
#include "nmt/data/batch_plan.h"
#include "nmt/data/gssm/config.h"
#include "nmt/data/gssm/graph.h"

namespace babelring {

const Choices<Task>& tasks() {
  static const Choices<Task> words = {{"translation", Task::translation}, {"gssm", Task::gssm}};
  return words;
}

void DataConfig::bind(OptionBinder& b) {
  b.text("folder", folder,
         "folder written by `nmt prepare`; of task gssm: written by `nmt gssm data`, or empty to make sequences on the "
         "fly");
  b.text("train_set", train_set, "name of the training set");
  b.text("valid_set", valid_set, "name of the validation set; empty: no validation");
  b.integer("tokens_per_update", tokens_per_update, 1, std::int64_t{1} << 40,
            "target tokens per update, summed over all ranks");
  b.integer_or(
      "micro_batch_tokens", micro_batch_tokens, 0, std::int64_t{1} << 40, "auto", automatic,
      "max tokens in one forward pass of a rank; fewer need less memory; 0: one pass per update; auto: as many as fit "
      "into free memory, up to one pass per update");
  b.integer("max_length", max_length, 2, 1 << 20,
            "max sentence length in tokens; longer sentences are skipped; longer sequences of task gssm are refused");
  b.integer("sequence_length", sequence_length, 2, std::int64_t{1} << 24,
            "task gssm: tokens of a sequence, the first included; of data.folder if there is one");
  b.integer_or(
      "sequences_per_update", sequences_per_update, 1, std::int64_t{1} << 30, "auto", automatic,
      "task gssm: sequences per update, summed over all ranks; auto: as many as every rank computes in one pass "
      "in its free memory, found when the run begins and kept");
  b.integer("prefetch", prefetch, 1, 1000, "number of updates whose batches are prepared ahead");
  b.integer("workers", workers, 1, 64, "threads of a rank that prepare updates; they deliver them in order");
  b.choice(
      "balance", balance, {{"equal", Balance::equal}, {"measured", Balance::measured}},
      "how the sentences of an update are divided among ranks: equal: as many tokens each; measured: by the speed "
      "of each rank, measured at most every 100 updates, so that slower hosts get less; sums then round differently, "
      "unless training.reproducible is ranks: then whole units move (see units)");
  b.number("bpe_dropout", segmentation.bpe_dropout, 0, 0.99,
           "BPE vocabularies: segment training sentences anew in each epoch, and leave out a merge with this "
           "probability (0.1)");
  b.number("sampling", segmentation.sampling, 0, 4,
           "unigram vocabularies: segment training sentences anew in each epoch, drawn in proportion to the "
           "probabilities of the segmentations to the power of this (0.2); 0: always the most probable one");
  b.choice("sampled_sides", segmentation.sides,
           {{"both", SampledSides::both}, {"source", SampledSides::source}, {"target", SampledSides::target}},
           "the sides that bpe_dropout and sampling segment anew");
  b.maps("mix", mix,
         "parts of the sentences of each update that come from corpora of `nmt prepare --as`, such as {clean: 0.7, "
         "crawl: 0.3}; stages: [{until: 50%, clean: 0.3, crawl: 0.7}, {clean: 1}], until N updates (u), epochs (e), "
         "target tokens (t) or percent of stop_after; {}: all text, as it is");
  b.number("mix_temperature", mix_temperature, 0, 1000,
           "without mix: corpora give sentences in proportion to their sizes to the power of 1 / temperature: 1: as "
           "many as they have; 5: smaller ones more often; 0: all text, as it is");
}

void GssmTaskConfig::bind(OptionBinder& b) {
  GssmOptions::bind(b);
  b.parsed("entropy_every", entropy_every,
           "compute the exact entropy of every N-th update's sequences (100u) while they are made; 0u: never. At "
           "validations it is always computed");
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

namespace {

/// Losses beside that of the next token, and changes to what a model reads and is.
void bind_regularisers(TrainingConfig& training, OptionBinder& b) {
  b.number("guided_alignment", training.guided_alignment, 0, 100,
           "weight of a loss that draws the first attention head of the decoder layer before the last (of one or two, "
           "the last) to the source pieces with which each target piece is aligned; needs data prepared with `nmt "
           "prepare --align`; 0.05 to 0.1 is usual; 0: none. `nmt translate --alignment` then uses this head");
  b.number("source_word_dropout", training.source_word_dropout, 0, 0.99,
           "probability with which a source token, but not </s>, is replaced by <unk>; Marian's --dropout-src instead "
           "replaces its vector by zeros");
  b.number("target_word_dropout", training.target_word_dropout, 0, 0.99,
           "the same of the tokens that the decoder reads, but not <s>; what it is to predict stays. Marian: "
           "--dropout-trg");
  b.number("r_drop", training.r_drop, 0, 1000,
           "weight alpha of R-Drop: each micro-batch is computed twice with other dropout masks; the loss is the mean "
           "of both cross-entropies + alpha / 4 (KL(p || q) + KL(q || p)) for each target token; takes twice the time "
           "and memory of activations; 1 to 5 is usual for small corpora; 0: none");
  b.number("layer_drop", training.layer_drop, 0, 0.9,
           "probability with which an update leaves out a layer of the encoder or the decoder, the same layers on all "
           "ranks; translations use all layers; 0.1 to 0.2 is usual for deep models");
  b.number("ema", training.ema, 0, 0.9999999,
           "decay per update of a moving average of the weights, which validations and checkpoints then have (0.999); "
           "the first t updates decay by at most (1 + t) / (10 + t); 0: none");
}

}  // namespace

void TrainingConfig::bind(OptionBinder& b) {
  b.parsed("stop_after", stop_after, "when training ends: 100000u updates, 20e epochs or 500Mt target tokens");
  b.number("max_minutes", max_minutes, 0, 1e7, "max training time in minutes, including earlier attempts; 0: no limit");
  b.choice("precision", precision, {{"bf16", DType::bf16}, {"f32", DType::f32}},
           "data type of activations and matmuls; master weights and Adam moments are always f32");
  b.choice("device", device,
           {{"auto", DeviceChoice::automatic},
            {"cpu", DeviceChoice::cpu},
            {"cuda", DeviceChoice::cuda},
            {"emulated", DeviceChoice::emulated}},
           "compute device; auto: CUDA if every rank has its own GPU, otherwise the CPU; emulated: waits as long as "
           "lab.emulated.record says instead of computing");
  b.flag("cuda_graphs", cuda_graphs,
         "GPU only: pad batches of similar size to one size and replay forward and backward as a CUDA graph; faster "
         "for small models, whose kernels run shorter than their launches take");
  b.flag("tune_products", tune_products,
         "GPU only: time the algorithms that cuBLASLt proposes for each new matmul shape and use the fastest; choices "
         "are kept in the run's folder (products-rank-N.jsonl); false: use the first proposal");
  b.integer("threads", threads, 0, 1024,
            "threads per rank; 0: the host's CPUs, within affinity and CPU quota, divided among its ranks");
  b.integer("seed", seed, 0, std::int64_t{1} << 62, "random seed for initial weights, data order and dropout");
  b.choice(
      "reproducible", reproducible, {{"run", Reproducible::run}, {"ranks", Reproducible::ranks}},
      "which repeated runs have the same bits: run: those with equal numbers of ranks and threads; ranks: also those "
      "with other numbers of ranks, threads and hosts, by summing gradients in units (see units)");
  b.integer(
      "units", units, 1, 1024,
      "reproducible ranks only: parts of an update whose gradients are computed apart and summed in pairs; a power "
      "of two, at least the number of ranks; a rank keeps log2(units / ranks) + 1 copies of the gradient");
  b.text(
      "start_from", start_from,
      "checkpoint, or a run's folder to use its best or else newest checkpoint, whose weights a new run starts from; "
      "with another vocabulary, rows of tables go by piece; the model must be the same but for dropout; optimizer, "
      "schedule and data position start afresh");
  b.text("freeze", freeze, "parameters that are not trained: comma-separated names with * and ?, such as encoder.*");
  bind_regularisers(*this, b);
  b.flag("pair_losses", pair_losses,
         "write the loss of each training pair in each epoch to pair_losses.safetensors in the run's folder, for `nmt "
         "prepare --drop-suspects`; takes 8 bytes a pair and 4 for each epoch");
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

void TrainConfig::bind(OptionBinder& b) {
  b.text("name", name, "display name of the run");
  b.choice("task", task, tasks(),
           "translation: of sentence pairs; gssm: a language model of generated sequences whose entropy is known");
  b.choice("preset", preset, model_presets(), "defaults for the model.* keys; each can be overridden");
  b.group("model", model);
  b.group("data", data);
  b.group("gssm", gssm);
  b.group("optimizer", optimizer);
  b.group("training", training);
  b.group("validation", validation);
  b.group("checkpoint", checkpoint);
  b.group("communication", communication);
  b.group("lab", lab);
  b.flag("tensorboard", tensorboard, "write TensorBoard event files into the folder tensorboard of the run (rank 0)");
}

namespace {

[[noreturn]] void refuse(const std::string& key, const std::string& detail) {
  throw ConfigError(key, key + ": " + detail);
}

/// Refuses what would let bits depend on ranks, threads or memory.
void check_units(const TrainConfig& config) {
  if (!config.training.by_units()) return;
  const auto refuse_with_units = [&](const std::string& key, const std::string& found, const std::string& expected) {
    refuse(key, fmt::format("{}, but training.reproducible ranks needs {}", found, expected));
  };
  if (!std::has_single_bit(static_cast<unsigned>(config.training.units))) {
    refuse("training.units", fmt::format("expected a power of two, found {}", config.training.units));
  }
  if (config.data.micro_batch_tokens == DataConfig::automatic) {
    refuse_with_units("data.micro_batch_tokens", "auto depends on free memory", "a number");
  }
  const CommConfig& communication = config.communication;
  if (communication.gradient_wire != GradientWire::f32) {
    refuse_with_units("communication.gradient_wire",
                      fmt::format("{} rounds once for each hop", name_of(communication.gradient_wire)), "f32");
  }
  using enum AllReduceAlgorithm;
  if (communication.all_reduce == mpi || communication.all_reduce == nccl || communication.all_reduce == nccl_ring) {
    refuse_with_units("communication.all_reduce", communication.all_reduce_word() + " adds in an unknown order",
                      "auto, shared_memory, two_level or ring");
  }
  if (config.training.cuda_graphs) {
    refuse_with_units("training.cuda_graphs", "a recorded pass writes to one copy of the gradient", "false");
  }
}

/// For data.sequences_per_update: auto.
void check_automatic_sequences(const TrainConfig& config) {
  std::string other = config.training.by_units() ? "training.reproducible ranks" : "";
  if (config.data.balance == Balance::measured) other = "data.balance measured";
  if (config.data.micro_batch_tokens > 0) other = "data.micro_batch_tokens above 0";
  if (other.empty()) return;
  refuse("data.sequences_per_update", "auto fills the memory with equal parts, but " + other + " needs a number");
}

/// Throws for events in percent of the training: its end may move, so they could come twice or never.
void check_percent(const TrainConfig& config) {
  const std::pair<const char*, const Interval*> intervals[] = {
      {"training.stop_after", &config.training.stop_after},
      {"training.log_every", &config.training.log_every},
      {"training.digest_every", &config.training.digest_every},
      {"validation.every", &config.validation.every},
      {"validation.bleu_every", &config.validation.bleu_every},
      {"validation.patience_after", &config.validation.patience_after},
      {"checkpoint.every", &config.checkpoint.every}};
  for (const auto& [key, interval] : intervals) {
    if (interval->unit() != Interval::Unit::percent) continue;
    refuse(key, fmt::format("expected updates (u), epochs (e) or target tokens (t), found '{}'", interval->text()));
  }
}

/// Throws for a sample of the training set that cannot be evaluated.
void check_train_sample(const TrainConfig& config) {
  if (config.validation.train_sample == 0) return;
  const auto refuse_sample = [&config](const char* detail) {
    refuse("validation.train_sample", fmt::format("{}, but {}; expected 0", config.validation.train_sample, detail));
  };
  if (config.on_the_fly()) refuse_sample("sequences made on the fly have no training set");
  if (config.data.valid_set.empty()) refuse_sample("data.valid_set is empty, so there are no validations");
  if (config.data.valid_set == train_sample_set) refuse_sample("data.valid_set is the training set");
}

/// Throws for other held-out sets that cannot be told apart or are never scored.
void check_other_sets(const TrainConfig& config) {
  std::set<std::string> names = {config.data.valid_set, train_sample_set};
  for (const OtherSet& other : config.validation.others()) {
    if (config.task != Task::translation) {
      refuse("validation.other_sets", fmt::format("{}, but task gssm scores a single set; expected []", other.name));
    }
    if (config.data.valid_set.empty()) {
      refuse("validation.other_sets",
             fmt::format("{}, but data.valid_set is empty, so there are no validations; expected []", other.name));
    }
    if (names.insert(other.name).second) continue;
    refuse("validation.other_sets",
           fmt::format("expected a name that no other set of the validations has, found '{}'", other.name));
  }
}

}  // namespace

void TrainConfig::check() const {
  if (const Status checked = check_name(name); !checked) refuse("name", checked.error());
  model.check();
  if (task == Task::translation) check_translation();
  static_cast<void>(Schedule(optimizer.schedule));
  check_regularisers();
  static_cast<void>(mix_options());
  if (const Interval& after = training.divergence.after;
      after.unit() != Interval::Unit::updates || after.value() != std::floor(after.value())) {
    refuse("training.divergence.after", fmt::format("expected a number of updates (20u), found '{}'", after.text()));
  }
  communication.check();
  check_units(*this);
  check_percent(*this);
  check_train_sample(*this);
  check_other_sets(*this);
  lab.check();
  if (communication.optimizer == OptimizerPlacement::sharded) lab.check_shares();
  if (emulated() && lab.emulated.record.empty()) {
    refuse("lab.emulated.record", "missing; training.device emulated needs a record of `nmt emulate record`");
  }
  if (emulated() && lab.profile.start > 0) {
    refuse("lab.profile.start",
           fmt::format("{}, but training.device emulated measures no times; expected 0", lab.profile.start));
  }
  if (task == Task::gssm) return check_gssm();
  if (data.folder.empty()) refuse("data.folder", "missing; expected a folder written by `nmt prepare`");
}

/// Refuses what could have no effect, or has nothing to work on.
void TrainConfig::check_regularisers() const {
  if (data.segmentation.sides != SampledSides::both && !data.segmentation.draws()) {
    refuse("data.sampled_sides", "given, but nothing is sampled; expected data.bpe_dropout or data.sampling above 0");
  }
  const bool drops = model.dropout > 0 || model.attention_dropout > 0 || model.activation_dropout > 0;
  if (training.r_drop > 0 && !drops && training.layer_drop == 0) {
    refuse(
        "training.r_drop",
        fmt::format("{}, but without dropout both passes are equal; expected model.dropout above 0", training.r_drop));
  }
  if (training.layer_drop > 0 && training.guided_alignment > 0) {
    refuse("training.layer_drop",
           fmt::format("{}, but training.guided_alignment needs its layer in each update; expected 0 for one of them",
                       training.layer_drop));
  }
  if (training.pair_losses && (task != Task::translation || emulated())) {
    refuse("training.pair_losses",
           fmt::format("true, but {}; expected false",
                       emulated() ? "training.device emulated computes no losses" : "task gssm has no sentence pairs"));
  }
}

void TrainConfig::check_translation() const {
  if (model.encoder_layers == 0) refuse("model.encoder_layers", "0, but translation needs at least 1");
  if (!gssm.nodes.empty()) refuse("gssm.nodes", "given, but task is translation; expected task: gssm");
  if (validation.precision == ValidationPrecision::int8 && training.device == DeviceChoice::cuda) {
    refuse("validation.precision", "int8, but training.device is cuda; expected training, or a processor");
  }
}

void TrainConfig::check_gssm() const {
  if (model.encoder_layers != 0) {
    refuse("model.encoder_layers",
           fmt::format("{}, but task gssm trains a language model, which has none; use 0 or a preset such as lm-288",
                       model.encoder_layers));
  }
  if (data.segmentation.draws()) {
    refuse(data.segmentation.sampling > 0 ? "data.sampling" : "data.bpe_dropout",
           "given, but task gssm has no text to segment; expected 0");
  }
  if (training.guided_alignment > 0) {
    refuse("training.guided_alignment",
           fmt::format("{}, but task gssm has no source to align; expected 0", training.guided_alignment));
  }
  for (const auto& [key, value] : {std::pair("training.source_word_dropout", training.source_word_dropout),
                                   {"training.target_word_dropout", training.target_word_dropout}}) {
    if (value > 0) refuse(key, fmt::format("{}, but task gssm has no words; expected 0", value));
  }
  if (data.folder.empty() || !gssm.nodes.empty()) make_gssm_graph(gssm);
  if (data.sequences_per_update == DataConfig::automatic) check_automatic_sequences(*this);
  if (data.sequence_length - 1 > data.max_length) {
    refuse("data.sequence_length", fmt::format("{} tokens have {} targets, longer than data.max_length {}",
                                               data.sequence_length, data.sequence_length - 1, data.max_length));
  }
  if (validation.bleu_every.value() > 0) {
    refuse("validation.bleu_every",
           fmt::format("{}, but task gssm translates nothing; expected 0u", validation.bleu_every.text()));
  }
  const Interval& entropy = gssm.entropy_every;
  if (entropy.unit() != Interval::Unit::updates || entropy.value() != std::floor(entropy.value())) {
    refuse("gssm.entropy_every", fmt::format("expected a number of updates (100u), found '{}'", entropy.text()));
  }
  if (!data.folder.empty() && entropy.value() > 0) {
    refuse("gssm.entropy_every",
           fmt::format("{}, but needs sequences made on the fly, without data.folder; expected 0u", entropy.text()));
  }
  if (!data.folder.empty()) return;
  const std::pair<const char*, const Interval*> intervals[] = {
      {"optimizer.warm_up", &optimizer.schedule.warm_up},
      {"optimizer.decay", &optimizer.schedule.decay},
      {"training.stop_after", &training.stop_after},
      {"training.log_every", &training.log_every},
      {"training.digest_every", &training.digest_every},
      {"validation.every", &validation.every},
      {"validation.patience_after", &validation.patience_after},
      {"checkpoint.every", &checkpoint.every}};
  for (const auto& [key, interval] : intervals) {
    if (interval->unit() != Interval::Unit::epochs) continue;
    refuse(key,
           fmt::format("{}, but sequences made on the fly have no epochs; expected updates (u) or target tokens (t)",
                       interval->text()));
  }
}

}  // namespace babelring
