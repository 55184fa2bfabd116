#include "server/http/lanes.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <set>

#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring::http {
namespace {

using testing::Client;

class FairQueueTest : public ::testing::Test {
 protected:
  FairQueue::Dropped push(const std::string& owner, const std::string& subject = "") {
    return queue.push({owner, subject, SteadyClock::time_point(std::chrono::seconds(++pushed)), [] {},
                       [](Work::Drop) {}, [this, owner] { return gone.contains(owner); }});
  }
  /// The owners served, each at `cost`, until nothing may run.
  std::string serve(const std::map<std::string, double>& cost) {
    std::string owners;
    while (auto work = queue.pop()) {
      owners += work->owner;
      queue.finish(work->owner, cost.at(work->owner));
    }
    return owners;
  }
  FairQueue queue{{.threads = 3, .max_waiting = 8, .max_waiting_per_owner = 5, .max_running_per_owner = 2}};
  std::set<std::string> gone;
  int pushed = 0;
};

TEST_F(FairQueueTest, OwnersTakeTurns) {
  for (int i = 0; i < 4; ++i) push("a");
  for (int i = 0; i < 2; ++i) push("b");
  EXPECT_EQ(serve({{"a", 1}, {"b", 1}}), "ababaa");
}

TEST_F(FairQueueTest, WhoCostsMoreIsServedLessOften) {
  for (int i = 0; i < 3; ++i) push("a");
  for (int i = 0; i < 5; ++i) push("b");
  EXPECT_EQ(serve({{"a", 3}, {"b", 1}}), "abbbabba");
}

TEST_F(FairQueueTest, AnOwnerMayRunTwoAtOnce) {
  for (int i = 0; i < 3; ++i) push("a");
  EXPECT_EQ(queue.pop()->owner, "a");
  EXPECT_EQ(queue.pop()->owner, "a");
  EXPECT_FALSE(queue.pop());
  push("b");
  EXPECT_EQ(queue.pop()->owner, "b");
  queue.finish("a", 1);
  EXPECT_EQ(queue.pop()->owner, "a");
  EXPECT_EQ(queue.running(), 3U);
}

TEST_F(FairQueueTest, ForgivesUseWhileNobodyElseWaited) {
  push("a");
  EXPECT_EQ(serve({{"a", 1e9}}), "a");
  push("a");
  push("b");
  EXPECT_EQ(serve({{"a", 1}, {"b", 1}}), "ab");
}

TEST_F(FairQueueTest, AnIdleOwnerSavesNothingUp) {
  push("b");
  for (int i = 0; i < 3; ++i) push("a");
  EXPECT_EQ(serve({{"a", 50}, {"b", 1}}), "abaa");
  for (int i = 0; i < 2; ++i) push("a");
  for (int i = 0; i < 4; ++i) push("b");
  EXPECT_EQ(serve({{"a", 1}, {"b", 1}}).substr(0, 4), "abab");
}

TEST_F(FairQueueTest, BoundsEachOwnerAndAll) {
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(push("a").empty());
  auto dropped = push("a");
  ASSERT_EQ(dropped.size(), 1U);
  EXPECT_EQ(dropped[0].second, Work::Drop::full);
  EXPECT_EQ(dropped[0].first.arrived, SteadyClock::time_point(std::chrono::seconds(6))) << "the newcomer";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(push("b").empty());
  EXPECT_EQ(queue.waiting(), 8U);
  dropped = push("c");
  ASSERT_EQ(dropped.size(), 1U);
  EXPECT_EQ(dropped[0].first.owner, "a") << "has most";
  EXPECT_EQ(dropped[0].first.arrived, SteadyClock::time_point(std::chrono::seconds(5))) << "its newest";
  EXPECT_EQ(push("b")[0].first.owner, "b") << "has as many as the greediest but one";
  EXPECT_EQ(queue.waiting(), 8U);
}

TEST_F(FairQueueTest, AbandonedWorkMakesRoomAndPartsAreNeverRefused) {
  for (int i = 0; i < 5; ++i) push("a");
  gone.insert("a");
  const auto dropped = push("a");
  EXPECT_EQ(dropped.size(), 5U);
  for (const auto& [work, why] : dropped) EXPECT_EQ(why, Work::Drop::abandoned);
  EXPECT_EQ(queue.waiting(), 1U);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(queue.push({.owner = "x", .subject = "", .arrived = {}, .run = [] {}, .drop = nullptr}).empty());
  }
  EXPECT_EQ(queue.waiting(), 21U);
}

TEST_F(FairQueueTest, KnowsTheOldestOfASubject) {
  EXPECT_FALSE(queue.oldest());
  push("a", "r1");
  push("a", "r2");
  push("b", "r2");
  const auto at = [](int second) { return SteadyClock::time_point(std::chrono::seconds(second)); };
  EXPECT_EQ(queue.oldest(), at(1));
  EXPECT_EQ(queue.oldest("r2"), at(2));
  EXPECT_FALSE(queue.oldest("r3"));
  EXPECT_EQ(queue.clear().size(), 3U);
  EXPECT_FALSE(queue.oldest());
}

class LanesTest : public ::testing::Test {
 protected:
  ~LanesTest() override { release(); }
  void release() {
    if (!released_.exchange(true)) held.count_down();
  }
  /// Work that waits for release().
  Work slow(const std::string& owner, const std::string& subject = "") {
    return {owner, subject, now, [this] { ++begun, held.wait(); }, [this](Work::Drop) { ++dropped; }};
  }
  std::latch held{1};
  std::atomic<int> begun = 0, dropped = 0;
  std::atomic<SteadyClock::time_point> now = SteadyClock::time_point(std::chrono::hours(1));
  Lanes lanes{default_lanes(), [this] { return now.load(); }};

 private:
  std::atomic<bool> released_ = false;
};

TEST_F(LanesTest, NoLaneWaitsForAnotherAndNoOwnerHoldsAWholeOne) {
  for (int i = 0; i < 28; ++i) lanes.submit(Lane::query, slow("a"));
  ASSERT_TRUE(soon([&] { return begun == 2; }));
  for (const Lane lane : all_lanes) {
    std::promise<void> done;
    lanes.submit(lane,
                 {.owner = "b", .subject = "", .arrived = now, .run = [&] { done.set_value(); }, .drop = nullptr});
    done.get_future().get();
  }
  EXPECT_EQ(begun, 2);
  EXPECT_EQ(lanes.stats(Lane::query).waiting, 26U);
  now = now.load() + std::chrono::seconds(7);
  EXPECT_EQ(lanes.stats(Lane::query).oldest_s, 7);
}

TEST_F(LanesTest, RefusesBeyondItsBoundAndDropsWhatNobodyWaitsFor) {
  for (int i = 0; i < 80; ++i) lanes.submit(Lane::query, slow("a"));
  ASSERT_TRUE(soon([&] { return begun == 2 && dropped + static_cast<int>(lanes.stats(Lane::query).waiting) == 78; }));
  EXPECT_GE(dropped, 14);
  EXPECT_EQ(lanes.stats(Lane::query).refused, static_cast<std::uint64_t>(dropped));
  std::atomic<bool> left = false;
  std::promise<Work::Drop> why;
  Work work = slow("b");
  work.abandoned = [&] { return left.load(); };
  work.drop = [&](Work::Drop reason) { why.set_value(reason); };
  lanes.submit(Lane::query, slow("c"));  // the third thread
  ASSERT_TRUE(soon([&] { return begun == 3; }));
  lanes.submit(Lane::query, std::move(work));
  left = true;
  release();
  EXPECT_EQ(why.get_future().get(), Work::Drop::abandoned);
  EXPECT_EQ(lanes.stats(Lane::query).abandoned, 1U);
}

TEST_F(LanesTest, TellsUntilWhenASubjectWasHandled) {
  const auto arrived = now.load();
  lanes.submit(Lane::heartbeat, slow("a", "r1"));
  lanes.submit(Lane::heartbeat, slow("a", "r2"));
  ASSERT_TRUE(soon([&] { return begun == 1; }));
  now = now.load() + std::chrono::seconds(9);
  EXPECT_EQ(lanes.handled_until(Lane::heartbeat, "r1"), arrived) << "it runs";
  EXPECT_EQ(lanes.handled_until(Lane::heartbeat, "r2"), arrived) << "it waits";
  EXPECT_EQ(lanes.handled_until(Lane::heartbeat, "r3"), now.load());
  release();
  EXPECT_TRUE(soon([&] { return lanes.handled_until(Lane::heartbeat, "r2") == now.load(); }));
}

TEST_F(LanesTest, StopDropsWhatWaits) {
  lanes.submit(Lane::process, slow("a"));
  lanes.submit(Lane::process, slow("a"));
  ASSERT_TRUE(soon([&] { return begun == 1; }));
  auto stopped = std::async(std::launch::async, [&] { lanes.stop(); });
  ASSERT_TRUE(soon([&] { return dropped == 1; }));
  release();
  stopped.get();
  lanes.submit(Lane::process, slow("b"));
  EXPECT_EQ(dropped, 2);
}

/// Each held at the door of its handler until the test ends.
class HeldQueriesTest : public ::testing::Test {
 protected:
  HeldQueriesTest() {
    testing::put(server.store(), {testing::step_record(1, 1)});
    server.before_handlers([this](const Route& route) {
      if (route.lane != lane) return;
      ++begun;
      held.wait();
    });
  }
  ~HeldQueriesTest() override {
    if (!held.try_wait()) held.count_down();
  }
  std::string query() const { return "/api/v1/runs/" + testing::run_id + "/series?keys=loss"; }
  std::latch held{1};
  std::atomic<int> begun = 0;
  std::atomic<Lane> lane = Lane::query;  // that is held
  testing::TestServer server;
};

TEST_F(HeldQueriesTest, HeartbeatsRecordsAndOrdinaryRequestsAreAnsweredMeanwhile) {
  const std::string reader = server.token(Scope::read);
  for (int i = 0; i < 28; ++i) {
    Client(server.port())
        .send("GET " + query() + " HTTP/1.1\r\nHost: localhost\r\n" + testing::authorization(reader) + "\r\n");
  }
  ASSERT_TRUE(soon([&] { return begun == 2; }));
  Client client(server.port());
  EXPECT_EQ(
      client.post("/api/v1/runs/" + testing::run_id + "/heartbeat", R"({"attempt": 1, "rank": 0, "host": "hostA"})")
          .status,
      200);
  EXPECT_EQ(client.post(testing::records_path(), testing::batch_text({testing::step_record(2, 2)})).status, 200);
  EXPECT_EQ(client.get("/api/v1/runs?limit=1").status, 200);
  EXPECT_EQ(client.get("/readyz").status, 200);
  const std::string metrics = client.get("/metrics").body;
  EXPECT_NE(metrics.find("babelring_lane_running_requests{lane=\"query\"} 2\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("babelring_lane_oldest_wait_seconds{lane=\"query\"} "), std::string::npos);
  EXPECT_EQ(begun, 2) << "no more of one token at once";
}

TEST_F(HeldQueriesTest, QueriesOfClientsThatLeftAreDroppedAndNeverRun) {
  const std::string reader = server.token(Scope::read);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 28; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send("GET " + query() + " HTTP/1.1\r\nHost: localhost\r\n" + testing::authorization(reader) +
                         "\r\n");
  }
  const auto waiting = [&] { return server.lanes().stats(Lane::query).waiting; };
  ASSERT_TRUE(soon([&] { return begun == 2 && waiting() == 26; }));
  clients.clear();
  Client client(server.port());
  ASSERT_TRUE(soon([&] { return server.connections() == 1; })) << "that they left is seen while they wait";
  held.count_down();
  EXPECT_EQ(client.get(query()).status, 200);
  EXPECT_TRUE(soon([&] { return server.lanes().stats(Lane::query).abandoned == 26; }));
  EXPECT_EQ(begun, 3) << "the two that ran already and the last";
  EXPECT_NE(client.get("/metrics").body.find("code=\"499\""), std::string::npos);
}

TEST_F(HeldQueriesTest, ValidationsWaitForEachOtherAlone) {
  lane = Lane::process;
  const std::string reader = server.token(Scope::read), other = server.token(Scope::read);
  std::vector<std::unique_ptr<Client>> clients;
  const auto validate = [&](const std::string& token) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(
        "POST /api/v1/runs:validate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
        testing::authorization(token) + "Content-Length: 2\r\n\r\n{}");
  };
  validate(reader);
  ASSERT_TRUE(soon([&] { return begun == 1; }));
  for (int i = 0; i < 17; ++i) validate(reader);
  ASSERT_TRUE(soon([&] { return begun == 1 && server.lanes().stats(Lane::process).refused == 1; }));
  validate(other);
  ASSERT_TRUE(soon([&] { return begun == 2; })) << "of another token";
  EXPECT_EQ(server.lanes().stats(Lane::process).waiting, 16U);
  Client client(server.port());
  EXPECT_EQ(client.get("/api/v1/runs?limit=1").status, 200);
  EXPECT_EQ(client.get(query()).status, 200);
}

TEST_F(HeldQueriesTest, BeyondABoundedQueueIsRefused) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 66; ++i) {
    if (i == 2) {
      ASSERT_TRUE(soon([&] { return begun == 2; }));
    }
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send("GET " + query() + " HTTP/1.1\r\nHost: localhost\r\n" + testing::authorization() + "\r\n");
  }
  ASSERT_TRUE(soon([&] { return server.lanes().stats(Lane::query).waiting == 64; }));
  const testing::Answer refused = Client(server.port()).get(query());
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_EQ(parse_json(refused.body)->at("code"), "busy");
  EXPECT_FALSE(refused.headers.at("retry-after").empty());
}

TEST(LaneTable, QueriesGiveWayToHeartbeats) {
  Lanes lanes;
  const int ours = getpriority(PRIO_PROCESS, 0);
  if (ours > 14) GTEST_SKIP() << "the priority of this program is the lowest already";
  std::map<Lane, std::promise<int>> priorities;
  for (const Lane lane : all_lanes) {
    std::promise<int>& priority = priorities[lane];
    Work work;
    work.arrived = SteadyClock::now();
    work.run = [&priority] { priority.set_value(getpriority(PRIO_PROCESS, 0)); };
    lanes.submit(lane, std::move(work));
  }
  for (auto& [lane, priority] : priorities) {
    const bool gives_way = lane == Lane::query || lane == Lane::process;
    EXPECT_EQ(priority.get_future().get(), gives_way ? ours + 5 : ours) << name_of(lane);
  }
}

TEST(LaneTable, EveryLaneServesARoute) {
  std::set<Lane> seen;
  for (const api::RouteEntry& route : api::route_table()) seen.insert(route.options.lane);
  EXPECT_EQ(seen.size(), all_lanes.size());
  const auto count = [&](Lane lane) {
    return std::count_if(api::route_table().begin(), api::route_table().end(),
                         [&](const api::RouteEntry& route) { return route.options.lane == lane; });
  };
  EXPECT_EQ(count(Lane::query), 14);
  EXPECT_EQ(count(Lane::process), 2);
}

}  // namespace
}  // namespace babelring::http
