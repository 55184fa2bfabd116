#include "nmt/optim/adam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace babelring {
namespace {

class AdamTest : public testing::Test {
 protected:
  AdamTest() {
    store_.allocate([this](std::size_t bytes) { return backend_->allocate(bytes); }, DType::f32);
  }
  float& master(int i) { return parameter_.master.as<float>()[i]; }
  float& gradient(int i) { return parameter_.gradient.as<float>()[i]; }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  ParameterStore store_;
  const Parameter& parameter_ = store_.declare("w", Shape{3}, Initializer::zeros());
};

TEST_F(AdamTest, FirstStepMovesByTheLearningRateAgainstTheSign) {
  Adam adam(store_, *backend_, {});
  gradient(0) = 0.5f;
  gradient(1) = -20;
  const UpdateStats stats = adam.step(*backend_, 0.01);
  EXPECT_NEAR(stats.gradient_norm, std::sqrt(400.25), 1e-4);
  EXPECT_NEAR(master(0), -0.01f, 1e-7);
  EXPECT_NEAR(master(1), 0.01f, 1e-7);
  EXPECT_EQ(master(2), 0);
}

TEST_F(AdamTest, FollowsTheFormulaOverSeveralSteps) {
  Adam adam(store_, *backend_, {.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8});
  double m = 0, v = 0, w = 0;
  for (int t = 1; t <= 20; ++t) {
    const double g = std::sin(t) + 0.3;
    gradient(0) = static_cast<float>(g);
    adam.step(*backend_, 0.1);
    m = 0.9 * m + 0.1 * g;
    v = 0.99 * v + 0.01 * g * g;
    w -= 0.1 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.99, t))) + 1e-8);
    EXPECT_NEAR(master(0), w, 1e-5) << t;
  }
  EXPECT_EQ(adam.steps(), 20);
}

TEST_F(AdamTest, ClipsByTheGlobalNorm) {
  Adam clipped(store_, *backend_, {.clip_norm = 1});
  gradient(0) = 3;
  gradient(1) = 4;
  EXPECT_NEAR(clipped.step(*backend_, 0).gradient_norm, 5, 1e-6);
  EXPECT_NEAR(clipped.first_moment().as<float>()[0], 0.1f * 0.6f, 1e-7);
}

TEST_F(AdamTest, SkipsAndCountsWhatIsNotFinite) {
  Adam adam(store_, *backend_, {});
  master(1) = 5;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    gradient(2) = bad;
    EXPECT_TRUE(adam.step(*backend_, 0.1).skipped);
  }
  EXPECT_EQ(adam.skipped(), 2);
  EXPECT_EQ(adam.steps(), 0);
  EXPECT_EQ(master(1), 5);
  EXPECT_EQ(adam.first_moment().as<float>()[2], 0);
}

}  // namespace
}  // namespace babelring
