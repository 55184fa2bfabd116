#include "nmt/parallel/device.h"

#include <gmock/gmock.h>

#include "nmt/ops/cuda_module.h"

namespace babelring {
namespace {

using testing::HasSubstr;

DeviceReport gpu(const std::string& identity) {
  return {.identity = identity};
}
DeviceReport none(const std::string& why) {
  return {.why = why};
}

TEST(WhyNotCuda, IsEmptyIfEveryRankHasItsOwnGpu) {
  EXPECT_EQ(why_not_cuda({gpu("a")}, {"one"}), "");
  EXPECT_EQ(why_not_cuda({gpu("a"), gpu("b"), gpu("c")}, {"one", "one", "two"}), "");
}

TEST(WhyNotCuda, NamesTheRankWithoutAGpu) {
  EXPECT_EQ(why_not_cuda({none("there is no NVIDIA driver")}, {"one"}), "there is no NVIDIA driver");
  EXPECT_EQ(why_not_cuda({gpu("a"), none("there is no NVIDIA driver")}, {"one", "two"}),
            "rank 1 on two: there is no NVIDIA driver");
}

TEST(WhyNotCuda, NamesRanksThatWouldShareAGpu) {
  EXPECT_EQ(why_not_cuda({gpu("a"), gpu("b"), gpu("a")}, {"one", "one", "one"}),
            "ranks 0 and 2 on one would share one GPU, each rank needs its own");
}

TEST(ChooseBackend, UsesTheCpuOnRequest) {
  const ChosenBackend chosen = choose_backend(DeviceChoice::cpu, 1, *make_single_communicator());
  EXPECT_THAT(chosen.backend->description(), HasSubstr("cpu ("));
  EXPECT_EQ(chosen.why_cpu, "");
}

TEST(ChooseBackend, FallsBackToTheCpuOrFailsInOneLine) {
  const auto communicator = make_single_communicator();
  if (find_cuda().devices > 0) GTEST_SKIP() << "this machine has a GPU";
  const ChosenBackend chosen = choose_backend(DeviceChoice::automatic, 1, *communicator);
  EXPECT_THAT(chosen.backend->description(), HasSubstr("cpu ("));
  EXPECT_EQ(chosen.why_cpu, find_cuda().why);
  try {
    choose_backend(DeviceChoice::cuda, 1, *communicator);
    FAIL() << "a GPU that is not there";
  } catch (const UsageFailure& failure) {
    EXPECT_EQ(failure.what(), "device cuda: " + find_cuda().why + "; use auto or cpu");
  }
}

TEST(ChooseBackend, UsesTheGpuIfAvailable) {
  if (find_cuda().devices == 0) GTEST_SKIP() << "no GPU: " << find_cuda().why;
  for (const DeviceChoice device : {DeviceChoice::automatic, DeviceChoice::cuda}) {
    EXPECT_THAT(choose_backend(device, 1, *make_single_communicator()).backend->description(),
                HasSubstr("cuda (device 0"));
  }
}

}  // namespace
}  // namespace babelring
