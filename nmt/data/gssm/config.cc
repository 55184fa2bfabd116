#include "nmt/data/gssm/config.h"

#include <algorithm>

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

}  // namespace

void GssmConfig::bind(OptionBinder& b) {
  b.group("gssm", gssm);
  SequenceData data{sequence_length};
  b.group("data", data);
  SequenceSeed training{seed};
  b.group("training", training);
}

GssmConfig read_gssm_config(std::string_view yaml, const std::string& file_name,
                            const std::vector<std::string>& overrides) {
  GssmConfig config;
  OptionBinder binder;
  config.bind(binder);
  OptionPlaces places = load_yaml(binder, yaml, file_name);
  for (const std::string& assignment : overrides) {
    apply_override(binder, assignment);
    places.erase(assignment.substr(0, assignment.find('=')));
  }
  try {
    make_gssm_graph(config.gssm);
  } catch (const ConfigError& error) {
    throw with_place(error, places, file_name);
  }
  return config;
}

}  // namespace babelring
