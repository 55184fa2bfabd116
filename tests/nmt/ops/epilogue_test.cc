#include <gmock/gmock.h>

#include <cstdlib>

#include "base/failure.h"
#include "tests/nmt/ops/op_fixture.h"

/// Which epilogues the GPU's backend leaves to the library, seen on the stand-in, whose limits are known: it neither
/// reads a mask over an odd depth nor sums beside odd rows of the result, and it sums rows one after another.
namespace babelring {
namespace {

class EpilogueTest : public testing::TestWithParam<DType> {
 protected:
  explicit EpilogueTest() : backend_(make_staged_backend(make_emulated_cuda_backend())) {}

  LinearForward forward(std::int64_t rows, std::int64_t in, std::int64_t out) {
    return {.x = tensors_.normal({rows, in}, GetParam()),
            .weight = tensors_.normal({out, in}, GetParam()),
            .bias = tensors_.normal({out}, DType::f32),
            .y = tensors_.zeros({rows, out}, GetParam()),
            .activation = Activation::relu};
  }
  Tensor constant(Shape shape, float value) {
    const Tensor tensor = tensors_.zeros(shape, GetParam());
    backend_->run(Fill{.y = tensor, .value = value});
    return tensor;
  }
  /// Whether the library sums the rows of dy [rows, out] while it multiplies them with x [rows, in]: one after another
  /// they are 0, by blocks, as our kernel takes them, some ones are left over.
  bool library_sums(std::int64_t rows, std::int64_t in, std::int64_t out, bool accumulate = false,
                    std::int64_t first = 0) {
    const Tensor dy = constant({rows, out}, 1), sums = tensors_.zeros({first + out}, DType::f32);
    backend_->run(Fill{.y = sums, .value = 7});
    backend_->run(Fill{.y = dy.row_slice(0, 1), .value = 1e8f});
    backend_->run(Fill{.y = dy.row_slice(rows - 1, 1), .value = -1e8f});
    const LinearBackwardWeight op{.dy = dy,
                                  .x = constant({rows, in}, 0),
                                  .dweight = tensors_.zeros({out, in}, DType::f32),
                                  .dbias = sums.row_slice(first, out),
                                  .accumulate = accumulate};
    backend_->run(op);
    const float* found = op.dbias.as<float>();
    for (std::int64_t i = 1; i < out; ++i) EXPECT_EQ(found[i], found[0]);
    for (std::int64_t i = 0; i < first; ++i) EXPECT_EQ(sums.as<float>()[i], 7) << "not its own";
    return *found == (accumulate ? 7.0f : 0.0f);
  }

  Tensors tensors_;
  std::unique_ptr<Backend> backend_;
};
INSTANTIATE_TEST_SUITE_P(Emulated, EpilogueTest, testing::Values(DType::f32, DType::bf16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST_P(EpilogueTest, AMaskStandsForTheGateWhereTheLibraryReadsMasks) {
  const std::int64_t rows = 40, in = 24, out = 200;
  LinearForward made = forward(rows, in, out);
  ASSERT_EQ(backend_->epilogue_aux_words(made), 8) << "of 128 bits each";
  made.epilogue_aux = tensors_.zeros({rows, 8}, DType::i32);
  backend_->run(made);
  const Tensor open_gate = constant({rows, out}, 1);
  for (const std::int64_t depth : {in, in + 1}) {
    const LinearBackwardData op{.dy = tensors_.normal({rows, depth}, GetParam()),
                                .weight = tensors_.normal({depth, out}, GetParam()),
                                .dx = tensors_.zeros({rows, out}, GetParam()),
                                .gate = open_gate,
                                .epilogue_aux = made.epilogue_aux};
    backend_->run(op);
    const reference::Matrix dx = reference::load(op.dx), y = reference::load(made.y);
    for (std::size_t i = 0; i < dx.values.size(); ++i) {
      EXPECT_EQ(dx.values[i] == 0, depth == in && y.values[i] == 0) << "depth " << depth << ", element " << i;
    }
  }
}

TEST_P(EpilogueTest, AMaskIsWrittenOnlyWithBiasAndRelu) {
  LinearForward op = forward(4, 8, 16);
  op.epilogue_aux = tensors_.zeros({4, 3}, DType::i32);
  const auto run = [&] { backend_->run(op); };
  EXPECT_THAT(run, testing::ThrowsMessage<Failure>("linear_forward: epilogue_aux has 3 words a row, 4 are needed"));
  op.bias = {};
  EXPECT_EQ(backend_->epilogue_aux_words(op), 0);
  EXPECT_THAT(run, testing::ThrowsMessage<Failure>("linear_forward: epilogue_aux has 3 words a row, 0 are needed"));
  op = forward(4, 8, 16), op.activation = Activation::none;
  EXPECT_EQ(backend_->epilogue_aux_words(op), 0);
  EXPECT_EQ(backend_->epilogue_aux_words(forward(0, 8, 16)), 0) << "nothing to keep";
}

TEST_P(EpilogueTest, TheBiasGradientComesWithTheWeights) {
  EXPECT_TRUE(library_sums(256, 64, 64));
  EXPECT_TRUE(library_sums(256, 64, 64, true));
  EXPECT_TRUE(library_sums(256, 64, 62, false, 3)) << "by way of a place that is aligned";
}

TEST_P(EpilogueTest, TheBiasGradientIsOursWhereTheLibraryHasNone) {
  EXPECT_FALSE(library_sums(256, 63, 64));
}

/// The stand-in fills less of a device with a small result and a long depth if it sums as well.
TEST_P(EpilogueTest, TheBiasGradientIsOursWhereProcessorsWouldIdle) {
  EXPECT_FALSE(library_sums(256, 8, 16));
}

TEST_P(EpilogueTest, TheEnvironmentLeavesThemOut) {
  ::setenv("BABELRING_CUDA_EPILOGUES", "forward", 1);
  backend_ = make_staged_backend(make_emulated_cuda_backend());
  EXPECT_EQ(backend_->epilogue_aux_words(forward(40, 24, 200)), 0);
  EXPECT_FALSE(library_sums(256, 64, 64));
  ::setenv("BABELRING_CUDA_EPILOGUES", "some", 1);
  EXPECT_THAT([] { make_emulated_cuda_backend(); },
              testing::ThrowsMessage<Failure>("BABELRING_CUDA_EPILOGUES is some, all or forward is needed"));
  ::unsetenv("BABELRING_CUDA_EPILOGUES");
}

}  // namespace
}  // namespace babelring
