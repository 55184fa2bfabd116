#pragma once

#include <boost/json/object.hpp>

#include "lab/parameters/parameter_window.h"

namespace babelring {

/// Mean of rms(change) / rms(weights before) over a row's updates; 0 if it was never measured.
float mean_ratio(const RowCount& row);

/// Fractions of rows and updates that stand out.
struct RowFractions {
  double cold = 0;              // rows that changed in fewer than 1 % of the updates
  double lost_in_rounding = 0;  // of all (row, update) that changed masters: without a change of a compute copy
  double untouched = 0;         // of all (row, update): without a gradient
};
/// The fractions of rows [begin, end).
RowFractions fractions_of(const ParameterWindow& window, std::int64_t begin, std::int64_t end);

/// The summary of a window as in docs/formats.md, without `format` and `rows_file`. `vocabulary`: null if there is no
/// text.
boost::json::object summarize(const ParameterWindow& window, const Vocabulary* vocabulary);

}  // namespace babelring
