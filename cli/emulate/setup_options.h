#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "insight/predict/gradient_sum.h"
#include "insight/predict/predict.h"

namespace CLI {
class App;
}

namespace babelring {

/// Parses a link: RATE[,LATENCY[,BUSY]], such as "25gbit,20us" or "218-231MB/s,50us,300ms/GB". Rates are in mbit, gbit,
/// MB/s or GB/s (10^6 and 10^9), or `inf`; a range becomes its middle and Link::rate_error. Latencies are in us or ms.
/// BUSY is the processor time that sending a gigabyte takes. A rate of 0 is an error.
Result<insight::Link> parse_link(std::string_view text);

/// The options that describe a run, of `nmt emulate run` and `scale`.
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
