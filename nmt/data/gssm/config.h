#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/data/gssm/graph.h"
#include "nmt/data/gssm/options.h"

namespace babelring {

/// The configuration of generated sequences.
struct GssmConfig {
  GssmOptions gssm;
  std::int64_t sequence_length = 2048;  // data.sequence_length, tokens
  std::int64_t seed = 1;                // training.seed

  void bind(OptionBinder& binder);
};

/// Loads YAML text, then `key=value` overrides. Returns the places of the keys that no override sets. Throws
/// ConfigError; for a key of the generator's published configurations it says what takes its place here.
OptionPlaces load_overridden(const OptionBinder& binder, std::string_view yaml, const std::string& file_name,
                             const std::vector<std::string>& overrides);

/// Reads YAML text, then applies `key=value` overrides, and checks the graph. A file that holds only `gssm:` and a list
/// of nodes is read too. Throws ConfigError with the place of the key at fault.
GssmConfig read_gssm_config(std::string_view yaml, const std::string& file_name,
                            const std::vector<std::string>& overrides);

}  // namespace babelring
