#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "nmt/core/parameters.h"
#include "nmt/core/shards.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// True for the bias that belongs to the neurons of a feed-forward layer, an element each.
inline bool is_neuron_bias(std::string_view parameter) {
  return parameter.ends_with(".feed_forward.first.bias");
}

/// Counts, row by row, what an optimizer changes in the parameters of a store (see RowCount). Rows of a matrix
/// [out, in] are its outputs, rows of an embedding its subwords; a vector is one row, but neuron biases have a row for
/// each neuron.
class RowCounting {
 public:
  /// `allocate` returns zeroed memory for the counters: common memory if several ranks update one copy of the weights.
  /// The store and the backend must outlive the object.
  RowCounting(const ParameterStore& store, Backend& backend, const std::function<Buffer(std::size_t bytes)>& allocate);

  /// The counters of a range of the flat array, which begins at a multiple of Shards::grain, for AdamUpdate::rows.
  RowCounters of(const ElementRange& range) const;
  /// The counters of all rows, in the order of the parameters.
  std::vector<RowCount> read() const;
  /// Sets all counters to zero. No rank may be updating.
  void reset();

  std::int64_t rows() const { return rows_; }
  /// Index of a parameter's first row.
  std::int64_t first_row(const Parameter& parameter) const { return first_rows_[parameter.index]; }
  static std::int64_t rows_of(const Parameter& parameter) {
    return parameter.shape.rank() == 1 && !is_neuron_bias(parameter.name) ? 1 : parameter.shape[0];
  }

 private:
  Tensor counts() const;

  Backend& backend_;
  std::int64_t rows_ = 0;
  std::vector<std::int64_t> first_rows_;  // by index of the parameter
  std::int64_t block_count_ = 0, piece_count_ = 0, part_count_ = 0;
  Buffer blocks_, pieces_, counts_, parts_;  // the tensors of RowCounters, for the whole flat array
};

}  // namespace babelring
