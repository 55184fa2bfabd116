#include "nmt/train/config.h"

#include <cmath>
#include <map>
#include <set>

#include "base/name_fault.h"
#include "nmt/parallel/bucket_size.h"

namespace babelring {

void DataConfig::bind(OptionBinder& b) {
  b.text("folder", folder, "folder written by `nmt prepare`");
  b.text("train_set", train_set, "set trained on");
  b.text("valid_set", valid_set, "held-out set; empty: no validation");
  b.integer("tokens_per_update", tokens_per_update, 1, std::int64_t{1} << 40,
            "target tokens of an update, over all ranks");
  b.integer_or(
      "micro_batch_tokens", micro_batch_tokens, 0, std::int64_t{1} << 40, "auto", automatic,
      "most tokens of one forward pass of a rank, which bounds memory; 0: a rank's share in one pass; auto: as "
      "many as fit into the memory that is free, up to that");
  b.integer("max_length", max_length, 2, 1 << 20, "longest sentence trained on, in tokens");
  b.integer("prefetch", prefetch, 1, 1000, "updates prepared ahead");
}

void OptimizerConfig::bind(OptionBinder& b) {
  schedule.bind(b);
  adam.bind(b);
  b.number("label_smoothing", label_smoothing, 0, 0.99, "probability spread evenly over the vocabulary");
}

void DivergenceConfig::bind(OptionBinder& b) {
  b.text("after", after,
         "training ends as diverged after this many updates in a row without a finite gradient (20u), or an evaluation "
         "whose loss is not finite; 0u: never");
  b.integer("rewind", rewind, 0, 1000,
            "times that training goes back to the newest well evaluated checkpoint instead, with half the learning "
            "rate each time");
}

void TrainingConfig::bind(OptionBinder& b) {
  b.text("stop_after", stop_after, "end of training: 100000u updates, 20e epochs or 500Mt target tokens");
  b.number("max_minutes", max_minutes, 0, 1e7, "end of training by the clock, earlier attempts counted in; 0: none");
  b.choice("precision", precision, {"bf16", "f32"}, "of activations and products; masters and moments are f32");
  b.choice("device", device, {"auto", "cpu", "cuda"},
           "what computes: a CUDA GPU for each rank, or the processor; auto: the first where every rank has one");
  b.flag("cuda_graphs", cuda_graphs,
         "on GPUs: forward and backward of batches of similar size, padded to the same size, are repeated as a CUDA "
         "graph; for small models, whose kernels take less time than their launches");
  b.flag("tune_products", tune_products,
         "on a GPU each matrix product is computed by the fastest of the algorithms that cuBLASLt proposes, timed when "
         "its shape first comes; the run's folder keeps the choices (products-rank-N.jsonl); false: by the first one");
  b.integer("threads", threads, 0, 1024,
            "threads of a rank; 0: its share of the processors that affinity and the CPU quota allow the host's ranks");
  b.integer("seed", seed, 0, std::int64_t{1} << 62, "of initial weights, order and dropout");
  b.text(
      "start_from", start_from,
      "folder of a checkpoint: a new run begins with its weights, in its vocabulary; optimizer, schedule and position "
      "begin anew");
  b.text("freeze", freeze, "parameters that keep their weights: names with * and ?, separated by commas: encoder.*");
  b.text("log_every", log_every,
         "a log line every N updates (u), epochs (e) or tokens (t), with the mean loss since the line before");
  b.text("digest_every", digest_every, "a SHA-256 of the weights in the step record; 0: never");
  b.group("divergence", divergence);
}

void ValidationConfig::bind(OptionBinder& b) {
  b.text("every", every, "validation loss every so many updates (u), epochs (e) or tokens (t); 0: at the end only");
  b.text("bleu_every", bleu_every, "translation and BLEU, at validations this far apart; 0: never");
  b.integer("max_sentences", max_sentences, 0, std::int64_t{1} << 40, "sentences translated for BLEU; 0: all");
  b.integer("beam", beam, 1, 64, "beam size");
  b.number("length_penalty", length_penalty, 0, 10, "exponent of the length that scores are divided by");
  b.integer("samples", samples, 0, 200, "translations kept with each evaluation");
  b.integer("patience", patience, 0, 1000000,
            "early stopping: evaluations without a better BLEU (or, without BLEU, loss); 0: off");
}

void CheckpointConfig::bind(OptionBinder& b) {
  b.text("every", every, "a checkpoint after each so many updates (u), epochs (e) or tokens (t); 0: at the end only");
  b.integer("keep_last", keep_last, 1, 100000, "newest checkpoints kept");
  b.flag("keep_best", keep_best, "keep the best one besides");
}

void CommConfig::bind(OptionBinder& b) {
  b.choice("all_reduce", all_reduce, {"auto", "shared_memory", "ring", "mpi", "nccl", "nccl_ring"},
           "in memory that the ranks of one host share, by an own ring of messages, or the MPI library's; between GPUs "
           "by NCCL, with the algorithm that it chooses or its ring; auto: NCCL between GPUs that have it, else memory "
           "where all ranks are on one host, else the ring");
  b.choice("gradient_wire", gradient_wire, {"f32", "bf16"},
           "how the ring and NCCL send gradients; bf16 halves the bytes, each hop rounds to 8 bits; in shared memory "
           "f32 always");
  b.number_or(
      "bucket_mb", bucket_mb, 0.001, 4096, "auto", automatic,
      "gradient bytes reduced together, in MB; auto: 4 between hosts' memories, tens between GPUs by NCCL, as a "
      "model of their network says");
  b.number("deadline_s", deadline_s, 0.1, 86400, "seconds after which a collective gives up and names the peer");
}

CommOptions CommConfig::options() const {
  const std::map<std::string, AllReduceAlgorithm> algorithms = {
      {"auto", AllReduceAlgorithm::automatic}, {"shared_memory", AllReduceAlgorithm::shared_memory},
      {"nccl", AllReduceAlgorithm::automatic}, {"nccl_ring", AllReduceAlgorithm::automatic},
      {"ring", AllReduceAlgorithm::ring},      {"mpi", AllReduceAlgorithm::mpi}};
  return {.algorithm = algorithms.at(all_reduce),
          .wire = gradient_wire == "bf16" ? GradientWire::bf16 : GradientWire::f32,
          .deadline = std::chrono::milliseconds(static_cast<std::int64_t>(deadline_s * 1000))};
}

std::int64_t CommConfig::bucket_bytes(std::int64_t gradient_bytes, const Communicator& communicator,
                                      bool by_nccl) const {
  if (bucket_mb != automatic) return static_cast<std::int64_t>(bucket_mb * 1e6);
  if (!by_nccl) return host_bucket_bytes;
  const std::set<std::string> hosts(communicator.hosts().begin(), communicator.hosts().end());
  return best_bucket_bytes(gradient_bytes,
                           nccl_model(communicator.size(), static_cast<int>(hosts.size()), options().wire));
}

void TrainConfig::bind(OptionBinder& b) {
  b.text("name", name, "of the run, for people");
  b.choice("preset", preset, {"transformer-tiny", "transformer-base", "transformer-big"},
           "defaults of model.*, which single keys override");
  b.group("model", model);
  b.group("data", data);
  b.group("optimizer", optimizer);
  b.group("training", training);
  b.group("validation", validation);
  b.group("checkpoint", checkpoint);
  b.group("communication", communication);
  b.flag("tensorboard", tensorboard, "rank 0 writes event files for TensorBoard, into the run's folder tensorboard");
}

void TrainConfig::check() const {
  if (const auto fault = name_fault(name)) throw UsageFailure("name: " + *fault);
  model.check();
  static_cast<void>(Schedule(optimizer.schedule));
  parse_duration("training.stop_after", training.stop_after);
  parse_duration("training.log_every", training.log_every);
  parse_duration("training.digest_every", training.digest_every);
  if (const Duration after = parse_duration("training.divergence.after", training.divergence.after);
      after.unit() != Duration::Unit::updates || after.value() != std::floor(after.value())) {
    throw UsageFailure(fmt::format("training.divergence.after: expected a number of updates (20u), found '{}'",
                                   training.divergence.after));
  }
  parse_duration("validation.every", validation.every);
  parse_duration("validation.bleu_every", validation.bleu_every);
  parse_duration("checkpoint.every", checkpoint.every);
  if (communication.all_reduce == "mpi" && communication.gradient_wire == "bf16") {
    throw UsageFailure("communication.gradient_wire: bf16 goes with all_reduce ring, nccl or auto, found mpi");
  }
  if (data.folder.empty()) throw UsageFailure("data.folder: missing; expected a folder written by `nmt prepare`");
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

std::string describe_config() {
  TrainConfig config;
  OptionBinder binder;
  config.bind(binder);
  return describe(binder);
}

}  // namespace babelring
