#include "insight/predict/op_model.h"

#include "insight/predict/non_negative_least_squares.h"

namespace babelring::insight {

double OpModel::ms(const OpWork& work) const {
  return work.calls * fixed_ms + work.gflop * ms_per_gflop + work.gb * ms_per_gb;
}

OpModel fit_op(std::span<const OpWork> works) {
  std::vector<std::vector<double>> rows;
  std::vector<double> targets;
  for (const OpWork& work : works) {
    if (work.ms <= 0) continue;
    rows.push_back({work.calls / work.ms, work.gflop / work.ms, work.gb / work.ms});
    targets.push_back(1);
  }
  if (rows.empty()) return {};
  const std::vector<double> fitted = non_negative_least_squares(rows, targets);
  return {fitted[0], fitted[1], fitted[2]};
}

}  // namespace babelring::insight
