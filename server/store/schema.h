#pragma once

#include "server/store/sqlite.h"

namespace babelring::store {

/// The schema version that this program reads and writes.
inline constexpr int schema_version = 8;

/// Migrates the database to schema_version in one transaction. Throws Failure, and changes nothing, if a newer program
/// wrote the database.
void migrate(Database& writer);

}  // namespace babelring::store
