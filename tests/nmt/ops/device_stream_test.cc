#include "nmt/core/device_stream.h"

#include <gmock/gmock.h>

#include <string>
#include <thread>

#include "base/failure.h"
#include "nmt/ops/elementwise.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

/// A stream beside that of a GPU: on stand-ins everywhere, on a GPU where there is one.
class DeviceStreamTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    backend_ = make_test_backend(GetParam());
    if (backend_ == nullptr) GTEST_SKIP() << "no GPU: " << find_cuda().error();
    stream_ = backend_->make_stream();
    ASSERT_NE(stream_, nullptr);
    EXPECT_NE(stream_->handle(), nullptr);
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<DeviceStream> stream_;
};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceStreamTest, testing::Values("closed", "emulated", "cuda"));

/// Backend, stream, backend, round after round on the same memory, and the host waits for none of them.
TEST_P(DeviceStreamTest, WorkOfEitherWaitsForTheOtherWhereItShould) {
  constexpr std::int64_t count = 10'000;
  constexpr int rounds = 20;
  const Buffer memory[] = {stream_->allocate(count * 4), stream_->allocate(count * 2), stream_->allocate(count * 4),
                           backend_->allocate(count * 4)};
  const Tensor x = memory[0].view({count}, DType::f32), narrow = memory[1].view({count}, DType::bf16),
               y = memory[2].view({count}, DType::f32), sum = memory[3].view({count}, DType::f32);
  for (int round = 1; round <= rounds; ++round) {
    backend_->run(Fill{.y = x, .value = static_cast<float>(round)});
    stream_->after_backend();
    stream_->convert(x, narrow);
    stream_->convert(narrow, y);
    stream_->before_backend();
    backend_->run(Add{.x = y, .y = sum});
  }
  std::vector<float> found(count);
  backend_->download(sum, found.data());
  EXPECT_EQ(found, std::vector<float>(count, static_cast<float>(rounds * (rounds + 1) / 2)));
}

TEST_P(DeviceStreamTest, ConvertsLikeTheOp) {
  const std::vector<float> values = {1.0f, -3.14159f, 1e-30f, 65504.0f, 0.0f, 257.0f, 1.00390625f};
  const auto count = static_cast<std::int64_t>(values.size());
  const Buffer memory = stream_->allocate(values.size() * 4), half = stream_->allocate(values.size() * 2);
  const Tensor x = memory.view({count}, DType::f32), narrow = half.view({count}, DType::bf16);
  backend_->upload(values.data(), x);
  stream_->after_backend();
  stream_->convert(x, narrow);
  stream_->convert(narrow, x);
  stream_->before_backend();
  std::vector<float> found(values.size());
  backend_->download(x, found.data());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(found[i], static_cast<float>(BFloat16(values[i]))) << i;
}

TEST_P(DeviceStreamTest, MarksAreReachedInTheirOrder) {
  const Buffer memory = stream_->allocate(400'000), half = stream_->allocate(200'000);
  const auto begin = stream_->mark();
  stream_->convert(memory.view({100'000}, DType::f32), half.view({100'000}, DType::bf16));
  const auto end = stream_->mark();
  stream_->before_backend();
  backend_->synchronize();
  EXPECT_TRUE(begin->reached());
  EXPECT_TRUE(end->reached());
  EXPECT_GE(end->ms_since(*begin), 0);
}

TEST_P(DeviceStreamTest, SaysWhatMemoryWasFor) {
  if (std::string_view(GetParam()) == "closed") GTEST_SKIP() << "its memory is the host's";
  EXPECT_THAT([&] { stream_->allocate(std::size_t{1} << 50); },
              testing::ThrowsMessage<Failure>(testing::HasSubstr("bytes were needed for communication; ")));
}

/// The communication thread asks for a GPU that it has never used, and drops the marks: it must not get a context on
/// another GPU, nor destroy events, which may hang behind a kernel that waits for a lost rank.
TEST(DeviceStreamThreads, AnotherThreadAsksForTheSecondDevice) {
  const auto backend = make_emulated_cuda_backend(1);
  const auto stream = backend->make_stream();
  const Buffer memory = stream->allocate(400), half = stream->allocate(200);
  for (int round = 0; round < 3; ++round) {
    auto begin = stream->mark();
    stream->convert(memory.view({100}, DType::f32), half.view({100}, DType::bf16));
    auto end = stream->mark();
    std::string fault;
    std::thread([&] {
      try {
        while (!end->reached() || !begin->reached()) std::this_thread::yield();
        EXPECT_GE(end->ms_since(*begin), 0);
      } catch (const Failure& failure) {
        fault = failure.what();
      }
      begin.reset();
      end.reset();
    }).join();
    EXPECT_EQ(fault, "");
    EXPECT_NO_THROW(backend->synchronize());
  }
}

}  // namespace
}  // namespace babelring
