#pragma once

#include "base/json.h"
#include "nmt/ops/cpu/peaks.h"

namespace babelring {

/// The larger of each figure of two measurements: of the speeds that a shared machine had, the better.
MachinePeaks larger_of(const MachinePeaks& a, const MachinePeaks& b);

/// One line.
void print_peaks(const MachinePeaks& peaks);
json::object to_json(const MachinePeaks& peaks);

}  // namespace babelring
