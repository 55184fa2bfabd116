#pragma once

#include <cstdint>
#include <string>

#include "nmt/base/records.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// Stores a validation, the EvalRecord of `record`, of the run with number `run`, and returns its id. Called within the
/// writer's transaction. Throws SqlFailure.
std::string insert_eval(Database& database, std::int64_t run, const Record& record);

}  // namespace babelring::store
