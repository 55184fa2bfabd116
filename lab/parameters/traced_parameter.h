#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nmt/data/vocabulary.h"
#include "nmt/optim/adam.h"

namespace babelring {

/// Meaning of a parameter's rows.
enum class RowKind {
  subwords,  // of an embedding or the output table
  neurons,   // of a feed-forward layer's first weight and bias
  heads,     // of the weights that make queries, keys and values: each row belongs to a head
  outputs,   // of other matrices
  vector,    // another bias or a gain is one row
};
std::string name_of(RowKind kind);

/// A parameter whose rows are counted.
struct TracedParameter {
  std::string name;
  std::int64_t rows = 0, width = 0;
  std::int64_t first_row = 0;  // its place among the rows of all parameters
  RowKind kind = RowKind::outputs;
  bool frozen = false;
};

/// The parameters of a store in their order.
std::vector<TracedParameter> traced_parameters(const ParameterStore& store, const Adam& adam);

/// The kind of rows that a parameter of this name and number of dimensions has.
RowKind row_kind(const std::string& name, int dimensions);

/// A row of a RowKind::heads parameter: 'q', 'k' or 'v', and the head.
struct HeadRow {
  char part = 'q';
  std::int64_t head = 0;
};
HeadRow head_of(const TracedParameter& parameter, std::int64_t row, std::int64_t heads);

/// "▁the" for a subword, "q head 3" for a row of a head, else "". `vocabulary`: null if there is no text.
std::string row_label(const TracedParameter& parameter, std::int64_t row, std::int64_t heads,
                      const Vocabulary* vocabulary);

}  // namespace babelring
