#include "server/api/query_price.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "server/store/series/series.h"
#include "tests/server/test_server.h"

namespace babelring::api {
namespace {

using testing::Client;
using testing::run_id;

TEST(QueryPriceTest, NamesTheCostTheLimitAndTheRemedy) {
  EXPECT_TRUE(check_price({.series = 64, .points = 1562, .rows = max_query_rows, .point_bytes = 56}));
  EXPECT_EQ(check_price({.series = 64, .points = 20'000}).error(),
            "64 series of 20000 points are 1280000 points, expected at most 100000: ask for at most 1562 points "
            "per series, or fewer series");
  EXPECT_EQ(check_price({.series = 60'000, .points = 2}).error(),
            "60000 series of 2 points are 120000 points, expected at most 100000: ask for fewer series");
  EXPECT_EQ(check_price({.series = 1, .points = 2, .rows = max_query_rows + 1}).error(),
            "the query reads about 4000001 stored values, expected at most 4000000: ask for a shorter range (from, "
            "to), fewer series, fewer points per series, or one rank");
  EXPECT_TRUE(check_price({.series = 1, .points = 1'000'000, .point_bytes = 24, .every_point = true}));
  EXPECT_EQ(check_price({.series = 1, .points = 1'000'000, .point_bytes = 100, .every_point = true}).error(),
            "the response has about 95 MiB, expected at most 64: ask for a shorter range (from, to) or format=f64");
  EXPECT_FALSE(check_price({.series = INT64_MAX, .points = INT64_MAX, .point_bytes = INT64_MAX, .every_point = true}));
}

class PricedQueriesTest : public ::testing::Test {
 protected:
  static void fill(testing::TestServer& server, std::int64_t steps) {
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      std::vector<Record> records;
      for (std::int64_t step = 1; step <= steps; ++step) records.push_back(testing::step_record(step, step, rank));
      testing::put(server.store(), std::move(records));
    }
  }
  testing::TestServer server;
  Client client{server.port()};
};

TEST_F(PricedQueriesTest, AreRefusedBeforeTheyRun) {
  fill(server, 10);
  const std::string run = "/api/v1/runs/" + run_id;
  const auto too_many = client.get(run + "/series?points=20000&keys=a,b,c,d,e,f");
  EXPECT_EQ(too_many.status, 422) << too_many.body;
  EXPECT_EQ(parse_json(too_many.body)->at("code"), "query_too_expensive");
  EXPECT_EQ(client.get(run + "/series?points=20000&keys=a,b,c,d,e").status, 200);
  const auto query = client.post("/api/v1/metrics/query", R"({"runs": [")" + run_id +
                                                              R"("], "points": 5000, "keys": ["0","1","2","3","4","5",)"
                                                              R"("6","7","8","9","a","b","c","d","e","f","g","h","i",)"
                                                              R"("j","k"]})");
  EXPECT_EQ(query.status, 422) << query.body;
  EXPECT_EQ(parse_json(query.body)->at("code"), "query_too_expensive");
  EXPECT_EQ(parse_json(query.body)->at("errors").at(0).at("pointer"), "/points");
}

TEST_F(PricedQueriesTest, RepeatedKeysAreMerged) {
  fill(server, 10);
  std::string keys = "loss";
  for (int i = 0; i < 200; ++i) keys += ",loss";
  const auto answer = client.get("/api/v1/runs/" + run_id + "/series?points=20000&keys=" + keys + ",loss@1");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(parse_json(answer.body)->at("items").as_array().size(), 2U);
  const auto query = client.post("/api/v1/metrics/query",
                                 R"({"runs": [")" + run_id + R"(", ")" + run_id + R"("], "keys": ["loss", "loss"]})");
  ASSERT_EQ(query.status, 200) << query.body;
  EXPECT_EQ(parse_json(query.body)->at("items").as_array().size(), 1U);
}

TEST_F(PricedQueriesTest, PiecesAreCountedFromTheRange) {
  fill(server, 200);
  auto reader = server.store().reader();
  store::SeriesQuery query{.run = 1, .world_size = 2, .key = "loss"};
  EXPECT_EQ(store::estimate_rows_read(*reader, query), 400) << "every step of both ranks";
  query.rank = 1;
  EXPECT_EQ(store::estimate_rows_read(*reader, query), 200);
  query.from = 51;
  query.to = 150;
  EXPECT_EQ(store::estimate_rows_read(*reader, query), 100);
  query.points = 1;
  EXPECT_LE(store::estimate_rows_read(*reader, query), 1 + 2 * 64 + 1) << "a summary and what lies around it";
}

TEST_F(PricedQueriesTest, UpdatesFarApartCostLittle) {
  testing::put(server.store(), {testing::step_record(1, 1), testing::step_record(2, std::int64_t{1} << 40),
                                testing::step_record(3, (std::int64_t{1} << 53) - 1)});
  EXPECT_EQ(client.get("/api/v1/runs/" + run_id + "/series?keys=loss").status, 200);
  EXPECT_EQ(client.get("/api/v1/runs/" + run_id + "/metrics/loss?agg=raw").status, 200);
}

TEST_F(PricedQueriesTest, EndWhenTheirClientsLeave) {
  fill(server, 5000);
  std::atomic<bool> left = false;
  auto reader = server.store().reader(store::Store::For::queries, [&] { return left.load(); });
  const store::SeriesQuery query{.run = 1, .world_size = 2, .key = "loss", .points = 20'000};
  EXPECT_EQ(store::read_series(*reader, query).total, 5000);
  left = true;
  EXPECT_THROW(store::read_series(*reader, query), store::SqlFailure);
  left = false;
  EXPECT_EQ(store::read_series(*reader, query).total, 5000);
}

TEST(ReadersTest, ClosesConnectionsThatAreNotUsed) {
  testing::TestServer server;
  store::Readers readers(server.store().database_file(), 3);
  {
    const auto first = readers.lease(), second = readers.lease();
    readers.close_unused(std::chrono::milliseconds(0));
    EXPECT_EQ(readers.count(), 2U) << "both are lent";
  }
  readers.close_unused(std::chrono::hours(1));
  EXPECT_EQ(readers.count(), 2U);
  readers.close_unused(std::chrono::milliseconds(0));
  EXPECT_EQ(readers.count(), 0U);
  std::vector<std::unique_ptr<store::Readers::Lease>> leases;
  for (int i = 0; i < 3; ++i)
    leases.push_back(std::unique_ptr<store::Readers::Lease>(new store::Readers::Lease(readers.lease())));
  EXPECT_EQ(readers.count(), 3U) << "closed ones leave their places to others";
  EXPECT_EQ((*leases[0])->database.scalar("SELECT count(*) FROM runs"), "0");
}

TEST(ReadersTest, PurposesDoNotWaitForEachOther) {
  testing::TestServer server;
  std::vector<std::unique_ptr<store::Readers::Lease>> leases;
  const auto take = [&](store::Store::For what) {
    leases.push_back(std::unique_ptr<store::Readers::Lease>(new store::Readers::Lease(server.store().reader(what))));
  };
  for (int i = 0; i < 4; ++i) take(store::Store::For::queries);
  take(store::Store::For::requests);
  take(store::Store::For::reports);
  take(store::Store::For::own);
  EXPECT_EQ(Client(server.port()).get("/readyz").status, 200);
  store::Readers none(server.store().database_file(), 1, std::chrono::milliseconds(1));
  const auto one = none.lease();
  EXPECT_THROW(none.lease(), store::Busy);
}

}  // namespace
}  // namespace babelring::api
