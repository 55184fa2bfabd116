#include "worker/config_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <filesystem>
#include <iostream>
#include <utility>

#include "base/atomic_file.h"
#include "nmt/train/memory_plan.h"

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

json::object memory_of(const TrainConfig& config, std::int64_t ranks) {
  const Manifest manifest = load_manifest(config.data.folder);
  const ManifestSet& set = manifest.set(config.data.train_set);
  const auto with_ends = [&](std::int64_t tokens) { return static_cast<double>(tokens + set.sentences); };
  const double source_per_target = set.sentences > 0 ? with_ends(set.source_tokens) / with_ends(set.target_tokens) : 1;
  const MemoryEstimate memory = estimate_memory(config, manifest.vocabulary_size, ranks, source_per_target);
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

json::object check_result(const TrainConfig& config, std::int64_t ranks) {
  const Interval& end = config.training.stop_after;
  const bool by_updates = end.unit() == Interval::Unit::updates;
  json::array unknown;
  json::value memory;
  try {
    memory = memory_of(config, ranks);
  } catch (const Failure& failure) {
    unknown.emplace_back(fmt::format("memory: {}", failure.what()));
  }
  if (!by_updates) unknown.emplace_back("updates: training.stop_after is not in updates");
  return {{"config", config_yaml(config)},
          {"name", config.name},
          {"max_updates", by_updates ? static_cast<std::int64_t>(end.value()) : 0},
          {"data_folder", std::filesystem::absolute(config.data.folder).lexically_normal().string()},
          {"start_from", config.training.start_from.empty()
                             ? ""
                             : std::filesystem::absolute(config.training.start_from).lexically_normal().string()},
          {"memory", std::move(memory)},
          {"not_estimated", std::move(unknown)}};
}

}  // namespace

void check_sets(const Manifest& manifest, const DataConfig& data) {
  manifest.require_pairs(data.train_set, "data.train_set");
  if (!data.valid_set.empty()) manifest.require_pairs(data.valid_set, "data.valid_set");
}

int print_config_check(const std::string& file, const std::vector<std::string>& overrides, bool data,
                       std::int64_t ranks) {
  json::object result;
  try {
    const TrainConfig config = read_config(read_file(file), file, overrides);
    try {
      if (data) check_sets(load_manifest(config.data.folder), config.data);
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
