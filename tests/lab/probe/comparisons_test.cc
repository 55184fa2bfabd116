#include "lab/probe/comparisons.h"

#include <gmock/gmock.h>

#include <bit>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/lab/probe/wrong_backend.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

TEST(RepeatProbe, EqualRunsAreTheSameAlsoOnBusyProcessors) {
  for (const bool busy : {false, true}) {
    const RepeatResult result = repeat_probe(small_plan(), *make_cpu_backend(2), 3, busy);
    EXPECT_EQ(result.runs, 3);
    EXPECT_EQ(result.different, 0);
    EXPECT_FALSE(result.first);
  }
}

TEST(RepeatProbe, NamesTheFirstTensorThatEverDiffered) {
  ProbePlan plan = small_plan();
  plan.updates = 1;
  WrongBackend backend(3, 1, 3);  // each run is one update
  const RepeatResult result = repeat_probe(plan, backend, 4, false);
  EXPECT_EQ(result.different, 1);
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first_different, 1);
  EXPECT_EQ(result.first->op, "linear_backward_data");
  EXPECT_EQ(result.first->phase, "backward");
}

class WeightsCompareTest : public testing::Test {
 protected:
  using Weights = std::map<std::string, std::vector<float>>;

  Checkpoint write(const Weights& weights) const {
    static int count = 0;
    const std::filesystem::path path = folder.path() / std::to_string(++count);
    std::filesystem::create_directory(path);
    CheckpointContent content;
    for (const auto& [name, values] : weights) {
      content.weights.push_back(
          {name, ConstTensor(values.data(), Shape{static_cast<std::int64_t>(values.size())}, DType::f32)});
    }
    write_checkpoint_files(content, path);
    return load_checkpoint(path).value();
  }
  static float next(float value, std::uint32_t ulp) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) + ulp);
  }

  TemporaryFolder folder;
};

TEST_F(WeightsCompareTest, EqualWeightsAreTheSame) {
  const Weights weights = {{"a", {1, 2}}, {"b", {3}}};
  const Checkpoint a = write(weights), b = write(weights);
  const WeightsComparison comparison = compare_weights(a, b, {});
  EXPECT_EQ(comparison.sameness, Sameness::same);
  EXPECT_EQ(comparison.parameters, 2U);
  EXPECT_TRUE(comparison.differences.empty());
  EXPECT_EQ(a.weights_digest, b.weights_digest);
}

TEST_F(WeightsCompareTest, TellsWhichElementsDifferAndHowFar) {
  const Checkpoint a = write({{"a", {1, 2, 8, 5}}, {"b", {3}}});
  const Checkpoint b = write({{"a", {1, next(2, 1), next(8, 4), 5}}, {"b", {3}}});
  const WeightsComparison comparison = compare_weights(a, b, {});
  EXPECT_EQ(comparison.sameness, Sameness::differs);
  ASSERT_EQ(comparison.differences.size(), 1U);
  const ParameterDifference& difference = comparison.differences[0];
  EXPECT_EQ(difference.name, "a");
  EXPECT_EQ(difference.distance.compared, 4);
  EXPECT_EQ(difference.distance.different, 2);
  EXPECT_EQ(difference.distance.worst.ulp, 4U);
  EXPECT_EQ(difference.distance.worst.absolute, next(8, 4) - 8);
  EXPECT_EQ(difference.distance.ulp.at, 2);
  EXPECT_EQ(difference.worst_a, 8);
  EXPECT_EQ(difference.worst_b, next(8, 4));

  EXPECT_EQ(compare_weights(a, b, *Tolerance::parse("4ulp")).sameness, Sameness::close);
  EXPECT_EQ(compare_weights(a, b, *Tolerance::parse("3ulp")).sameness, Sameness::differs);
  const json::object object = to_json(comparison);
  EXPECT_EQ(object.at("weights").as_string(), "differ");
  EXPECT_EQ(object.at("differences").as_array().at(0).at("different").as_int64(), 2);
}

TEST_F(WeightsCompareTest, AParameterOfOneSideAndAnotherShapeCountAsDifferent) {
  const Checkpoint a = write({{"a", {1}}, {"b", {1, 2}}, {"c", {3}}}), b = write({{"b", {1}}, {"c", {3}}, {"d", {1}}});
  const WeightsComparison comparison = compare_weights(a, b, *Tolerance::parse("1e9abs"));
  EXPECT_EQ(comparison.sameness, Sameness::differs);
  EXPECT_EQ(comparison.parameters, 4U);
  ASSERT_EQ(comparison.differences.size(), 3U);
  EXPECT_EQ(comparison.differences[0].name, "a");
  EXPECT_FALSE(comparison.differences[0].in_b);
  EXPECT_EQ(comparison.differences[1].sameness, Sameness::differs);
  EXPECT_EQ(comparison.differences[1].shape_b, Shape{1});
  EXPECT_EQ(comparison.differences[2].name, "d");
  EXPECT_EQ(comparison.differences[2].sameness, Sameness::missing);
  EXPECT_FALSE(comparison.differences[2].in_a);
}

}  // namespace

}  // namespace babelring
