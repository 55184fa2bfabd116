#include "server/access/audit_log.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/clock.h"
#include "server/store/access.h"
#include "tests/server/access/audit_fixture.h"

namespace babelring {
namespace {

http::WriteNote note_of(std::int64_t time_ms, const std::string& route, int status, bool kept_by_age) {
  http::WriteNote note;
  note.time_ms = time_ms;
  note.token = kept_by_age ? "t_admin" : "t_reader";
  note.method = "POST";
  note.route = note.object = route;
  note.status = status;
  note.kept_by_age = kept_by_age;
  return note;
}

/// Entries caused by readers, reporters and anonymous clients never displace entries of operators.
TEST(AuditLog, KeepsEntriesOfOperatorsUnderAnyLoad) {
  testing::TemporaryFolder folder;
  store::Store store(folder.path());
  access::TokenService tokens(store);
  access::AuditLog::Limits limits;
  limits.rows = 10;
  limits.rows_a_source = 999;
  const std::int64_t now_ms = wall_time_ms();
  access::AuditLog::Counts counts;
  {
    access::AuditLog log(store, tokens, limits);
    for (int i = 0; i < 20; ++i) log.record(note_of(now_ms, "/tokens", 201, true), {});
    for (int i = 0; i < 5000; ++i) log.record(note_of(now_ms, "/" + std::to_string(i), 403, false), {});
    ASSERT_TRUE(soon([&] { return (counts = log.counts()).displaced >= 990; }));
    for (int i = 0; i < 100; ++i) log.record(note_of(now_ms, "/again", 401, false), {});
    ASSERT_TRUE(soon([&] { return (counts = log.counts()).displaced >= 991; }));
  }
  EXPECT_EQ(counts.joined, 4000u + 99u) << "beyond what one token may begin, refusals are joined by their status";
  EXPECT_EQ(counts.expired, 0u);
  auto reader = store.reader();
  const auto rows = store::list_audit(*reader, {.limit = 100});
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.status == 201; }), 20);
  EXPECT_EQ(rows.size(), 30u);
  EXPECT_EQ(rows.front().object, "/again");
  EXPECT_EQ(rows.front().count, 100);
}

TEST(AuditLog, DeletesEntriesOfOperatorsByAge) {
  testing::TemporaryFolder folder;
  store::Store store(folder.path());
  access::TokenService tokens(store);
  const std::int64_t now_ms = wall_time_ms(), day_ms = 86'400'000;
  store.write([&](store::Database& database) {
    for (const std::int64_t age_days : {100, 91, 89, 0}) {
      store::AuditRow row;
      row.time_ms = now_ms - age_days * day_ms;
      row.kept_by_age = true;
      store::append_audit(database, row);
    }
  });
  access::AuditLog log(store, tokens);
  ASSERT_TRUE(soon([&] { return log.counts().expired == 2; }));
  auto reader = store.reader();
  EXPECT_EQ(store::list_audit(*reader, {}).size(), 2u);
}

TEST(AuditLog, IsBoundedAndKeepsTheNewest) {
  testing::TemporaryFolder folder;
  store::Store store(folder.path());
  access::TokenService tokens(store);
  {
    access::AuditLog::Limits limits;
    limits.rows = 10;
    access::AuditLog log(store, tokens, limits);
    for (int i = 1; i <= 50; ++i) {
      http::WriteNote note;
      note.time_ms = i;
      log.record(note, {});
    }
  }
  auto reader = store.reader();
  const auto rows = store::list_audit(*reader, {.limit = 100});
  ASSERT_EQ(rows.size(), 10u);
  EXPECT_EQ(rows.front().time_ms, 50);
  EXPECT_EQ(rows.back().time_ms, 41);
}

}  // namespace
}  // namespace babelring
