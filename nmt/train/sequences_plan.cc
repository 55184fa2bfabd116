#include "nmt/train/sequences_plan.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/failure.h"
#include "nmt/data/gssm/graph.h"
#include "nmt/data/manifest.h"
#include "nmt/model/padded_batch.h"
#include "nmt/ops/dry_backend.h"
#include "nmt/train/free_memory.h"
#include "nmt/train/memory_plan.h"

namespace babelring {

namespace {

constexpr const char* key = "data.sequences_per_update: auto";
/// Left free for allocations between this plan and the first pass, as a fraction of all memory.
constexpr double later_allocations = 0.02;

/// Memory of a rank that computes `sequences` sequences in one pass.
class SequenceMemory {
 public:
  SequenceMemory(const TrainConfig& config, Backend& backend)
      : config_(config),
        backend_(backend),
        dry_(make_dry_backend()),
        model_(make_model(config.model, make_gssm_graph(config.gssm).vocabulary(), 0, parameter_memory_of(*dry_),
                          config.training.precision)) {
    add_model(estimate_, *model_, 1);
  }
  std::size_t operator()(std::int64_t sequences) const {
    const std::int64_t tokens = sequences * (config_.data.sequence_length - 1);
    const std::int64_t rows = config_.training.cuda_graphs ? padded_rows(tokens) : tokens;
    return static_cast<std::size_t>(estimate_.total()) + total_of(dry_run(*model_, backend_, rows, rows));
  }

 private:
  const TrainConfig& config_;
  Backend& backend_;
  std::unique_ptr<Backend> dry_;  // holds the model, which is not allocated
  std::unique_ptr<Model> model_;
  MemoryEstimate estimate_;  // of the model
};

/// The max number of sequences of an update, for any memory.
std::int64_t max_sequences(const TrainConfig& config, std::int64_t ranks) {
  const std::int64_t targets = config.data.sequence_length - 1;
  const std::int64_t estimated = std::max<std::int64_t>(1, max_estimated_tokens / targets) * ranks;
  if (config.on_the_fly()) return estimated;
  return std::min(estimated, load_manifest(config.data.folder).set(config.data.train_set).sentences);
}

/// The max number of sequences that each rank computes in one pass.
std::int64_t sequences_of_a_rank(const TrainConfig& config, std::int64_t max, std::size_t usable, Backend& backend,
                                 Communicator& communicator) {
  const SequenceMemory need(config, backend);
  const auto fits = [&](std::int64_t sequences) { return need(sequences) <= usable; };
  const std::int64_t each = min_over_ranks(max_fitting(1, max, 1, fits), communicator);
  if (each > 0) return each;
  const std::int64_t least = min_over_ranks(static_cast<std::int64_t>(usable), communicator);
  throw UsageFailure(fmt::format("{}: the model and a sequence of {} tokens need {} bytes, a rank may use {}", key,
                                 config.data.sequence_length, need(1), least));
}

}  // namespace

TrainConfig with_sequences_that_fit(TrainConfig config, std::int64_t stored, Backend& backend,
                                    Communicator& communicator) {
  if (config.task != Task::gssm || config.data.sequences_per_update != DataConfig::automatic) return config;
  const auto say = [&](const std::string& answer) {
    if (communicator.rank() == 0) spdlog::info("{}: {} sequences{}", key, config.data.sequences_per_update, answer);
  };
  if (stored != DataConfig::automatic) {
    config.data.sequences_per_update = stored;
    say(", with which the run began");
    return config;
  }
  const MemoryInfo room = backend.memory();
  if (min_over_ranks(room.total > 0, communicator) == 0) throw UsageFailure(fmt::format("{}: {}", key, unknown_memory));
  const auto later = static_cast<std::size_t>(static_cast<double>(room.total) * later_allocations);
  const std::size_t share = arena_room(backend, communicator, room), usable = share - std::min(share, later);
  const std::int64_t ranks = communicator.size(), max = max_sequences(config, ranks);
  const std::int64_t each = sequences_of_a_rank(config, (max + ranks - 1) / ranks, usable, backend, communicator);
  config.data.sequences_per_update = std::min(each * ranks, max);
  const bool all = !config.on_the_fly() && each * ranks >= max;
  say(fmt::format(" of {} tokens{}, {} on a rank; {}", config.data.sequence_length,
                  all ? ", all of " + config.data.train_set : "", each, room_text(usable, room)));
  return config;
}

}  // namespace babelring
