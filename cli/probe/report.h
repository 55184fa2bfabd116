#pragma once

#include <string>
#include <vector>

#include "cli/runs/screen.h"
#include "lab/probe/probe_compare.h"

namespace babelring {

/// Which rows a report of a comparison has.
struct ProbeReportOptions {
  bool by_tensor = false;                // a row for each tensor, otherwise for each layer
  bool all = false;                      // also rows of equal tensors
  std::vector<std::string> fields = {};  // members of both records, shown beside each tensor
};

/// Green for the same, yellow for close, red for different, grey for missing.
Colour colour_of(Sameness sameness);

/// "update 1, forward, layer encoder.0, attention_forward.out", and what else tells a tensor from others.
std::string place_of(const ProbeRecord& record);

/// Prints the outcome, the first divergence, the differences of the environment and the table.
void print_comparison(const ProbeComparison& comparison, const ProbeReportOptions& options, const Screen& screen);

/// The members of records that --fields lists, separated by commas. Throws UsageFailure, which names the nearest one,
/// if a record has no such member.
std::vector<std::string> probe_fields(const std::string& list);

/// Prints a probe's header, and a row for each record with the given fields. Throws UsageFailure, before it prints, if
/// no layer matches the glob `layers`.
void print_probe(const Probe& probe, const std::vector<std::string>& fields, const std::string& layers,
                 const Screen& screen);

}  // namespace babelring
