#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/dry_update.h"

namespace CLI {
class App;
}

namespace babelring {

/// Adds `graph` to `nmt trace`: the ops of a model, and the readers of the tensors that they write.
void add_trace_graph(CLI::App& trace);

/// Adds `memory` to `nmt trace`: the bytes in use after each op of an update, the peak and its contents.
void add_trace_memory(CLI::App& trace);

/// Adds `nmt trace parameters`, which shows the rows that the optimizer changes most or least (lab.parameters.window).
void add_trace_parameters(CLI::App& trace);

/// Adds `nmt trace timeline`, which summarises a timeline of all ranks (lab.trace.updates).
void add_trace_timeline(CLI::App& trace);

/// Options of the subcommands that run an update without data, memory or computing.
struct DryOptions {
  std::string config_file;
  std::vector<std::string> overrides;
  std::int64_t tokens = 0;      // of the target side; 0: the caller's default
  std::int64_t vocabulary = 0;  // 0: of data.folder, or if there is none, default_vocabulary

  static constexpr std::int64_t default_vocabulary = 32'000;

  /// Adds --config, key=value, --tokens and --vocabulary, bound to this object, which must outlive `command`.
  void declare(CLI::App& command, const std::string& tokens_help);
  /// The configuration with all overrides; data.folder may be absent. Throws UsageFailure.
  TrainConfig config() const;
  /// A batch with equal numbers of source and target tokens; sequences of a language model have no source.
  DryBatch batch(const TrainConfig& config, std::int64_t usual_tokens) const;
};

/// A rank's part of an update as micro-batches allow, if one rank trains.
std::int64_t micro_batch_tokens(const TrainConfig& config);

/// Writes to the file, or to standard output without one. Throws Failure.
void write_output(const std::string& text, const std::string& file);

}  // namespace babelring
