#include "nmt/ops/adam.h"

#include <limits>

#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

class AdamTest : public OpTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, AdamTest, precisions, precision_name);
INSTANTIATE_TEST_SUITE_P(Gpu, AdamTest, gpu_precisions, precision_name);

TEST_P(AdamTest, EqualsReferenceOverSteps) {
  const Tensor squares = tensors.zeros({1}, DType::f32);
  squares.as<float>()[0] = 4;
  for (const std::int64_t count : {1, 17, 10007}) {
    AdamUpdate op{.master = tensors.normal({count}, DType::f32),
                  .gradient = tensors.normal({count}, DType::f32),
                  .m = tensors.zeros({count}, DType::f32),
                  .v = tensors.zeros({count}, DType::f32),
                  .compute = type() == DType::bf16 ? tensors.zeros({count}, DType::bf16) : Tensor{},
                  .squares = squares,
                  .average = tensors.normal({count}, DType::f32),
                  .clip_norm = 1,
                  .learning_rate = 0.01f,
                  .weight_decay = 0.1f,
                  .average_rate = 0.3f};
    for (op.step = 1; op.step <= 3; ++op.step) {
      expect_as_reference(
          op, {&AdamUpdate::master, &AdamUpdate::m, &AdamUpdate::v, &AdamUpdate::compute, &AdamUpdate::average});
    }
  }
}

/// The norm is 5, of more blocks than a GPU's block has threads.
TEST_P(AdamTest, ClipsToTheNormThatTheSquaresHave) {
  constexpr std::int64_t count = 1003;
  const Tensor squares = tensors.zeros({700}, DType::f32);
  std::fill_n(squares.as<float>(), 700, 25.0f / 700);
  AdamUpdate op{.master = tensors.normal({count}, DType::f32),
                .gradient = tensors.normal({count}, DType::f32),
                .m = tensors.normal({count}, DType::f32),
                .v = tensors.zeros({count}, DType::f32),
                .compute = type() == DType::bf16 ? tensors.zeros({count}, DType::bf16) : Tensor{},
                .squares = squares,
                .learning_rate = 0.01f};
  for (const double clip_norm : {0.0, 1.0, 4.0, 6.0}) {
    op.clip_norm = clip_norm;
    expect_as_reference(op, {&AdamUpdate::master, &AdamUpdate::m, &AdamUpdate::v, &AdamUpdate::compute});
  }
}

TEST_P(AdamTest, ChangesNothingIfASquareIsNotFinite) {
  constexpr std::int64_t count = 1003;
  const Tensor squares = tensors.zeros({700}, DType::f32), compute = tensors.normal({count}, DType::bf16);
  const Tensor master = tensors.normal({count}, DType::f32), m = tensors.normal({count}, DType::f32);
  const Tensor v = tensors.normal({count}, DType::f32), old_compute = tensors.copy(compute);
  const Tensor old_master = tensors.copy(master), old_m = tensors.copy(m), old_v = tensors.copy(v);
  const Tensor average = tensors.normal({count}, DType::f32), old_average = tensors.copy(average);
  for (const double clip_norm : {0.0, 1.0}) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      squares.as<float>()[699] = bad;
      tested->run(AdamUpdate{.master = master,
                             .gradient = tensors.normal({count}, DType::f32),
                             .m = m,
                             .v = v,
                             .compute = compute,
                             .squares = squares,
                             .average = average,
                             .clip_norm = clip_norm,
                             .learning_rate = 0.01f,
                             .average_rate = 0.1f});
      EXPECT_TRUE(same_bits(average, old_average));
      EXPECT_TRUE(same_bits(master, old_master) && same_bits(compute, old_compute));
      EXPECT_TRUE(same_bits(m, old_m) && same_bits(v, old_v));
    }
  }
}

/// Stretches of all groups and frozen ones, within a block of a thread and across two.
TEST_P(AdamTest, UpdatesEachBlockAsItsGroupSays) {
  const Tensor groups = tensors.zeros({3, 2}, DType::f32);
  groups.as<AdamUpdate::Group>()[0] = {.rate_factor = 1, .weight_decay = 3};
  groups.as<AdamUpdate::Group>()[1] = {.rate_factor = 1, .weight_decay = 0};
  groups.as<AdamUpdate::Group>()[2] = {.rate_factor = 0.3f, .weight_decay = 7};
  for (const std::int64_t count : {64, 100, 40003}) {
    const Tensor group = tensors.zeros({AdamUpdate::group_blocks(count)}, DType::i32);
    for (std::int64_t block = 0; block < group.shape[0]; ++block) {
      group.as<std::int32_t>()[block] = static_cast<std::int32_t>((block % 7 + block / 250) % 4) - 1;
    }
    AdamUpdate op{.master = tensors.normal({count}, DType::f32),
                  .gradient = tensors.normal({count}, DType::f32),
                  .m = tensors.normal({count}, DType::f32),
                  .v = tensors.zeros({count}, DType::f32),
                  .compute = type() == DType::bf16 ? tensors.zeros({count}, DType::bf16) : Tensor{},
                  .group = group,
                  .groups = groups,
                  .average = tensors.normal({count}, DType::f32),
                  .learning_rate = 0.01f,
                  .average_rate = 0.5f};
    const Tensor before = tensors.copy(op.master), m = tensors.copy(op.m);
    expect_as_reference(op, {&AdamUpdate::master, &AdamUpdate::m, &AdamUpdate::v, &AdamUpdate::average});
    for (std::int64_t i = 0; i < count; ++i) {
      if (group.as<std::int32_t>()[i / AdamUpdate::group_block] != AdamUpdate::frozen) continue;
      ASSERT_EQ(op.master.as<float>()[i], before.as<float>()[i]) << i;
      ASSERT_EQ(op.m.as<float>()[i], m.as<float>()[i]) << i;
    }
  }
}

/// One group with a factor of 1 is what an update without groups is, to the bit.
TEST_P(AdamTest, HasTheSameBitsWithAndWithoutGroups) {
  constexpr std::int64_t count = 10007;
  const Tensor groups = tensors.zeros({1, 2}, DType::f32);
  groups.as<AdamUpdate::Group>()[0] = {.rate_factor = 1, .weight_decay = 0.1f};
  AdamUpdate op{.master = tensors.normal({count}, DType::f32),
                .gradient = tensors.normal({count}, DType::f32),
                .m = tensors.normal({count}, DType::f32),
                .v = tensors.zeros({count}, DType::f32),
                .learning_rate = 0.0137f,
                .weight_decay = 0.1f};
  const Tensor master = tensors.copy(op.master), m = tensors.copy(op.m), v = tensors.copy(op.v);
  tested->run(op);
  const Tensor expected = op.master;
  op.master = master, op.m = m, op.v = v, op.weight_decay = 5;
  op.group = tensors.zeros({AdamUpdate::group_blocks(count)}, DType::i32), op.groups = groups;
  tested->run(op);
  EXPECT_TRUE(same_bits(op.master, expected));
}

/// Ranges of a longer array that begin anywhere, longer than one thread's share.
TEST_P(AdamTest, PlacesAndThreadsChangeNothing) {
  constexpr std::int64_t count = 40003;
  const Tensor master = tensors.normal({count}, DType::f32), gradient = tensors.normal({count}, DType::f32);
  const Tensor plain = tensors.copy(master), compute = tensors.zeros({count}, DType::bf16);
  const auto moment = [&] { return tensors.zeros({count}, DType::f32); };
  tested->run(AdamUpdate{
      .master = plain, .gradient = gradient, .m = moment(), .v = moment(), .compute = compute, .learning_rate = 0.01f});
  for (const std::int64_t offset : {1, 7, 32}) {
    const Tensor moved = tensors.zeros({count + offset}, DType::f32).row_slice(offset, count);
    const Tensor rounded = tensors.zeros({count + offset}, DType::bf16).row_slice(offset, count);
    std::copy_n(master.as<float>(), count, moved.as<float>());
    another_backend(3)->run(AdamUpdate{.master = moved,
                                       .gradient = gradient,
                                       .m = moment(),
                                       .v = moment(),
                                       .compute = rounded,
                                       .learning_rate = 0.01f});
    EXPECT_TRUE(same_bits(moved, plain)) << offset;
    EXPECT_TRUE(same_bits(rounded, compute)) << offset;
  }
}

/// The norms are of f32 only, on every device.
class NormTest : public OpTest {};
INSTANTIATE_TEST_SUITE_P(Devices, NormTest,
                         testing::Values(Precision{DType::f32, 1e-6}, Precision{DType::f32, 1e-6, "closed"},
                                         Precision{DType::f32, 1e-6, "emulated"}, Precision{DType::f32, 1e-6, "cuda"}),
                         precision_name);

TEST_P(NormTest, SquaresEqualReferenceAndShowNonFiniteElements) {
  for (const std::int64_t count : {0, 1, 17, 100003}) {
    const Tensor x = tensors.normal({count}, DType::f32);
    const std::int64_t blocks = SquaredNorm::blocks(count);
    const Tensor found = tensors.zeros({blocks}, DType::f32), expected = tensors.zeros({blocks}, DType::f32);
    tested->run(SquaredNorm{.x = x, .sums = found});
    reference->run(SquaredNorm{.x = x, .sums = expected});
    EXPECT_LE(relative_error(found, expected), GetParam().tolerance);
    if (count == 0) continue;
    x.as<float>()[count / 2] = NAN;
    tested->run(SquaredNorm{.x = x, .sums = found});
    for (std::int64_t b = 0; b < blocks; ++b) {
      EXPECT_EQ(std::isfinite(found.as<float>()[b]), b != count / 2 / SquaredNorm::block) << b;
    }
  }
}

TEST_P(NormTest, ASumAndItsNormAreTheBitsOfOneAfterTheOther) {
  for (const std::int64_t count : {1, 17, 40003}) {
    const Tensor norms = tensors.zeros({SquaredNorm::blocks(count)}, DType::f32);
    const Tensor expected = tensors.zeros(norms.shape, DType::f32), apart = tensors.zeros({count}, DType::f32);
    SumWithNorm op{.parts = {}, .sum = apart, .norms = norms};
    for (int part = 0; part < 3; ++part) op.parts.push_back(tensors.normal({count}, DType::f32));
    reference->run(op);
    const Tensor in_place(const_cast<void*>(op.parts[1].data), op.parts[1].shape, DType::f32);
    std::vector<float> sums(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      float& sum = sums[static_cast<std::size_t>(i)];
      sum = op.parts[0].as<float>()[i] + op.parts[1].as<float>()[i];
      sum += op.parts[2].as<float>()[i];
    }
    op.sum = in_place;
    tested->run(op);
    EXPECT_TRUE(std::equal(sums.begin(), sums.end(), in_place.as<float>()));
    EXPECT_LE(relative_error(in_place, apart), GetParam().tolerance);
    tested->run(SquaredNorm{.x = in_place, .sums = expected});
    EXPECT_TRUE(same_bits(norms, expected));
  }
}

}  // namespace
}  // namespace babelring
