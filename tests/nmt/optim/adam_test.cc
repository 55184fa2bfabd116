#include "nmt/optim/adam.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "nmt/core/random.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

UpdateStats take_step(Adam& adam, Backend& backend, double learning_rate, ConstTensor squares) {
  adam.start_step(backend, learning_rate, squares);
  return adam.finish_step({squares.as<float>(), static_cast<std::size_t>(squares.shape.elements())});
}

class AdamTest : public testing::Test {
 protected:
  GradientNorm allocated() {
    store_.allocate({allocate_host, allocate_host}, DType::f32);
    return {store_, *backend_};
  }
  float& master(int i) { return parameter_.master.as<float>()[i]; }
  UpdateStats step(Adam& adam, double learning_rate) {
    return take_step(adam, *backend_, learning_rate, norm_.squares(*backend_));
  }
  float& gradient(int i) { return parameter_.gradient.as<float>()[i]; }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  ParameterStore store_;
  const Parameter& parameter_ = store_.declare("w", Shape{3}, Initializer::zeros());
  GradientNorm norm_ = allocated();
};

TEST_F(AdamTest, FirstStepMovesByTheLearningRateAgainstTheSign) {
  Adam adam(store_, *backend_, {});
  gradient(0) = 0.5f;
  gradient(1) = -20;
  const UpdateStats stats = step(adam, 0.01);
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
    step(adam, 0.1);
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
  EXPECT_NEAR(step(clipped, 0).gradient_norm, 5, 1e-6);
  EXPECT_NEAR(clipped.first_moment().values().as<float>()[0], 0.1f * 0.6f, 1e-7);
}

TEST_F(AdamTest, SkipsWhatIsNotFinite) {
  Adam adam(store_, *backend_, {});
  master(1) = 5;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    gradient(2) = bad;
    EXPECT_TRUE(step(adam, 0.1).skipped);
  }
  EXPECT_EQ(adam.steps(), 0);
  EXPECT_EQ(master(1), 5);
  EXPECT_EQ(adam.first_moment().values().as<float>()[2], 0);
  gradient(2) = 7;
  EXPECT_FALSE(step(adam, 0.1).skipped);
  EXPECT_EQ(adam.steps(), 1);
  EXPECT_NEAR(master(2), -0.1f, 1e-6) << "corrected as the first step";
}

/// Two of each kind, so that each is followed by another and by its like.
TEST(AdamParameters, BiasesAndNormsDoNotDecayAndFrozenOnesStay) {
  const auto backend = make_cpu_backend(1);
  ParameterStore store;
  const Shape shapes[] = {{40, 70}, {70}, {10}, {16384, 2}, {3, 3}, {5}};
  for (const Shape& shape : shapes) {
    store.declare("p" + std::to_string(store.all().size()), shape, Initializer::zeros());
  }
  store.allocate({allocate_host, allocate_host}, DType::f32);
  const auto values = [](const Tensor& tensor) { return tensor.as<float>(); };
  std::fill_n(values(store.masters()), store.flat_size(), 1.0f);
  for (int rank = 0; rank < 2; ++rank) {  // of two that have one copy
    const auto moments = [&] { return Moment(allocate_host(store.masters().bytes()), store.flat_size()); };
    Adam adam(store, {.weight_decay = 0.5}, Shards(store.flat_size(), rank, 2), moments);
    adam.freeze(store.all()[4]);
    adam.freeze(store.all()[5]);
    const float square = 1;
    EXPECT_FALSE(take_step(adam, *backend, 0.1, ConstTensor(&square, Shape{1}, DType::f32)).skipped);
  }
  for (const Parameter& parameter : store.all()) {
    const bool decayed = parameter.shape.rank() == 2 && parameter.index < 4;
    for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) {
      ASSERT_EQ(values(parameter.master)[i], decayed ? 0.95f : 1.0f) << parameter.name << " " << i;
    }
  }
}

/// With a gradient of 0, a weight changes by learning rate x decay alone; with none of decay, the first step by the
/// rate.
TEST(AdamParameters, AreUpdatedAsTheFirstGroupThatMatchesSays) {
  const auto backend = make_cpu_backend(1);
  ParameterStore store;
  for (const char* name : {"embedding", "encoder.1.matrix", "encoder.1.bias", "decoder.1.matrix"}) {
    store.declare(name, std::string(name).ends_with("bias") ? Shape{64} : Shape{8, 8}, Initializer::zeros());
  }
  store.allocate({allocate_host, allocate_host}, DType::f32);
  const AdamOptions options{.weight_decay = 0.5,
                            .groups = {{.parameters = {"encoder.*"}, .rate_factor = 0.5, .decay_factor = 2},
                                       {.parameters = {"embedding", "*.1.matrix"}, .rate_factor = 0.25}}};
  const auto steps_with = [&](float gradient) {
    std::fill_n(store.masters().as<float>(), store.flat_size(), 1.0f);
    std::fill_n(store.gradients().as<float>(), store.flat_size(), gradient);
    Adam adam(store, *backend, options);
    const float square = 1;
    take_step(adam, *backend, 0.1, ConstTensor(&square, Shape{1}, DType::f32));
    std::vector<double> values;
    for (const Parameter& parameter : store.all())
      values.push_back(1 - static_cast<double>(*parameter.master.as<float>()));
    return values;
  };
  const double rates[] = {0.025, 0.05, 0.05, 0.025}, decays[] = {0.5, 1, 0, 0.5};
  const std::vector<double> still = steps_with(0), moved = steps_with(1);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(still[i], rates[i] * decays[i], 1e-6) << i;
    EXPECT_NEAR(moved[i], rates[i] * (1 + decays[i]), 1e-6) << i;
  }
  const auto refused = [&](std::vector<std::string> parameters) {
    try {
      const Adam adam(store, *backend, {.groups = {{.parameters = {"*"}}, {.parameters = std::move(parameters)}}});
    } catch (const UsageFailure& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused({"encoder.*", "encodr.*"}),
            "optimizer.groups.2.parameters: 'encodr.*' matches no parameter; parameters are embedding, "
            "encoder.1.matrix, encoder.1.bias, decoder.1.matrix, …");
  EXPECT_EQ(refused({}), "optimizer.groups.2.parameters: missing; expected names with * and ?");
}

/// Three ranks with one copy of weights and moments, one after another: the same bits as one rank with the sum.
TEST(SharedAdam, EqualsOneThatUpdatesEverything) {
  constexpr std::int64_t count = 7 * Shards::grain + 100;
  constexpr int ranks = 3;
  const auto backend = make_cpu_backend(2);
  const AdamOptions options{.clip_norm = 3};
  const auto declare = [](ParameterStore& store, const ParameterMemory& memory) {
    store.declare("w", Shape{count}, Initializer::zeros());
    store.allocate(memory, DType::bf16);
  };
  ParameterStore whole;
  declare(whole, {allocate_host, allocate_host});
  Adam reference(whole, *backend, options);
  const GradientNorm reference_norm(whole, *backend);

  std::vector<Buffer> common;  // masters, compute copies, moments
  for (int i = 0; i < 4; ++i) common.push_back(allocate_host(whole.masters().bytes()));
  std::deque<ParameterStore> stores(ranks);
  std::vector<Adam> adams;
  std::vector<GradientNorm> norms;
  std::vector<ConstTensor> gradients;
  for (int rank = 0; rank < ranks; ++rank) {
    ParameterStore& store = stores[static_cast<std::size_t>(rank)];
    auto next = common.begin();
    const auto allocate = [&next](std::size_t bytes) { return Buffer((next++)->data(), bytes, [](void*) {}); };
    declare(store, {allocate, allocate_host});
    const auto moments = [&] { return Moment(allocate(store.masters().bytes()), store.flat_size()); };
    adams.emplace_back(store, options, Shards(store.flat_size(), rank, ranks), moments);
    norms.emplace_back(store, *backend);
    gradients.push_back(store.gradients());
  }
  for (int step = 1; step <= 3; ++step) {
    for (std::int64_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        float& gradient = stores[static_cast<std::size_t>(rank)].gradients().as<float>()[i];
        gradient = std::sin(static_cast<float>(i + 31 * step + 1000 * rank));
        sum = rank == 0 ? gradient : sum + gradient;
      }
      whole.gradients().as<float>()[i] = sum;
    }
    std::vector<float> squares(static_cast<std::size_t>(SquaredNorm::blocks(whole.flat_size())));
    for (int rank = 0; rank < ranks; ++rank) {
      const auto own = norms[static_cast<std::size_t>(rank)].squares_of_sum(*backend, gradients,
                                                                            Shards(whole.flat_size(), rank, ranks));
      for (std::size_t i = 0; i < squares.size(); ++i) squares[i] += static_cast<float>(own[i]);
    }
    const ConstTensor of_whole = reference_norm.squares(*backend);
    EXPECT_TRUE(std::equal(squares.begin(), squares.end(), of_whole.as<float>()));
    take_step(reference, *backend, 0.01, of_whole);
    for (Adam& adam : adams) take_step(adam, *backend, 0.01, ConstTensor(squares.data(), of_whole.shape, DType::f32));
  }
  const auto bytes_of = [](const Tensor& tensor) { return std::string(tensor.as<char>(), tensor.bytes()); };
  EXPECT_TRUE(bytes_of(stores[0].masters()) == bytes_of(whole.masters()));
  EXPECT_TRUE(bytes_of(stores[1].compute_copies()) == bytes_of(whole.compute_copies()));
  EXPECT_TRUE(bytes_of(adams[2].first_moment().values()) == bytes_of(reference.first_moment().values()));
  EXPECT_TRUE(bytes_of(adams[0].second_moment().values()) == bytes_of(reference.second_moment().values()));
  EXPECT_NE(whole.masters().as<float>()[count - 1], 0);
}

}  // namespace
}  // namespace babelring
