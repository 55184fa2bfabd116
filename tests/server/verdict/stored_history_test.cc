#include "server/verdict/verdict_input.h"

#include <gmock/gmock.h>

#include <map>

#include "base/digest.h"
#include "base/text.h"
#include "insight/report/report.h"
#include "insight/report/spooled_history.h"
#include "tests/insight/report/constructed_run.h"
#include "tests/server/api_fixture.h"

namespace babelring::api {
namespace {

using ::testing::HasSubstr;

/// Posts records to a server and collects them as a reader of spools does.
class StoredHistoryTest : public babelring::testing::ApiFixture {
 protected:
  void add(constructed::ConstructedRun run, std::int64_t attempt = 1, std::int64_t first_update = 1) {
    run.run = babelring::testing::run_id;
    run.each([&](Record record) {
      const auto* step = std::get_if<StepRecord>(&record.body);
      if (step != nullptr && step->update < first_update) return;
      record.header.attempt = attempt;
      add(std::move(record));
    });
  }
  void add(Record record) {
    RecordHeader& header = record.header;
    header.run = babelring::testing::run_id;
    header.sequence = ++sequences_[{header.attempt, header.rank}];
    collector_.add(record);
    std::vector<Record>& batch = batches_[{header.attempt, header.rank}];
    batch.push_back(std::move(record));
    if (batch.size() == 500) post_batches();
  }
  void post_batches() {
    for (auto& [key, batch] : batches_) {
      if (batch.empty()) continue;
      const auto answer = post(batch);
      ASSERT_EQ(answer.status, 200) << answer.body;
      batch.clear();
    }
  }
  /// Compares the server's report in every form with that of the records.
  void expect_equal_reports() {
    post_batches();
    const insight::Report report = insight::make_report(std::move(collector_).finish());
    for (const auto& [word, format] : insight::report_formats()) {
      const auto answer = babelring::testing::Client(server.port()).get(run_path("/report?format=" + word));
      ASSERT_EQ(answer.status, 200) << answer.body;
      EXPECT_EQ(answer.body, insight::render(report, format)) << word;
    }
  }

 private:
  insight::HistoryCollector collector_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> sequences_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Record>> batches_;
};

TEST_F(StoredHistoryTest, GivesTheReportOfTheSpools) {
  add(constructed::run_on_two_hosts());
  expect_equal_reports();
  EXPECT_THAT(babelring::testing::Client(server.port()).get(run_path("/report?format=md")).body,
              HasSubstr("network-bound"));
}

TEST_F(StoredHistoryTest, GivesTheReportOfTheSpoolsAfterARestart) {
  constructed::ConstructedRun run = constructed::run_on_two_hosts();
  run.end_event = "failed", run.end_detail = "rank 1 lost", run.updates = 250;
  add(run);
  run = constructed::run_on_two_hosts();
  run.begin_ms += 600'000;
  add(run, 2, 201);
  expect_equal_reports();
}

TEST_F(StoredHistoryTest, GivesTheReportOfTheSpoolsOfALongRun) {
  Record record{{.attempt = 1, .host = "h", .time_ms = 1'795'000'000'000}, {}};
  LifecycleRecord started{.event = "started", .name = "long", .world_size = 1};
  record.body = started;
  add(record);
  for (std::int64_t update = 1; update <= 300'000; update += update % 640 == 0 ? 12'801 : 1) {
    record.header.time_ms += 100;
    record.body = StepRecord{.update = update, .times = {.step = 90 + static_cast<double>(update % 7), .forward = 80}};
    add(record);
  }
  expect_equal_reports();
}

TEST_F(StoredHistoryTest, ServesHtmlWithAPolicyWithoutScripts) {
  add(constructed::run_on_two_hosts());
  post_batches();
  babelring::testing::Client client(server.port());
  const auto html = client.get(run_path("/report?format=html"));
  EXPECT_EQ(html.headers.at("content-type"), "text/html; charset=utf-8");
  const std::string policy = html.headers.at("content-security-policy");
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, HasSubstr("sandbox"));
  const std::size_t begin = html.body.find("<style>") + 7, end = html.body.find("</style>");
  const std::string digest = sha256_hex(html.body.substr(begin, end - begin));
  EXPECT_THAT(policy, HasSubstr("style-src 'sha256-" + base64_of_hex(digest) + "'"));
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(policy.find("script-src"), std::string::npos);
  EXPECT_EQ(html.body.find("<script"), std::string::npos);
  EXPECT_EQ(client.get(run_path("/report?format=pdf")).status, 400);
  EXPECT_EQ(client.get("/api/v1/runs/r_01J8ZQ4T5W6X7Y8Z9A0B1C2D30/report").status, 404);
}

TEST_F(StoredHistoryTest, SaysOfARunWithoutUpdatesWhatIsMissing) {
  add(Record{{.attempt = 1, .host = "h", .time_ms = 1}, LifecycleRecord{.event = "started", .name = "new"}});
  expect_equal_reports();
}

}  // namespace
}  // namespace babelring::api
