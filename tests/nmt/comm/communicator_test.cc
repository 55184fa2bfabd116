#include <gmock/gmock.h>

#include "nmt/comm/communicator.h"
#include "nmt/comm/host_name.h"

namespace babelring {
namespace {

using testing::ElementsAre;

TEST(SingleCommunicator, IsTheOnlyRankOfItsHost) {
  const auto communicator = make_single_communicator();
  EXPECT_EQ(communicator->rank(), 0);
  EXPECT_EQ(communicator->size(), 1);
  EXPECT_EQ(communicator->local_rank(), 0);
  EXPECT_EQ(communicator->local_size(), 1);
  EXPECT_THAT(communicator->hosts(), ElementsAre(host_name()));
  EXPECT_EQ(communicator->description(), "one rank, no communication");
  EXPECT_EQ(communicator->shared_arrays(), nullptr);
  EXPECT_EQ(communicator->tracker(), nullptr);
}

TEST(SingleCommunicator, LeavesValuesUnchanged) {
  const auto communicator = make_single_communicator();
  std::vector<float> gradient{1, 2, 3};
  communicator->all_reduce_start(Tensor(gradient.data(), {3}, DType::f32));
  communicator->all_reduce_finish();
  EXPECT_THAT(gradient, ElementsAre(1, 2, 3));
  std::vector<double> values{0.1, 0.2};
  communicator->sum(values);
  EXPECT_THAT(values, ElementsAre(0.1, 0.2));
  EXPECT_THAT(communicator->all_gather("text"), ElementsAre("text"));
  int number = 7;
  communicator->broadcast(&number, sizeof number, 0);
  communicator->barrier();
  EXPECT_EQ(number, 7);
  EXPECT_EQ(communicator->totals().bytes_sent, 0);
  EXPECT_EQ(communicator->totals().busy_ms, 0);
}

}  // namespace
}  // namespace babelring
