#include "lab/probe/backend_compare.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>

#include "base/failure.h"
#include "nmt/ops/cuda_module.h"
#include "tests/lab/probe/wrong_backend.h"

namespace babelring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The ops of every backend: only processors have QuantizedLinear.
template <class... Ops>
std::set<std::string> common_ops(OpList<Ops...>) {
  std::set<std::string> names{std::string(Ops::name)...};
  names.erase(std::string(QuantizedLinear::name));
  return names;
}

/// One update of one layer on each side: the emulation runs a GPU's threads one after another.
ProbePlan smallest_plan(DType precision) {
  ProbePlan plan = small_plan();
  plan.config.model = {.encoder_layers = 1, .decoder_layers = 1, .width = 32, .heads = 2, .inner = 64, .dropout = 0.1};
  plan.config.training.precision = precision;
  plan.random = RandomBatch{.sentences = 2, .source_tokens = 3, .target_tokens = 4};
  plan.updates = 1;
  return plan;
}

/// The largest relative difference by op.
std::map<std::string, double> relative_by_op(const BackendComparison& comparison) {
  std::map<std::string, double> relative;
  for (const OpDifference& difference : comparison.differences) {
    relative[difference.op] = std::max(relative[difference.op], difference.relative);
  }
  return relative;
}

class EmulatedAgainstCpu : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, EmulatedAgainstCpu, testing::Values(DType::f32, DType::bf16),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(EmulatedAgainstCpu, AgreesInEveryOp) {
  const BackendComparison comparison =
      compare_backends(smallest_plan(GetParam()), make_named_backend("--a", "emulated-cuda", 0), make_cpu_backend(1));
  EXPECT_THAT(comparison.a, HasSubstr("cuda"));
  EXPECT_THAT(comparison.b, HasSubstr("cpu"));
  std::set<std::string> ran;
  for (const auto& [op, relative] : relative_by_op(comparison)) {
    ran.insert(op);
    EXPECT_LE(relative, GetParam() == DType::f32 ? 3e-5 : 1e-2) << op;
  }
  EXPECT_EQ(ran, common_ops(AllOps()));
}

/// The rounding of bf16: some ops round in between, such as the sum before a norm.
TEST(BackendCompare, Bf16IsWithinItsRoundingsOfF32) {
  const BackendComparison comparison =
      compare_backends(smallest_plan(DType::bf16), make_cpu_backend(1), make_named_backend("--b", "f32", 1));
  EXPECT_THAT(comparison.b, HasSubstr("f32 by cpu"));
  std::set<std::string> ran;
  std::int64_t different = 0;
  for (const OpDifference& difference : comparison.differences) {
    ran.insert(difference.op);
    different += difference.different;
    EXPECT_LE(difference.relative, 1e-2) << difference.op << '.' << difference.member;
  }
  EXPECT_EQ(ran, common_ops(AllOps()));
  EXPECT_GT(different, 0);
}

TEST(BackendCompare, AnUpdateInF32IsTheSameInF32) {
  const BackendComparison comparison =
      compare_backends(smallest_plan(DType::f32), make_cpu_backend(1), make_named_backend("--b", "f32", 1));
  for (const OpDifference& difference : comparison.differences) {
    EXPECT_EQ(difference.different, 0) << difference.op << '.' << difference.member;
  }
}

TEST(BackendCompare, ABackendAgreesWithItself) {
  const BackendComparison comparison =
      compare_backends(smallest_plan(DType::f32), make_cpu_backend(2), make_cpu_backend(2));
  for (const OpDifference& difference : comparison.differences) {
    EXPECT_EQ(difference.different, 0) << difference.op << '.' << difference.member;
    EXPECT_EQ(difference.ulp, 0U);
    EXPECT_EQ(difference.element, -1);
  }
}

/// One ULP in one of the update's input gradients is not carried on to the ops behind it.
TEST(BackendCompare, NamesTheOneOpThatDiffers) {
  const BackendComparison comparison =
      compare_backends(smallest_plan(DType::f32), std::make_unique<WrongBackend>(2, 5), make_cpu_backend(1));
  for (const OpDifference& difference : comparison.differences) {
    if (difference.op != LinearBackwardData::name) {
      EXPECT_EQ(difference.different, 0) << difference.op << '.' << difference.member;
      continue;
    }
    EXPECT_EQ(difference.member, "dx");
    EXPECT_EQ(difference.different, 1);
    EXPECT_EQ(difference.ulp, 5U);
    EXPECT_EQ(difference.call, 2);
    EXPECT_EQ(difference.element, 0);
    EXPECT_THAT(difference.range, HasSubstr("decoder.0"));
    EXPECT_GT(difference.relative, 0);
    EXPECT_LT(difference.relative, 1e-5);
  }
  const json::object object = to_json(comparison);
  EXPECT_EQ(object.at("ops").as_array().size(), comparison.differences.size());
}

TEST(BackendCompare, SaysWhichBackendIsAbsent) {
  EXPECT_THAT([] { make_named_backend("--a", "tpu", 0); },
              ThrowsMessage<UsageFailure>("--a: expected cpu, cuda, emulated-cuda or f32, found 'tpu'"));
  if (!find_cuda()) {
    EXPECT_THAT([] { make_named_backend("--b", "cuda", 0); },
                ThrowsMessage<UsageFailure>(AllOf(HasSubstr("--b: "), HasSubstr(find_cuda().error()))));
  }
}

}  // namespace

}  // namespace babelring
