#include <fmt/format.h>

#include <utility>

#include "nmt/data/gssm/config.h"
#include "nmt/train/setup/config.h"

namespace babelring {

namespace {

/// The text of a configuration, with what overrides it.
struct ConfigText {
  const std::string& yaml;
  const std::string& file_name;
  const std::vector<std::string>& overrides;
};

/// Sets the keys that the text gives. Sets `places` unless null.
TrainConfig load(TrainConfig config, const ConfigText& text, OptionPlaces* places = nullptr) {
  OptionBinder binder;
  config.bind(binder);
  OptionPlaces found = load_overridden(binder, text.yaml, text.file_name, text.overrides);
  if (places != nullptr) *places = std::move(found);
  return config;
}

TrainConfig defaults_of(Task task) {
  TrainConfig config;
  config.task = task;
  if (task == Task::translation) return config;
  config.preset = "lm-288";
  config.data.valid_set = "test";
  config.data.max_length = 1 << 16;
  config.optimizer.label_smoothing = 0;
  config.validation.every = "500u";
  config.validation.bleu_every = "0u";
  config.checkpoint.every = "1000u";
  return config;
}

/// `task`: the default of the key.
TrainConfig load_with_defaults(Task task, const ConfigText& text, OptionPlaces* places = nullptr) {
  TrainConfig start = defaults_of(load(defaults_of(task), text).task);
  start.preset = load(start, text).preset;
  start.model = model_preset(start.preset);
  return load(start, text, places);
}

TrainConfig load_and_check(Task task, const ConfigText& text) {
  OptionPlaces places;
  const TrainConfig config = load_with_defaults(task, text, &places);
  try {
    config.check();
  } catch (const ConfigError& error) {
    if (config.task == Task::translation) throw;
    throw with_place(error, places, text.file_name);
  }
  return config;
}

}  // namespace

TrainConfig read_config(const std::string& yaml, const std::string& file_name,
                        const std::vector<std::string>& overrides) {
  return load_and_check(Task::translation, {yaml, file_name, overrides});
}

TrainConfig read_gssm_task(const std::string& yaml, const std::string& file_name,
                           const std::vector<std::string>& overrides) {
  TrainConfig config = load_and_check(Task::gssm, {yaml, file_name, overrides});
  if (config.task != Task::gssm) {
    throw ConfigError("task", fmt::format("{}: task: translation, expected gssm", file_name));
  }
  return config;
}

TrainConfig read_stored_config(const std::string& yaml, const std::string& file_name) {
  return load_with_defaults(Task::translation, {yaml, file_name, {}});
}

std::string config_yaml(const TrainConfig& config) {
  TrainConfig copy = config;
  OptionBinder binder;
  copy.bind(binder);
  return dump_yaml(binder);
}

}  // namespace babelring
