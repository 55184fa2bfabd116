#include "server/store/schema.h"

#include "server/store/logs.h"
#include "server/store/migrations.h"

namespace babelring::store {

static_assert(migrations.size() == schema_version);

void migrate(Database& writer) {
  const int found = std::stoi(writer.scalar("PRAGMA user_version"));
  if (found > schema_version) {
    fail("database has schema {}, this program supports up to {}: use the newer program that wrote it", found,
         schema_version);
  }
  if (found == schema_version) return;
  Transaction transaction(writer);
  for (int version = found; version < schema_version; ++version) {
    writer.execute(migrations[static_cast<std::size_t>(version)]);
  }
  LogWriter(writer).pack_all();
  writer.execute(fmt::format("PRAGMA user_version = {}", schema_version));
  transaction.commit();
}

}  // namespace babelring::store
