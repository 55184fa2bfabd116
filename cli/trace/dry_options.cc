#include "cli/trace/dry_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/options/usage.h"
#include "nmt/data/gssm/graph.h"
#include "nmt/data/manifest.h"

namespace babelring {

void DryOptions::declare(CLI::App& command, const std::string& tokens_help) {
  command.add_option("--config", config_file, "configuration of a run; no data is needed")->type_name("FILE");
  command.add_option("--tokens", tokens, tokens_help)->check(CLI::Range(1, 1 << 24));
  command.add_option("--vocabulary", vocabulary, "subwords of the model; default: of data.folder, without data 32000")
      ->check(CLI::Range(1, 1 << 24));
}

TrainConfig DryOptions::config() const {
  if (const std::string wrong = existing_file(config_file); !wrong.empty()) throw UsageFailure("--config: " + wrong);
  std::vector<std::string> settings = overrides;
  // A configuration needs no data here, but read_config() asks for the folder.
  const TrainConfig stored = read_stored_config(read_file(config_file), config_file);
  if (stored.data.folder.empty() && stored.task == Task::translation) settings.emplace_back("data.folder=absent");
  return read_config(read_file(config_file), config_file, settings);
}

DryBatch DryOptions::batch(const TrainConfig& config, std::int64_t default_tokens) const {
  DryBatch batch{.vocabulary = vocabulary, .source_tokens = tokens > 0 ? tokens : default_tokens};
  batch.target_tokens = batch.source_tokens;
  if (config.task == Task::gssm) batch.source_tokens = 0;
  if (batch.vocabulary > 0) return batch;
  if (config.task == Task::gssm && !config.gssm.nodes.empty()) {
    batch.vocabulary = make_gssm_graph(config.gssm).vocabulary();
    return batch;
  }
  const bool prepared = std::filesystem::exists(std::filesystem::path(config.data.folder) / Manifest::file_name);
  batch.vocabulary = prepared ? load_manifest(config.data.folder).vocabulary_size : default_vocabulary;
  return batch;
}

std::int64_t micro_batch_tokens(const TrainConfig& config) {
  const std::int64_t limit = config.data.micro_batch_tokens;
  return limit > 0 ? std::min(limit, config.target_tokens_per_update()) : config.target_tokens_per_update();
}

void write_output(const std::string& text, const std::string& file) {
  if (file.empty()) {
    fmt::print("{}", text);
  } else {
    write_file_atomically(file, text);
  }
}

}  // namespace babelring
