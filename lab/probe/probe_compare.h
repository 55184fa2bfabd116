#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "lab/probe/probe_file.h"
#include "lab/probe/tensor_distance.h"

namespace babelring {

/// The result of comparing two tensors, layers or probes, from best to worst.
enum class Sameness { same, close, differs, missing };

std::string_view name_of(Sameness sameness);

/// One tensor of two probes; one of the records is null if its probe lacks the tensor.
struct RecordPair {
  const ProbeRecord* a = nullptr;
  const ProbeRecord* b = nullptr;
  Sameness sameness = Sameness::same;
  TensorDistance distance;
  bool exact = false;         // the distance is over all elements, not over those that are sampled
  std::int64_t element = -1;  // index of the element with the max ulp; -1: no compared element differs
  std::int64_t absolute_element = -1, relative_element = -1;  // of those with the max of the other distances
  double value_a = 0, value_b = 0;                            // of `element`

  /// The record of the first probe, or else of the second.
  const ProbeRecord& record() const { return a != nullptr ? *a : *b; }
};

/// The samenesses of one layer by column: output, grad_output, grad_input, weight_grad and weight. A column without
/// tensors is absent.
struct LayerRow {
  static constexpr std::array<std::string_view, 5> columns = {"output", "grad_output", "grad_input", "weight_grad",
                                                              "weight"};
  std::string layer;
  std::array<std::optional<Sameness>, 5> cells;

  Sameness worst() const;
};

struct CompareOptions {
  Tolerance tolerance;
  bool anyway = false;  // compare also probes of different batches or models
  bool ranks = false;   // compare only tensors that are equal on all ranks: summed gradients, moments and weights
};

/// Why the first pair that is not the same differs, as far as the probes tell.
enum class FirstCause {
  none,          // no pair differs
  weights,       // of before the first update
  missing,       // one probe lacks the tensor
  carried_on,    // an input of the op differs
  batch,         // the op reads the batch, and the batches differ
  not_compared,  // some inputs have records, which are not compared
  not_recorded,  // some inputs have no record: of layers that were left out, or of other ranks
  op             // all inputs are the same: the op itself differs
};

std::string_view name_of(FirstCause cause);

struct ProbeComparison {
  Sameness sameness = Sameness::same;  // `missing` counts as `differs`
  std::vector<RecordPair> pairs;       // in the order of execution, of both probes
  std::optional<std::size_t> first;    // index of the first pair that differs, else of the first that is close
  FirstCause cause = FirstCause::none;
  /// With `carried_on`: the input of that op with the worst sameness.
  std::optional<std::size_t> carried_on_from;
  std::vector<LayerRow> layers;            // in forward order
  std::vector<std::string> library_lines;  // "oneDNN differs: 2.6.3 / 3.7.2", which may explain all others
  std::vector<std::string> header_lines;   // other differences of the headers: "threads: 1 and 2"
  std::vector<std::string> notes;          // limits of the comparison: records and files that are left out
};

/// Compares two probes, which must outlive the result. Probes of different world sizes are compared as by `ranks`.
/// Probes with different filters of layers are compared in the layers that both record.
/// Throws UsageFailure if models, batches or modes differ, unless options.anyway.
ProbeComparison compare_probes(const Probe& a, const Probe& b, const CompareOptions& options);

/// The comparison as JSON, with every pair that is not the same.
json::object to_json(const ProbeComparison& comparison);

}  // namespace babelring
