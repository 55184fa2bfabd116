#include "insight/predict/op_model.h"

#include <gtest/gtest.h>

namespace babelring::insight {
namespace {

TEST(OpModelTest, RecoversTheTimesOfAnOp) {
  const OpModel truth{0.02, 0.5, 3};
  std::vector<OpWork> works = {{1, 12, 3, 0.5}, {2, 12, 7, 0.8}, {3, 24, 11, 2.5}, {4, 24, 29, 2.6}};
  for (OpWork& work : works) work.ms = truth.ms(work);
  const OpModel fitted = fit_op(works);
  EXPECT_NEAR(fitted.fixed_ms, truth.fixed_ms, 1e-9);
  EXPECT_NEAR(fitted.ms_per_gflop, truth.ms_per_gflop, 1e-9);
  EXPECT_NEAR(fitted.ms_per_gb, truth.ms_per_gb, 1e-9);
}

TEST(OpModelTest, IsNeverNegativeAndExplainsOneSize) {
  const std::vector<OpWork> works = {{1, 10, 4, 1, 8}};
  const OpModel fitted = fit_op(works);
  EXPECT_GE(fitted.fixed_ms, 0);
  EXPECT_GE(fitted.ms_per_gflop, 0);
  EXPECT_GE(fitted.ms_per_gb, 0);
  EXPECT_NEAR(fitted.ms(works[0]), 8, 1e-9);
  EXPECT_EQ(fit_op(std::vector<OpWork>{{1, 10, 4, 1, 0}}).ms(works[0]), 0);
}

}  // namespace
}  // namespace babelring::insight
