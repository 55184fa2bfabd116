#include "nmt/comm/nccl/log.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Log of NCCL 2.28 (rank 0's part) with two hosts of two GPUs each and InfiniBand.
constexpr const char* log_of_infiniband =
    "gpu-a:171:171 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"
    "gpu-a:171:171 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n"
    "gpu-a:171:190 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
    "gpu-a:171:190 [0] NCCL INFO Initialized NET plugin IB\n"
    "gpu-a:171:190 [0] NCCL INFO Using network IB\n"
    "gpu-a:171:190 [0] NCCL INFO ncclCommInitRankConfig comm 0x55f90cbfd740 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId "
    "30 commId 0x795b968dc454cfee - Init START\n"
    "gpu-a:171:190 [0] NCCL INFO Channel 00/02 : 0 1 2 3\n"
    "gpu-a:171:190 [0] NCCL INFO 2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels "
    "per peer\n"
    "gpu-a:171:193 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
    "gpu-a:171:193 [0] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
    "gpu-a:171:193 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    "gpu-a:171:193 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    "gpu-a:171:193 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1\n"
    "gpu-a:171:171 [0] NCCL INFO AllReduce: 4000000 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}\n";

constexpr const char* log_of_sockets =
    "b:9:9 [0] NCCL INFO NET/IB : No device found.\n"
    "b:9:9 [0] NCCL INFO NET/Socket : Using [0]ens7:10.128.0.31<0> [1]eth1:fe80::1%eth1<0>\n"
    "b:9:9 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0\n"
    "b:9:9 [0] NCCL INFO AllReduce: 4 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0} cgaClusterSize 0\n";

TEST(NcclLogTest, ParsesChoices) {
  const NcclChoice choice = parse_nccl_log(log_of_infiniband);
  EXPECT_THAT(choice.algorithms, ElementsAre("RING"));
  EXPECT_THAT(choice.protocols, ElementsAre("SIMPLE"));
  EXPECT_EQ(choice.channels, "2");
  EXPECT_THAT(choice.transports, ElementsAre("NET/IB/0/GDRDMA", "P2P/CUMEM/read"));
  EXPECT_THAT(choice.interfaces, ElementsAre("mlx5_0:1/IB", "mlx5_1:1/IB"));
  EXPECT_EQ(choice.text(),
            "RING in protocol SIMPLE, 2 channels, by NET/IB/0/GDRDMA and P2P/CUMEM/read over mlx5_0:1/IB and "
            "mlx5_1:1/IB");
}

TEST(NcclLogTest, ParsesSocketInterfaces) {
  const NcclChoice choice = parse_nccl_log(log_of_sockets);
  EXPECT_THAT(choice.algorithms, ElementsAre("TREE"));
  EXPECT_THAT(choice.transports, ElementsAre("NET/Socket/0"));
  EXPECT_THAT(choice.interfaces, ElementsAre("ens7", "eth1"));
}

TEST(NcclLogTest, ExtractHasTheSameChoicesInFewLines) {
  const std::string extract = nccl_log_extract(log_of_infiniband);
  EXPECT_EQ(parse_nccl_log(extract).text(), parse_nccl_log(log_of_infiniband).text());
  EXPECT_EQ(std::count(extract.begin(), extract.end(), '\n'), 5) << extract;
  const std::string both = extract + nccl_log_extract(log_of_sockets);
  EXPECT_THAT(parse_nccl_log(both).interfaces, ElementsAre("ens7", "eth1", "mlx5_0:1/IB", "mlx5_1:1/IB"));
}

TEST(NcclLogTest, IgnoresOtherLines) {
  for (const char* log :
       {"", "\n\n", "NCCL INFO", "NCCL INFO Channel via ", "NCCL INFO AllReduce: Algo", "NET/ Using ",
        "NCCL INFO NET/Socket : Using ", "NCCL INFO NET/Socket : Using [", "NCCL INFO  coll channels"}) {
    const NcclChoice choice = parse_nccl_log(log);
    EXPECT_THAT(choice.interfaces, IsEmpty()) << log;
    EXPECT_EQ(choice.text(), "unknown algorithm") << log;
  }
}

TEST(NcclLogTest, IsRedirectedAndCleared) {
  ::unsetenv("NCCL_DEBUG");
  std::string path;
  {
    NcclLog log;
    EXPECT_STREQ(std::getenv("NCCL_DEBUG"), "INFO");
    EXPECT_THAT(std::getenv("NCCL_DEBUG_SUBSYS"), HasSubstr("TUNING"));
    path = std::getenv("NCCL_DEBUG_FILE");
    std::ofstream as_nccl(path);
    as_nccl << log_of_sockets << std::flush;
    EXPECT_EQ(log.read(), log_of_sockets);
    log.clear();
    EXPECT_EQ(log.read(), "");
    as_nccl << "more\n" << std::flush;
    EXPECT_THAT(log.read(), HasSubstr("more"));
  }
  EXPECT_FALSE(std::ifstream(path).good());
  const NcclLog users;  // NCCL_DEBUG is set now
  EXPECT_EQ(users.read(), "");
  for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) ::unsetenv(name);
}

}  // namespace
}  // namespace babelring
