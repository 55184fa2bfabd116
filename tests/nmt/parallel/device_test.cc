#include "nmt/parallel/device.h"

#include <gmock/gmock.h>

#include "nmt/ops/cuda_module.h"

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

}  // namespace
}  // namespace babelring
