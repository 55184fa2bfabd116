#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "base/files.h"
#include "base/json.h"
#include "server/http/admission.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

namespace babelring {
namespace {

using testing::Client;
using testing::record_of;
using testing::run_id;
using testing::step_record;

class PrometheusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    LifecycleRecord started{.event = "started", .name = "a \"name\"\nwith\\all"};
    started.world_size = 2;
    LifecycleRecord up{.event = "rank_up", .pid = 7, .device = "cuda:0 NVIDIA"};
    CheckpointRecord checkpoint{.update = 3, .name = "update-00000003", .write_seconds = 0.25};
    Record step = step_record(3, 3);
    std::get<StepRecord>(step.body).update_target_tokens = 201;
    std::get<StepRecord>(step.body).busy_fraction = 0.5;
    testing::put(server.store(), {record_of(started, 1), record_of(up, 2), step, record_of(checkpoint, 4)});
    server.control().heartbeats().record(run_id, {.attempt = 1, .rank = 0, .host = "hostA"});
    Client client(server.port());
    client.get("/healthz");
    client.get("/api/v1/runs");
    client.get("/api/v1/runs/" + run_id);
    client.get("/api/v1/evals/none");
  }
  std::string scrape() {
    const auto answer = Client(server.port()).get("/metrics");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    return answer.body;
  }
  static std::string value_of(const std::string& text, const std::string& series) {
    const auto at = text.find("\n" + series + " ");
    if (at == std::string::npos) return "absent";
    const auto begin = at + series.size() + 2;
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  testing::TestServer server;
};

TEST_F(PrometheusTest, CountsEntriesThatTheAuditLeavesOut) {
  EXPECT_EQ(value_of(scrape(), "babelring_audit_dropped_total{cause=\"joined\"}"), "0");
  for (int i = 0; i < 3; ++i) Client(server.port(), "").post("/api/v1/tokens", "{}");
  const std::string text = scrape();
  EXPECT_EQ(value_of(text, "babelring_audit_dropped_total{cause=\"joined\"}"), "2");
  for (const char* cause : {"expired", "displaced", "lost"}) {
    EXPECT_EQ(value_of(text, std::string("babelring_audit_dropped_total{cause=\"") + cause + "\"}"), "0");
  }
}

TEST_F(PrometheusTest, ExportsGpuUtilization) {
  Record step = step_record(5, 4);
  std::get<StepRecord>(step.body).gpu["utilization_percent"] = 80;
  testing::put(server.store(), {step});
  const std::string labels = "{run=\"" + run_id + "\",rank=\"0\",host=\"hostA\"}";
  EXPECT_EQ(value_of(scrape(), "babelring_gpu_utilization_ratio" + labels), "0.8");
}

TEST_F(PrometheusTest, ExportsRunsRanksRequestsAndIngest) {
  const std::string text = scrape();
  const std::string labels = "{run=\"" + run_id + "\",name=\"a \\\"name\\\"\\nwith\\\\all\"}";
  EXPECT_EQ(value_of(text, "babelring_run_step" + labels), "3") << text;
  EXPECT_EQ(value_of(text, "babelring_run_target_tokens_per_second" + labels), "2010");
  EXPECT_EQ(value_of(text, "babelring_checkpoint_write_seconds" + labels), "0.25");
  EXPECT_EQ(value_of(text, "babelring_gpu_utilization_ratio{run=\"" + run_id + "\",rank=\"0\",host=\"hostA\"}"), "0.5");
  EXPECT_EQ(value_of(text, "babelring_runs{state=\"running\"}"), "1");
  EXPECT_EQ(value_of(text, "babelring_ingest_records_total"), "4");
  EXPECT_EQ(value_of(text, "babelring_ingest_commit_seconds_count"), "1");
  EXPECT_EQ(value_of(text, "babelring_sse_subscribers"), "0");
  const std::string requests = "babelring_http_request_duration_seconds_count";
  EXPECT_EQ(value_of(text, requests + R"({route="/api/v1/runs/{run}",method="GET",code="200"})"), "1");
  EXPECT_EQ(value_of(text, requests + R"({route="/api/v1/evals/{eval}",method="GET",code="404"})"), "1");
  EXPECT_NE(value_of(text, "process_resident_memory_bytes"), "absent");
}

TEST_F(PrometheusTest, ExportsTheAgeOfHeartbeatsNotOfRecords) {
  testing::put(server.store(), {step_record(1, 1, 1)});  // rank 1 reports, but sends no heartbeat
  const std::string text = scrape(), name = "babelring_rank_heartbeat_age_seconds{run=\"" + run_id + "\",rank=";
  const std::string age = value_of(text, name + "\"0\",host=\"hostA\"}");
  ASSERT_NE(age, "absent") << text;
  EXPECT_GE(std::stod(age), 0);
  EXPECT_LT(std::stod(age), 60);
  EXPECT_EQ(value_of(text, name + "\"1\",host=\"hostA\"}"), "absent");
}

TEST_F(PrometheusTest, CountsRefusals) {
  Client(server.port(), "").get("/api/v1/runs");
  Client(server.port(), server.token(http::Scope::read)).get("/api/v1/tokens");
  Client(server.port()).get("/api/v1/runs", "X-Forwarded-Host: a\r\n");
  Client foreign(server.port());
  foreign.send("GET /api/v1/runs HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(foreign.receive().status, 421);
  Client(server.port()).get("/nothing");
  const std::string text = scrape(), requests = "babelring_http_request_duration_seconds_count";
  EXPECT_EQ(value_of(text, requests + R"({route="/api/v1/runs",method="GET",code="401"})"), "1") << text;
  EXPECT_EQ(value_of(text, requests + R"({route="/api/v1/tokens",method="GET",code="403"})"), "1");
  EXPECT_EQ(value_of(text, requests + R"({route="/api/v1/runs",method="GET",code="421"})"), "1");
  EXPECT_EQ(value_of(text, requests + R"({route="none",method="GET",code="404"})"), "1");

  http::AdmissionOptions options;
  options.rates = {0.01, 2};
  testing::TestServer strict({}, {}, options);
  Client eager(strict.port(), strict.token(http::Scope::read));
  for (int i = 0; i < 3; ++i) eager.get("/api/v1/runs");
  const std::string other = Client(strict.port()).get("/metrics").body;
  EXPECT_EQ(value_of(other, requests + R"({route="/api/v1/runs",method="GET",code="429"})"), "1") << other;
}

TEST_F(PrometheusTest, RequiresATokenWithScopeRead) {
  EXPECT_EQ(Client(server.port(), "").get("/metrics").status, 401) << "also from this machine";
  EXPECT_EQ(Client(server.port(), server.token(http::Scope::read)).get("/metrics").status, 200);
  EXPECT_EQ(Client(server.port(), server.token(http::Scope::ingest)).get("/metrics").status, 403);
}

/// With open_metrics, a local scraper needs no token, but one behind a proxy does.
TEST_F(PrometheusTest, MayBeOpenToLocalClients) {
  http::AdmissionOptions options;
  options.open_metrics = true;
  testing::TestServer open({}, {}, options);
  Client nobody(open.port(), "");
  EXPECT_EQ(nobody.get("/metrics").status, 200);
  EXPECT_EQ(nobody.get("/api/v1/runs").status, 401);
  for (const char* line :
       {"X-Forwarded-For: 10.1.2.3\r\n", "Forwarded: for=10.1.2.3\r\n", "X-Real-IP: 10.1.2.3\r\n", "Via: 1.1 proxy\r\n",
        "X-Forwarded-Proto: https\r\n", "X-Forwarded-Host: train.example\r\n"}) {
    EXPECT_EQ(Client(open.port(), "").get("/metrics", line).status, 401) << line;
  }
  Client old(open.port(), "");
  old.send("GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(old.receive().status, 401) << "nginx speaks so by default";
  Client foreign(open.port(), "");
  foreign.send("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(foreign.receive().status, 421);
  EXPECT_EQ(Client(open.port(), "bbr_wrong").get("/metrics").status, 401);

  options.behind_proxy = true;
  testing::TestServer proxied({}, {}, options);
  EXPECT_EQ(Client(proxied.port(), "").get("/metrics").status, 401);
  EXPECT_EQ(Client(proxied.port()).get("/metrics").status, 200);

  http::Router router;
  router.add({.method = "GET", .path = "/metrics", .scope = http::Scope::read, .loopback_without_token = true});
  const http::Admission admission({.authenticator = &server.service().tokens, .open_metrics = true}, std::move(router),
                                  http::StaticFiles({}, {}));
  http::Request request;
  request.method = "GET";
  request.segments = {"metrics"};
  request.headers["host"] = "localhost";
  request.address = "10.1.2.3";
  EXPECT_EQ(admission.decide(request).refusal->status, 401);
  request.address = "::ffff:127.0.0.1";
  EXPECT_FALSE(admission.decide(request).refusal);
}

TEST_F(PrometheusTest, CountsIngestedNumbers) {
  const std::string before = value_of(scrape(), "babelring_ingest_points_total");
  testing::put(server.store(), {step_record(5, 5), step_record(6, 6)});
  testing::put(server.store(), {step_record(5, 5)});
  const std::string text = scrape();
  EXPECT_EQ(std::stod(value_of(text, "babelring_ingest_points_total")), 3 * std::stod(before));
  EXPECT_EQ(value_of(text, "babelring_ingest_duplicates_total"), "1");
}

TEST_F(PrometheusTest, IsBoundedForManyRuns) {
  for (int n = 0; n < 60; ++n) {
    for (const std::int64_t rank : {0, 1, 2}) {
      Record record = step_record(1, 1, rank);
      record.header.run = run_id.substr(0, 26) + static_cast<char>('A' + n / 10) + static_cast<char>('0' + n % 10);
      testing::put(server.store(), {record});
    }
  }
  const std::string text = scrape();
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 20'000);
  const std::regex step("\nbabelring_run_step\\{");
  EXPECT_EQ(std::distance(std::sregex_iterator(text.begin(), text.end(), step), std::sregex_iterator()), 50);
}

/// The names of metrics in a text.
std::set<std::string> metrics_in(const std::string& text) {
  std::set<std::string> names;
  const std::regex name("\\b(babelring|process)_[a-z_]+");
  for (std::sregex_iterator match(text.begin(), text.end(), name), end; match != end; ++match) {
    names.insert(std::regex_replace(match->str(), std::regex("_(bucket|count|sum)$"), ""));
  }
  return names;
}

/// The Grafana dashboard uses all exported metrics and no others, the alerts some of them.
TEST_F(PrometheusTest, TheGrafanaDashboardAndTheAlertsKnowTheNames) {
  const std::string dashboard = read_file(BABELRING_SOURCE_DIR "/deploy/grafana/babelring.json");
  ASSERT_TRUE(parse_json(dashboard).ok());
  const std::set<std::string> asked = metrics_in(dashboard),
                              alerts = metrics_in(read_file(BABELRING_SOURCE_DIR "/deploy/grafana/alerts.yml"));
  std::set<std::string> exported;
  std::istringstream text(scrape());
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("# TYPE ")) exported.insert(line.substr(7, line.find(' ', 7) - 7));
  }
  exported.erase("babelring_build_info");
  EXPECT_EQ(asked, exported);
  EXPECT_GE(alerts.size(), 8u);
  EXPECT_TRUE(std::ranges::includes(exported, alerts)) << "an alert asks for another metric";
}

/// With the program promtool, without which its tests are skipped.
class PromtoolTest : public PrometheusTest {
 protected:
  void SetUp() override {
    PrometheusTest::SetUp();
    const char* chosen = std::getenv("PROMTOOL");
    promtool_ = chosen != nullptr ? chosen : "promtool";
    if (std::system(("command -v " + promtool_ + " >/dev/null 2>&1").c_str()) != 0) {
      GTEST_SKIP() << "there is no promtool (package prometheus; or name it by PROMTOOL)";
    }
  }
  /// Runs "promtool WORDS" in the folder, and returns its exit code and what it said.
  std::pair<int, std::string> run(const std::string& words) const {
    FILE* pipe = popen(("cd " + folder_.path().string() + " && " + promtool_ + " " + words + " 2>&1").c_str(), "r");
    std::string output;
    std::array<char, 4096> bytes;
    while (const std::size_t size = fread(bytes.data(), 1, bytes.size(), pipe)) output.append(bytes.data(), size);
    return {WEXITSTATUS(pclose(pipe)), output};
  }
  std::string promtool_;
  testing::TemporaryFolder folder_;
};

TEST_F(PromtoolTest, FindsNothingWrongInTheMetrics) {
  std::ofstream(folder_.path() / "metrics") << scrape();
  EXPECT_EQ(run("check metrics < metrics"), std::pair(0, std::string()));
}

TEST_F(PromtoolTest, RaisesEachAlertInTime) {
  for (const char* file : {"deploy/grafana/alerts.yml", "tests/server/telemetry/alerts_test.yml"}) {
    const std::filesystem::path source = std::filesystem::path(BABELRING_SOURCE_DIR) / file;
    std::filesystem::copy_file(source, folder_.path() / source.filename());
  }
  const auto [code, output] = run("test rules alerts_test.yml");
  EXPECT_EQ(code, 0) << output;
}

}  // namespace
}  // namespace babelring
