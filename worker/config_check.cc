#include "worker/config_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <filesystem>
#include <iostream>
#include <utility>

#include "base/files.h"
#include "nmt/data/gssm/graph.h"
#include "nmt/data/manifest.h"
#include "nmt/train/setup/memory_plan.h"
#include "nmt/train/setup/task_data.h"

namespace babelring {
namespace {

json::object fault_of(const ConfigError& error) {
  json::object fault;
  if (error.line > 0) fault["line"] = error.line;
  if (error.column > 0) fault["column"] = error.column;
  std::string pointer = error.key.empty() ? "" : "/" + error.key;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  fault["pointer"] = pointer;
  fault["detail"] = error.detail;
  return fault;
}

MemoryEstimate sequence_memory(const TrainConfig& config, std::int64_t ranks) {
  require_sequences_per_update(config);
  const TrainConfig resolved = with_generator_of_folder(config);
  return estimate_memory(resolved, make_gssm_graph(resolved.gssm).vocabulary(), ranks, 0);
}

MemoryEstimate translation_memory(const TrainConfig& config, std::int64_t ranks) {
  const Manifest manifest = load_manifest(config.data.folder);
  const ManifestSet& set = manifest.set(config.data.train_set);
  // The manifest counts tokens without </s>.
  const auto with_end_marks = [&](std::int64_t tokens) { return static_cast<double>(tokens + set.sentences); };
  const double source_per_target =
      set.sentences > 0 ? with_end_marks(set.source_tokens) / with_end_marks(set.target_tokens) : 1;
  return estimate_memory(config, manifest.vocabulary_size, ranks, source_per_target);
}

json::object memory_of(const TrainConfig& config, std::int64_t ranks) {
  const MemoryEstimate memory =
      config.task == Task::gssm ? sequence_memory(config, ranks) : translation_memory(config, ranks);
  return {{"parameters", memory.parameters},
          {"source_tokens", memory.source_tokens},
          {"target_tokens", memory.target_tokens},
          {"weights", memory.weights},
          {"gradients", memory.gradients},
          {"moments", memory.moments},
          {"activations", memory.activations},
          {"scratch", memory.scratch},
          {"total", memory.total()}};
}

/// "" for an empty path.
std::string absolute_path(const std::string& path) {
  return path.empty() ? "" : std::filesystem::absolute(path).lexically_normal().string();
}

json::object check_result(const TrainConfig& config, std::int64_t ranks) {
  const Interval& end = config.training.stop_after;
  const bool by_updates = end.unit() == Interval::Unit::updates;
  json::array not_estimated;
  json::value memory;
  try {
    memory = memory_of(config, ranks);
  } catch (const Failure& failure) {
    not_estimated.emplace_back(fmt::format("memory: {}", failure.what()));
  }
  if (!by_updates) not_estimated.emplace_back("updates: training.stop_after is not in updates");
  return {{"config", config_yaml(config)},
          {"name", config.name},
          {"max_updates", by_updates ? static_cast<std::int64_t>(end.value()) : 0},
          {"data_folder", absolute_path(config.data.folder)},
          {"start_from", absolute_path(config.training.start_from)},
          {"memory", std::move(memory)},
          {"not_estimated", std::move(not_estimated)}};
}

}  // namespace

int print_config_check(const std::string& file, const std::vector<std::string>& overrides, bool data,
                       std::int64_t ranks) {
  json::object result;
  try {
    const TrainConfig config = read_config(read_file(file), file, overrides);
    try {
      if (data) check_task_data(config);
      result = check_result(config, ranks);
    } catch (const Failure& failure) {
      result["errors"] = {
          json::object{{"pointer", "/data/folder"}, {"detail", fmt::format("data.folder: {}", failure.what())}}};
    }
  } catch (const ConfigError& error) {
    result["errors"] = {fault_of(error)};
  } catch (const Failure& failure) {
    result["errors"] = {json::object{{"pointer", ""}, {"detail", failure.what()}}};
  }
  std::cout << to_text(result) << std::endl;
  return result.contains("errors") ? 2 : 0;
}

}  // namespace babelring
