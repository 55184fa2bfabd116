#include "worker/config_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <utility>

#include "base/atomic_file.h"
#include "nmt/train/memory_plan.h"

namespace babelring {
namespace {

/// Removes "12:" from the front of `text` and returns 12; returns 0 if `text` does not begin with a number and ':'.
std::int64_t take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() + text.size() || *end != ':') return 0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return number;
}

/// Finds the key in a message: "training.seed: expected …", "unknown key 'training.sed'", "key 'a' appears twice".
std::string key_in(std::string_view detail) {
  for (const std::string_view words : {"unknown key '", "key '"}) {
    if (!detail.starts_with(words)) continue;
    detail.remove_prefix(words.size());
    return std::string(detail.substr(0, detail.find('\'')));
  }
  const std::string_view key = detail.substr(0, detail.find(':'));
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789_.";
  const bool formed = key.size() < detail.size() && !key.empty() && key.find_first_not_of(letters) == key.npos;
  return formed ? std::string(key) : "";
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
  const Duration end = parse_duration("training.stop_after", config.training.stop_after);
  const bool by_updates = end.unit() == Duration::Unit::updates;
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

json::object config_fault(std::string_view message, std::string_view file) {
  json::object fault;
  std::string_view rest = message;
  if (rest.starts_with(file) && rest.substr(file.size()).starts_with(':')) {
    rest.remove_prefix(file.size() + 1);
    const std::int64_t line = take_number(rest), column = line > 0 ? take_number(rest) : 0;
    if (line > 0) fault["line"] = line;
    if (column > 0) fault["column"] = column;
    while (rest.starts_with(' ')) rest.remove_prefix(1);
  }
  std::string pointer = key_in(rest);
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  fault["pointer"] = pointer.empty() ? "" : "/" + pointer;
  fault["detail"] = rest;
  return fault;
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
  } catch (const Failure& failure) {
    result["errors"] = {config_fault(failure.what(), file)};
  }
  std::cout << to_text(result) << std::endl;
  return result.contains("errors") ? 2 : 0;
}

}  // namespace babelring
