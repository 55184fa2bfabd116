#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "tests/nmt/ops/op_fixture.h"

/// Algorithms of the GPU's matmuls chosen by time, seen on the stand-in: its proposal N sums the depth in N + 1 parts,
/// which tells by the bits which one ran, and the environment says which one seems fastest.
namespace babelring {
namespace {

using testing::HasSubstr;

constexpr std::int64_t in_width = 24, out_width = 40;

class MatmulTuningTest : public testing::Test {
 protected:
  MatmulTuningTest() { std::filesystem::remove(file_); }
  ~MatmulTuningTest() override {
    ::unsetenv("BABELRING_EMULATED_FASTEST");
    std::filesystem::remove(file_);
  }

  /// A backend that would find proposal `number` to be the fastest.
  std::unique_ptr<Backend> make_backend(int number) {
    ::setenv("BABELRING_EMULATED_FASTEST", std::to_string(number).c_str(), 1);
    return make_emulated_cuda_backend();
  }
  /// In f32, whose multiplications are exact: only the order of their sum decides how it is rounded.
  Tensor bf16_values(Shape shape) {
    const Tensor tensor = tensors_.zeros(shape, DType::f32);
    reference::store(reference::load(tensors_.normal(shape, DType::bf16)), tensor);
    return tensor;
  }
  /// The values in a backend's memory.
  Tensor on(Backend& backend, const ConstTensor& values) {
    buffers_.push_back(backend.allocate(std::max<std::size_t>(values.bytes(), 1)));
    const Tensor tensor = buffers_.back().view(values.shape, values.dtype);
    backend.upload(values.data, tensor);
    return tensor;
  }
  Tensor downloaded(Backend& backend, const ConstTensor& tensor) {
    const Tensor values = tensors_.zeros(tensor.shape, tensor.dtype);
    backend.download(tensor, values.data);
    return values;
  }
  /// x W^T for the first rows of x.
  Tensor matmul(Backend& backend, std::int64_t rows) {
    const Tensor y = on(backend, tensors_.zeros({rows, out_width}, DType::f32));
    backend.run(LinearForward{.x = on(backend, x_.row_slice(0, rows)), .weight = on(backend, weight_), .y = y});
    return downloaded(backend, y);
  }
  /// The product by proposal `number`.
  Tensor expected(int number, std::int64_t rows) {
    const Tensor y = tensors_.zeros({rows, out_width}, DType::f32);
    const auto *x = x_.as<float>(), *weight = weight_.as<float>();
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < out_width; ++column) {
        float sum = 0;
        for (int part = 0; part <= number; ++part) {
          float of_part = 0;
          for (std::int64_t l = part; l < in_width; l += number + 1)
            of_part += weight[column * in_width + l] * x[row * in_width + l];
          sum += of_part;
        }
        y.as<float>()[row * out_width + column] = sum;
      }
    }
    return y;
  }
  Tensors tensors_;
  const Tensor x_ = bf16_values({520, in_width}), weight_ = bf16_values({out_width, in_width});
  std::filesystem::path file_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("products-{}.jsonl", ::getpid());
  std::vector<Buffer> buffers_;
};

TEST_F(MatmulTuningTest, WithoutItTheFirstProposalIsTaken) {
  const auto backend = make_backend(1);
  EXPECT_TRUE(same_bits(matmul(*backend, 20), expected(0, 20)));
  ASSERT_EQ(backend->matmul_reports().size(), 1U);
  EXPECT_EQ(backend->matmul_reports()[0].candidates, 1);
  EXPECT_EQ(backend->matmul_reports()[0].chosen_ms, 0);
}

TEST_F(MatmulTuningTest, TheFastestProposalIsTaken) {
  for (const int fastest : {0, 1, 2}) {
    const auto backend = make_backend(fastest);
    EXPECT_TRUE(backend->tune_matmuls({}));
    EXPECT_TRUE(same_bits(matmul(*backend, 20), expected(fastest, 20))) << fastest;
    const MatmulReport report = backend->matmul_reports().at(0);
    EXPECT_EQ(report.matmul, "x W^T 32x40x24 f32");
    EXPECT_TRUE(report.found);
    EXPECT_EQ(report.candidates, 3);
    EXPECT_EQ(report.first_ms > 1e6, fastest != 0) << "an hour";
    EXPECT_LT(report.chosen_ms, 1e6);
    EXPECT_THAT(report.algorithm, HasSubstr(fmt::format("splits {},", fastest + 1)));
  }
}

TEST_F(MatmulTuningTest, AStoredChoiceStays) {
  const auto first = make_backend(1);
  EXPECT_TRUE(first->tune_matmuls(file_));
  const Tensor before = matmul(*first, 20);
  const auto again = make_backend(2);
  EXPECT_TRUE(again->tune_matmuls(file_));
  EXPECT_TRUE(same_bits(matmul(*again, 20), before));
  EXPECT_TRUE(same_bits(matmul(*again, 300), expected(2, 300))) << "another bucket";
}

TEST_F(MatmulTuningTest, AChoiceOfAnotherGpuIsMadeAnew) {
  const auto first = make_backend(1);
  first->tune_matmuls(file_).value();
  matmul(*first, 20);
  std::string text = read_file(file_);
  text.replace(text.find("emulated threads"), 8, "imagined");
  write_file_atomically(file_, text);
  const auto again = make_backend(2);
  EXPECT_THAT(again->tune_matmuls(file_).error(),
              HasSubstr("was made on imagined threads, sm_90, 2 multiprocessors with "
                        "cuBLASLt 13.1.0, this is emulated threads, sm_90"));
  EXPECT_TRUE(same_bits(matmul(*again, 20), expected(2, 20)));
}

/// A damaged file may name settings that the library never gave.
TEST_F(MatmulTuningTest, AStoredChoiceThatTheLibraryRefusesIsMadeAnew) {
  const auto first = make_backend(1);
  first->tune_matmuls(file_).value();
  matmul(*first, 20);
  std::string text = read_file(file_);
  text.replace(text.find("\"algorithm\":\"") + 13, 128, std::string(128, '0'));
  write_file_atomically(file_, text);
  const auto again = make_backend(2);
  EXPECT_TRUE(again->tune_matmuls(file_));
  EXPECT_TRUE(same_bits(matmul(*again, 20), expected(2, 20)));
}

/// A steady update asks the library for nothing: every new question makes a new report.
TEST_F(MatmulTuningTest, RowsOfABucketShareAChoice) {
  for (const bool tuned : {false, true}) {
    const auto backend = make_backend(1);
    if (tuned) backend->tune_matmuls({}).value();
    for (const std::int64_t rows : {512, 300, 257, 300, 401, 512}) {
      EXPECT_TRUE(same_bits(matmul(*backend, rows), expected(tuned ? 1 : 0, rows))) << rows;
    }
    EXPECT_EQ(backend->matmul_reports().size(), 1U);
    matmul(*backend, 513);
    EXPECT_EQ(backend->matmul_reports().size(), 2U);
  }
}

/// The stand-in refuses 131 rows with what was chosen for more.
TEST_F(MatmulTuningTest, RowsThatTheChoiceDoesNotTakeHaveOneOfTheirOwn) {
  for (const bool tuned : {false, true}) {
    const auto backend = make_backend(1);
    if (tuned) backend->tune_matmuls({}).value();
    EXPECT_TRUE(same_bits(matmul(*backend, 200), expected(tuned ? 1 : 0, 200)));
    EXPECT_TRUE(same_bits(matmul(*backend, 131), expected(tuned ? 1 : 0, 131)));
    EXPECT_EQ(backend->matmul_reports().size(), 2U);
  }
}

TEST_F(MatmulTuningTest, AddsOnceToItsOutput) {
  const auto backend = make_backend(1);
  backend->tune_matmuls({}).value();
  const std::vector<float> ones(20 * 24, 1), before(24 * 24, 5);
  const Tensor x = on(*backend, ConstTensor(ones.data(), {20, 24}, DType::f32));
  const Tensor dweight = on(*backend, ConstTensor(before.data(), {24, 24}, DType::f32));
  for (const float expected_value : {25.0f, 45.0f}) {
    backend->run(LinearBackwardWeight{.dy = x, .x = x, .dweight = dweight, .dbias = {}});
    const Tensor found = downloaded(*backend, dweight);
    EXPECT_EQ(std::vector<float>(found.as<float>(), found.as<float>() + 24 * 24),
              std::vector<float>(24 * 24, expected_value));
  }
}

TEST_F(MatmulTuningTest, AMatmulThatFirstComesInARecordingIsNotTimed) {
  const auto backend = make_backend(1);
  backend->tune_matmuls({}).value();
  const Tensor x = on(*backend, x_.row_slice(0, 20)), weight = on(*backend, weight_);
  const Tensor y = on(*backend, tensors_.zeros({20, out_width}, DType::f32));
  int calls = 0;
  const auto work = [&]() -> ConstTensor {  // the fourth call is recorded; by the contract all would do the same
    if (++calls > 3) backend->run(LinearForward{.x = x, .weight = weight, .y = y});
    return y;
  };
  for (int i = 0; i < 3; ++i) backend->repeat(work);
  EXPECT_TRUE(same_bits(downloaded(*backend, y), expected(0, 20)));
  EXPECT_TRUE(same_bits(matmul(*backend, 20), expected(0, 20))) << "and that choice stays";
}

/// The copy here has other values than the bias, so that it shows which is read.
TEST_F(MatmulTuningTest, ABiasInTheResultsTypeIsTakenAsItIs) {
  const auto backend = make_backend(0);
  const Tensor bias = tensors_.zeros({out_width}, DType::f32), copy = tensors_.zeros({out_width}, DType::bf16);
  std::fill_n(bias.as<float>(), out_width, 1.0f);
  std::fill_n(copy.as<BFloat16>(), out_width, BFloat16(2.0f));
  for (const DType type : {DType::bf16, DType::f32}) {
    const Tensor y = on(*backend, tensors_.zeros({20, out_width}, type));
    backend->run(LinearForward{.x = on(*backend, tensors_.zeros({20, in_width}, DType::bf16)),
                               .weight = on(*backend, tensors_.zeros({out_width, in_width}, DType::bf16)),
                               .bias = on(*backend, bias),
                               .y = y,
                               .bias_copy = on(*backend, copy)});
    const reference::Matrix found = reference::load(downloaded(*backend, y));
    for (const double value : found.values) ASSERT_EQ(value, type == DType::bf16 ? 2 : 1);
  }
}

}  // namespace
}  // namespace babelring
