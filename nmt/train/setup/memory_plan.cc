#include "nmt/train/setup/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/failure.h"
#include "nmt/comm/communicator.h"
#include "nmt/data/assignment.h"
#include "nmt/decode/translator.h"
#include "nmt/model/device_batch.h"
#include "nmt/ops/dry_backend.h"

namespace babelring {
namespace {

/// The f32 arrays of a parameter's size beside the weights: Adam's moments, and the average of training.ema.
std::int64_t optimizer_arrays(const TrainConfig& config) {
  return config.training.ema > 0 ? 3 : 2;
}

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
  constexpr std::int64_t token_bytes = 3 * sizeof(std::int32_t);
  const std::int64_t copied = (1 + optimizer_arrays(config)) * std::int64_t{sizeof(float)};
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
  const std::size_t part = backend.host_memory() ? left / static_cast<std::size_t>(communicator.local_size()) : left;
  return part - std::min(part, later.of_rank);
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

namespace {

constexpr std::int64_t typical_sentence = 32;

/// One side of a batch: `tokens` tokens of id 0 in sentences of equal length.
PackedSequences even_sentences(std::int64_t tokens, std::int64_t sentences) {
  PackedSequences side;
  side.ids.assign(static_cast<std::size_t>(tokens), 0);
  for (std::int64_t i = 1; i <= sentences; ++i)
    side.offsets.push_back(static_cast<std::int32_t>(i * tokens / sentences));
  return side;
}

/// Peak arena sizes of pass(dry backend, context).
template <class Pass>
ArenaBytes dry_pass(const Model& model, Backend& backend, Pass pass) {
  const std::unique_ptr<Backend> dry = make_dry_backend({}, &backend);
  ActivationArenas arenas(*dry);
  Context context = arenas.begin(model.compute_dtype());
  pass(*dry, context);
  return {.saved = arenas.saved().peak_bytes(), .scratch = arenas.scratch().peak_bytes()};
}

/// Max source and target tokens, of which sequences have no source, in a rank's part of an update.
struct RankTokens {
  std::int64_t source, target;
  std::int64_t larger() const { return std::max(source, target); }
};

/// `parts`: the number of parts of this size in an update. Sentences are divided by tokens, so a margin allows for
/// unevenness; sequences by number.
RankTokens tokens_of_rank(const TrainConfig& config, const UpdateShape& update, double parts) {
  if (config.task == Task::gssm) {
    const double sequences = std::round(update.target_tokens / static_cast<double>(update.max_length));
    return {.source = 0, .target = std::llround(std::ceil(sequences / parts)) * update.max_length};
  }
  const auto with_margin = [&](double tokens) { return std::llround(1.1 * (tokens / parts)) + update.max_length; };
  return {.source = with_margin(update.source_tokens), .target = with_margin(update.target_tokens)};
}

constexpr const char* micro_batch_key = "data.micro_batch_tokens: auto";

/// The number of sentences of a pass; 0: not known.
std::int64_t sentences_of(const TrainConfig& config, std::int64_t max_length, std::int64_t tokens) {
  return config.task == Task::gssm ? std::max<std::int64_t>(1, tokens / max_length) : 0;
}

/// Sets the number of tokens. `max`: of a rank's part of an update, on its larger side. `validation`: of the arenas.
void answer_auto(MemoryPlan& plan, const TrainConfig& config, std::int64_t max_length, std::int64_t max,
                 const Model& model, Backend& backend, Communicator& communicator, const ArenaBytes& validation) {
  const MemoryInfo room = backend.memory();
  const LaterMemory later = later_memory(config, backend, max, model.parameters().count());
  const std::size_t usable = arena_room(backend, communicator, room, later), part = arena_part(backend, usable);
  const auto need = [&](std::int64_t tokens) {
    const std::int64_t source = config.task == Task::gssm ? 0 : tokens;
    const ArenaBytes pass = dry_run(model, backend, source, tokens, sentences_of(config, max_length, tokens));
    return total_of(backend.host_memory() ? ArenaBytes::larger(pass, validation) : pass);
  };
  const std::size_t least = need(max_length);  // a validation may need more than a short pass
  const auto fits = [&](std::int64_t tokens) {
    const std::size_t bytes = need(tokens);
    return bytes <= usable && bytes <= std::max(part, least);
  };
  const std::int64_t mine = room.total > 0 ? max_fitting(max_length, max, 16, fits) : -1;
  plan.micro_batch_tokens = min_over_ranks(mine, communicator);
  if (plan.micro_batch_tokens < 0) throw UsageFailure(fmt::format("{}: {}", micro_batch_key, unknown_memory));
  if (plan.micro_batch_tokens == 0) {
    const char* const with = total_of(validation) > 0 && backend.host_memory() ? " with validations" : "";
    throw UsageFailure(fmt::format("{}: a sentence of {} tokens (data.max_length) needs {} bytes{}, {}",
                                   micro_batch_key, max_length, least, with, too_little_text(usable, room, later)));
  }
  plan.answer = fmt::format("{}: {} tokens; {}", micro_batch_key, plan.micro_batch_tokens,
                            room_text(std::max(part, std::min(least, usable)), room));
}

}  // namespace

PackedBatch even_batch(std::int64_t source_tokens, std::int64_t target_tokens, std::int64_t sentences) {
  PackedBatch batch;
  batch.source = even_sentences(source_tokens, sentences);
  batch.target_in = even_sentences(target_tokens, sentences);
  batch.target_out = batch.target_in.ids;
  return batch;
}

std::int64_t dry_sentences(std::int64_t source_tokens, std::int64_t target_tokens) {
  const std::int64_t tokens = std::max(source_tokens, target_tokens);
  return std::min({source_tokens, target_tokens, (tokens + typical_sentence - 1) / typical_sentence});
}

ArenaBytes dry_run(const Model& model, Backend& backend, std::int64_t source_tokens, std::int64_t target_tokens,
                   std::int64_t sentences) {
  if (sentences == 0) sentences = dry_sentences(source_tokens, target_tokens);
  const PackedBatch batch = even_batch(source_tokens, target_tokens, sentences);
  return dry_pass(model, backend, [&](Backend& dry, Context& context) {
    context.training = true;
    model.add_gradients(context, DeviceBatch(dry, context.saved, batch), 1);
  });
}

ArenaBytes dry_run_evaluation(const Model& model, Backend& backend, std::int64_t tokens) {
  const PackedBatch batch = even_batch(tokens, tokens, tokens);  // max number of sentences: each is a single </s>
  return dry_pass(model, backend, [&](Backend& dry, Context& context) {
    const DeviceBatch on_device(dry, context.saved, batch);
    model.evaluate(context, on_device, context.saved.make(on_device.target_out.shape, DType::i32));
  });
}

void add_model(MemoryEstimate& estimate, const TrainConfig& config, const Model& model, std::int64_t gradients) {
  constexpr std::int64_t f32_bytes = size_of(DType::f32);
  const DType compute = model.compute_dtype();
  const std::int64_t copy_bytes = compute == DType::f32 ? 0 : static_cast<std::int64_t>(size_of(compute));
  estimate.parameters = model.parameters().count();
  estimate.weights = estimate.parameters * (f32_bytes + copy_bytes);
  estimate.gradients = estimate.parameters * f32_bytes * gradients;
  estimate.moments = optimizer_arrays(config) * estimate.parameters * f32_bytes;
}

MemoryEstimate estimate_memory(const TrainConfig& config, std::int64_t vocabulary, std::int64_t ranks,
                               double source_per_target) {
  const std::int64_t limit = config.data.micro_batch_tokens;
  const auto limited = [&](std::int64_t tokens) { return limit > 0 ? std::min(tokens, limit) : tokens; };
  const bool by_units = config.training.by_units();
  const std::int64_t parts = by_units ? std::max<std::int64_t>(config.training.units, ranks) : ranks;
  const std::int64_t target = limited((config.target_tokens_per_update() + parts - 1) / parts);
  const bool sequences = config.task == Task::gssm;
  const double source = sequences ? 0 : std::max(1.0, static_cast<double>(target) * source_per_target);
  MemoryEstimate estimate{.source_tokens = limited(std::llround(std::min(source, 1e15))), .target_tokens = target};
  const std::int64_t larger = std::max(estimate.source_tokens, target);
  if (larger > max_estimated_tokens) {
    fail("a micro-batch of {} tokens is larger than {}; lower data.tokens_per_update or data.micro_batch_tokens",
         larger, max_estimated_tokens);
  }
  const std::unique_ptr<Backend> backend =
      config.training.device == DeviceChoice::cuda ? make_dry_device() : make_dry_backend();
  const std::unique_ptr<Model> model =
      make_model(config.model, vocabulary, 0, parameter_memory_of(*backend), config.training.precision);
  model->set_r_drop(static_cast<float>(config.training.r_drop));
  const std::int64_t units = parts / ranks;  // of a rank
  const bool moves = by_units && ranks > 1 && config.data.balance == Balance::measured;
  add_model(estimate, config, *model, std::bit_width(static_cast<std::uint64_t>(units)) + (moves ? units : 0));
  const ArenaBytes arenas = dry_run(*model, *backend, estimate.source_tokens, target,
                                    sentences_of(config, config.data.sequence_length - 1, target));
  estimate.activations = static_cast<std::int64_t>(arenas.saved);
  estimate.scratch = static_cast<std::int64_t>(arenas.scratch);
  return estimate;
}

void require_room_for_model(const TrainConfig& config, std::int64_t vocabulary, const Backend& backend,
                            Communicator& communicator) {
  if (config.data.micro_batch_tokens != DataConfig::automatic || !backend.host_memory()) return;
  const MemoryInfo room = backend.memory();
  const std::unique_ptr<Backend> dry = make_dry_backend();
  MemoryEstimate model;
  add_model(model, config,
            *make_model(config.model, vocabulary, 0, parameter_memory_of(*dry), config.training.precision), 1);
  // The ranks of a host may have one copy of weights and moments, never gradients. Checkpoints are written from a copy.
  const auto copy = static_cast<std::int64_t>(later_memory(config, backend, 0, model.parameters).of_host);
  const std::int64_t need = model.weights + model.moments + model.gradients * communicator.local_size() + copy;
  const std::size_t usable = arena_room(backend, *make_single_communicator(), room, {});
  const bool fits = room.total == 0 || need <= static_cast<std::int64_t>(usable);
  if (min_over_ranks(fits, communicator) == 1) return;
  const std::int64_t least = min_over_ranks(static_cast<std::int64_t>(usable), communicator);
  throw UsageFailure(
      fmt::format("{}: a model of {} parameters needs {} bytes on a host, with a checkpoint's copy; its "
                  "ranks may use {}",
                  micro_batch_key, model.parameters, need, least));
}

MemoryPlan plan_memory(const TrainConfig& config, const UpdateShape& shape, const Model& model, Backend& backend,
                       Communicator& communicator, const ArenaBytes& validation) {
  const int parts = config.training.by_units() ? config.training.units : communicator.size();
  const bool measured = config.data.balance == Balance::measured && !config.training.by_units();
  const RankTokens most =
      tokens_of_rank(config, shape, measured ? std::max(1.0, parts / max_balanced_fraction) : parts);
  MemoryPlan memory{.micro_batch_tokens = config.data.micro_batch_tokens};
  if (config.data.micro_batch_tokens == DataConfig::automatic) {
    answer_auto(memory, config, shape.max_length, most.larger(), model, backend, communicator, validation);
  }
  const auto limited = [&](std::int64_t tokens) {
    // A sentence longer than the limit forms its own micro-batch.
    const std::int64_t limit = std::max<std::int64_t>(memory.micro_batch_tokens, shape.max_length);
    return memory.micro_batch_tokens > 0 ? std::min(tokens, limit) : tokens;
  };
  const auto pass_tokens = [&](std::int64_t tokens) {
    return config.training.cuda_graphs ? padded_rows(limited(tokens)) : limited(tokens);
  };
  const bool automatic = config.data.micro_batch_tokens == DataConfig::automatic;
  if (backend.host_memory() && !automatic && config.task != Task::gssm) return memory;
  const std::int64_t source = pass_tokens(most.source), target = pass_tokens(most.target);
  memory.need = dry_run(model, backend, source, target, sentences_of(config, shape.max_length, target));
  return memory;
}

}  // namespace babelring
