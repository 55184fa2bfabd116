#pragma once

#include "server/store/sqlite.h"

namespace babelring::store {

/// The schema this program writes and reads.
inline constexpr int schema_version = 6;

/// Brings the database to schema_version, in one transaction. Throws Failure, touching nothing, if the
/// file was written by a newer program.
void migrate(Database& writer);

}  // namespace babelring::store
