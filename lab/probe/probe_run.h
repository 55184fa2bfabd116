#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "lab/probe/probe_recorder.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// A batch of random subwords: sentences of equal lengths in tokens, </s> included. For a language model: of random
/// sequences of target_tokens targets.
struct RandomBatch {
  std::int64_t sentences = 64, source_tokens = 32, target_tokens = 32;

  /// "random:64x32/32": sentences, source tokens and target tokens of each.
  static Result<RandomBatch> parse(std::string_view text);
};

/// The updates that a probe looks into.
struct ProbePlan {
  TrainConfig config;
  std::filesystem::path checkpoint;   // starts from its weights, moments and data position; empty: initial weights
  std::optional<RandomBatch> random;  // nullopt: the configured training data
  bool training = true;               // false: forward only, without dropout
  std::int64_t updates = 1;
  std::int64_t first_update = 1;  // of a run that begins; a checkpoint says its own
  ProbeOptions options;
};

/// Vocabulary size of a model that is probed without data.
inline constexpr std::int64_t probe_vocabulary = 8192;

/// Runs the plan's updates on `backend` in this process and writes a probe of them. `threads` is stored only. Throws
/// UsageFailure if the plan does not fit together, Failure if a file is missing or damaged.
void save_probe(const ProbePlan& plan, Backend& backend, std::int64_t threads, const std::filesystem::path& file);

/// Runs the plan's updates on `backend` without recording anything; `options` is not used. Throws like save_probe().
void run_updates(const ProbePlan& plan, Backend& backend);

}  // namespace babelring
