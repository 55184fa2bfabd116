#include "worker/heartbeat.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <filesystem>

#include "base/files.h"
#include "tests/soon.h"
#include "tests/worker/test_server.h"

namespace babelring {
namespace {

/// One that was sent after this was called.
json::object next_heartbeat(const TestServer& server) {
  const int wanted = server.requests() + 2;  // the next may have been composed before
  for (int i = 0; i < 6000 && server.requests() < wanted; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GE(server.requests(), wanted);
  return parse_json(server.newest_body()).value().as_object();
}

TEST(Heartbeat, ReportsProcessHostAndGpu) {
  Ledger ledger;
  TestServer server(ledger, [](int) { return Behaviour{.status = 404}; });
  HeartbeatOptions options{
      .server = {server.address()},
      .identity = {.run = "r_01J0000000000000000000000Z", .attempt = 2, .rank = 3, .host = "hostA"}};
  options.folder = std::filesystem::temp_directory_path();
  options.between = std::chrono::milliseconds(5);
  std::atomic<bool> lost = false;
  options.gpu = [&lost]() -> GpuReading {
    if (lost) return {};
    return {
        .power_w = 412.5, .power_limit_w = 700, .values = {{"clock_mhz", 1980}}, .counters = {{"pcie_tx_bytes", 5}}};
  };
  StopRequest stop;
  CheckpointRequest checkpoint;
  TraceRequest trace;
  Heartbeat heartbeat(options, {stop, checkpoint, trace, [](const std::string&) {}});
  heartbeat.record_update(17);
  const json::object said = next_heartbeat(server);
  EXPECT_EQ(said.at("attempt"), 2);
  EXPECT_EQ(said.at("rank"), 3);
  EXPECT_EQ(said.at("update"), 17);
  EXPECT_GT(said.at("memory_bytes").as_int64(), 0);
  EXPECT_EQ(to_text(said.at("gpu")), R"({"clock_mhz":1980,"power_w":412.5,"power_limit_w":700})");
  lost = true;
  EXPECT_FALSE(next_heartbeat(server).contains("gpu")) << "nothing is known of it any more";
}

TEST(Heartbeat, ReadsTheHottestSensorOfAProcessor) {
  std::string name = std::filesystem::temp_directory_path() / "babelring-sensors-XXXXXX";
  const std::filesystem::path sensors = mkdtemp(name.data());
  EXPECT_FALSE(read_temperature(sensors)) << "a virtual machine";
  const auto put = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((sensors / file).parent_path());
    write_file_atomically(sensors / file, text);
  };
  put("thermal/thermal_zone0/temp", "41000\n");
  put("thermal/thermal_zone1/temp", "-274000\n");  // broken
  put("thermal/cooling_device0/temp", "99000\n");
  EXPECT_EQ(read_temperature(sensors), 41);
  put("hwmon/hwmon0/name", "nvme\n");
  put("hwmon/hwmon0/temp1_input", "80000\n");
  put("hwmon/hwmon1/name", "coretemp\n");
  put("hwmon/hwmon1/temp1_input", "65500\n");
  put("hwmon/hwmon1/temp2_input", "71250\n");
  put("hwmon/hwmon1/temp2_max", "100000\n");
  EXPECT_EQ(read_temperature(sensors), 71.25);
  std::filesystem::remove_all(sensors);
  const HostState host = read_host_state("/");
  EXPECT_GT(host.memory_left_bytes, 0);
  EXPECT_LE(host.memory_limit_bytes, host.memory_bytes);
}

TEST(Heartbeat, PassesOnARequestForATrace) {
  Ledger ledger;
  TestServer server(ledger, [](int request) {
    const int updates = request == 0 ? 21 : 3;  // a rank ignores numbers out of bounds
    return Behaviour{
        .body = fmt::format(
            R"({{"commands":[{{"kind":"trace","number":{},"updates":{},"ops":false}}],"interval_ms":1000}})",
            request == 0 ? 9 : 2, updates)};
  });
  HeartbeatOptions options{.server = {server.address()}, .identity = {.run = "r_01J0000000000000000000000Z"}};
  options.between = std::chrono::milliseconds(1);
  StopRequest stop;
  CheckpointRequest checkpoint;
  TraceRequest trace;
  Heartbeat heartbeat(options, {stop, checkpoint, trace, [](const std::string&) {}});
  ASSERT_TRUE(soon([&] { return trace.wanted().has_value(); }));
  EXPECT_EQ(trace.wanted()->number, 2);
  EXPECT_EQ(trace.wanted()->updates, 3);
  EXPECT_FALSE(trace.wanted()->ops);
  EXPECT_EQ(next_heartbeat(server).at("trace_done"), 0);
  trace.carried_out(2);
  EXPECT_EQ(next_heartbeat(server).at("trace_done"), 2);
  EXPECT_FALSE(trace.wanted()) << "a repeated request has no effect";
}

TEST(Heartbeat, OneRankOfAHostSendsThoseOfAll) {
  Ledger ledger;
  TestServer server(ledger, [](int) { return Behaviour{.body = R"({"commands":[],"interval_ms":1000})"}; });
  StopRequest stop;
  CheckpointRequest checkpoint;
  TraceRequest trace;
  const HeartbeatCommands commands{stop, checkpoint, trace, [](const std::string&) {}};
  const auto options = [&](std::int64_t rank) {
    HeartbeatOptions of_rank{
        .server = {server.address()},
        .identity = {.run = "r_01J000000000000000000000HR", .attempt = 1, .rank = rank, .host = "hostA"}};
    of_rank.between = std::chrono::milliseconds(5);
    return of_rank;
  };
  HeartbeatRelay receiver = HeartbeatRelay::receiver({1}).value();
  HeartbeatRelay other = HeartbeatRelay::to(receiver.name());
  auto sending = std::make_unique<Heartbeat>(options(0), commands, std::move(receiver));
  Heartbeat served(options(1), commands, std::move(other));
  served.record_update(33);
  const auto heard = [&](std::int64_t rank) {
    return soon([&] { return server.newest_body().find(fmt::format("\"rank\":{},", rank)) != std::string::npos; });
  };
  EXPECT_TRUE(heard(0));
  EXPECT_TRUE(heard(1));
  EXPECT_EQ(server.connections(), 1);
  sending.reset();
  EXPECT_TRUE(soon([&] { return server.connections() > 1; })) << "rank 1 sends its own";
  EXPECT_TRUE(heard(1));
}

TEST(HeartbeatRelay, IgnoresWhatIsNoHeartbeatOfAServedRank) {
  auto receiver = HeartbeatRelay::receiver({2}).value();
  HeartbeatRelay other = HeartbeatRelay::to(receiver.name());
  for (const char* text :
       {"text", "[]", "{}", R"({"rank":1})", R"({"rank":2,"update":1})", R"({"rank":2,"update":2})"}) {
    EXPECT_TRUE(other.pass_on(text));
    receiver.receive();
  }
  EXPECT_EQ(receiver.take(), std::vector<std::string>{R"({"rank":2,"update":2})"});
  EXPECT_TRUE(receiver.take().empty());
  EXPECT_FALSE(other.pass_on(std::string(100'000, ' '))) << "too long";
  int passed_on = 0;
  while (passed_on < 1000 && other.pass_on(std::string(500, ' '))) ++passed_on;
  EXPECT_LT(passed_on, 20) << "the receiver does not receive";
  receiver.receive();
  EXPECT_TRUE(other.pass_on("{}"));
  EXPECT_FALSE(receiver.pass_on("{}")) << "it sends its own";
  EXPECT_FALSE(HeartbeatRelay::to(receiver.name() + "0").pass_on("{}")) << "nobody listens";
  EXPECT_FALSE(HeartbeatRelay().pass_on("{}"));
}

TEST(HeartbeatRelay, NobodyElseReceivesAfterTheReceiverHasEnded) {
  auto receiver = HeartbeatRelay::receiver({2}).value();
  EXPECT_NE(receiver.name(), HeartbeatRelay::receiver({2}).value().name()) << "names cannot be foreseen";
  HeartbeatRelay other = HeartbeatRelay::to(receiver.name());
  ASSERT_TRUE(other.pass_on("{}"));
  const std::string name = receiver.name();
  receiver = HeartbeatRelay();
  const FileDescriptor thief(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(::bind(thief.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_FALSE(other.pass_on("{}")) << "the rank sends its own";
  char byte = 0;
  EXPECT_LT(::recv(thief.get(), &byte, 1, 0), 0);
}

TEST(Heartbeat, RespectsRetryAfter) {
  Ledger ledger;
  TestServer server(ledger, [](int) { return Behaviour{.status = 429, .retry_after = "1"}; });
  HeartbeatOptions options{.server = {server.address()}, .identity = {.run = "r_01J0000000000000000000000Z"}};
  options.folder = std::filesystem::temp_directory_path();
  options.between = options.max_backoff = std::chrono::milliseconds(1);
  StopRequest stop;
  CheckpointRequest checkpoint;
  TraceRequest trace;
  const Stopwatch watch;
  Heartbeat heartbeat(options, {stop, checkpoint, trace, [](const std::string&) {}});
  ASSERT_TRUE(soon([&] { return server.requests() >= 3; }));
  EXPECT_GE(watch.elapsed_ms(), 2000);
  EXPECT_EQ(server.connections(), 1);
}

}  // namespace
}  // namespace babelring
