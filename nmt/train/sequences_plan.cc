#include "nmt/train/sequences_plan.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/failure.h"
#include "nmt/data/gssm/graph.h"
#include "nmt/data/manifest.h"
#include "nmt/layers/context.h"
#include "nmt/model/device_batch.h"
#include "nmt/ops/dry_backend.h"
#include "nmt/train/evaluation/sequence_validator.h"
#include "nmt/train/setup/memory_plan.h"

namespace babelring {

namespace {

constexpr const char* plan_key = "data.sequences_per_update: auto";
/// Left free for allocations between this plan and the first pass, as a fraction of all memory.
constexpr double later_allocations = 0.02;
/// An update on CPUs takes at most about this, so that it stays under a minute on a machine that others use too.
constexpr double max_host_update_seconds = 15;

/// Memory of a rank that computes `sequences` sequences in one pass.
class SequenceMemory {
 public:
  SequenceMemory(const TrainConfig& config, Backend& backend, const Communicator& communicator)
      : config_(config),
        backend_(backend),
        communicator_(communicator),
        room_(backend.memory()),
        dry_(make_dry_backend()),
        model_(make_model(config.model, make_gssm_graph(config.gssm).vocabulary(), 0, parameter_memory_of(*dry_),
                          config.training.precision)) {
    model_->set_r_drop(static_cast<float>(config.training.r_drop));
    add_model(estimate_, config_, *model_, 1);
    if (!config.data.valid_set.empty()) {
      validation_ = dry_run_evaluation(*model_, backend, sequence_batch_targets(config.data.sequence_length));
    }
  }
  const MemoryInfo& room() const { return room_; }
  /// Bytes that this rank may use beside the batches of `sequences` sequences.
  std::size_t usable(std::int64_t sequences) const {
    const auto later = static_cast<std::size_t>(static_cast<double>(room_.total) * later_allocations);
    const std::size_t part =
        arena_room(backend_, communicator_, room_,
                   later_memory(config_, backend_, tokens_of(sequences), model_->parameters().count()));
    return part - std::min(part, later);
  }
  /// Bytes of the model and of a pass.
  std::size_t need(std::int64_t sequences) const { return model_bytes() + pass_bytes(sequences); }
  /// A single sequence or a validation may take all that is usable.
  bool fits(std::int64_t sequences) const {
    const std::size_t all = usable(sequences), bytes = pass_bytes(sequences);
    if (model_bytes() + bytes > all) return false;
    return bytes <= std::max(arena_part(backend_, all - model_bytes()), pass_bytes(1));
  }

 private:
  std::int64_t tokens_of(std::int64_t sequences) const { return sequences * (config_.data.sequence_length - 1); }
  std::size_t model_bytes() const { return static_cast<std::size_t>(estimate_.total()); }
  std::size_t pass_bytes(std::int64_t sequences) const {
    const std::int64_t tokens = tokens_of(sequences);
    if (backend_.host_memory()) {
      return total_of(ArenaBytes::larger(dry_run(*model_, backend_, 0, tokens, sequences), validation_));
    }
    if (!config_.training.cuda_graphs) return total_of(dry_run(*model_, backend_, 0, tokens, sequences));
    const std::int64_t rows = padded_rows(tokens);
    return total_of(dry_run(*model_, backend_, rows, rows));
  }

  const TrainConfig& config_;
  Backend& backend_;
  const Communicator& communicator_;
  MemoryInfo room_;
  std::unique_ptr<Backend> dry_;  // holds the model, which is not allocated
  std::unique_ptr<Model> model_;
  MemoryEstimate estimate_;  // of the model
  ArenaBytes validation_;
};

/// The max number of sequences of an update, for any memory.
std::int64_t max_sequences(const TrainConfig& config, std::int64_t ranks) {
  const std::int64_t targets = config.data.sequence_length - 1;
  const std::int64_t estimated = std::max<std::int64_t>(1, max_estimated_tokens / targets) * ranks;
  if (config.on_the_fly()) return estimated;
  return std::min(estimated, load_manifest(config.data.folder).set(config.data.train_set).sentences);
}

/// The max number of sequences that each rank computes in one pass.
std::int64_t sequences_of_a_rank(const TrainConfig& config, std::int64_t max, const SequenceMemory& memory,
                                 Communicator& communicator) {
  const auto fits = [&](std::int64_t sequences) { return memory.fits(sequences); };
  const std::int64_t each = min_over_ranks(max_fitting(1, max, 1, fits), communicator);
  if (each > 0) return each;
  const std::int64_t least = min_over_ranks(static_cast<std::int64_t>(memory.usable(1)), communicator);
  throw UsageFailure(fmt::format("{}: the model and a sequence of {} tokens need {} bytes, a rank may use {}", plan_key,
                                 config.data.sequence_length, memory.need(1), least));
}

/// Seconds of a pass over each sequence on this rank, measured on up to `max` sequences with a model that is dropped
/// again. All ranks measure at once, as they compute at once.
double seconds_of_a_sequence(const TrainConfig& config, std::int64_t max, Backend& backend) {
  constexpr std::int64_t measured_tokens = 4096;
  const std::int64_t targets = config.data.sequence_length - 1;
  const std::int64_t sequences = std::clamp<std::int64_t>(measured_tokens / targets, 1, max);
  const std::unique_ptr<Model> model = make_model(config.model, make_gssm_graph(config.gssm).vocabulary(), 0,
                                                  parameter_memory_of(backend), config.training.precision);
  model->initialize(backend, static_cast<std::uint64_t>(config.training.seed));
  ActivationArenas arenas(backend);
  const PackedBatch batch = even_batch(0, sequences * targets, sequences);
  double seconds = 0;
  for (int pass = 0; pass < 2; ++pass) {  // the first one also compiles kernels
    const Stopwatch watch;
    Context context = arenas.begin(model->compute_dtype());
    context.training = true;
    model->add_gradients(context, DeviceBatch(backend, context.saved, batch), 1);
    backend.synchronize();
    seconds = watch.elapsed_ms() / 1000;
  }
  return seconds / static_cast<double>(sequences);
}

/// The number of sequences of a rank whose update takes max_host_update_seconds on the slowest rank, if that is less
/// than `each`, which fits.
std::int64_t limited_by_time(const TrainConfig& config, std::int64_t each, Backend& backend,
                             Communicator& communicator) {
  if (!backend.host_memory() || config.emulated()) return each;
  const double seconds = std::max(seconds_of_a_sequence(config, each, backend), 1e-9);
  const auto in_time = static_cast<std::int64_t>(std::min(max_host_update_seconds / seconds, 1e15));
  return std::min(each, min_over_ranks(std::max<std::int64_t>(1, in_time), communicator));
}

}  // namespace

TrainConfig with_sequences_that_fit(TrainConfig config, std::int64_t stored, Backend& backend,
                                    Communicator& communicator) {
  if (config.task != Task::gssm || config.data.sequences_per_update != DataConfig::automatic) return config;
  const auto say = [&](const std::string& answer) {
    if (communicator.rank() == 0)
      spdlog::info("{}: {} sequences{}", plan_key, config.data.sequences_per_update, answer);
  };
  if (stored != DataConfig::automatic) {
    config.data.sequences_per_update = stored;
    say(", with which the run began");
    return config;
  }
  const SequenceMemory memory(config, backend, communicator);
  if (min_over_ranks(memory.room().total > 0, communicator) == 0) {
    throw UsageFailure(fmt::format("{}: {}", plan_key, unknown_memory));
  }
  const std::int64_t ranks = communicator.size(), max = max_sequences(config, ranks);
  const std::int64_t fitting = sequences_of_a_rank(config, (max + ranks - 1) / ranks, memory, communicator);
  const std::int64_t each = limited_by_time(config, fitting, backend, communicator);
  config.data.sequences_per_update = std::min(each * ranks, max);
  const bool all = !config.on_the_fly() && each * ranks >= max;
  say(fmt::format(" of {} tokens{}, {} on a rank{}; {}", config.data.sequence_length,
                  all ? ", all of " + config.data.train_set : "", each,
                  each < fitting ? fmt::format(", which take about {:g} s on this CPU", max_host_update_seconds) : "",
                  room_text(memory.usable(each), memory.room())));
  return config;
}

}  // namespace babelring
