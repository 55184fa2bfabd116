#include "nmt/parallel/device.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "nmt/ops/cuda_module.h"
#include "nmt/parallel/buckets.h"
#include "tests/nmt/comm/fake_nccl.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

using testing::HasSubstr;

using Identities = std::vector<Result<json::value>>;

TEST(CheckGpus, SucceedsIfEveryRankHasItsOwnGpu) {
  EXPECT_TRUE(check_gpus(Identities{json::value("a")}, {"one"}));
  EXPECT_TRUE(check_gpus(Identities{json::value("a"), json::value("b"), json::value("c")}, {"one", "one", "two"}));
}

TEST(CheckGpus, NamesTheRankWithoutAGpu) {
  EXPECT_EQ(check_gpus(Identities{Error{"there is no NVIDIA driver"}}, {"one"}).error(), "there is no NVIDIA driver");
  EXPECT_EQ(check_gpus(Identities{json::value("a"), Error{"there is no NVIDIA driver"}}, {"one", "two"}).error(),
            "rank 1 on two: there is no NVIDIA driver");
}

TEST(CheckGpus, NamesRanksThatWouldShareAGpu) {
  EXPECT_EQ(check_gpus(Identities{json::value("a"), json::value("b"), json::value("a")}, {"one", "one", "one"}).error(),
            "ranks 0 and 2 on one would share one GPU, each rank needs its own");
}

TEST(ChooseBackend, UsesTheCpuOnRequest) {
  const ChosenBackend chosen = choose_backend(DeviceChoice::cpu, 1, *make_single_communicator());
  EXPECT_THAT(chosen.backend->description(), HasSubstr("cpu ("));
  EXPECT_FALSE(chosen.gpu);
}

TEST(ChooseBackend, FallsBackToTheCpuOrFailsInOneLine) {
  const auto communicator = make_single_communicator();
  if (find_cuda()) GTEST_SKIP() << "this machine has a GPU";
  const ChosenBackend chosen = choose_backend(DeviceChoice::automatic, 1, *communicator);
  EXPECT_THAT(chosen.backend->description(), HasSubstr("cpu ("));
  EXPECT_EQ(chosen.gpu.error(), find_cuda().error());
  try {
    choose_backend(DeviceChoice::cuda, 1, *communicator);
    FAIL() << "a GPU that is not there";
  } catch (const UsageFailure& failure) {
    EXPECT_EQ(failure.what(), "device cuda: " + find_cuda().error() + "; use auto or cpu");
  }
}

TEST(ChooseBackend, UsesTheGpuIfAvailable) {
  if (!find_cuda()) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  for (const DeviceChoice device : {DeviceChoice::automatic, DeviceChoice::cuda}) {
    EXPECT_THAT(choose_backend(device, 1, *make_single_communicator()).backend->description(),
                HasSubstr("cuda (device 0"));
  }
}

using testing::HasSubstr;
using testing::StartsWith;

/// Runs the choice on two ranks as threads.
class GradientCommTest : public testing::Test {
 protected:
  GradientCommTest() {
    FakeNccl::reset();
    config_.bucket_mb = 0.01;
  }
  ~GradientCommTest() override { FakeNccl::reset(); }

  /// The result, equal on all ranks: the log line, prefixed with "nccl: " if NCCL is used, or the error message.
  std::string choice(const std::string& device, const Result<NcclLibrary>& library = FakeNccl::library(),
                     int ranks = 2) const {
    ThreadGroup group(ranks);
    std::vector<std::string> all(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto communicator = group.rank(rank);
        const auto backend = make_test_backend(device);
        try {
          const GradientComm chosen =
              choose_gradient_comm(config_, 252'000'000, *backend, *communicator, [&library] { return library; });
          all[static_cast<std::size_t>(rank)] = (chosen.nccl ? "nccl: " : "") + chosen.line;
          communicator->barrier();
        } catch (const UsageFailure& failure) {
          all[static_cast<std::size_t>(rank)] = failure.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(all, testing::Each(all[0]));
    return all[0];
  }

  CommConfig config_;
};

TEST_F(GradientCommTest, GpusUseNcclIfAvailable) {
  EXPECT_THAT(choice("closed"), StartsWith("nccl: NCCL 2.28.9 over 2 ranks, f32 on the wire"));
  config_.gradient_wire = GradientWire::bf16;
  EXPECT_THAT(choice("closed"), HasSubstr("bf16 on the wire"));
  EXPECT_EQ(FakeNccl::calls(0).back().type, nccl_bfloat16);
}

TEST_F(GradientCommTest, BucketsAreSizedForTheNetworkUnlessConfigured) {
  EXPECT_THAT(choice("closed"), HasSubstr("buckets of 0.0 MB"));
  config_.bucket_mb = CommConfig::automatic;
  const auto bytes = static_cast<double>(best_bucket_bytes(252'000'000, nccl_model(2, 1, GradientWire::f32)));
  EXPECT_THAT(choice("closed"), HasSubstr(fmt::format("buckets of {:.1f} MB", bytes / 1e6)));
  ThreadGroup group(1);
  EXPECT_EQ(config_.bucket_bytes(252'000'000, *group.rank(0), false), 4'000'000);
}

TEST_F(GradientCommTest, LineGivesTheReasonAgainstNccl) {
  const Result<NcclLibrary> absent = Error{"libnccl.so.2: cannot open shared object file"};
  EXPECT_EQ(choice("closed", absent),
            "through host memory, NCCL is unavailable: rank 0 on here: libnccl.so.2: cannot open shared object file");
  FakeNccl::plan() = {.rank = 1, .join_result = 1};
  EXPECT_EQ(choice("closed"),
            "through host memory, NCCL is unavailable: rank 1 on here: ncclCommInitRankConfig: unhandled cuda error");
  FakeNccl::reset();
  FakeNccl::plan().wrong_sums = true;
  EXPECT_EQ(choice("closed"), "through host memory, NCCL is unavailable: a test all-reduce by NCCL gave a wrong sum");
}

TEST_F(GradientCommTest, Int8GoesThroughHostMemory) {
  config_.gradient_wire = GradientWire::int8;
  EXPECT_EQ(choice("closed"), "through host memory, NCCL cannot add int8 messages of communication.gradient_wire");
  EXPECT_TRUE(FakeNccl::calls(0).empty());
  config_.all_reduce = AllReduceAlgorithm::nccl;
  EXPECT_EQ(choice("closed"),
            "communication.all_reduce nccl: NCCL cannot add int8 messages of communication.gradient_wire; use auto");
}

TEST_F(GradientCommTest, ExplicitChoiceSucceedsOrFails) {
  config_.all_reduce = AllReduceAlgorithm::nccl;
  EXPECT_THAT(choice("closed"), StartsWith("nccl: "));
  FakeNccl::plan() = {.rank = 1, .join_result = 1};
  EXPECT_EQ(choice("closed"),
            "communication.all_reduce nccl: rank 1 on here: ncclCommInitRankConfig: unhandled cuda error; use auto");
  EXPECT_EQ(choice("cpu"), "communication.all_reduce nccl: the gradients are in host memory; use auto");
  config_.all_reduce = AllReduceAlgorithm::ring;
  EXPECT_EQ(choice("closed"), "through host memory, as required by communication.all_reduce=ring");
}

TEST_F(GradientCommTest, IsEmptyWithoutAChoice) {
  EXPECT_EQ(choice("cpu"), "");
  EXPECT_EQ(choice("closed", FakeNccl::library(), 1), "");
  EXPECT_TRUE(FakeNccl::calls(0).empty());
}

}  // namespace

}  // namespace babelring
