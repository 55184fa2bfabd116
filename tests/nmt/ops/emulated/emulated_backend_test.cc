#include "nmt/ops/emulated/emulated_backend.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "base/failure.h"
#include "nmt/ops/adam.h"
#include "nmt/ops/elementwise.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// y [16, 32] = x [16, 32] W^T [32, 32]: 32,768 operations.
class EmulatedBackendTest : public testing::Test {
 protected:
  /// The time of ten matmuls within a range.
  static double ms_of_matmuls(Backend& backend, const char* range) {
    const Buffer memory = backend.allocate(3 * 4096);
    const Tensor x = memory.view({16, 32}, DType::f32), w = memory.view({32, 32}, DType::f32, 4096);
    const LinearForward op{.x = x, .weight = w, .bias = {}, .y = memory.view({16, 32}, DType::f32, 8192)};
    const Stopwatch watch;
    const WorkRange in_range(backend, range);
    for (int i = 0; i < 10; ++i) backend.run(op);
    backend.synchronize();
    return watch.elapsed_ms();
  }
};

TEST_F(EmulatedBackendTest, AnOpTakesItsTimeInItsPhase) {
  const EmulatedTimes times{.ops = {{.phase = "forward", .op = "linear_forward", .ms_per_call = 0.5},
                                    {.phase = "backward", .op = "linear_forward", .ms_per_gflop = 1e6 / 32.768},
                                    {.phase = "optimizer", .op = "linear_forward", .ms_per_gb = 1e6 / 8.192}},
                            .factors = {2}};
  const auto backend = make_emulated_backend(times, false);
  constexpr double tolerance = 1.1;  // a wait that was too long shortens the next
  EXPECT_GE(ms_of_matmuls(*backend, "forward"), 10 * 2 * 0.5 - tolerance);
  EXPECT_GE(ms_of_matmuls(*backend, "backward"), 10 * 2 * 1.0 - tolerance);
  EXPECT_GE(ms_of_matmuls(*backend, "gradient_sum"), 10 * 2 * 1.0 - tolerance);
  EXPECT_EQ(backend->flops(), 30 * 32768);
  EXPECT_EQ(backend->description(), "emulated");
}

TEST_F(EmulatedBackendTest, EachUpdateDrawsAFactor) {
  const auto update = [](Backend& backend) {
    {
      const WorkRange data(backend, "data");
    }
    return ms_of_matmuls(backend, "forward");
  };
  const EmulatedTimes times{
      .ops = {{.phase = "forward", .op = "linear_forward", .ms_per_call = 0.2}}, .factors = {0.5, 5}, .seed = 3};
  const auto backend = make_emulated_backend(times, false);
  int slow = 0;
  for (int i = 0; i < 64; ++i) slow += update(*backend) >= 8.9;
  EXPECT_GT(slow, 0) << "64 draws of the smaller factor";
}

TEST_F(EmulatedBackendTest, ComputesWhatTheRecordDoesNotKnow) {
  const auto backend = make_emulated_backend({}, false);
  const std::array<float, 4> ones{1, 1, 1, 1};
  std::array<float, 4> a{1, 2, 3, 4}, sum{};
  std::array<float, 1> norms{};
  backend->run(SumWithNorm{.parts = {ConstTensor(ones.data(), {4}, DType::f32), ConstTensor(a.data(), {4}, DType::f32)},
                           .sum = Tensor(sum.data(), {4}, DType::f32),
                           .norms = Tensor(norms.data(), {1}, DType::f32)});
  EXPECT_THAT(sum, testing::ElementsAre(2, 3, 4, 5));
}

TEST_F(EmulatedBackendTest, MemoryStaysZero) {
  const auto backend = make_emulated_backend({.ops = {{.phase = "forward", .op = "fill"}}}, false);
  const Buffer memory = backend->allocate(64);
  const Tensor tensor = memory.view({16}, DType::f32);
  std::array<float, 16> numbers;
  numbers.fill(7);
  backend->upload(numbers.data(), tensor);
  backend->run(Fill{.y = tensor, .value = 3});
  EXPECT_EQ(tensor.as<float>()[5], 0);
  backend->download(tensor, numbers.data());
  EXPECT_THAT(numbers, testing::Each(0));
  EXPECT_EQ(backend->ledger().live().of(MemoryPurpose::scratch), 64);
}

TEST_F(EmulatedBackendTest, ABalloonIsLockedInMemory) {
  const auto backend = make_emulated_backend({}, true);
  struct rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &none), 0);
  try {
    backend->allocate(1 << 20);  // a privileged process may lock more than its limit
  } catch (const UsageFailure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("lab.emulated.balloon: 1048576 bytes cannot be locked ("));
  }
  setrlimit(RLIMIT_MEMLOCK, &before);
}

TEST(RecordedPhase, FollowsTheRanges) {
  EXPECT_EQ(recorded_phase("forward", "fill"), "forward");
  EXPECT_EQ(recorded_phase("output_loss", "linear_forward"), "forward");
  EXPECT_EQ(recorded_phase("output_loss", "linear_backward_weight"), "backward");
  EXPECT_EQ(recorded_phase("", "fill"), "forward");
  EXPECT_EQ(recorded_phase("backward", "linear_forward"), "backward");
  EXPECT_EQ(recorded_phase("gradient_sum", "fill"), "optimizer");
  EXPECT_EQ(recorded_phase("optimizer", "fill"), "optimizer");
}

TEST(Waiting, ShortTimesAddUp) {
  Waiting waiting;
  const Stopwatch watch;
  for (int i = 0; i < 1000; ++i) waiting.add(0.01);
  waiting.finish();
  EXPECT_GE(watch.elapsed_ms(), 10 - 0.1);
}

TEST(Waiting, OtherThreadsTakeProcessorsThatAreNotSpare) {
  EXPECT_EQ(computed_ms(10, 4, {}), 10) << "the processors are not known";
  EXPECT_EQ(computed_ms(10, 4, {.computing = 1}), 6);
  EXPECT_EQ(computed_ms(10, 4, {.computing = 2}), 8);
  EXPECT_EQ(computed_ms(10, 4, {.computing = 1, .spare = 0.25}), 8.5);
  EXPECT_EQ(computed_ms(10, 4, {.computing = 1, .spare = 1}), 10);
  EXPECT_EQ(computed_ms(10, 30, {.computing = 1}), 5) << "a fair scheduler leaves half";
}

TEST(Waiting, TakesLongerBesideABusyThread) {
  std::atomic<bool> stop = false;
  std::thread busy([&stop] {
    while (!stop) continue;
  });
  constexpr RankProcessors processors{.computing = 2};  // with 1 a busy thread would reach the bound of half
  constexpr double clock_lag_ms = 10;                   // of the time of threads that are running: a tick
  Waiting waiting(processors);
  const Stopwatch watch;
  const double others_before_ms = other_threads_ms();
  waiting.add(50);
  const double others_ms = other_threads_ms() - others_before_ms;
  const double elapsed_ms = watch.elapsed_ms();
  stop = true;
  busy.join();
  EXPECT_GE(computed_ms(elapsed_ms, others_ms, processors), 50 - clock_lag_ms / processors.computing);
}

}  // namespace
}  // namespace babelring
