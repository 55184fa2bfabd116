#pragma once

#include <span>
#include <string>
#include <vector>

namespace babelring::insight {

/// The work of an op in one update, and the time that it took.
struct OpWork {
  double size = 0;  // of the rank's part of the update, in the record's unit
  double calls = 0, gflop = 0, gb = 0;
  double ms = 0;  // of all calls together
};

/// Time of an op from its work: calls · fixed_ms + gflop · ms_per_gflop + gb · ms_per_gb. Coefficients are never
/// negative.
struct OpModel {
  double fixed_ms = 0, ms_per_gflop = 0, ms_per_gb = 0;

  double ms(const OpWork& work) const;
};

/// The model with the smallest sum of squared relative errors over `works`; those without time are left out. Requires
/// at least one. FLOPs and bytes of one op at several sizes are often proportional; then one of both explains the time.
OpModel fit_op(std::span<const OpWork> works);

}  // namespace babelring::insight
