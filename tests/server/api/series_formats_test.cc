#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/json.h"
#include "server/api/series_answer.h"
#include "server/store/runs.h"
#include "server/store/series/downsampling.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

namespace babelring {
namespace {

using testing::Answer;
using testing::Client;
using testing::run_id;
using testing::step_record;

class SeriesFormatsTest : public ::testing::Test {
 protected:
  void fill(std::int64_t first, std::int64_t last, const std::string& run = run_id) {
    std::vector<Record> records;
    for (std::int64_t n = first; n <= last; ++n) {
      records.push_back(step_record(n, n));
      records.back().header.run = run;
    }
    testing::put(server.store(), std::move(records));
  }
  Answer get(const std::string& rest, const std::string& headers = "") {
    return Client(server.port()).get("/api/v1/runs/" + run_id + rest, headers);
  }
  Answer query(const std::string& body) { return Client(server.port()).post("/api/v1/metrics/query", body); }
  static std::vector<double> doubles(const std::string& bytes) {
    std::vector<double> values(bytes.size() / sizeof(double));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  testing::TestServer server;
};

TEST_F(SeriesFormatsTest, ReturnsColumnsOfDoublesBitForBit) {
  auto records = std::vector{step_record(1, 1), step_record(2, 2), step_record(3, 3)};
  std::get<StepRecord>(records[1].body).loss = INFINITY;
  testing::put(server.store(), records);
  const Answer answer = get("/metrics/loss", "Accept: application/vnd.babelring.f64\r\n");
  EXPECT_EQ(answer.headers.at("content-type"), "application/vnd.babelring.f64");
  EXPECT_EQ(answer.headers.at("x-columns"), "step,time_ms,value");
  EXPECT_EQ(answer.headers.at("x-rows"), "3");
  const auto values = doubles(answer.body);
  ASSERT_EQ(values.size(), 9u);
  EXPECT_EQ(values[2], 3);
  EXPECT_EQ(values[3], 1'795'233'600'100);
  EXPECT_EQ(values[6], 10.0);
  EXPECT_TRUE(std::isnan(values[7]));
  EXPECT_EQ(values[8], 10.0 / 3);
  EXPECT_EQ(get("/metrics/loss?format=f64").body, answer.body);
  EXPECT_EQ(get("/metrics/loss", "Accept: text/csv\r\n").headers.at("content-type"), "text/csv; charset=utf-8");
}

TEST_F(SeriesFormatsTest, ListsTheAllowedValuesForAnUnknownOne) {
  fill(1, 3);
  const auto detail = [](const Answer& answer) {
    return std::string(parse_json(answer.body)->at("detail").as_string());
  };
  EXPECT_EQ(detail(get("/metrics/loss?agg=sum")), "agg: expected one of minmax, avg, lttb, raw, found 'sum'");
  EXPECT_EQ(detail(get("/metrics/loss?format=xml")), "format: expected one of json, csv, f64, found 'xml'");
  EXPECT_EQ(detail(query(R"({"runs": [")" + run_id + R"("], "keys": ["loss"], "x": "time"})")),
            R"(x: expected one of step, wall, rel, found "time")");
  const std::string state = detail(Client(server.port()).get("/api/v1/runs?state=done"));
  EXPECT_TRUE(state.starts_with("state: expected one of queued, ") && state.ends_with(", found 'done'")) << state;
}

TEST_F(SeriesFormatsTest, SampledColumnsHaveBounds) {
  fill(1, 1000);
  const Answer answer = get("/metrics/loss?points=10&format=f64");
  EXPECT_EQ(answer.headers.at("x-columns"), "step,time_ms,min,avg,max");
  EXPECT_EQ(answer.headers.at("x-total"), "1000");
  const auto values = doubles(answer.body);
  const std::size_t rows = std::stoul(answer.headers.at("x-rows"));
  ASSERT_EQ(values.size(), 5 * rows);
  for (std::size_t i = 0; i < rows; ++i) {
    EXPECT_LE(values[2 * rows + i], values[3 * rows + i]);
    EXPECT_LE(values[3 * rows + i], values[4 * rows + i]);
  }
  EXPECT_EQ(values[4 * rows], 10.0);
}

TEST_F(SeriesFormatsTest, ALineOfChosenPointsKeepsItsSpike) {
  fill(1, 3000);
  auto spike = step_record(3001, 1500);
  std::get<StepRecord>(spike.body).loss = 77;
  testing::put(server.store(), {spike});
  const auto answer = parse_json(get("/metrics/loss?agg=lttb&points=50").body).value();
  EXPECT_EQ(answer.at("returned"), 50);
  EXPECT_EQ(answer.at("sampled"), true);
  const auto& steps = answer.at("step").as_array();
  const auto& values = answer.at("value").as_array();
  EXPECT_EQ(steps.front(), 1);
  EXPECT_EQ(steps.back(), 3000);
  bool seen = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::int64_t step = steps[i].as_int64();
    if (i > 0) {
      EXPECT_LT(steps[i - 1].as_int64(), step);
    }
    seen = seen || step == 1500;
    EXPECT_EQ(values[i].to_number<double>(), step == 1500 ? 77 : 10.0 / static_cast<double>(step));
  }
  EXPECT_TRUE(seen);
  EXPECT_EQ(parse_json(get("/metrics/loss?agg=lttb&points=5000").body).value().at("sampled"), false);
  EXPECT_EQ(to_text(parse_json(get("/metrics/loss?agg=lttb&points=2").body).value().at("step")), "[1,3000]");
}

TEST_F(SeriesFormatsTest, AnEmptyRangeIs416) {
  fill(1, 10);
  for (const char* range : {"?from=11", "?x=wall&to=5", "?x=rel&from=1e9", "?from=3.2&to=3.8"}) {
    const Answer answer = get(std::string("/metrics/loss") + range);
    EXPECT_EQ(answer.status, 416) << range << answer.body;
  }
  EXPECT_EQ(get("/metrics/loss?x=rel&to=300").status, 200);
  EXPECT_EQ(get("/metrics/none?from=11").status, 404);
}

TEST_F(SeriesFormatsTest, AlignsRunsOnTheirSteps) {
  const std::string other = run_id.substr(0, 27) + "Z";
  fill(1, 4);
  fill(3, 6, other);
  const Answer answer = query(R"({"runs":[")" + run_id + R"(",")" + other + R"("],"keys":["loss","none"]})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto body = parse_json(answer.body).value();
  EXPECT_EQ(body.at("exact"), true);
  EXPECT_EQ(to_text(body.at("at")), "[1,2,3,4,5,6]");
  const auto& items = body.at("items").as_array();
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(to_text(items[0].at("value")), "[10,5,3.3333333333333335,2.5,null,null]");
  EXPECT_EQ(to_text(items[1].at("value")), "[null,null,null,null,null,null]");
  EXPECT_EQ(to_text(items[2].at("value")), "[null,null,3.3333333333333335,2.5,2,1.6666666666666667]");
  EXPECT_EQ(items[2].at("run").as_string(), other);
}

TEST_F(SeriesFormatsTest, AlignsLongRunsOnEqualBins) {
  const std::string other = run_id.substr(0, 27) + "Z";
  fill(1, 5000);
  fill(1001, 3000, other);
  const Answer answer =
      query(R"({"runs":[")" + run_id + R"(",")" + other + R"("],"keys":["loss"],"points":100,"agg":"minmax"})");
  const auto body = parse_json(answer.body).value();
  EXPECT_EQ(body.at("exact"), false);
  const auto& at = body.at("at").as_array();
  EXPECT_LE(at.size(), 100u);
  const auto& items = body.at("items").as_array();
  for (const auto& item : items) {
    ASSERT_EQ(item.at("avg").as_array().size(), at.size());
    ASSERT_EQ(item.at("min").as_array().size(), at.size());
  }
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto &first = items[0].at("avg").at(i), &second = items[1].at("avg").at(i);
    const double begin = at[i].to_number<double>(), end = begin + body.at("width").to_number<double>();
    EXPECT_LE(first.to_number<double>(), 10 / begin + 1e-9);
    EXPECT_GE(first.to_number<double>(), 10 / end - 1e-9);
    if (begin > 1001 && end < 3000) {
      EXPECT_NEAR(second.to_number<double>(), first.to_number<double>(), 1e-9);
    }
    if (begin > 3000) {
      EXPECT_TRUE(second.is_null());
    }
  }
}

TEST_F(SeriesFormatsTest, ExplainsAnInvalidQuery) {
  fill(1, 2);
  const std::string run = R"({"runs":[")" + run_id + R"("],)";
  EXPECT_EQ(query("{").status, 400);
  EXPECT_EQ(query("[]").status, 422);
  EXPECT_EQ(query(R"({"runs":[],"keys":["loss"]})").status, 422);
  EXPECT_EQ(query(R"({"keys":["loss"]})").status, 422);
  EXPECT_EQ(query(R"({"runs":["r_1' OR 1=1"],"keys":["loss"]})").status, 404);
  for (const char* rest : {R"("keys":["loss"],"points":1})", R"("keys":["loss"],"x":"tokens"})", R"("keys":"loss"})",
                           R"("keys":[1]})", R"("keys":["loss"],"surprise":1})", R"("keys":["loss"],"rank":-1})",
                           R"("keys":["loss"],"from":"1"})", R"("keys":["loss"],"agg":"raw"})"}) {
    EXPECT_EQ(query(run + rest).status, 422) << rest;
  }
  std::string many = "\"loss\"";
  for (int i = 0; i < 50; ++i) many += fmt::format(",\"key{}\"", i);
  EXPECT_EQ(query(run + "\"keys\":[" + many + "]}").status, 422);
  EXPECT_EQ(query(run + R"("keys":["loss"],"from":9,"to":3})").status, 416);
}

/// Each level of the pyramid agrees with the steps below it.
TEST_F(SeriesFormatsTest, EveryLevelEqualsTheSteps) {
  constexpr std::int64_t last = 40'000;
  for (std::int64_t first = 1; first <= last; first += 2000) {
    if (first == 6001) continue;  // reported late
    fill(first, first + 1999);
  }
  fill(6001, 8000);
  auto reader = server.store().reader();
  EXPECT_EQ(reader->database.scalar("SELECT count(*) FROM pyramid WHERE level = 1"), "78");
  EXPECT_EQ(reader->database.scalar("SELECT count(*) FROM pyramid WHERE level = 2"), "9");
  EXPECT_EQ(reader->database.scalar("SELECT count(*) FROM pyramid WHERE level = 3"), "1");
  store::SeriesQuery query{.run = store::find_run(*reader, run_id)->number, .world_size = 1, .key = "loss", .rank = 0};
  for (const std::size_t points : {1u, 5u, 50u, 400u}) {
    query.points = points;
    const auto series = store::read_series(*reader, query);
    EXPECT_EQ(series.total, last) << points;
    EXPECT_LE(series.points.size(), points);
    std::int64_t from = 1;
    for (const auto& point : series.points) {
      EXPECT_EQ(point.count, point.step - from + 1);
      EXPECT_EQ(point.max, 10.0 / static_cast<double>(from));
      EXPECT_EQ(point.min, 10.0 / static_cast<double>(point.step));
      from = point.step + 1;
    }
    EXPECT_EQ(from, last + 1);
  }
}

}  // namespace
}  // namespace babelring
