#include "nmt/train/setup/free_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "nmt/decode/translator.h"

namespace babelring {

namespace {

/// Bytes that the translations of a validation take on a rank: keys and values of all positions of a batch's
/// hypotheses, and packed weights.
std::int64_t translation_bytes(const TrainConfig& config, std::int64_t parameters) {
  const bool translates = config.task == Task::translation && !config.data.valid_set.empty() &&
                          config.validation.bleu_every.value() > 0 && !config.emulated();
  if (!translates) return 0;
  const TranslateOptions options;
  const auto element = static_cast<std::int64_t>(size_of(config.training.precision));
  // The largest batch has the max number of sentences and of tokens.
  const std::int64_t positions = options.batch_sentences * config.validation.beam *
                                 options.beam.max_length(options.batch_tokens / options.batch_sentences);
  return element * (positions * config.model.decoder_layers * 2 * config.model.width + parameters);
}

}  // namespace

LaterMemory later_memory(const TrainConfig& config, const Backend& backend, std::int64_t tokens,
                         std::int64_t parameters) {
  if (!backend.host_memory()) return {};
  // Ids of the source, the target and its labels; an update waits, is made by each worker, and is computed.
  constexpr std::int64_t token_bytes = 3 * sizeof(std::int32_t), copied = 3 * sizeof(float);
  const std::int64_t updates = config.data.prefetch + config.data.workers + 1;
  return {.of_host = static_cast<std::size_t>(parameters * copied),
          .of_rank = process_growth_bytes +
                     static_cast<std::size_t>(updates * tokens * token_bytes + translation_bytes(config, parameters))};
}

std::size_t arena_room(const Backend& backend, const Communicator& communicator, const MemoryInfo& room,
                       const LaterMemory& later) {
  const auto margin = static_cast<std::size_t>(static_cast<double>(room.total) * memory_margin) +
                      (backend.host_memory() ? 0 : device_margin_bytes);
  const std::size_t left = room.free - std::min(room.free, margin + later.of_host);
  const std::size_t share = backend.host_memory() ? left / static_cast<std::size_t>(communicator.local_size()) : left;
  return share - std::min(share, later.of_rank);
}

std::size_t arena_part(const Backend& backend, std::size_t usable) {
  return backend.host_memory() ? static_cast<std::size_t>(static_cast<double>(usable) * host_arena_part) : usable;
}

std::string room_text(std::size_t usable, const MemoryInfo& room) {
  const auto gib = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  return fmt::format("rank 0 may use {:.2f} GiB, {:.2f} of {:.2f} GiB were free", gib(usable), gib(room.free),
                     gib(room.total));
}

std::string too_little_text(std::size_t usable, const MemoryInfo& room, const LaterMemory& later) {
  std::string text = fmt::format("a rank may use {}: {} of {} bytes are free", usable, room.free, room.total);
  if (later.of_host + later.of_rank == 0) return text;
  return text + fmt::format(
                    ", {} stay free for a checkpoint's copy, {} on each rank for batches and translations "
                    "(validation.beam, bleu_every)",
                    later.of_host, later.of_rank);
}

std::int64_t max_fitting(std::int64_t min, std::int64_t max, std::int64_t tolerance,
                         const std::function<bool(std::int64_t size)>& fits) {
  if (!fits(min)) return 0;
  if (max <= min || fits(max)) return std::max(min, max);
  std::int64_t low = min, high = max;
  while (high - low > std::max(tolerance, low / 100)) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

std::int64_t min_over_ranks(std::int64_t mine, Communicator& communicator) {
  std::int64_t min = mine;
  for (const std::string& theirs : communicator.all_gather(std::to_string(mine))) {
    min = std::min<std::int64_t>(min, std::stoll(theirs));
  }
  return min;
}

}  // namespace babelring
