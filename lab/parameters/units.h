#pragma once

#include <string>
#include <vector>

#include "lab/parameters/parameter_window.h"

namespace babelring {

/// The unit whose changes are counted.
enum class ParameterUnit { row, neuron, head, parameter };

/// The counters of a group of rows.
struct UnitCount {
  std::string name;   // "encoder.embedding[17]", "encoder.0.attention head 3", "decoder.norm.gain"
  std::string label;  // of a single row: its subword, or its head
  std::int64_t rows = 0;
  double changed = 0, visible = 0, untouched = 0;  // fractions of the window's updates, mean over the rows
  double changed_elements = 0;                     // masters that changed in an update, mean over the updates
  double ratio = 0;                                // mean over the rows
  double max_ratio = 0;
};

/// The counters of all units of one kind, in the order of the parameters. A neuron is a row of a feed-forward layer's
/// first weight with its element of the bias; a head is its rows in the weights of queries, keys and values.
/// `vocabulary`: null if there is no text.
std::vector<UnitCount> count_units(const ParameterWindow& window, ParameterUnit unit, const Vocabulary* vocabulary);

}  // namespace babelring
