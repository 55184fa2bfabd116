#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "insight/predict/predict.h"

namespace CLI {
class App;
}

namespace babelring {

/// The options that describe a run, which `nmt emulate run` and `scale` share.
struct SetupOptions {
  std::string record_file, inside, between;
  insight::RunSetup setup;
  std::int64_t seed = 1;

  void declare(CLI::App& command);
  /// Reads the record. Throws UsageFailure naming the file and the member.
  insight::RankRecord read_record() const;
  /// The setup with the links of --inside and --between. Throws UsageFailure if a link that the run needs is absent.
  insight::RunSetup with_links(int hosts, int ranks_per_host) const;
};

/// Reads a record that `nmt emulate record` wrote. Throws UsageFailure naming the file and the member.
insight::RankRecord read_rank_record(const std::string& file);

/// Numbers separated by commas, each from 1 to `max`. Throws UsageFailure naming `option`.
std::vector<int> parse_counts(const std::string& list, const char* option, int max);

}  // namespace babelring
