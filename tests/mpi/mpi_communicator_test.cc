#include <atomic>
#include <cstdlib>
#include <set>

#include "nmt/comm/host_name.h"
#include "nmt/comm/shared/comm_memory.h"
#include "tests/mpi/collectives_fixture.h"

namespace babelring {
namespace {

TEST(MpiCommunicator, RefusesRoundedMessagesWithMpiAllReduceAndMessagesWithoutABlock) {
  CommOptions options;
  options.algorithm = AllReduceAlgorithm::mpi;
  for (const GradientWire wire : {GradientWire::bf16, GradientWire::int8}) {
    options.wire = wire;
    EXPECT_THROW(make_mpi_communicator(options), Failure);
  }
  options.algorithm = AllReduceAlgorithm::ring;
  options.segment_bytes = 256;
  EXPECT_THROW(make_mpi_communicator(options), Failure);
}

TEST(MpiCommunicator, SharesMemoryOnAHostWithAnyAlgorithm) {
  const auto ranks = make_mpi_communicator({.algorithm = AllReduceAlgorithm::ring});
  const auto memory = share_on_host(*ranks, 100, "test", [](char* data) { data[0] = 50; });
  EXPECT_EQ(memory != nullptr, ranks->local_size() > 1);
  if (memory) std::atomic_ref(memory->data()[0]) += 1;
  ranks->barrier();
  if (memory) {
    EXPECT_EQ(memory->data()[0], 50 + ranks->local_size());
  }
  ranks->barrier();
}

TEST(MpiCommunicator, TellsHostsOfOneNameApart) {
  const auto ranks = make_mpi_communicator({});
  const char* name_of_all = std::getenv("BABELRING_HOST_NAME");  // two_hosts.sh --name
  if (name_of_all == nullptr || *name_of_all == '\0') {
    EXPECT_EQ(ranks->hosts()[static_cast<std::size_t>(ranks->rank())], host_name());
    return;
  }
  const std::string name = name_of_all;
  EXPECT_EQ(host_name(), name);
  EXPECT_THAT(std::set(ranks->hosts().begin(), ranks->hosts().end()), ::testing::ElementsAre(name, name + "-2"));
  EXPECT_EQ(ranks->local_size(), ranks->size() / 2);
}

TEST(MpiCommunicator, RefusesSharedMemoryAcrossHosts) {
  CommOptions options;
  options.algorithm = AllReduceAlgorithm::shared_memory;
  const auto any = make_mpi_communicator({});
  if (any->local_size() == any->size()) {
    EXPECT_THAT(make_mpi_communicator(options)->description(), ::testing::HasSubstr("shared memory"));
  } else {
    EXPECT_THROW(make_mpi_communicator(options), Failure);
  }
}

TEST(MpiCommunicator, ChoosesTwoLevelsIfHostsHaveEqualNumbersOfSeveralRanks) {
  const auto chosen = make_mpi_communicator({});
  const bool one_host = chosen->local_size() == chosen->size();
  const bool equal = testing::equal_hosts();
  const bool one_rank_per_host = equal && chosen->local_size() == 1;
  const char* expected = one_host            ? "all-reduce in shared memory"
                         : one_rank_per_host ? " all-reduce in segments of 60 KiB, f32 on the wire, deadline"
                         : equal             ? "all-reduce on two levels: shared memory within hosts, between hosts a "
                                             : "on the wire (the hosts do not have equal numbers of ranks)";
  EXPECT_THAT(chosen->description(), ::testing::HasSubstr(expected));
  if (!equal) {
    EXPECT_THROW(make_mpi_communicator({.algorithm = AllReduceAlgorithm::two_level}), Failure);
  }
}

}  // namespace
}  // namespace babelring
