#pragma once

#include <string>
#include <vector>

#include "cli/runs/screen.h"
#include "nmt/lab/probe/probe_compare.h"

namespace babelring {

/// Which rows a report of a comparison has.
struct ProbeReportOptions {
  bool by_tensor = false;  // a row for each tensor, otherwise for each layer
  bool all = false;        // also rows of equal tensors
};

/// Green for the same, yellow for close, red for different, grey for missing.
Colour colour_of(Sameness sameness);

/// "update 1, forward, layer encoder.0, attention_forward.out", and what else tells a tensor from others.
std::string place_of(const ProbeRecord& record);

/// Prints the outcome, the first divergence, the differences of the environment and the table.
void print_comparison(const ProbeComparison& comparison, const ProbeReportOptions& options, const Screen& screen);

/// The members that `nmt probe print --fields` can show.
const std::vector<std::string>& probe_fields();

/// Prints a probe's header, and a row for each record with the given fields.
void print_probe(const Probe& probe, const std::vector<std::string>& fields, const std::string& layers,
                 const Screen& screen);

}  // namespace babelring
