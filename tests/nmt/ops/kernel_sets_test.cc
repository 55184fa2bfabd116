#include "nmt/ops/cpu/kernel_sets.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <vector>

#include "base/failure.h"
#include "nmt/ops/cpu/kernels.h"
#include "nmt/ops/ops.h"
#include "tests/nmt/ops/op_fixture.h"

namespace babelring::cpu {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(KernelSets, TheBackendNamesTheOneThatTheEnvironmentRequests) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";  // a new process, which has not chosen yet
  EXPECT_EXIT(
      {
        setenv("BABELRING_CPU_ISA", "generic", 1);
        std::exit(make_cpu_backend(1)->description().starts_with("cpu (generic kernels, oneDNN ") ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

#if defined(__x86_64__)
constexpr InstructionSets every_extension = ~InstructionSets{0};

InstructionSets needed_by(KernelSet set) {
  return kernels_of(set).compiled_for;
}

TEST(KernelSets, EachOneIsCompiledForMoreThanTheOneBefore) {
  InstructionSets before = 0;
  for (const KernelSet set : {KernelSet::generic, KernelSet::avx2, KernelSet::avx512, KernelSet::avx512_bf16}) {
    const InstructionSets needed = needed_by(set);
    EXPECT_EQ(before & ~needed, 0) << name_of(set);
    EXPECT_NE(needed & ~before, 0) << name_of(set);
    before = needed;
  }
}

TEST(KernelSets, TheBestThatTheProcessorOffersIsChosen) {
  for (const KernelSet set : {KernelSet::generic, KernelSet::avx2, KernelSet::avx512, KernelSet::avx512_bf16}) {
    EXPECT_EQ(choose_kernel_set(needed_by(set), ""), set);
  }
  EXPECT_EQ(choose_kernel_set(every_extension, ""), KernelSet::amx);
  const InstructionSets with_bytes = needed_by(KernelSet::avx512) | bit_of(InstructionSet::avx512_vnni);
  EXPECT_EQ(choose_kernel_set(with_bytes, ""), KernelSet::avx512_vnni);
  EXPECT_EQ(choose_kernel_set(every_extension & ~bit_of(InstructionSet::avx512_vnni), ""), KernelSet::avx512);
  const InstructionSets without_f = needed_by(KernelSet::avx512_bf16) & ~bit_of(InstructionSet::avx512f);
  EXPECT_EQ(choose_kernel_set(without_f, ""), KernelSet::avx2);
}

TEST(KernelSets, TheRequestedOneIsChosen) {
  for (const KernelSet set : {KernelSet::generic, KernelSet::avx2, KernelSet::avx512, KernelSet::avx512_vnni,
                              KernelSet::avx512_bf16, KernelSet::amx}) {
    EXPECT_EQ(choose_kernel_set(every_extension, name_of(set)), set);
  }
}

TEST(KernelSets, ARequestThatCannotBeMetIsRefused) {
  EXPECT_THAT([] { choose_kernel_set(every_extension, "sse"); },
              ThrowsMessage<UsageFailure>(
                  "BABELRING_CPU_ISA is sse, generic, avx2, avx512, avx512_vnni, avx512_bf16 or amx is needed"));
  EXPECT_THAT([] { choose_kernel_set(needed_by(KernelSet::avx512_bf16), "amx"); },
              ThrowsMessage<UsageFailure>(
                  "BABELRING_CPU_ISA is amx, but this processor lacks amx_tile amx_bf16; generic, avx2, "
                  "avx512, avx512_vnni or avx512_bf16 is needed"));
  EXPECT_THAT(
      [] { choose_kernel_set(needed_by(KernelSet::avx512), "avx512_bf16"); },
      ThrowsMessage<UsageFailure>(HasSubstr("lacks avx512_vnni avx512_bf16; generic, avx2 or avx512 is needed")));
  EXPECT_THAT([] { choose_kernel_set(needed_by(KernelSet::generic), "avx2"); },
              ThrowsMessage<UsageFailure>(HasSubstr("; generic is needed")));
  EXPECT_THAT([] { choose_kernel_set(0, ""); },
              ThrowsMessage<Failure>("this processor lacks sse3 ssse3 sse4_1 sse4_2 popcnt, which all kernels need"));
}

/// The sets that this machine offers.
std::vector<KernelSet> available_sets() {
  std::vector<KernelSet> sets;
  for (const KernelSet set : {KernelSet::generic, KernelSet::avx2, KernelSet::avx512, KernelSet::avx512_bf16}) {
    if (set == KernelSet::generic || (needed_by(set) & ~usable_instruction_sets()) == 0) sets.push_back(set);
  }
  return sets;
}

/// Runs an op with the kernels of each set on copies of the same tensors, and expects equal bits from all.
class KernelSetBits : public testing::Test {
 protected:
  template <class Op>
  void expect_equal(const Op& op, std::initializer_list<Tensor Op::*> results, const std::vector<KernelSet>& sets) {
    std::vector<Op> runs;
    for (const KernelSet set : sets) {
      Op copy = op;
      for (Tensor Op::* result : results) copy.*result = tensors.copy(op.*result);
      CpuContext context(2, set);
      run(copy, context);
      runs.push_back(copy);
      for (Tensor Op::* result : results) {
        EXPECT_TRUE(same_bits(runs[0].*result, copy.*result)) << Op::name << " of " << name_of(set);
      }
    }
  }
  Tensors tensors;
};

const DropoutKey key{.key = 0x1234, .first_row = 5, .probability = 0.3f};

TEST_F(KernelSetBits, AllSetsAgreeWhereNothingIsSummed) {
  const auto sets = available_sets();
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensor x = tensors.normal({17, 255}, type), y = tensors.normal({17, 255}, type);
    expect_equal(Dropout{.x = x, .y = y, .key = key}, {&Dropout::y}, sets);
    expect_equal(Add{.x = x, .y = y}, {&Add::y}, sets);
    expect_equal(Cast{.x = x, .y = tensors.zeros({17, 255}, DType::bf16)}, {&Cast::y}, sets);
  }
}

/// Every number of rows in a block, and outputs and inputs on both sides of a panel's and a step's. avx512_vnni runs
/// other code of the kernels of avx512.
TEST_F(KernelSetBits, AllSetsAgreeOnProductsOfInt8) {
  std::vector<KernelSet> sets = available_sets();
  if ((usable_instruction_sets() & bit_of(InstructionSet::avx512_vnni)) != 0) sets.push_back(KernelSet::avx512_vnni);
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 13, 100}) {
    const std::int64_t in = 3 * rows + 60, out = 2 * rows + 50;
    const QuantizedCopy weight = quantize(tensors.normal({out, in}, DType::f32), "weight");
    QuantizedLinear op{.x = tensors.normal({rows, in}, DType::f32, 3),
                       .weight = weight.weight,
                       .bias = tensors.normal({out}, DType::f32),
                       .y = tensors.zeros({rows, out}, DType::f32)};
    expect_equal(op, {&QuantizedLinear::y}, sets);
    op.activation = Activation::relu;
    op.first = 17, op.y = tensors.zeros({rows, out - 20}, DType::f32);
    op.bias = op.bias.row_slice(0, out - 20);
    expect_equal(op, {&QuantizedLinear::y}, sets);
  }
}

TEST_F(KernelSetBits, Avx512AgreesWithAndWithoutBf16) {
  std::vector<KernelSet> sets = available_sets();
  std::erase_if(sets, [](KernelSet set) { return set < KernelSet::avx512; });
  if (sets.size() < 2) GTEST_SKIP() << "this processor lacks avx512_bf16";
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensor x = tensors.normal({65, 131}, type), y = tensors.zeros({65, 131}, type);
    const Tensor gain = tensors.normal({131}, DType::f32), bias = tensors.normal({131}, DType::f32);
    const Tensor row = tensors.zeros({65}, DType::f32);
    expect_equal(LayerNormForward{.x = x, .gain = gain, .bias = bias, .y = y, .mean = row, .rstd = row},
                 {&LayerNormForward::y, &LayerNormForward::mean, &LayerNormForward::rstd}, sets);
    expect_equal(
        CrossEntropy{
            .logits = x, .targets = tensors.integers(65, 131), .dlogits = y, .loss = row, .nll = row, .correct = row},
        {&CrossEntropy::dlogits, &CrossEntropy::loss, &CrossEntropy::nll}, sets);
    expect_equal(LayerNormForward{.x = x, .gain = gain, .bias = {}, .y = y, .mean = {}, .rstd = row},
                 {&LayerNormForward::y, &LayerNormForward::rstd}, sets);
    const Tensor turned = x.column_slice(0, 130);
    expect_equal(RotaryPositions{.x = turned, .positions = tensors.integers(65, 90), .y = tensors.copy(turned)},
                 {&RotaryPositions::y}, sets);
    expect_equal(ActivationForward{.z = x, .y = y, .activation = Activation::swiglu, .key = key, .up = x},
                 {&ActivationForward::y}, sets);
    for (const Activation activation : {Activation::swish, Activation::gelu}) {
      expect_equal(ActivationForward{.z = x, .y = y, .activation = activation, .key = key}, {&ActivationForward::y},
                   sets);
    }
    const Tensor offsets = tensors.list({0, 1, 30, 65}), statistics = tensors.zeros({65, 1}, DType::f32);
    expect_equal(AttentionForward{.q = x,
                                  .k = x,
                                  .v = x,
                                  .q_offsets = offsets,
                                  .k_offsets = offsets,
                                  .heads = 1,
                                  .key = key,
                                  .out = y,
                                  .log_sum_exp = statistics},
                 {&AttentionForward::out, &AttentionForward::log_sum_exp}, sets);
    const Tensor master = tensors.normal({1000}, DType::f32), moment = tensors.normal({1000}, DType::f32);
    expect_equal(AdamUpdate{.master = master,
                            .gradient = tensors.normal({1000}, DType::f32),
                            .m = moment,
                            .v = tensors.copy(tensors.zeros({1000}, DType::f32)),
                            .learning_rate = 1e-3f},
                 {&AdamUpdate::master, &AdamUpdate::m, &AdamUpdate::v}, sets);
  }
}
#endif

}  // namespace
}  // namespace babelring::cpu
