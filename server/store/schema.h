#pragma once

#include "server/store/sqlite.h"

namespace babelring::store {

/// The version of the schema that this program reads and writes.
inline constexpr int schema_version = 8;

/// Migrates the database to schema_version in one transaction. Throws Failure, having changed nothing, if a newer
/// program wrote it.
void migrate(Database& writer);

}  // namespace babelring::store
