#pragma once

#include <cstdint>
#include <string>

#include "nmt/base/records.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// A validation of the run with that number: the record's attempt, time and EvalRecord. Returns its id. Within the
/// writer's transaction. Throws SqlFailure.
std::string insert_eval(Database& database, std::int64_t run, const Record& record);

}  // namespace babelring::store
