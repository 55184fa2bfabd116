#include "nmt/ops/embedding.h"

#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

class EmbeddingTest : public OpTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, EmbeddingTest, precisions, precision_name);
INSTANTIATE_TEST_SUITE_P(Gpu, EmbeddingTest, gpu_precisions, precision_name);

TEST_P(EmbeddingTest, EqualsReference) {
  for (const auto& [rows, vocabulary, width] : {std::tuple{1, 1, 1}, {7, 5, 3}, {301, 100, 128}, {64, 1000, 510}}) {
    for (const float probability : {0.0f, 0.25f}) {
      const DropoutKey key{.key = 77, .first_row = 3, .probability = probability};
      const Tensor ids = tensors.integers(rows, vocabulary);
      expect_as_reference(EmbeddingForward{.ids = ids,
                                           .positions = tensors.integers(rows, 90),
                                           .table = tensors.normal({vocabulary, width}, type()),
                                           .y = tensors.zeros({rows, width}, type()),
                                           .scale = 11.3f,
                                           .key = key},
                          {&EmbeddingForward::y});
      expect_as_reference(EmbeddingBackward{.ids = ids,
                                            .dy = tensors.normal({rows, width}, type()),
                                            .dtable = tensors.normal({vocabulary, width}, DType::f32),
                                            .scale = 11.3f,
                                            .key = key},
                          {&EmbeddingBackward::dtable});
    }
  }
}

/// As models of Marian have them: other frequencies, and zeros instead of the first token.
TEST_P(EmbeddingTest, EqualsReferenceWithOtherSpacingAndZeroStart) {
  for (const auto& [rows, vocabulary, width] : {std::tuple{1, 1, 4}, {301, 9, 128}, {700, 3, 510}}) {
    const DropoutKey key{.key = 77, .first_row = 3, .probability = 0.25f};
    const Tensor ids = tensors.integers(rows, vocabulary), positions = tensors.integers(rows, 4);
    expect_as_reference(EmbeddingForward{.ids = ids,
                                         .positions = positions,
                                         .table = tensors.normal({vocabulary, width}, type()),
                                         .y = tensors.zeros({rows, width}, type()),
                                         .scale = 11.3f,
                                         .key = key,
                                         .divisor = width - 2,
                                         .zero_start = true},
                        {&EmbeddingForward::y});
    expect_as_reference(EmbeddingBackward{.ids = ids,
                                          .dy = tensors.normal({rows, width}, type()),
                                          .dtable = tensors.normal({vocabulary, width}, DType::f32),
                                          .scale = 11.3f,
                                          .key = key,
                                          .positions = positions},
                        {&EmbeddingBackward::dtable});
  }
}

/// Ids as text has them: some have hundreds of rows, most have one. Sums cross the borders of a GPU's segments of 256
/// rows: begin before, fill, and end behind one.
TEST_P(EmbeddingTest, EqualsReferenceForFrequentIds) {
  std::vector<std::int32_t> ids;
  const auto add = [&](int count, std::int32_t id) { ids.insert(ids.end(), static_cast<std::size_t>(count), id); };
  add(3, 0), add(600, 1), add(17, 2), add(16, 3), add(130, 4), add(2, 5), add(256, 7), add(1, 8);
  for (std::size_t i = 0; i < ids.size(); ++i) std::swap(ids[i], ids[i * 7919 % ids.size()]);
  const auto rows = std::ssize(ids);
  for (const auto& [width, probability] : {std::pair{64, 0.1f}, {7, 0.0f}, {520, 0.25f}}) {
    const EmbeddingBackward op{.ids = tensors.list(ids),
                               .dy = tensors.normal({rows, width}, type()),
                               .dtable = tensors.zeros({9, width}, DType::f32),
                               .scale = 1.5f,
                               .key = {.key = 5, .probability = probability}};
    expect_as_reference(op, {&EmbeddingBackward::dtable});
  }
}

/// A row's result is that row's alone: positions far away in the batch change nothing.
TEST_P(EmbeddingTest, RowDoesNotDependOnItsNeighbours) {
  const Tensor table = tensors.normal({10, 64}, type());
  const Tensor alone = tensors.zeros({1, 64}, type()), together = tensors.zeros({2, 64}, type());
  tested->run(EmbeddingForward{
      .ids = tensors.list({3}), .positions = tensors.list({4}), .table = table, .y = alone, .scale = 8, .key = {}});
  tested->run(EmbeddingForward{.ids = tensors.list({3, 5}),
                               .positions = tensors.list({4, 5000}),
                               .table = table,
                               .y = together,
                               .scale = 8,
                               .key = {}});
  EXPECT_TRUE(same_bits(alone, together.row_slice(0, 1)));
}

/// The sinusoids that a backend keeps grow with the positions, or end at the 1024th, and follow the width.
TEST_P(EmbeddingTest, SinusoidsAreTheSameFromCallToCall) {
  for (const auto& [width, divisor] : {std::pair{64, 0}, {30, 0}, {30, 28}, {64, 0}}) {
    for (const std::int64_t longest : {3, 700, 40, 1023, 1024, 5000}) {
      expect_as_reference(EmbeddingForward{.ids = tensors.integers(5, 10),
                                           .positions = tensors.list({0, 1, 2, 3, static_cast<std::int32_t>(longest)}),
                                           .table = tensors.normal({10, width}, type()),
                                           .y = tensors.zeros({5, width}, type()),
                                           .scale = 8,
                                           .key = {},
                                           .divisor = divisor},
                          {&EmbeddingForward::y});
    }
  }
}

/// As models with rotary positions have it: the entries alone.
TEST_P(EmbeddingTest, EqualsReferenceWithoutSinusoids) {
  for (const bool zero_start : {false, true}) {
    for (const int width : {7, 128}) {
      expect_as_reference(EmbeddingForward{.ids = tensors.integers(300, 10),
                                           .positions = tensors.integers(300, 4),
                                           .table = tensors.normal({10, width}, type()),
                                           .y = tensors.zeros({300, width}, type()),
                                           .scale = 11.3f,
                                           .key = {.key = 77, .first_row = 3, .probability = 0.25f},
                                           .zero_start = zero_start,
                                           .sinusoids = false},
                          {&EmbeddingForward::y});
    }
  }
}

class RotaryTest : public OpTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, RotaryTest, precisions, precision_name);
INSTANTIATE_TEST_SUITE_P(Gpu, RotaryTest, gpu_precisions, precision_name);

/// Heads of one plane, of a vector and a part of one, and of whole vectors; positions beyond a GPU's table.
TEST_P(RotaryTest, EqualsReferenceAlsoStridedAndInPlace) {
  for (const auto& [rows, heads, head] :
       {std::tuple{1, 1, 2}, {7, 3, 6}, {65, 4, 32}, {33, 2, 42}, {300, 8, 64}, {9, 2, 128}}) {
    const std::int64_t width = heads * head;
    for (const bool inverse : {false, true}) {
      const Tensor positions = tensors.integers(rows, rows % 2 == 0 ? 60 : 3000);
      const Tensor x = tensors.normal({rows, width}, type());
      RotaryPositions op{.x = x,
                         .positions = positions,
                         .y = tensors.zeros({rows, width}, type()),
                         .heads = heads,
                         .inverse = inverse};
      expect_as_reference(op, {&RotaryPositions::y});
      const Tensor apart = tensors.copy(op.y);
      op.y = x;
      tested->run(op);
      EXPECT_TRUE(same_bits(x, apart));
      op.x = tensors.strided(rows, width, type()), op.y = tensors.strided(rows, width, type());
      expect_as_reference(op, {&RotaryPositions::y});
    }
  }
}

TEST_P(RotaryTest, InverseTurnsBackAndPositionZeroStays) {
  const Tensor x = tensors.normal({40, 64}, DType::f32), y = tensors.zeros({40, 64}, DType::f32);
  Tensor positions = tensors.integers(40, 500);
  positions.as<std::int32_t>()[3] = 0;
  tested->run(RotaryPositions{.x = x, .positions = positions, .y = y, .heads = 4});
  EXPECT_TRUE(same_bits(x.row_slice(3, 1), y.row_slice(3, 1)));
  EXPECT_GT(relative_error(y, x), 0.5);
  tested->run(RotaryPositions{.x = y, .positions = positions, .y = y, .heads = 4, .inverse = true});
  EXPECT_LE(relative_error(y, x), 1e-6);
}

/// A product of two turned rows depends on the difference of their positions, which is why they are turned.
TEST_P(RotaryTest, ProductsDependOnDistancesOnly) {
  const Tensor x = tensors.normal({2, 32}, DType::f32), y = tensors.zeros({2, 32}, DType::f32);
  const auto product_at = [&](std::int32_t first, std::int32_t second) {
    tested->run(RotaryPositions{.x = x, .positions = tensors.list({first, second}), .y = y});
    double sum = 0;
    for (std::int64_t i = 0; i < 32; ++i) sum += static_cast<double>(y.as<float>()[i] * y.as<float>()[32 + i]);
    return sum;
  };
  EXPECT_NEAR(product_at(7, 3), product_at(1004, 1000), 1e-4);
  EXPECT_GT(std::abs(product_at(7, 3) - product_at(3, 7)), 1e-2);
}

/// A row has the same bits whatever rows are beside it, with any number of threads.
TEST_P(RotaryTest, RowsAreIndependent) {
  const Tensor x = tensors.normal({400, 48}, type()), y = tensors.zeros({400, 48}, type());
  const Tensor positions = tensors.integers(400, 2000), part = tensors.zeros({7, 48}, type());
  tested->run(RotaryPositions{.x = x, .positions = positions, .y = y, .heads = 2});
  another_backend(1)->run(
      RotaryPositions{.x = x.row_slice(12, 7), .positions = positions.row_slice(12, 7), .y = part, .heads = 2});
  EXPECT_TRUE(same_bits(y.row_slice(12, 7), part));
}

}  // namespace
}  // namespace babelring
