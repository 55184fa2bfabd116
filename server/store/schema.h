#pragma once

#include "server/store/sqlite.h"

namespace babelring::store {

/// The schema version that this program reads and writes: the number of files in server/store/migrations. Never edit a
/// statement of a released migration; add a file.
inline constexpr int schema_version = 17;

/// Migrates the database to schema_version in one transaction. Throws Failure, and changes nothing, if a newer program
/// wrote the database.
void migrate(Database& writer);

}  // namespace babelring::store
