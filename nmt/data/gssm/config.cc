#include "nmt/data/gssm/config.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace babelring {
namespace {

struct SequenceData {
  std::int64_t& sequence_length;
  void bind(OptionBinder& b) {
    b.integer("sequence_length", sequence_length, 2, std::int64_t{1} << 24, "tokens of a sequence, the first included");
  }
};

struct SequenceSeed {
  std::int64_t& seed;
  void bind(OptionBinder& b) { b.integer("seed", seed, 0, std::int64_t{1} << 62, "random seed of the sequences"); }
};

/// The same error, or for a key of the published configurations one that says what takes its place here.
ConfigError with_own_key(const ConfigError& error) {
  constexpr std::pair<std::string_view, std::string_view> own[] = {
      {"cluster", "of mpirun, or of the sbatch files of `nmt sweep expand`"},
      {"model.emb_dim", "model.width"},
      {"model.n_layers", "model.decoder_layers"},
      {"model.num_layers", "model.decoder_layers"},
      {"model.n_heads", "model.heads"},
      {"model.num_heads", "model.heads"},
      {"data.seq_len", "data.sequence_length"},
      {"data.batch_size", "data.sequences_per_update"}};
  const std::string unknown = fmt::format("unknown key '{}'", error.key);
  const std::size_t at = error.detail.find(unknown);
  if (at == std::string::npos) return error;
  const auto replace = [&](std::string_view with) {
    const std::string detail = fmt::format("{}{}; {}", error.detail.substr(0, at), unknown, with);
    return ConfigError(error.key, detail, error.file, error.line, error.column);
  };
  if (error.key.starts_with("setup"))
    return replace("write each setup to a separate file, with its nodes under gssm.nodes");
  for (const auto& [theirs, ours] : own) {
    if (error.key == theirs) return replace(fmt::format("here that is {}", ours));
  }
  return error;
}

}  // namespace

void GssmConfig::bind(OptionBinder& b) {
  b.group("gssm", gssm);
  SequenceData data{sequence_length};
  b.group("data", data);
  SequenceSeed training{seed};
  b.group("training", training);
}

OptionPlaces load_overridden(const OptionBinder& binder, std::string_view yaml, const std::string& file_name,
                             const std::vector<std::string>& overrides) {
  try {
    OptionPlaces places = load_yaml(binder, yaml, file_name);
    for (const std::string& assignment : overrides) {
      apply_override(binder, assignment);
      places.erase(assignment.substr(0, assignment.find('=')));
    }
    return places;
  } catch (const ConfigError& error) {
    throw with_own_key(error);
  }
}

GssmConfig read_gssm_config(std::string_view yaml, const std::string& file_name,
                            const std::vector<std::string>& overrides) {
  GssmConfig config;
  OptionBinder binder;
  config.bind(binder);
  const OptionPlaces places = load_overridden(binder, yaml, file_name, overrides);
  try {
    make_gssm_graph(config.gssm);
  } catch (const ConfigError& error) {
    throw with_place(error, places, file_name);
  }
  return config;
}

}  // namespace babelring
