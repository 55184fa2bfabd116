#include "nmt/train/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/failure.h"
#include "nmt/model/padded_batch.h"
#include "nmt/ops/dry_backend.h"

namespace babelring {

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

PackedBatch even_batch(std::int64_t source_tokens, std::int64_t target_tokens, std::int64_t sentences) {
  PackedBatch batch;
  batch.source = even_sentences(source_tokens, sentences);
  batch.target_in = even_sentences(target_tokens, sentences);
  batch.target_out = batch.target_in.ids;
  return batch;
}

/// Peak arena sizes of pass(dry backend, context).
template <class Pass>
ArenaBytes dry_pass(const Transformer& model, Backend& backend, Pass pass) {
  const std::unique_ptr<Backend> dry = make_dry_backend({}, &backend);
  ActivationArenas arenas(*dry);
  Context context = arenas.begin(model.compute_dtype());
  pass(*dry, context);
  return {.saved = arenas.saved().peak_bytes(), .scratch = arenas.scratch().peak_bytes()};
}

/// Max source and target tokens in a rank's part of an update, with a margin for uneven division.
struct ShareTokens {
  std::int64_t source, target;
  std::int64_t larger() const { return std::max(source, target); }
};

ShareTokens share_of(const TrainConfig& config, const BatchPlan& plan, int ranks) {
  const double target = static_cast<double>(config.data.tokens_per_update) / ranks;
  const double source = target * static_cast<double>(plan.source_tokens()) / static_cast<double>(plan.target_tokens());
  const auto with_margin = [&](double tokens) { return std::llround(1.1 * tokens) + config.data.max_length; };
  return {.source = with_margin(source), .target = with_margin(target)};
}

/// Bytes of the free memory that this rank's arenas may use.
std::size_t arena_room(const Backend& backend, const Communicator& communicator, const MemoryInfo& room) {
  const auto margin = static_cast<std::size_t>(static_cast<double>(room.total) * memory_margin) +
                      (backend.host_memory() ? 0 : device_margin_bytes);
  const std::size_t left = room.free - std::min(room.free, margin);
  return backend.host_memory() ? left / static_cast<std::size_t>(communicator.local_size()) : left;
}

/// Max number of tokens per side whose arenas fit into `room` bytes, by bisection to 1 % or 16 tokens. 0 if even the
/// lower limit does not fit.
std::int64_t max_tokens(const Transformer& model, Backend& backend, std::size_t room, std::int64_t least,
                        std::int64_t most) {
  const auto fits = [&](std::int64_t tokens) {
    const ArenaBytes need = dry_run(model, backend, tokens, tokens);
    return need.saved + need.scratch <= room;
  };
  if (!fits(least)) return 0;
  if (most <= least || fits(most)) return std::max(least, most);
  std::int64_t low = least, high = most;
  while (high - low > std::max<std::int64_t>(16, low / 100)) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

std::int64_t min_over_ranks(std::int64_t mine, Communicator& communicator) {
  std::int64_t least = mine;
  for (const std::string& theirs : communicator.all_gather(std::to_string(mine))) {
    least = std::min<std::int64_t>(least, std::stoll(theirs));
  }
  return least;
}

void answer_auto(MemoryPlan& plan, const TrainConfig& config, std::int64_t most, const Transformer& model,
                 Backend& backend, Communicator& communicator) {
  constexpr const char* key = "data.micro_batch_tokens: auto";
  const MemoryInfo room = backend.memory();
  const std::size_t usable = arena_room(backend, communicator, room);
  const std::int64_t mine = room.total > 0 ? max_tokens(model, backend, usable, config.data.max_length, most) : -1;
  plan.micro_batch_tokens = min_over_ranks(mine, communicator);
  if (plan.micro_batch_tokens < 0)
    throw UsageFailure(fmt::format("{}: free memory is unknown on at least one rank; give a number", key));
  if (plan.micro_batch_tokens == 0) {
    const ArenaBytes need = dry_run(model, backend, config.data.max_length, config.data.max_length);
    throw UsageFailure(fmt::format(
        "{}: a sentence of {} tokens (data.max_length) needs {} bytes, a rank may use {}: {} of {} bytes are free", key,
        config.data.max_length, need.saved + need.scratch, usable, room.free, room.total));
  }
  plan.answer = fmt::format("{}: {} tokens; rank 0 may use {:.2f} GiB, {:.2f} of {:.2f} GiB were free", key,
                            plan.micro_batch_tokens, static_cast<double>(usable) / (1 << 30),
                            static_cast<double>(room.free) / (1 << 30), static_cast<double>(room.total) / (1 << 30));
}

}  // namespace

ArenaBytes dry_run(const Transformer& model, Backend& backend, std::int64_t source_tokens, std::int64_t target_tokens) {
  const std::int64_t tokens = std::max(source_tokens, target_tokens);
  const std::int64_t sentences =
      std::min({source_tokens, target_tokens, (tokens + typical_sentence - 1) / typical_sentence});
  const PackedBatch batch = even_batch(source_tokens, target_tokens, sentences);
  return dry_pass(model, backend, [&](Backend& dry, Context& context) {
    context.training = true;
    model.accumulate_gradients(context, DeviceBatch(dry, context.saved, batch), 1);
  });
}

ArenaBytes dry_run_evaluation(const Transformer& model, Backend& backend, std::int64_t tokens) {
  const PackedBatch batch = even_batch(tokens, tokens, tokens);  // max number of sentences: each is a single </s>
  return dry_pass(model, backend, [&](Backend& dry, Context& context) {
    const DeviceBatch on_device(dry, context.saved, batch);
    model.evaluate(context, on_device, context.saved.make(on_device.target_out.shape, DType::i32));
  });
}

MemoryPlan plan_memory(const TrainConfig& config, const BatchPlan& plan, const Transformer& model, Backend& backend,
                       Communicator& communicator) {
  const ShareTokens share = share_of(config, plan, communicator.size());
  MemoryPlan memory{.micro_batch_tokens = config.data.micro_batch_tokens};
  if (config.data.micro_batch_tokens == DataConfig::automatic) {
    answer_auto(memory, config, share.larger(), model, backend, communicator);
  }
  const auto limited = [&](std::int64_t tokens) {
    // A sentence longer than the limit forms its own micro-batch.
    const std::int64_t limit = std::max<std::int64_t>(memory.micro_batch_tokens, config.data.max_length);
    return memory.micro_batch_tokens > 0 ? std::min(tokens, limit) : tokens;
  };
  const auto pass_tokens = [&](std::int64_t tokens) {
    return config.training.cuda_graphs ? padded_rows(limited(tokens)) : limited(tokens);
  };
  if (!backend.host_memory())
    memory.need = dry_run(model, backend, pass_tokens(share.source), pass_tokens(share.target));
  return memory;
}

}  // namespace babelring
