#include "nmt/ops/cross_entropy.h"

#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

class CrossEntropyTest : public OpTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, CrossEntropyTest, precisions, precision_name);
INSTANTIATE_TEST_SUITE_P(Gpu, CrossEntropyTest, gpu_precisions, precision_name);

TEST_P(CrossEntropyTest, EqualsReference) {
  for (const auto& [rows, vocabulary] : {std::pair{1, 1}, {3, 7}, {17, 1009}, {4, 32768}, {5, 4104}, {3, 12296}}) {
    for (const float smoothing : {0.0f, 0.1f}) {
      CrossEntropy op{.logits = tensors.normal({rows, vocabulary}, type(), 4),
                      .targets = tensors.integers(rows, vocabulary),
                      .smoothing = smoothing,
                      .gradient_scale = 0.25f,
                      .dlogits = tensors.zeros({rows, vocabulary}, type()),
                      .loss = tensors.zeros({rows}, DType::f32),
                      .nll = tensors.zeros({rows}, DType::f32),
                      .correct = tensors.zeros({rows}, DType::f32),
                      .predicted = tensors.zeros({rows}, DType::i32)};
      expect_as_reference(op, {&CrossEntropy::dlogits, &CrossEntropy::loss, &CrossEntropy::nll, &CrossEntropy::correct,
                               &CrossEntropy::predicted});
      op.dlogits = {};
      expect_as_reference(op, {&CrossEntropy::loss});
      const Tensor in_place = tensors.copy(op.logits);
      op.logits = op.dlogits = in_place;
      expect_as_reference(op, {&CrossEntropy::dlogits});
    }
  }
}

TEST_P(CrossEntropyTest, TakesAndWritesStridedViews) {
  const Tensor logits = tensors.strided(9, 37, type());
  expect_as_reference(CrossEntropy{.logits = logits,
                                   .targets = tensors.integers(9, 37),
                                   .smoothing = 0.1f,
                                   .dlogits = tensors.strided(9, 37, type()),
                                   .loss = tensors.zeros({9}, DType::f32),
                                   .nll = tensors.zeros({9}, DType::f32),
                                   .correct = tensors.zeros({9}, DType::f32)},
                      {&CrossEntropy::dlogits, &CrossEntropy::loss});
  expect_as_reference(CrossEntropy{.logits = logits,
                                   .targets = tensors.integers(9, 37),
                                   .dlogits = logits,
                                   .loss = tensors.zeros({9}, DType::f32),
                                   .nll = tensors.zeros({9}, DType::f32),
                                   .correct = tensors.zeros({9}, DType::f32)},
                      {&CrossEntropy::dlogits});
}

/// Rows that pad a batch: no loss, no gradient.
TEST_P(CrossEntropyTest, ARowWithoutTargetGivesNothing) {
  for (const std::int64_t vocabulary : {7, 64, 1009}) {
    CrossEntropy op{.logits = tensors.normal({4, vocabulary}, type(), 4),
                    .targets = tensors.list({CrossEntropy::no_target, 2, CrossEntropy::no_target, 6}),
                    .smoothing = 0.1f,
                    .gradient_scale = 0.25f,
                    .dlogits = tensors.normal({4, vocabulary}, type(), 1),
                    .loss = tensors.zeros({4}, DType::f32),
                    .nll = tensors.zeros({4}, DType::f32),
                    .correct = tensors.zeros({4}, DType::f32),
                    .predicted = tensors.zeros({4}, DType::i32)};
    expect_as_reference(op, {&CrossEntropy::dlogits, &CrossEntropy::loss, &CrossEntropy::nll, &CrossEntropy::correct,
                             &CrossEntropy::predicted});
    const Tensor in_place = tensors.copy(op.logits);
    op.logits = op.dlogits = in_place;
    expect_as_reference(op, {&CrossEntropy::dlogits});
  }
}

/// Gradients are added; views may be strided, and a row without a target adds nothing.
TEST_P(CrossEntropyTest, DivergenceEqualsReference) {
  for (const auto& [rows, vocabulary] : {std::pair{1, 1}, {3, 7}, {5, 64}, {17, 1009}, {4, 4104}}) {
    SymmetricDivergence op{.first = tensors.normal({rows, vocabulary}, type(), 2),
                           .second = tensors.normal({rows, vocabulary}, type(), 2),
                           .targets = tensors.integers(rows, vocabulary),
                           .gradient_scale = 0.25f,
                           .dfirst = tensors.normal({rows, vocabulary}, type()),
                           .dsecond = tensors.normal({rows, vocabulary}, type()),
                           .loss = tensors.zeros({rows}, DType::f32)};
    expect_as_reference(op, {&SymmetricDivergence::loss, &SymmetricDivergence::dfirst, &SymmetricDivergence::dsecond});
  }
  expect_as_reference(SymmetricDivergence{.first = tensors.strided(4, 37, type()),
                                          .second = tensors.strided(4, 37, type()),
                                          .targets = tensors.list({CrossEntropy::no_target, 2, 3, 4}),
                                          .dfirst = tensors.strided(4, 37, type()),
                                          .dsecond = tensors.strided(4, 37, type()),
                                          .loss = tensors.zeros({4}, DType::f32)},
                      {&SymmetricDivergence::loss, &SymmetricDivergence::dfirst, &SymmetricDivergence::dsecond});
}

TEST_P(CrossEntropyTest, LargeLogitsStayFinite) {
  const Tensor logits = tensors.normal({2, 50}, type(), 1e4);
  expect_as_reference(CrossEntropy{.logits = logits,
                                   .targets = tensors.list({3, 49}),
                                   .dlogits = logits,
                                   .loss = tensors.zeros({2}, DType::f32),
                                   .nll = tensors.zeros({2}, DType::f32),
                                   .correct = tensors.zeros({2}, DType::f32)},
                      {&CrossEntropy::dlogits, &CrossEntropy::loss});
}

/// A logit's exponential must not depend on how large the logits of its row are: the loss of a row that is shifted is
/// the same, as far as f32 holds the shifted logits.
TEST_P(CrossEntropyTest, ShiftedLogitsHaveTheSameLoss) {
  const std::int64_t vocabulary = 4104;
  const Tensor logits = tensors.zeros({4, vocabulary}, type()), nll = tensors.zeros({4}, DType::f32);
  reference::Matrix values(4, vocabulary);
  Random random(3);
  for (std::int64_t i = 0; i < vocabulary; ++i) {
    const auto level = static_cast<double>(random.below(9));
    values(0, i) = level, values(1, i) = level + 64, values(2, i) = level - 128, values(3, i) = level + 96;
  }
  reference::store(values, logits);
  const CrossEntropy op{.logits = logits,
                        .targets = tensors.list({1, 1, 1, 1}),
                        .smoothing = 0.1f,
                        .dlogits = tensors.zeros({4, vocabulary}, type()),
                        .loss = tensors.zeros({4}, DType::f32),
                        .nll = nll,
                        .correct = tensors.zeros({4}, DType::f32)};
  expect_as_reference(op, {&CrossEntropy::dlogits, &CrossEntropy::loss, &CrossEntropy::nll});
  for (int row = 1; row < 4; ++row) EXPECT_NEAR(nll.as<float>()[row], nll.as<float>()[0], 1e-5) << row;
}

/// Every element of a row is the target once: a GPU's thread writes it apart from those around it.
TEST_P(CrossEntropyTest, WritesTheTargetsGradientWhereverItIs) {
  const std::int64_t vocabulary = 40;
  std::vector<std::int32_t> targets(vocabulary);
  for (std::int32_t i = 0; i < vocabulary; ++i) targets[static_cast<std::size_t>(i)] = i;
  const Tensor logits = tensors.normal({vocabulary, vocabulary}, type());
  expect_as_reference(CrossEntropy{.logits = logits,
                                   .targets = tensors.list(targets),
                                   .smoothing = 0.1f,
                                   .dlogits = logits,
                                   .loss = tensors.zeros({vocabulary}, DType::f32),
                                   .nll = tensors.zeros({vocabulary}, DType::f32),
                                   .correct = tensors.zeros({vocabulary}, DType::f32)},
                      {&CrossEntropy::dlogits, &CrossEntropy::loss, &CrossEntropy::correct});
}

/// Short rows: some of the threads that share a row have nothing to do.
TEST_P(CrossEntropyTest, SmallLogitsAreAsGoodAsLargeOnes) {
  for (const double level : {-1000.0, -100.0, 100.0}) {
    const Tensor logits = tensors.zeros({1, 5}, type());
    reference::Matrix values(1, 5);
    std::fill(values.values.begin(), values.values.end(), level);
    reference::store(values, logits);
    expect_as_reference(CrossEntropy{.logits = logits,
                                     .targets = tensors.list({2}),
                                     .dlogits = tensors.zeros({1, 5}, type()),
                                     .loss = tensors.zeros({1}, DType::f32),
                                     .nll = tensors.zeros({1}, DType::f32),
                                     .correct = tensors.zeros({1}, DType::f32)},
                        {&CrossEntropy::dlogits, &CrossEntropy::loss, &CrossEntropy::nll});
    const LogSoftmaxTopK best{
        .logits = logits, .scores = tensors.zeros({1, 2}, DType::f32), .indices = tensors.zeros({1, 2}, DType::i32)};
    expect_as_reference(best, {&LogSoftmaxTopK::scores});
  }
}

TEST_P(CrossEntropyTest, ShowsWhatIsNotANumberInItsRowOnly) {
  const Tensor logits = tensors.normal({2, 50}, type());
  reference::Matrix values = reference::load(logits);
  values(0, 7) = NAN;
  values(1, 9) = -INFINITY;
  reference::store(values, logits);
  const Tensor loss = tensors.zeros({2}, DType::f32), dlogits = tensors.zeros({2, 50}, type());
  tested->run(CrossEntropy{.logits = logits,
                           .targets = tensors.list({3, 49}),
                           .dlogits = dlogits,
                           .loss = tensors.zeros({2}, DType::f32),
                           .nll = loss,
                           .correct = tensors.zeros({2}, DType::f32)});
  EXPECT_TRUE(std::isnan(loss.as<float>()[0]));
  EXPECT_TRUE(std::isfinite(loss.as<float>()[1]));
  const reference::Matrix gradient = reference::load(dlogits);
  EXPECT_TRUE(std::isnan(gradient(0, 0)));
  EXPECT_TRUE(std::isfinite(gradient(1, 0)));
  EXPECT_EQ(gradient(1, 9), 0);
}

TEST_P(CrossEntropyTest, PredictsTheFirstOfEqualPieces) {
  const Tensor logits = tensors.zeros({3, 700}, type()), predicted = tensors.list({9, 9, 9});
  reference::Matrix values = reference::load(logits);
  values(1, 300) = values(1, 301) = values(1, 699) = 2;
  values(2, 5) = NAN;
  reference::store(values, logits);
  const CrossEntropy op{.logits = logits,
                        .targets = tensors.list({0, 699, 5}),
                        .dlogits = logits,
                        .loss = tensors.zeros({3}, DType::f32),
                        .nll = tensors.zeros({3}, DType::f32),
                        .correct = tensors.zeros({3}, DType::f32),
                        .predicted = predicted};
  tested->run(op);
  EXPECT_EQ(predicted.as<std::int32_t>()[0], 0);
  EXPECT_EQ(predicted.as<std::int32_t>()[1], 300);
  EXPECT_LT(predicted.as<std::int32_t>()[2], 700);  // a row without finite values predicts some piece
  EXPECT_EQ(op.correct.as<float>()[1], 1);
}

TEST_P(CrossEntropyTest, AllLogProbabilitiesHaveTheBitsOfTheBest) {
  for (const auto& [rows, vocabulary, k] : {std::tuple{1, 1, 1}, {3, 7, 7}, {5, 1009, 12}, {3, 32000, 16}}) {
    const Tensor logits = tensors.normal({rows, vocabulary}, type(), 3);
    const LogSoftmaxTopK op{.logits = logits,
                            .scores = tensors.zeros({rows, k}, DType::f32),
                            .indices = tensors.zeros({rows, k}, DType::i32),
                            .all = tensors.zeros({rows, vocabulary}, DType::f32)};
    LogSoftmaxTopK truth = op;
    truth.scores = tensors.copy(op.scores), truth.indices = tensors.copy(op.indices), truth.all = tensors.copy(op.all);
    tested->run(op);
    reference->run(truth);
    EXPECT_LE(relative_error(op.all, truth.all), f32_tolerance());
    for (std::int64_t i = 0; i < rows * k; ++i) {
      const std::int32_t place = op.indices.as<std::int32_t>()[i];
      EXPECT_EQ(op.all.as<float>()[i / k * vocabulary + place], op.scores.as<float>()[i]) << i;
    }
  }
}

TEST_P(CrossEntropyTest, TopKEqualsReferenceInOrderAndInTies) {
  for (const auto& [rows, vocabulary, k] : {std::tuple{1, 1, 1}, {3, 7, 7}, {5, 1009, 12}, {3, 32000, 16}}) {
    const Tensor logits = tensors.normal({rows, vocabulary}, type(), 3);
    const LogSoftmaxTopK op{.logits = logits,
                            .scores = tensors.zeros({rows, k}, DType::f32),
                            .indices = tensors.zeros({rows, k}, DType::i32)};
    LogSoftmaxTopK truth = op;
    truth.scores = tensors.copy(op.scores), truth.indices = tensors.copy(op.indices);
    tested->run(op);
    reference->run(truth);
    EXPECT_LE(relative_error(op.scores, truth.scores), f32_tolerance());
    EXPECT_TRUE(same_bits(op.indices, truth.indices));
  }
  const Tensor equal = tensors.zeros({1, 300}, type()), indices = tensors.zeros({1, 3}, DType::i32);
  tested->run(LogSoftmaxTopK{.logits = equal, .scores = tensors.zeros({1, 3}, DType::f32), .indices = indices});
  EXPECT_TRUE(same_bits(indices, tensors.list({0, 1, 2})));
}

}  // namespace
}  // namespace babelring
