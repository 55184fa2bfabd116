#include <gtest/gtest.h>

#include "base/json.h"
#include "base/names.h"
#include "server/store/control.h"
#include "tests/server/test_server.h"

namespace babelring {
namespace {

using http::Scope;
using testing::Client;

constexpr std::int64_t huge = std::int64_t{1} << 53;

/// Which tokens may report for which runs, attempts and ranks.
class ReportersTest : public ::testing::Test {
 protected:
  static std::string code(const testing::Answer& answer) {
    if (answer.status == 200 || answer.status == 201) return "";
    return std::to_string(answer.status) + ' ' + parse_json(answer.body)->at("code").as_string().c_str();
  }
  static Record step(const std::string& run, std::int64_t sequence, std::int64_t attempt = 1, std::int64_t rank = 0) {
    Record record = testing::step_record(sequence, sequence, rank, attempt);
    record.header.run = run;
    return record;
  }
  static Record life(const std::string& run, std::int64_t sequence, const LifecycleRecord& body,
                     std::int64_t rank = 0) {
    Record record = testing::record_of(body, sequence, rank);
    record.header.run = run;
    return record;
  }
  std::string report(const std::string& token, const Record& record) {
    return code(Client(server.port(), token)
                    .post("/api/v1/runs/" + record.header.run + "/records", testing::batch_text({record})));
  }
  std::string beat(const std::string& token, const std::string& run, std::int64_t attempt = 1, std::int64_t rank = 0) {
    const std::string body = to_text(json::object{{"attempt", attempt}, {"rank", rank}, {"host", "hostA"}});
    return code(Client(server.port(), token).post("/api/v1/runs/" + run + "/heartbeat", body));
  }
  std::string evaluate(const std::string& token, const std::string& run) {
    return code(Client(server.port(), token).post("/api/v1/runs/" + run + "/evals", R"({"update": 1, "set": "v"})"));
  }
  std::string scalar(const std::string& sql) { return server.store().reader()->database.scalar(sql); }
  json::value show(const std::string& run) {
    return parse_json(Client(server.port()).get("/api/v1/runs/" + run).body).value();
  }
  /// A run of two ranks whose first attempt the server has begun.
  std::string managed() {
    const std::string run = make_id('r');
    server.store().write([&](store::Database& database) {
      store::create_run(database, {.id = run, .name = "mt-managed", .profile = "mpirun-local", .world_size = 2}, 1);
      store::begin_attempt(database, {.number = 1, .id = run, .world_size = 2}, "mpirun", "", "its turn", 1);
    });
    return run;
  }
  testing::TestServer server;
};

TEST_F(ReportersTest, ATokenForAnyRunCannotReportForAnothersRun) {
  const std::string owner = server.token(Scope::ingest), stranger = server.token(Scope::ingest);
  const std::string run = make_id('r');
  EXPECT_EQ(report(owner, step(run, 1)), "");
  const std::string before = scalar("SELECT updated_ms FROM runs");
  EXPECT_EQ(report(stranger, step(run, 2)), "403 run_forbidden");
  EXPECT_EQ(report(stranger, step(run, 2, 2)), "403 run_forbidden");
  EXPECT_EQ(report(stranger, life(run, 2, {.event = "finished", .detail = "owned"})), "403 run_forbidden");
  EXPECT_EQ(beat(stranger, run), "403 run_forbidden");
  EXPECT_EQ(beat(stranger, run, 2), "403 run_forbidden");
  EXPECT_EQ(evaluate(stranger, run), "403 run_forbidden");
  EXPECT_EQ(scalar("SELECT count(*) FROM steps"), "1");
  EXPECT_EQ(scalar("SELECT count(*) FROM evals"), "0");
  EXPECT_EQ(scalar("SELECT updated_ms FROM runs"), before);
  EXPECT_TRUE(server.control().heartbeats().of(run, 1).empty());
  EXPECT_EQ(show(run).at("state"), "running");
  EXPECT_EQ(show(run).at("attempt"), 1);
  EXPECT_EQ(report(owner, step(run, 2)), "");
  EXPECT_EQ(beat(owner, run, 2), "");
  EXPECT_EQ(report(server.token(Scope::ingest, run), step(run, 3, 2)), "") << "one that is bound to the run";
  EXPECT_EQ(report(testing::admin_secret, step(run, 4, 2)), "");
  EXPECT_EQ(beat(testing::admin_secret, run, 2), "");
  server.restart();
  EXPECT_EQ(report(stranger, step(run, 5, 2)), "403 run_forbidden");
  EXPECT_EQ(report(owner, step(run, 5, 2)), "");
  EXPECT_EQ(evaluate(owner, run), "");
}

TEST_F(ReportersTest, ATokenForAPrefixReportsForMatchingNames) {
  const std::string team = server.token(Scope::ingest, "", "mt-"), other = server.token(Scope::ingest, "", "asr-");
  const std::string run = make_id('r');
  EXPECT_EQ(report(team, life(run, 1, {.event = "started", .name = "asr-x"})), "403 run_forbidden");
  EXPECT_EQ(scalar("SELECT count(*) FROM runs"), "0") << "a refused batch leaves nothing behind";
  EXPECT_EQ(beat(team, run), "404 run_unknown");
  EXPECT_EQ(report(team, life(run, 1, {.event = "rank_up"}, 1)), "") << "before rank 0 has told the name";
  EXPECT_EQ(report(other, life(run, 1, {.event = "started", .name = "asr-x"})), "403 run_forbidden");
  EXPECT_EQ(report(team, life(run, 1, {.event = "started", .name = "mt-x"})), "");
  EXPECT_EQ(report(other, step(run, 2)), "403 run_forbidden");
  EXPECT_EQ(beat(other, run), "403 run_forbidden");
  const std::string next = server.token(Scope::ingest, "", "mt-");
  EXPECT_EQ(report(next, step(run, 2)), "") << "another token for the same names";
  EXPECT_EQ(beat(next, run), "");
  EXPECT_EQ(evaluate(next, run), "");
  EXPECT_EQ(report(next, life(run, 3, {.event = "started", .name = "asr-x"})), "403 run_forbidden");
  server.store().write([&](store::Database& database) { store::edit_run(database, run, {.name = "best"}, 9); });
  EXPECT_EQ(report(team, step(run, 3)), "") << "renamed on the page, it still reports for what it has begun";
  EXPECT_EQ(report(next, step(run, 4)), "403 run_forbidden");
}

TEST_F(ReportersTest, ARunWithoutANameIsLeftToAMatchingToken) {
  const std::string wrong = server.token(Scope::ingest, "", "mt-"), fits = server.token(Scope::ingest, "", "asr-");
  const std::string run = make_id('r');
  const LifecycleRecord started{.event = "started", .name = "asr-x"};
  EXPECT_EQ(report(wrong, life(run, 1, {.event = "rank_up"}, 1)), "");
  EXPECT_EQ(report(wrong, life(run, 1, started)), "403 run_forbidden");
  EXPECT_EQ(report(fits, life(run, 1, started)), "403 run_forbidden") << "the name may come any moment";
  server.store().write([](store::Database& database) { database.execute("UPDATE runs SET created_ms = 1"); });
  EXPECT_EQ(report(server.token(Scope::ingest), life(run, 1, started)), "403 run_forbidden");
  EXPECT_EQ(report(fits, step(run, 2, 1, 1)), "403 run_forbidden");
  EXPECT_EQ(report(fits, life(run, 1, started)), "");
  EXPECT_EQ(report(fits, step(run, 2, 1, 1)), "");
  EXPECT_EQ(report(wrong, step(run, 3)), "403 run_forbidden");
}

TEST_F(ReportersTest, ARunStartedByTheServerAcceptsOnlyItsOwnToken) {
  const std::string run = managed(), own = server.token(Scope::ingest, run);
  EXPECT_EQ(report(server.token(Scope::ingest), step(run, 1)), "403 run_forbidden");
  EXPECT_EQ(report(server.token(Scope::ingest, "", "mt-"), step(run, 1)), "403 run_forbidden");
  EXPECT_EQ(beat(server.token(Scope::ingest), run), "403 run_forbidden");
  EXPECT_EQ(beat(server.token(Scope::ingest, "", "mt-"), run), "403 run_forbidden");
  EXPECT_EQ(evaluate(server.token(Scope::ingest), run), "403 run_forbidden");
  EXPECT_EQ(show(run).at("state"), "launching");
  EXPECT_EQ(report(own, step(run, 1)), "");
  EXPECT_EQ(beat(own, run), "");
  EXPECT_EQ(show(run).at("state"), "running");
}

TEST_F(ReportersTest, ARunStartedByTheServerAcceptsOnlySupervisedAttemptsAndRanks) {
  const std::string run = managed(), own = server.token(Scope::ingest, run);
  EXPECT_EQ(beat(own, run, 1, 1), "");
  for (const std::string& token : {own, std::string(testing::admin_secret)}) {
    for (const std::int64_t attempt : {std::int64_t{2}, std::int64_t{9007199254740991}, huge}) {
      EXPECT_EQ(report(token, step(run, 1, attempt)), "409 attempt_refused") << attempt;
      EXPECT_EQ(beat(token, run, attempt), "409 attempt_refused") << attempt;
    }
    EXPECT_EQ(report(token, step(run, 1, 1, 2)), "422 rank_refused");
    EXPECT_EQ(beat(token, run, 1, 2), "422 rank_refused");
  }
  EXPECT_EQ(server.control().heartbeats().of(run, 1).size(), 1u);
  EXPECT_EQ(scalar("SELECT count(*) FROM attempts"), "1");
  EXPECT_EQ(scalar("SELECT count(*) FROM ranks"), "0");
  EXPECT_EQ(show(run).at("attempt"), 1);
  EXPECT_EQ(report(own, step(run, 1, 1, 1)), "");
  EXPECT_EQ(show(run).at("state"), "running");
}

TEST_F(ReportersTest, RefusesSequenceNumbersFarAheadWithoutSideEffects) {
  const std::string owner = server.token(Scope::ingest), run = make_id('r');
  EXPECT_EQ(report(owner, step(run, 1, 1001)), "409 attempt_refused");
  EXPECT_EQ(report(owner, step(run, 1, 1, 4096)), "422 rank_refused");
  Record ahead = step(run, 1);
  ahead.header.sequence = huge;
  EXPECT_EQ(report(owner, ahead), "422 sequence_refused");
  EXPECT_EQ(scalar("SELECT count(*) FROM runs"), "0");
  EXPECT_EQ(report(owner, step(run, 1)), "");
  EXPECT_EQ(report(owner, step(run, 2, huge)), "409 attempt_refused");
  EXPECT_EQ(beat(owner, run, huge), "409 attempt_refused");
  EXPECT_EQ(beat(owner, run, 1002), "409 attempt_refused");
  EXPECT_EQ(beat(owner, run, 1, 4096), "422 rank_refused");
  EXPECT_EQ(report(owner, step(run, 1'000'000'002)), "422 sequence_refused");
  EXPECT_EQ(scalar("SELECT count(*) FROM arrivals"), "1");
  EXPECT_EQ(report(owner, step(run, 1'000'000'001)), "") << "records that were dropped on a full disk, say";
  EXPECT_EQ(beat(owner, run, 2), "") << "the next attempt is welcome";
  EXPECT_EQ(report(owner, step(run, 1, 3)), "");
}

TEST_F(ReportersTest, SaysWhichConfirmedRecordsItLacks) {
  const std::string run = make_id('r');
  Client client(server.port());
  const auto post = [&](std::int64_t sequence, std::int64_t confirmed) {
    json::object batch = parse_json(testing::batch_text({step(run, sequence)}))->as_object();
    batch["confirmed"] = confirmed;
    return client.post("/api/v1/runs/" + run + "/records", to_text(batch));
  };
  EXPECT_EQ(post(1, 0).status, 200);
  EXPECT_EQ(post(2, 1).status, 200);
  const testing::Answer answer = post(8, 7);
  EXPECT_EQ(code(answer), "409 records_missing");
  EXPECT_EQ(parse_json(answer.body)->at("stored"), 2);
  EXPECT_EQ(post(3, 2).status, 200);
  EXPECT_EQ(code(post(4, -1)), "400 bad_body");
  EXPECT_EQ(scalar("SELECT max(last) FROM arrivals"), "3");
}

TEST_F(ReportersTest, TheEndOfTrainingCountsFromRankZeroAlone) {
  const std::string owner = server.token(Scope::ingest), run = make_id('r');
  EXPECT_EQ(report(owner, step(run, 1)), "");
  EXPECT_EQ(report(owner, life(run, 1, {.event = "finished", .detail = "owned"}, 7)), "");
  EXPECT_EQ(report(owner, life(run, 2, {.event = "stopped"}, 7)), "");
  EXPECT_EQ(show(run).at("state"), "running");
  EXPECT_EQ(report(owner, life(run, 2, {.event = "finished", .detail = "max_updates"})), "");
  EXPECT_EQ(show(run).at("state"), "succeeded");
}

TEST_F(ReportersTest, LimitsTheRunsThatATokenBegins) {
  const std::string token = server.token(Scope::ingest, "", "mt-"), other = server.token(Scope::ingest);
  std::int64_t begun = 0;
  std::string last;
  for (int i = 0; i < 300 && last.empty(); ++i) {
    last = report(token, step(make_id('r'), 1));
    if (last.empty()) ++begun;
  }
  EXPECT_EQ(last, "429 too_many_runs");
  EXPECT_EQ(begun, store::max_new_runs_per_minute);
  const auto refused = Client(server.port(), token)
                           .post("/api/v1/runs/" + make_id('r') + "/records", testing::batch_text({step("", 1)}));
  EXPECT_TRUE(refused.headers.contains("retry-after"));
  EXPECT_EQ(report(other, step(make_id('r'), 1)), "");
  EXPECT_EQ(report(testing::admin_secret, step(make_id('r'), 1)), "");
  server.store().write([](store::Database& database) { database.execute("UPDATE runs SET created_ms = 1"); });
  EXPECT_EQ(report(token, step(make_id('r'), 1)), "") << "a minute later";
  server.store().write([](store::Database& database) {
    database.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
        "INSERT INTO runs(id, state, attempt, created_ms, updated_ms, started_ms, begun_by) "
        "SELECT 'r_' || i, 'succeeded', 1, 1, 1, 1, (SELECT begun_by FROM runs WHERE run = 1) FROM n");
  });
  EXPECT_EQ(report(token, step(make_id('r'), 1)), "429 too_many_runs");
  EXPECT_EQ(report(other, step(make_id('r'), 1)), "");
}

TEST_F(ReportersTest, RunsWithoutAKnownTokenContinue) {
  testing::put(server.store(), {testing::step_record(1, 1)});  // as an older release stored them
  const std::string first = server.token(Scope::ingest), second = server.token(Scope::ingest);
  EXPECT_EQ(beat(first, testing::run_id), "");
  EXPECT_EQ(report(first, testing::step_record(2, 2)), "");
  EXPECT_EQ(report(second, testing::step_record(3, 3)), "403 run_forbidden") << "now it is known";
}

}  // namespace
}  // namespace babelring
