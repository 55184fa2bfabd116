#include "worker/local_peers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <csignal>

#include "base/json.h"
#include "tests/soon.h"

namespace babelring {
namespace {

/// Rank 0 of three. Rank 1 is on the same host and has the given process id. Rank 2 is on another host and has an id
/// that no process here has.
class TwoHosts final : public Communicator {
 public:
  explicit TwoHosts(pid_t peer) : peer_(peer) {}
  int rank() const override { return 0; }
  int size() const override { return 3; }
  const std::vector<std::string>& hosts() const override { return hosts_; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 2; }
  Buffer allocate(std::size_t bytes) override { return allocate_host(bytes); }
  void all_reduce_start(Tensor) override {}
  void all_reduce_finish() override {}
  void sum(std::vector<double>&) override {}
  void or_bits(std::vector<std::uint64_t>&) override {}
  std::vector<std::string> all_gather(const std::string& text) override {
    const auto with_pid = [&text](std::int64_t pid) {
      json::value result = parse_json(text).value();
      result.at("value").as_object()["pid"] = pid;
      return to_text(result);
    };
    return {text, with_pid(peer_), with_pid(999'999'999)};
  }
  void broadcast(void*, std::size_t, int) override {}
  void barrier() override {}
  void fail_fast(std::chrono::milliseconds) override {}
  CommTotals totals() const override { return {}; }
  std::string description() const override { return "two hosts"; }

 private:
  pid_t peer_;
  std::vector<std::string> hosts_{"hostA", "hostA", "hostB"};
};

TEST(LocalPeers, NamesEndedPeersOnThisHost) {
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  TwoHosts communicator(child);
  const LocalPeers peers(communicator);
  EXPECT_EQ(peers.ended(), "");
  kill(child, SIGKILL);
  EXPECT_TRUE(soon([&] { return peers.ended() == "rank 1 (host hostA)"; })) << "a zombie";
  waitpid(child, nullptr, 0);
  EXPECT_EQ(peers.ended(), "rank 1 (host hostA)");
}

}  // namespace
}  // namespace babelring
