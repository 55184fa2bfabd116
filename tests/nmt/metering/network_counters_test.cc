#include "nmt/metering/network_counters.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

namespace babelring {
namespace {

using testing::HasSubstr;

constexpr const char* headings =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier "
    "compressed\n";

std::string line(const std::string& name, std::int64_t rx, std::int64_t tx) {
  return "  " + name + ": " + std::to_string(rx) + " 11 0 0 0 0 0 0 " + std::to_string(tx) + " 12 0 0 0 0 0 0\n";
}

TEST(ParseNetworkCounters, ReadsEveryInterface) {
  const auto parsed = parse_network_counters(headings + line("lo", 5, 5) + line("eth0", 9876543210, 123) +
                                             "enp5s0:7 0 0 0 0 0 0 0 8 0 0 0 0 0 0 0\n");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->size(), 3U);
  EXPECT_EQ(parsed->at("eth0"), (NetworkBytes{9876543210, 123}));
  EXPECT_EQ(parsed->at("enp5s0"), (NetworkBytes{7, 8}));
}

TEST(ParseNetworkCounters, QuotesAnInvalidLine) {
  const auto no_colon = parse_network_counters(std::string(headings) + "eth0 1 2\n");
  ASSERT_FALSE(no_colon.ok());
  EXPECT_THAT(no_colon.error(), HasSubstr("line 3 is \"eth0 1 2\""));
  EXPECT_FALSE(parse_network_counters(std::string(headings) + "eth0: 1 2 3\n").ok());
  EXPECT_FALSE(parse_network_counters(std::string(headings) + "eth0: x\n").ok());
}

class NetworkCountersTest : public testing::Test {
 protected:
  NetworkCountersTest() { std::filesystem::create_directories(folder_ / "net"); }
  ~NetworkCountersTest() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& lines) { std::ofstream(folder_ / "dev") << headings << lines; }
  /// An interface above a "device" or, as a VLAN, above another interface ("lower_NAME"); "": a virtual one.
  void set_speed(const std::string& name, const std::string& megabits, const std::string& below = "device") {
    std::filesystem::create_directories(folder_ / "net" / name / below);
    std::ofstream(folder_ / "net" / name / "speed") << megabits << '\n';
  }
  /// One port: 4-byte units received and sent.
  void write_port(const std::string& device, std::int64_t received, std::int64_t sent) {
    const std::filesystem::path port = folder_ / "infiniband" / device / "ports" / "1";
    std::filesystem::create_directories(port / "counters");
    std::ofstream(port / "counters" / "port_rcv_data") << received << '\n';
    std::ofstream(port / "counters" / "port_xmit_data") << sent << '\n';
    std::ofstream(port / "rate") << "100 Gb/sec (4X EDR)\n";
  }
  NetworkCounters counters(bool reports = true) {
    return NetworkCounters(reports, {folder_ / "dev", folder_ / "net", folder_ / "infiniband"});
  }
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("babelring-counters-" + std::to_string(getpid()));
};

TEST_F(NetworkCountersTest, CountPerLapWithoutLoopback) {
  write(line("lo", 1000, 1000) + line("eth0", 10, 20) + line("eth1", 1, 2));
  NetworkCounters network = counters();
  write(line("lo", 9000, 9000) + line("eth0", 110, 220) + line("eth1", 2, 4));
  EXPECT_EQ(network.lap(), (NetworkBytes{101, 202}));
  EXPECT_EQ(network.lap(), (NetworkBytes{0, 0}));
}

TEST_F(NetworkCountersTest, CountLoopbackIfThereIsNoOtherTraffic) {
  write(line("lo", 1000, 1000) + line("eth0", 10, 20));
  NetworkCounters network = counters();
  write(line("lo", 1500, 1500) + line("eth0", 10, 20));
  EXPECT_EQ(network.lap(), (NetworkBytes{500, 500}));
}

TEST_F(NetworkCountersTest, LeaveOutBridgesAndBonds) {
  std::filesystem::create_directories(folder_ / "net" / "bond0" / "bonding");
  std::filesystem::create_directories(folder_ / "net" / "br0" / "bridge");
  std::filesystem::create_directories(folder_ / "net" / "eth0");
  write(line("eth0", 0, 0) + line("bond0", 0, 0) + line("br0", 0, 0));
  NetworkCounters network = counters();
  write(line("eth0", 7, 8) + line("bond0", 7, 8) + line("br0", 7, 8));
  EXPECT_EQ(network.lap(), (NetworkBytes{7, 8}));
}

TEST_F(NetworkCountersTest, HandleInterfacesThatAppearVanishOrRestart) {
  write(line("eth0", 100, 100) + line("eth1", 50, 50));
  NetworkCounters network = counters();
  write(line("eth0", 3, 3) + line("eth2", 70, 70));
  EXPECT_EQ(network.lap(), (NetworkBytes{0, 0}));
  write(line("eth0", 4, 5) + line("eth2", 71, 72));
  EXPECT_EQ(network.lap(), (NetworkBytes{2, 4}));
}

TEST_F(NetworkCountersTest, ReportTheSpeedOfTheBusiestLink) {
  set_speed("lo", "40000");
  set_speed("eth0", "1000");
  set_speed("eth1", "25000");
  write(line("lo", 0, 0) + line("eth0", 900, 900) + line("eth1", 0, 0));
  NetworkCounters network = counters();
  EXPECT_EQ(network.link_bytes_per_second(), 0);
  write(line("lo", 9000, 9000) + line("eth0", 910, 900) + line("eth1", 2, 2));
  network.lap();
  EXPECT_EQ(network.link_bytes_per_second(), 125'000'000);
  write(line("lo", 9999, 9999) + line("eth0", 910, 900) + line("eth1", 5, 6));
  network.lap();
  EXPECT_EQ(network.link_bytes_per_second(), 3'125'000'000);
  network.lap();  // no traffic: same link
  EXPECT_EQ(network.link_bytes_per_second(), 3'125'000'000);
}

TEST_F(NetworkCountersTest, ReportTheBondsSpeedForItsMembers) {
  set_speed("bond0", "20000");
  set_speed("eth0", "10000");
  std::filesystem::create_directories(folder_ / "net" / "bond0" / "bonding");
  std::filesystem::create_directory_symlink("../bond0", folder_ / "net" / "eth0" / "master");
  write(line("eth0", 0, 0) + line("bond0", 0, 0));
  NetworkCounters network = counters();
  write(line("eth0", 7, 8) + line("bond0", 7, 8));
  network.lap();
  EXPECT_EQ(network.link_bytes_per_second(), 2'500'000'000);
}

TEST_F(NetworkCountersTest, ReportNoSpeedIfUnknown) {
  set_speed("virtio0", "-1");
  write(line("lo", 0, 0) + line("virtio0", 0, 0));
  NetworkCounters network = counters();
  write(line("lo", 5, 5) + line("virtio0", 100, 100) + line("tun0", 0, 0));
  network.lap();
  EXPECT_EQ(network.link_bytes_per_second(), 0);
  write(line("lo", 5, 5) + line("virtio0", 100, 100) + line("tun0", 900, 900));
  network.lap();
  EXPECT_EQ(network.link_bytes_per_second(), 0);
}

TEST_F(NetworkCountersTest, IgnoreTheNominalSpeedOfAVirtualInterface) {
  set_speed("veth0", "10000", "");
  set_speed("eth0.5", "1000", "lower_eth0");
  write(line("veth0", 0, 0) + line("eth0.5", 0, 0));
  NetworkCounters network = counters();
  write(line("veth0", 7, 8) + line("eth0.5", 0, 0));
  network.lap();
  EXPECT_EQ(network.link_bytes_per_second(), 0);
  write(line("veth0", 7, 8) + line("eth0.5", 70, 80));
  network.lap();
  EXPECT_EQ(network.link_bytes_per_second(), 125'000'000);
}

TEST_F(NetworkCountersTest, CountPortsOfInfiniBandInUnitsOfFourBytes) {
  write(line("eth0", 0, 0));
  write_port("mlx5_0", 100, 200);
  write_port("mlx5_1", 0, 0);
  NetworkCounters network = counters();
  write(line("eth0", 5, 6));
  write_port("mlx5_0", 110, 1200);
  EXPECT_EQ(network.lap(), (NetworkBytes{45, 4006}));
  EXPECT_EQ(network.link_bytes_per_second(), 12'500'000'000);
}

TEST_F(NetworkCountersTest, DoNotCountIpOverInfiniBandTwice) {
  std::filesystem::create_directories(folder_ / "net" / "ib0");
  std::ofstream(folder_ / "net" / "ib0" / "type") << "32\n";
  write(line("ib0", 0, 0));
  EXPECT_EQ(read_network_counters({folder_ / "dev", folder_ / "net", folder_ / "infiniband"}).size(), 1U);
  write_port("mlx5_0", 0, 0);
  NetworkCounters network = counters();
  write(line("ib0", 400, 800));
  write_port("mlx5_0", 105, 210);
  EXPECT_EQ(network.lap(), (NetworkBytes{420, 840}));
}

TEST_F(NetworkCountersTest, AreZeroOnNonReportingRanks) {
  set_speed("eth0", "1000");
  write(line("eth0", 0, 0));
  NetworkCounters network = counters(false);
  write(line("eth0", 100, 100));
  EXPECT_EQ(network.lap(), (NetworkBytes{0, 0}));
  EXPECT_EQ(network.link_bytes_per_second(), 0);
}

TEST_F(NetworkCountersTest, AreZeroIfTheFileIsMissing) {
  EXPECT_EQ(counters().lap(), (NetworkBytes{0, 0}));
}

TEST(NetworkCounters, ReadThisMachine) {
  NetworkCounters network(true);
  const NetworkBytes bytes = network.lap();
  EXPECT_GE(bytes.rx, 0);
  EXPECT_GE(bytes.tx, 0);
}

}  // namespace
}  // namespace babelring
