#include <gtest/gtest.h>

#include <fstream>

#include "base/atomic_file.h"
#include "base/digest.h"
#include "server/store/alerts.h"
#include "server/store/audit.h"
#include "server/store/logs.h"
#include "server/store/queries.h"
#include "server/store/schema.h"
#include "server/store/series.h"
#include "server/store/store.h"
#include "tests/server/test_server.h"

namespace babelring::store {
namespace {

using babelring::testing::run_id;

/// Takes version 8 back.
constexpr const char* without_8 =
    "DROP INDEX audit_by_count; DROP INDEX audit_by_age; ALTER TABLE audit DROP COLUMN last_ms; "
    "ALTER TABLE audit DROP COLUMN count; ALTER TABLE audit DROP COLUMN kept_by_age; "
    "DROP INDEX runs_begun; ALTER TABLE runs DROP COLUMN begun_by; ALTER TABLE tokens DROP COLUMN run_prefix; "
    "PRAGMA user_version = 7";

/// F26: databases of other releases.
class MigrationTest : public ::testing::Test {
 protected:
  void make_old() {
    Database database(file, Database::Mode::plain);
    database.execute(read_file(BABELRING_SOURCE_DIR "/tests/server/store/data/schema_1.sql"));
  }
  babelring::testing::TemporaryFolder folder;
  std::filesystem::path file = folder.path() / "babelring.db";
};

TEST_F(MigrationTest, BringsTheFirstSchemaToTheNewestWithAllThatWasInIt) {
  make_old();
  Store store(folder.path());
  auto reader = store.reader();
  EXPECT_EQ(reader->database.scalar("PRAGMA user_version"), std::to_string(schema_version));
  EXPECT_EQ(reader->database.scalar("PRAGMA quick_check"), "ok");
  const auto run = find_run(*reader, run_id);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->name, "old");
  EXPECT_EQ(run->last.value("loss"), 2.5);
  SeriesQuery query{.run = run->number, .world_size = 1, .key = "loss"};
  EXPECT_EQ(read_series(*reader, query).total, 100);
  const auto checkpoint = find_checkpoint(*reader, "c_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E");
  ASSERT_TRUE(checkpoint);
  EXPECT_TRUE(checkpoint->best);
  EXPECT_FALSE(checkpoint->pinned);
}

TEST_F(MigrationTest, GivesTheRuleAboutRanksToDatabasesThatHaveTheirRules) {
  const AlertRuleRow own{.name = "mine", .kind = "stall", .threshold = 5};
  {
    Store store(folder.path());
    store.write([&](Database& database) { found_alert_rules(database, {own}); });
  }
  {
    Database database(file, Database::Mode::plain);
    database.execute(without_8);
    database.execute(
        "ALTER TABLE runs DROP COLUMN end_text; ALTER TABLE runs DROP COLUMN may_end_sooner; "
        "DROP INDEX alerts_ranks_differ; PRAGMA user_version = 6");
  }
  Store store(folder.path());
  auto reader = store.reader();
  const auto rules = list_alert_rules(*reader);
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0].name, "mine");
  EXPECT_EQ(rules[1].name, "ranks-differ");
  EXPECT_EQ(rules[1].kind, "ranks_differ");
  EXPECT_EQ(rules[1].threshold, 1);
  EXPECT_TRUE(rules[1].enabled);
}

TEST_F(MigrationTest, SaysOfOldAuditEntriesHowTheyAreKept) {
  make_old();
  {
    Store store(folder.path());
    store.write([&](Database& database) {
      const auto add = [&](const char* route, int status) {
        AuditRow row;
        row.time_ms = 5;
        row.route = route;
        row.status = status;
        append_audit(database, row);
      };
      add("/api/v1/tokens", 201);
      add("/api/v1/tokens", 403);
      add("/api/v1/metrics/query", 200);
      add("/api/v1/runs/{run}/records", 200);
    });
  }
  Database(file, Database::Mode::plain).execute(without_8);
  Store store(folder.path());
  auto reader = store.reader();
  const auto rows = list_audit(*reader, {.oldest_first = true});
  ASSERT_EQ(rows.size(), 4u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].kept_by_age, i == 0) << rows[i].route;
    EXPECT_EQ(rows[i].last_ms, 5);
    EXPECT_EQ(rows[i].count, 1);
  }
}

TEST_F(MigrationTest, RunsBelongToTheTokenThatReportedThemLast) {
  const std::string other = make_id('r');
  {
    Store store(folder.path());
    babelring::testing::put(store, {babelring::testing::step_record(1, 1)});
    Record record = babelring::testing::step_record(1, 1);
    record.header.run = other;
    babelring::testing::put(store, {record});
    store.write([&](Database& database) {
      const auto note = [&](const std::string& token, const std::string& run, int status) {
        database
            .prepare(
                "INSERT INTO audit(time_ms, actor, token, method, route, object, status, request, address) VALUES "
                "(1, 'x', ?, 'POST', '/api/v1/runs/{run}/records', '/api/v1/runs/' || ? || '/records', ?, '', '')")
            .bind(token, run, status)
            .run();
      };
      note("t_first", run_id, 200);
      note("t_last", run_id, 200);
      note("t_refused", run_id, 422);
      note("t_refused", other, 403);
    });
  }
  Database(file, Database::Mode::plain).execute(without_8);
  Store store(folder.path());
  auto reader = store.reader();
  EXPECT_EQ(reader->database.scalar("SELECT begun_by FROM runs WHERE id = '" + run_id + "'"), "t_last");
  EXPECT_EQ(reader->database.scalar("SELECT begun_by FROM runs WHERE id = '" + other + "'"), "") << "not known";
}

TEST_F(MigrationTest, PacksTheLogsOfTheFirstSchema) {
  make_old();
  Store store(folder.path());
  auto reader = store.reader();
  EXPECT_EQ(reader->database.scalar("SELECT count(*) FROM log_lines"), "0");
  EXPECT_EQ(reader->database.scalar("SELECT sum(last - first + 1) FROM log_blocks"), "2500");
  LogFilter filter;
  filter.limit = 5000;
  const auto page = read_logs(*reader, find_run(*reader, run_id)->number, filter);
  ASSERT_EQ(page.lines.size(), 2500u);
  for (std::size_t i = 0; i < page.lines.size(); ++i) {
    ASSERT_EQ(page.lines[i].text, "line " + std::to_string(i + 1));
    ASSERT_EQ(page.lines[i].line, static_cast<std::int64_t>(i + 1));
  }
}

TEST_F(MigrationTest, LeavesWhatItCannotMigrateAsItWas) {
  make_old();
  {
    Database database(file, Database::Mode::plain);
    database.execute("CREATE TABLE retention (other TEXT)");  // in the way of a later migration
  }
  EXPECT_THROW(Store store(folder.path()), SqlFailure);
  Database database(file, Database::Mode::plain);
  EXPECT_EQ(database.scalar("PRAGMA user_version"), "1");
  EXPECT_EQ(database.scalar("SELECT count(*) FROM logs"), "2500");
}

TEST_F(MigrationTest, RefusesANewerSchemaWithoutTouchingTheFile) {
  make_old();
  {
    Database database(file, Database::Mode::plain);
    database.execute("PRAGMA user_version = 99");
  }
  { Database database(file, Database::Mode::writer); }  // what opening alone changes (WAL mode) is no matter of schemas
  const std::string before = sha256_file(file);
  try {
    Store store(folder.path());
    FAIL() << "opened a database of a newer program";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("has schema 99"), std::string::npos) << failure.what();
  }
  EXPECT_EQ(sha256_file(file), before);
}

}  // namespace
}  // namespace babelring::store
