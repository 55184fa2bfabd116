#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "base/digest.h"
#include "base/files.h"
#include "base/names.h"
#include "server/alerts/alert_watch.h"
#include "server/store/access.h"
#include "server/store/alerts.h"
#include "server/store/control.h"
#include "server/store/home.h"
#include "server/store/logs.h"
#include "server/store/runs.h"
#include "server/store/series/series.h"
#include "server/store/store.h"
#include "tests/server/test_server.h"

namespace babelring::store {
namespace {

using babelring::testing::run_id;

/// Takes versions 8 to 21 back.
constexpr const char* without_8 =
    "DROP TABLE black_boxes; DROP TABLE deliveries; DROP TABLE webhooks; DROP TABLE purged_runs; ALTER TABLE alerts "
    "DROP COLUMN reached; ALTER "
    "TABLE ranks DROP COLUMN record_ms; DROP "
    "TABLE resamples; DROP TABLE home; DROP "
    "TABLE moves; DROP INDEX transitions_untold; ALTER TABLE transitions "
    "DROP COLUMN told; "
    "ALTER TABLE runs DROP COLUMN optimizer; ALTER TABLE runs DROP COLUMN bucket_mb; ALTER TABLE runs DROP COLUMN "
    "emulated; ALTER TABLE runs DROP COLUMN data; "
    "ALTER TABLE ranks DROP COLUMN "
    "peak_flops; ALTER TABLE ranks DROP COLUMN "
    "peak_bytes_per_second; ALTER TABLE ranks DROP COLUMN libraries; DROP TABLE trace_requests; DROP TABLE artifacts; "
    "DROP INDEX audit_by_count; DROP INDEX "
    "audit_by_age; ALTER TABLE "
    "audit DROP COLUMN last_ms; "
    "ALTER TABLE audit DROP COLUMN count; ALTER TABLE audit DROP COLUMN kept_by_age; "
    "DROP INDEX runs_begun; ALTER TABLE runs DROP COLUMN begun_by; ALTER TABLE tokens DROP COLUMN run_prefix; "
    "PRAGMA user_version = 7";

/// The migrations up to a version, in order.
std::vector<std::string> migrations_to(int version) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(BABELRING_SOURCE_DIR "/server/store/migrations")) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> texts;
  for (int i = 0; i < version; ++i) texts.push_back(read_file(files.at(static_cast<std::size_t>(i))));
  return texts;
}

/// All that sqlite_master says of tables and indices.
std::string schema_of(Database& database) {
  return database.scalar(
      "SELECT group_concat(entry, char(10)) FROM (SELECT type || '|' || name || '|' || tbl_name || '|' || "
      "coalesce(sql, '') AS entry FROM sqlite_master ORDER BY type, name)");
}

/// Databases of other releases.
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

/// A changed digest means that databases made by a release and by this program would differ.
TEST_F(MigrationTest, MakesTheSchemaOfEachReleasedVersionByteForByte) {
  constexpr std::array digests = {
      "d3eb36df651d9250b0d4aa868119155b306670955e7e5385030d696014ead1ca",
      "6c259e7d2c4170c14ec633e6a451f2515a6190d05959cc8fdad490372175a689",
      "0ab76c6ae06c57be7bd7bbe619a81b7146e5cfb1ec68b5006b2ba6eeb0956bea",
      "e786a40308139a908f94f22b4e82f4eb4668f4478f5a0fd51b6f2327bf83d475",
      "1066aa14764a9250c3820a939e449965794cc2a3fa843107645f1492db6db2ad",
      "f3f84bcfc60e6c85a7916ce2528a505ced59ae762542a78a43fae8c433bff72a",
      "14b13938a8d8006b6de4eb3374e9639c261a9d306fed90acd8ec0f61e00d95b8",
      "141a9f2b4f6b7a23482ba10c6c42a126d079caa7efeda5f5aec12eeef8cba78a",
      "71b76f7ca00222469db8b0ab0dfcb34ad8a6e348c477a2c5a09ba3bb9c8a06fc",
      "cf0532fdcd046b00f742023d6d6834656d302a77788f6aa0c7c4359acc5f5def",
      "c482306453730e59e136b4c96d04c48c6ff29a0d5ad5176533bde7ecd355a979",
      "cd973a9d63b9cd370fa678a11ca72cc33c91dfebb97b9252113eaaf103dab126",
      "2ddc84bee1804082602abecbface29040057f682199ac36af50fc9be4ea41f27",
      "53b7e6e50cff8460dc50fe30197bda7046fced499f65012979527204109bffe6",
      "f58b8b7be6e84015d9068476c84f29c7a0d4916b32176dda623f827921f311cb",
      "100833431cb10aaf123031cdc56e1d9f9560dfc426f28b6c84e36a158ab94548",
      "efe1e97906af039c57411c2bbd7adeb89ab523f7866612f0bb24805073c59c2c",
      "42d6694edd4e19a1715488e7550a86fa0cb98b2bb93ca346feaea213a361d257",
      "bda021bb580f60cb469d96d856af3ccc34a9329713b7b6fc732645b6a9b480bd",
      "9ddbbefe1a64233e872129213daf4fe94c87a63f4a7b5a9db80df4592c300f9b",
      "9d97270fdbc6dd5f03da4f98da5b7faf78a728d57fa83aeeeccb184df6c64f83",
  };
  static_assert(digests.size() == schema_version);
  Database database(file, Database::Mode::plain);
  const auto migrations = migrations_to(schema_version);
  for (std::size_t i = 0; i < digests.size(); ++i) {
    database.execute(migrations[i]);
    EXPECT_EQ(sha256_hex(schema_of(database)), digests.at(i)) << "version " << i + 1;
  }
}

TEST_F(MigrationTest, BringsEveryOlderVersionToTheSchemaOfANewDatabase) {
  const Store fresh(folder.path() / "fresh");
  Database made(fresh.database_file(), Database::Mode::reader);
  for (int version = 1; version < schema_version; ++version) {
    const auto data = folder.path() / std::to_string(version);
    std::filesystem::create_directory(data);
    {
      Database database(data / "babelring.db", Database::Mode::plain);
      for (const std::string& migration : migrations_to(version)) database.execute(migration);
      database.execute(fmt::format("PRAGMA user_version = {}", version));
    }
    Store store(data);
    auto reader = store.reader();
    EXPECT_EQ(reader->database.scalar("PRAGMA user_version"), std::to_string(schema_version));
    EXPECT_EQ(schema_of(reader->database), schema_of(made)) << "from version " << version;
  }
}

TEST_F(MigrationTest, GivesNewRulesToDatabasesThatHaveTheirRules) {
  const AlertRuleRow own{.name = "mine", .kind = "stall", .threshold = 5};
  {
    Store store(folder.path());
    store.write([&](Database& database) { add_default_alert_rules(database, {own}); });
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
  ASSERT_EQ(rules.size(), 6u);
  EXPECT_EQ(rules[0].name, "mine");
  EXPECT_EQ(rules[1].name, "ranks-differ");
  EXPECT_EQ(rules[1].kind, "ranks_differ");
  EXPECT_EQ(rules[1].threshold, 1);
  EXPECT_TRUE(rules[1].enabled);
  const auto defaults = alerts::default_rules();
  for (std::size_t i = 2; i < rules.size(); ++i) {
    const auto same = std::find_if(defaults.begin(), defaults.end(),
                                   [&](const alerts::Rule& rule) { return rule.name == rules[i].name; });
    ASSERT_NE(same, defaults.end()) << rules[i].name;
    const AlertRuleRow expected = alerts::row_of(*same);
    EXPECT_EQ(std::tie(rules[i].kind, rules[i].enabled, rules[i].threshold, rules[i].hold_s, rules[i].clear_s),
              std::tie(expected.kind, expected.enabled, expected.threshold, expected.hold_s, expected.clear_s))
        << rules[i].name;
  }
}

TEST_F(MigrationTest, OldChangesOfStateAreNoNews) {
  {
    Store store(folder.path());
    store.write([&](Database& database) {
      create_run(database, {.id = run_id}, 5);
      change_state(database, {run_id, RunEvent::gave_up, "no such host", ""}, 6);
    });
    auto reader = store.reader();
    const auto untold = untold_transitions(*reader, 10);
    ASSERT_EQ(untold.size(), 1u);
    EXPECT_EQ(untold[0].cause, "no such host");
    EXPECT_EQ(untold[0].after, RunState::failed);
  }
  Database(file, Database::Mode::plain).execute(without_8);
  Store store(folder.path());
  auto reader = store.reader();
  EXPECT_TRUE(untold_transitions(*reader, 10).empty());
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
  {
    Database database(file, Database::Mode::writer);
  }  // what opening alone changes (WAL mode) is no matter of schemas
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
